//! From a question to files in order: both legs, fused; file names where there is no text.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use crate::ask::fuse::{self, Fused, Weights};
use crate::ask::hit::{self, Found};
use crate::ask::present::Presented;
use crate::ask::{Asker, Outcome, Question, answer, numbers, present, terms};
use crate::catalog;
use crate::error::{Error, Result};
use crate::index::Served;
use crate::model::{ChunkId, FileFilter, FileId, FileRecord, FileState, LegHit};
use crate::store::{FileSet, KeywordQuery};

/// Chunks taken from each leg at least. More costs time, fewer loses files that are good in one leg only.
pub(super) const LEG_DEPTH: usize = 200;
/// Further looks for files when a few long ones filled the leg.
const MORE_ROUNDS: usize = 4;
/// How often a search is made anew because files were written under it: a commit takes longer than most searches.
pub(super) const MOST_ANEW: usize = 2;
/// Words of a question that are looked for in file names.
const NAME_WORDS: usize = 6;
/// Files found by name that compete with passages, when these do not speak of the question or are to be looked into.
const NAMED_FILES: usize = 3;
/// What a name that holds every word is worth: less than any passage that does.
const NAME_SCORE: f64 = 0.3;

/// The legs' results, fused.
struct Legs {
    fused: Vec<Fused>,
    warnings: Vec<String>,
}

/// The vector of a question, once it is known.
type Asked = OnceCell<Result<Vec<f32>>>;

impl Asker {
    /// Searches the index, and anew where files were written under the search: what was found of them is no more, and what
    /// they say now may be the answer, too.
    pub(super) async fn find(&self, served: &Served, question: &Question) -> Result<Outcome> {
        let asked = Asked::default();
        for _ in 0..MOST_ANEW {
            let (outcome, is_torn) = self.find_once(served, question, &asked).await?;
            if !is_torn {
                return Ok(outcome);
            }
            tracing::debug!("files were written under a search: it begins anew");
        }
        Ok(self.find_once(served, question, &asked).await?.0)
    }

    /// Searches the index; also says whether files were written under the search.
    async fn find_once(&self, served: &Served, question: &Question, asked: &Asked) -> Result<(Outcome, bool)> {
        let version = served.store.version();
        let files = self.allowed(&question.filter).await?;
        let files = terms::restrict(&*served.store, files, &question.terms).await?;
        let Legs { fused, mut warnings } = self.legs(served, question, &files, asked).await?;
        let mut merged = fused.len();
        let Presented { found: mut hits, is_torn } = self.present(served, question, fused, &mut warnings).await?;
        let wanted = question.plan.requires_l2 || !answer::any_speaks(question, &hits);
        if wanted || (!question.filter.asks_nothing() && hits.len() < question.limit) {
            let named = self.without_text(question, question.limit.saturating_sub(hits.len()).max(NAMED_FILES)).await?;
            merged += named.len();
            // A file whose name says it all comes before passages that say nothing.
            for found in named {
                let at = hits.iter().position(|it| it.hit.score < found.hit.score).unwrap_or(hits.len());
                hits.insert(at, found);
            }
            hits.truncate(question.limit);
        }
        // These left files out before their passages were read.
        let is_strict = question.plan.l1_threshold.is_some() || !question.terms.is_empty();
        let is_torn = is_torn || (is_strict && served.store.version() != version);
        Ok((Outcome { hits, merged, warnings }, is_torn))
    }

    /// Both legs at the same time, then the true similarity of what only the keyword leg found.
    async fn legs(&self, served: &Served, question: &Question, files: &FileSet, asked: &Asked) -> Result<Legs> {
        let depth = LEG_DEPTH.max(question.limit * 3);
        let text = question.text().unwrap_or_default();
        let keyword_leg = keyword_leg(served, text, files, depth);
        let mut warnings = Vec::new();
        let mut query = None;
        let (keyword, vector, extra) = match &served.embedder {
            Some(embedder) => {
                let vector_leg = async {
                    let vector = asked.get_or_init(|| embedder.embed_query(text)).await.clone()?;
                    let hits = self.nearest(served, &vector, files, depth, question.limit).await?;
                    Ok::<_, Error>((vector, hits))
                };
                let (vector_result, keyword) = tokio::join!(vector_leg, keyword_leg);
                let keyword = keyword?;
                match vector_result {
                    Ok((asked, vector)) => {
                        let only_keyword = missing_in(&keyword, &vector);
                        let extra = served.store.similarities(&asked, &only_keyword).await?;
                        query = Some(asked);
                        (keyword, vector, extra)
                    }
                    Err(error) => {
                        warnings.push(format!("answered by keywords alone: {}", self.told(&error.message)));
                        (keyword, Vec::new(), Vec::new())
                    }
                }
            }
            None => {
                warnings.push("answered by keywords alone: the model of this index cannot be loaded".to_string());
                (keyword_leg.await?, Vec::new(), Vec::new())
            }
        };
        let mut fused = fuse::fuse(&keyword, &vector, &extra, &Weights::default());
        if let Some(floor) = question.plan.l1_threshold {
            fused.retain(|it| it.similarity.is_some_and(|similarity| f64::from(similarity) >= floor));
        }
        if let Some(query) = query {
            let best = present::compared(question.limit).min(fused.len());
            let passages: Vec<_> = fused[..best].iter().flat_map(present::passages).collect();
            let vectors = served.store.vectors(&passages).await?.into_iter().collect();
            fuse::feed_back(&mut fused[..best], &query, &vectors, &Weights::default());
        }
        Ok(Legs { fused, warnings })
    }

    /// The vector leg, until it has as many files as are wanted or there are: the passages of a few long files could take
    /// every place.
    pub(super) async fn nearest(
        &self,
        served: &Served,
        vector: &[f32],
        files: &FileSet,
        depth: usize,
        limit: usize,
    ) -> Result<Vec<LegHit>> {
        let mut hits = served.store.vector_leg(vector, files, depth).await?;
        let mut seen: HashSet<FileId> = hits.iter().map(|it| it.file_id).collect();
        for _ in 0..MORE_ROUNDS {
            if seen.len() >= limit || hits.len() < depth {
                break;
            }
            let mut rest = match files {
                FileSet::Only(ids) => ids.to_vec(),
                FileSet::All => served.store.file_ids().await?,
            };
            rest.retain(|it| !seen.contains(it));
            let more = served.store.vector_leg(vector, &FileSet::Only(Arc::new(rest)), depth).await?;
            if more.is_empty() {
                break;
            }
            seen.extend(more.iter().map(|it| it.file_id));
            hits.extend(more);
        }
        Ok(hits)
    }

    /// Files by metadata alone, newest first.
    pub(super) async fn list(&self, question: &Question) -> Result<Outcome> {
        let (catalog, filter, limit) = (self.catalog.clone(), question.filter.clone(), question.limit);
        let (records, total) = crate::index::blocking(move || catalog.search(&filter, limit, 0)).await?;
        let hits = records.iter().map(|record| hit::from_listing(question, record)).collect();
        Ok(Outcome { hits, merged: usize::try_from(total).unwrap_or(usize::MAX), warnings: Vec::new() })
    }

    /// Files whose names hold the question's words: all there is before content is read.
    pub(super) async fn by_name(&self, question: &Question) -> Result<Outcome> {
        let named = self.named(question, &[], question.limit).await?;
        let warning = "nothing is indexed yet: only file names were searched; run `vic index`".to_string();
        Ok(Outcome { merged: named.len(), hits: named, warnings: vec![warning] })
    }

    /// Files that pass the filter and have no text in the index, those first whose names hold words of the question.
    /// Without a filter only the latter.
    async fn without_text(&self, question: &Question, room: usize) -> Result<Vec<Found>> {
        const STATES: &[FileState] = &[FileState::Skipped, FileState::Failed, FileState::Pending];
        let mut hits = self.named(question, STATES, room).await?;
        if question.filter.asks_nothing() || !question.terms.shown().is_empty() {
            return Ok(hits);
        }
        for state in STATES {
            let filter = FileFilter { state: Some(*state), ..question.filter.clone() };
            let (catalog, room) = (self.catalog.clone(), room.saturating_sub(hits.len()));
            if room == 0 {
                break;
            }
            // Those that were found by name may come again: so many more are asked for.
            let most = room + hits.len();
            let (records, _) = crate::index::blocking(move || catalog.search(&filter, most, 0)).await?;
            for record in records {
                if hits.len() < most && !hits.iter().any(|it| it.record.id == record.id) {
                    hits.push(hit::from_filter(question, &record));
                }
            }
        }
        hits.truncate(room);
        Ok(hits)
    }

    /// Files of these states (none: of all) whose names hold at least half of the question's words, most words first.
    async fn named(&self, question: &Question, states: &'static [FileState], room: usize) -> Result<Vec<Found>> {
        let words: Vec<String> = question.words.iter().take(NAME_WORDS).cloned().collect();
        let (catalog, filter, wanted) = (self.catalog.clone(), question.filter.clone(), words.clone());
        let records = crate::index::blocking(move || catalog.named(&filter, states, &wanted, room)).await?;
        let hit = |record: &FileRecord| {
            let name = catalog::fold(&record.found.path.file_name().unwrap_or_default().to_string_lossy());
            let held: Vec<String> = words.iter().filter(|it| name.contains(&catalog::fold(it))).cloned().collect();
            let score = NAME_SCORE * held.len() as f64 / words.len() as f64;
            hit::from_name(question, record, &held, score)
        };
        Ok(records.iter().map(hit).collect())
    }
}

/// Starts the keyword leg in a task of its own: the vector leg compares millions of rows without a pause, and would keep what
/// waits in the same task from going on. Who drops the future ends the leg.
fn keyword_leg(
    served: &Served,
    text: &str,
    files: &FileSet,
    depth: usize,
) -> impl Future<Output = Result<Vec<LegHit>>> + use<> {
    let (store, files) = (served.store.clone(), files.clone());
    let other_notations = numbers::keywords(text).join(" ");
    let keywords = KeywordQuery { text: format!("{text} {other_notations}") };
    let mut task = JoinSet::new();
    task.spawn(async move { store.keyword_leg(&keywords, &files, depth).await });
    async move {
        let done = task.join_next().await.ok_or_else(|| Error::internal("the keyword leg did not start"))?;
        done.map_err(Error::internal)?
    }
}

/// The keyword leg's chunks that the vector leg did not reach.
fn missing_in(keyword: &[LegHit], vector: &[LegHit]) -> Vec<(FileId, ChunkId)> {
    // By file too: copies of a file share chunk ids.
    let reached: HashSet<(FileId, &ChunkId)> = vector.iter().map(|it| (it.file_id, &it.chunk_id)).collect();
    keyword
        .iter()
        .filter(|it| !reached.contains(&(it.file_id, &it.chunk_id)))
        .map(|it| (it.file_id, it.chunk_id.clone()))
        .collect()
}
