//! Retrieves the files for a question: runs keyword, vector and name search, and fuses their results to ranked hits.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::ask::asker::Asker;
use crate::ask::fuse::{self, CosineCalibration, FusedFile, Weights};
use crate::ask::hit::{self, RankedHit, SearchOutcome};
use crate::ask::hit_builder::{MAX_QUOTED_FILES, PresentedHits};
use crate::ask::model_rerank;
use crate::ask::name_search::NameMatches;
use crate::ask::question::Question;
use crate::ask::search_legs::{LEG_DEPTH, add_begun_words, begun_word_leg, keyword_leg, keyword_only_chunks};
use crate::ask::{hit_builder, relevance, terms};
use crate::embed::Embedder;
use crate::error::{Error, Result};
use crate::index::ServingTable;
use crate::model::{DateOrder, LegHit};
use crate::store::FileSet;

/// Maximum number of retries of a search during which files were written. Few suffice, because a commit takes longer than
/// most searches.
pub(super) const MAX_SEARCH_RETRIES: usize = 2;

/// Minimum fraction of known tokens in a question for a search by vector. The vectors of texts with unknown tokens are
/// alike: with the default model, a question in Chinese is as near to a text in Thai as to its answer. Arabic questions get
/// an nDCG@10 of 0.92 by words alone, and 0.70 with the default model (XQuAD).
const MIN_KNOWN_SHARE: f32 = 0.5;

/// What the legs of a question found, before their fusion.
#[derive(Default)]
struct Legs {
    keyword: Vec<LegHit>,
    vector: Vec<LegHit>,
    /// The cosines of chunks that only the keyword search found.
    extra: Vec<LegHit>,
    /// The vector of the question; `None` if the embedding model is unavailable or not used.
    query: Option<Vec<f32>>,
    weights: Weights,
    warnings: Vec<String>,
}

/// The fused results of keyword search and vector search.
struct FusedLegs {
    fused: Vec<FusedFile>,
    /// The vector of the question; `None` if the embedding model is unavailable.
    query: Option<Vec<f32>>,
    weights: Weights,
    warnings: Vec<String>,
}

/// What a search found, before [`Asker::complete_search`].
#[derive(Default)]
pub(super) struct FoundHits {
    pub(super) outcome: SearchOutcome,
    /// The files that name search found.
    names: NameMatches,
    /// Whether the text of files was searched, and not only names or metadata.
    is_text_search: bool,
}

/// Returns how many chunks each leg of a question finds.
fn leg_depth(question: &Question) -> usize {
    LEG_DEPTH.max(question.limit * 3)
}

/// The vector of a question, computed once for all retries.
type QueryVector = OnceCell<Result<Vec<f32>>>;

impl Asker {
    /// Searches the index. Searches again if files were written meanwhile, because their old passages are gone, and their
    /// new passages may be the answer.
    pub(super) async fn search_index(&self, served: &ServingTable, question: &Question) -> Result<FoundHits> {
        let asked = QueryVector::default();
        for _ in 0..MAX_SEARCH_RETRIES {
            let (found, is_torn) = self.search_index_once(served, question, &asked).await?;
            if !is_torn {
                return Ok(found);
            }
            tracing::debug!("files were written during a search: searching again");
        }
        Ok(self.search_index_once(served, question, &asked).await?.0)
    }

    /// Searches the index once. The second value tells whether files were written during the search.
    async fn search_index_once(
        &self,
        served: &ServingTable,
        question: &Question,
        asked: &QueryVector,
    ) -> Result<(FoundHits, bool)> {
        let version = served.store.version();
        let files = self.allowed_files(&question.filter).await?;
        let files = terms::filter_files(&*served.store, &self.catalog, files, &question.terms).await?;
        let legs = self.run_legs(served, question, &files, asked);
        let (names, legs) = tokio::try_join!(self.search_names(question, &files), legs)?;
        let FusedLegs { mut fused, query, weights, mut warnings } = legs;
        self.add_name_matches(served, question, (query.as_deref(), &weights), &names, &mut fused).await?;
        let merged = fused.len();
        let PresentedHits { found: hits, is_stale, word_weights } =
            self.build_hits(served, question, fused, &mut warnings).await?;
        // With a similarity threshold or required terms, any write to the index makes the result stale, because files were
        // left out before their passages were read.
        let is_strict = question.plan.l1_threshold.is_some() || !question.terms.is_empty();
        let is_torn = is_stale || (is_strict && served.store.version() != version);
        let outcome = SearchOutcome { hits, merged, warnings, vector: query, word_weights };
        Ok((FoundHits { outcome, names, is_text_search: true }, is_torn))
    }

    /// Completes what a search found: reranks the hits by a model, adds files without text, keeps the best hits up to the
    /// limit, and annotates them with the names that match. A question may be searched again with other words or filters; only
    /// what the last of these searches found is completed, because a reranker takes long.
    pub(super) async fn complete_search(&self, question: &Question, found: FoundHits) -> Result<SearchOutcome> {
        let FoundHits { mut outcome, names, is_text_search } = found;
        if is_text_search {
            self.rerank_by_model(question, &mut outcome.hits, &mut outcome.warnings).await;
            self.insert_files_without_text(question, &names, &mut outcome).await?;
        }
        outcome.hits.truncate(question.limit);
        self.annotate_names(&names, &mut outcome.hits).await?;
        Ok(outcome)
    }

    /// Inserts files without text that were found by name according to their score, but after the best passage if that has
    /// every word of the question.
    async fn insert_files_without_text(
        &self,
        question: &Question,
        names: &NameMatches,
        outcome: &mut SearchOutcome,
    ) -> Result<()> {
        let hits = &mut outcome.hits;
        let speaks = !question.plan.requires_l2 && relevance::any_relevant(question, hits);
        let unread = self.hits_without_text(question, names, hits.len(), speaks).await?;
        outcome.merged += unread.len();
        let best = hits.first().and_then(|it| it.evidence.as_deref());
        let says_all = best.is_some_and(|it| it.words_matched >= question.words.len());
        for found in unread {
            let at = hits.iter().position(|it| it.hit.score < found.hit.score).unwrap_or(hits.len());
            let at = at.max(usize::from(speaks && says_all));
            hits.insert(at, found);
        }
        Ok(())
    }

    /// Runs the legs that a question can use, and fuses what they found.
    async fn run_legs(
        &self,
        served: &ServingTable,
        question: &Question,
        files: &FileSet,
        asked: &QueryVector,
    ) -> Result<FusedLegs> {
        let text = question.text().unwrap_or_default();
        let embedder = served.embedder.as_ref().filter(|_| !question.words_only);
        let Legs { keyword, vector, extra, query, weights, warnings } =
            match embedder.filter(|it| it.known_share(text) >= MIN_KNOWN_SHARE) {
                Some(embedder) => self.keyword_and_vector_legs(served, question, files, (embedder, asked)).await?,
                None => self.keyword_legs(served, question, files).await?,
            };
        let mut fused = fuse::fuse(&keyword, &vector, &extra, &weights);
        if let Some(floor) = question.plan.l1_threshold {
            fused.retain(|it| it.similarity.is_some_and(|similarity| f64::from(similarity) >= floor));
        }
        if let Some(query) = &query {
            let best = hit_builder::reranked_count(question.limit).min(fused.len());
            let passages: Vec<_> = fused[..best].iter().flat_map(hit_builder::passage_keys).collect();
            let vectors = served.store.vectors(&passages).await?.into_iter().collect();
            fuse::apply_feedback(&mut fused[..best], query, &vectors, &weights);
        }
        Ok(FusedLegs { fused, query, weights, warnings })
    }

    /// Runs keyword and vector search in parallel, then adds the cosines of chunks that only the keyword search found.
    async fn keyword_and_vector_legs(
        &self,
        served: &ServingTable,
        question: &Question,
        files: &FileSet,
        (embedder, asked): (&Arc<dyn Embedder>, &QueryVector),
    ) -> Result<Legs> {
        let (text, depth) = (question.text().unwrap_or_default(), leg_depth(question));
        let languages = self.languages.current(&self.catalog).await;
        let keyword_leg = keyword_leg(served, text, &languages, files, depth);
        let vector_leg = async {
            let vector = asked.get_or_init(|| embedder.embed_query(text)).await.clone()?;
            let hits = self.vector_leg_files(served, &vector, files, depth, question.limit).await?;
            Ok::<_, Error>((vector, hits))
        };
        let (found, keyword) = tokio::join!(vector_leg, keyword_leg);
        let keyword = keyword?;
        match found {
            Ok((query, vector)) => {
                let only_keyword = keyword_only_chunks(&keyword, &vector);
                let extra = served.store.similarities(&query, &only_keyword).await?;
                let weights = Weights { calibration: self.calibration_of(embedder).await, ..Weights::default() };
                Ok(Legs { keyword, vector, extra, query: Some(query), weights, warnings: Vec::new() })
            }
            Err(error) => {
                let warning = format!("answered by keywords alone: {}", self.redact_addresses(&error.message));
                Ok(Legs { keyword, warnings: vec![warning], ..Legs::default() })
            }
        }
    }

    /// Runs keyword search alone. While a question is typed, its last word may be the beginning of a word.
    async fn keyword_legs(&self, served: &ServingTable, question: &Question, files: &FileSet) -> Result<Legs> {
        let (text, depth) = (question.text().unwrap_or_default(), leg_depth(question));
        let languages = self.languages.current(&self.catalog).await;
        let keyword_leg = keyword_leg(served, text, &languages, files, depth);
        if question.words_only {
            let (whole, begun) = tokio::join!(keyword_leg, begun_word_leg(served, text, files, depth));
            let mut keyword = whole?;
            add_begun_words(&mut keyword, begun);
            return Ok(Legs { keyword, ..Legs::default() });
        }
        let why = match &served.embedder {
            Some(it) => format!(
                "{} does not know most of the words of the question; `vic models suggest` names a model that may",
                it.name()
            ),
            None => "the embedding model of this index cannot be loaded".to_string(),
        };
        let warnings = vec![format!("answered by keywords alone: {why}")];
        Ok(Legs { keyword: keyword_leg.await?, warnings, ..Legs::default() })
    }

    /// Returns how to convert the cosines of a model; unchanged if the model does not answer.
    async fn calibration_of(&self, embedder: &Arc<dyn Embedder>) -> CosineCalibration {
        self.scales.scale_of(embedder).await.map(|it| it.calibration()).unwrap_or_default()
    }

    /// Reranks the best hits, if a reranker is configured. If the model fails, the order stays, and a warning names the
    /// reason. Afterwards only the first hits keep passages for quotes.
    async fn rerank_by_model(&self, question: &Question, hits: &mut [RankedHit], warnings: &mut Vec<String>) {
        let Some(reranking) = self.reranking.as_ref().filter(|_| question.reranked_hits > 0) else { return };
        if let Err(error) = model_rerank::rerank_hits(reranking, question, hits).await {
            let cure = error.hint.as_deref().map(|it| format!("; {it}")).unwrap_or_default();
            let why = self.redact_addresses(&format!("{}{cure}", error.message));
            warnings.push(format!("answered without the reranker: {why}"));
        }
        for evidence in hits.iter_mut().skip(MAX_QUOTED_FILES).filter_map(|it| it.evidence.as_mut()) {
            evidence.passages = Vec::new();
        }
    }

    /// Lists files by metadata, newest first unless the question asks for the oldest, for a question without search text.
    pub(super) async fn list_files(&self, question: &Question) -> Result<FoundHits> {
        let (catalog, filter, limit) = (self.catalog.clone(), question.filter.clone(), question.limit);
        let is_oldest = question.plan.date_order == Some(DateOrder::Oldest);
        let list = move || if is_oldest { catalog.oldest(&filter, limit) } else { catalog.search(&filter, limit, 0) };
        let (records, total) = crate::index::blocking(list).await?;
        let hits: Vec<RankedHit> = records.iter().map(|record| hit::from_listing(question, record)).collect();
        let merged = usize::try_from(total).unwrap_or(usize::MAX);
        let outcome = SearchOutcome { hits, merged, ..SearchOutcome::default() };
        Ok(FoundHits { outcome, ..FoundHits::default() })
    }

    /// Finds files by name only; used while no text is indexed.
    pub(super) async fn search_by_name(&self, question: &Question) -> Result<FoundHits> {
        let files = self.allowed_files(&question.filter).await?;
        let names = self.search_names(question, &files).await?;
        let hits = self.hits_by_name(question, &names, 0.0).await?;
        let warning = "nothing is indexed yet: only file names were searched; run `vic index`".to_string();
        let outcome = SearchOutcome { merged: hits.len(), hits, warnings: vec![warning], ..SearchOutcome::default() };
        Ok(FoundHits { outcome, names, is_text_search: false })
    }
}
