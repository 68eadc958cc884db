//! A plan to an answer: filter on metadata, both legs at once, fusion, per-file merge, and a look at every file before
//! it is shown.
//!
//! [`fuse`] has the formula of the score, [`filter`] the metadata, [`citation`] the check against the file.

mod citation;
mod events;
mod excerpt;
mod filter;
pub mod fuse;
mod grep;
mod hit;
mod phrase;
mod similar;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::ask::citation::Standing;
use crate::ask::events::Events;
use crate::ask::fuse::{Fused, Weights};
use crate::ask::hit::Found;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::index::{Index, Served};
use crate::librarian;
use crate::model::{
    AskEvent, AskRequest, AskResponse, ChunkId, FileFilter, FileId, FileRecord, L0Filters, LegHit, PrivacyMode,
    QueryPlan, ResponseStats, SearchHit, StoredChunk,
};
use crate::store::{FileSet, KeywordQuery};

pub use filter::resolve as resolve_filters;

/// Hits when the request names no limit.
const DEFAULT_LIMIT: u32 = 10;
/// Most hits of one answer.
const MAX_LIMIT: u32 = 1_000;
/// Chunks taken from each leg at least. More costs time, fewer loses files that are good in one leg only.
const LEG_DEPTH: usize = 200;
/// Files looked at beyond the limit, to fill the places of those that are gone.
const SPARE_FILES: usize = 5;
/// Files whose passages are looked at for runs of the question's words.
const PHRASE_FILES: usize = 30;
/// Passages of one file that are looked at so.
const PHRASE_CHUNKS: usize = 3;

/// Answers questions from the index. Cheap to clone.
#[derive(Clone)]
pub struct Asker {
    catalog: Catalog,
    index: Index,
    privacy: PrivacyMode,
    default_root: Option<PathBuf>,
    db_path: PathBuf,
}

/// The legs' results, fused.
struct Legs {
    fused: Vec<Fused>,
    warnings: Vec<String>,
}

impl Asker {
    /// Makes an asker over an index. `default_root` limits questions that name no root.
    pub fn new(
        catalog: Catalog,
        index: Index,
        privacy: PrivacyMode,
        default_root: Option<PathBuf>,
        db_path: PathBuf,
    ) -> Asker {
        Asker { catalog, index, privacy, default_root, db_path }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The request is wrong, or the index cannot be read.
    pub async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.run(request, &Events::none()).await
    }

    async fn run(&self, request: AskRequest, events: &Events) -> Result<AskResponse> {
        let begun = Instant::now();
        let limit = limit(request.limit)?;
        let plan = librarian::plan(&request, self.privacy, chrono::Local::now().date_naive())?;
        events.send(AskEvent::Plan(plan.clone())).await;
        let filters = plan.l0_filters.clone().unwrap_or_default();
        let root = self.root(request.warehouse_root.as_deref()).await?;
        let served = self.index.serving();
        let chunks = served.store.chunk_count();

        let mut warnings = Vec::new();
        let filter = filter::resolve(&filters, root.as_deref())?;
        let mut merged = 0;
        let hits = if chunks == 0 {
            warnings.push("nothing is indexed yet: only file names were searched; run `vic index`".to_string());
            self.by_name(&plan, &filter, limit).await?
        } else {
            let files = self.allowed(&filter).await?;
            let legs = self.legs(&served, &plan, &files, limit).await?;
            warnings.extend(legs.warnings);
            merged = legs.fused.len();
            self.answer(&served, &plan, legs.fused, limit, &mut warnings).await?
        };
        events.send(AskEvent::Hits(hits.iter().map(|it| it.hit.clone()).collect())).await;
        warnings.extend(self.pending_warning().await?);
        let mut response = AskResponse {
            answer_summary: hit::summary(&plan, &hits),
            query_plan: plan,
            stats: None,
            hits: hits.into_iter().map(|it| it.hit).collect(),
            warnings,
        };
        if let Some(summary) = &response.answer_summary {
            events.send(AskEvent::Text(summary.clone())).await;
        }
        let mut response_stats = self.stats(&served, root.as_deref(), &response.hits, merged).await?;
        response_stats.latency_ms = Some(begun.elapsed().as_secs_f64() * 1e3);
        response.stats = Some(response_stats);
        Ok(response)
    }

    /// The plan of a request that is no question.
    fn bare_plan(&self, intent: &str, request: AskRequest) -> QueryPlan {
        QueryPlan {
            intent: intent.into(),
            l0_filters: (request.filters != L0Filters::default()).then_some(request.filters),
            l1_query_text: None,
            l1_threshold: None,
            requires_l2: false,
            l2_skills: Vec::new(),
            l2_top_k: None,
            privacy_mode: request.privacy_mode.unwrap_or(self.privacy),
            raw_user_text: request.query,
            planner_model_id: None,
        }
    }

    /// The folder that is asked: the request's, else the configured one, else all. It lies in a root, or holds some.
    async fn root(&self, wanted: Option<&str>) -> Result<Option<PathBuf>> {
        let Some(path) = wanted.map(PathBuf::from).or_else(|| self.default_root.clone()) else { return Ok(None) };
        // A root on a disk that is not mounted can still be asked.
        let path = path.canonicalize().unwrap_or(path);
        let roots = self.index.roots().await?;
        if roots.is_empty() || roots.iter().any(|it| path.starts_with(&it.path) || it.path.starts_with(&path)) {
            return Ok(Some(path));
        }
        Err(Error::not_found(format!("`{}` lies in no root", path.display()))
            .hint("`vic roots` lists them, `vic index PATH` adds one"))
    }

    /// The files that pass the filter, before any leg runs.
    async fn allowed(&self, filter: &FileFilter) -> Result<FileSet> {
        if filter.is_empty() {
            return Ok(FileSet::All);
        }
        let (catalog, filter) = (self.catalog.clone(), filter.clone());
        let ids = crate::index::blocking(move || catalog.select(&filter)).await?;
        Ok(FileSet::Only(Arc::new(ids)))
    }

    /// Both legs at the same time, then the true similarity of what only the keyword leg found.
    async fn legs(&self, served: &Served, plan: &QueryPlan, files: &FileSet, limit: usize) -> Result<Legs> {
        let depth = LEG_DEPTH.max(limit * 3);
        let text = plan.l1_query_text.as_deref().unwrap_or(&plan.raw_user_text);
        let keywords = KeywordQuery { text: text.to_string() };
        let keyword_leg = served.store.keyword_leg(&keywords, files, depth);
        let mut warnings = Vec::new();
        let (keyword, vector, extra) = match &served.embedder {
            Some(embedder) => {
                let vector_leg = async {
                    let vector = embedder.embed_query(text).await?;
                    let hits = served.store.vector_leg(&vector, files, depth).await?;
                    Ok::<_, Error>((vector, hits))
                };
                let (keyword, vector_result) = tokio::join!(keyword_leg, vector_leg);
                let keyword = keyword?;
                match vector_result {
                    Ok((query, vector)) => {
                        let only_keyword = missing_in(&keyword, &vector);
                        let extra = served.store.similarities(&query, &only_keyword).await?;
                        (keyword, vector, extra)
                    }
                    Err(error) => {
                        warnings.push(format!("answered by keywords alone: {}", error.message));
                        (keyword, Vec::new(), Vec::new())
                    }
                }
            }
            None => {
                warnings.push("answered by keywords alone: the model of this index cannot be loaded".to_string());
                (keyword_leg.await?, Vec::new(), Vec::new())
            }
        };
        let floor = plan.l1_threshold.map_or(f32::MIN, |it| it as f32);
        let mut fused = fuse::fuse(&keyword, &vector, &extra, &Weights::default());
        fused.retain(|it| plan.l1_threshold.is_none() || it.similarity.is_some_and(|similarity| similarity >= floor));
        Ok(Legs { fused, warnings })
    }

    /// Fused files to hits: records and passages fetched, files that are gone left out.
    async fn answer(
        &self,
        served: &Served,
        plan: &QueryPlan,
        fused: Vec<Fused>,
        limit: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Found>> {
        let mut top: Vec<Fused> = fused.into_iter().take(PHRASE_FILES.max(limit + SPARE_FILES)).collect();
        let wanted: Vec<(FileId, ChunkId)> = top.iter().flat_map(passages).collect();
        let (catalog, ids) = (self.catalog.clone(), top.iter().map(|it| it.file_id).collect::<Vec<_>>());
        let (chunks, records) =
            tokio::try_join!(served.store.chunks(&wanted), crate::index::blocking(move || catalog.records(&ids)))?;
        let chunks: HashMap<(FileId, ChunkId), StoredChunk> =
            chunks.into_iter().map(|it| ((it.file_id, it.chunk.id.clone()), it)).collect();
        let records: HashMap<FileId, FileRecord> = records.into_iter().map(|it| (it.id, it)).collect();
        prefer_phrases(&phrase::words(&plan.raw_user_text), &mut top, &chunks);
        let question = plan.clone();
        let (found, changed, gone) = crate::index::blocking(move || {
            let mut found = Vec::new();
            let mut changed = Vec::new();
            let mut gone = 0;
            for fused in top {
                let key = (fused.file_id, fused.chunk_id.clone());
                let (Some(record), Some(stored)) = (records.get(&fused.file_id), chunks.get(&key)) else { continue };
                let standing = citation::check(record, &stored.chunk.anchor, stored.chunk.body());
                if found.len() == limit {
                    break;
                }
                if standing == Standing::Gone {
                    gone += 1;
                    continue;
                }
                if standing == Standing::Changed {
                    changed.push(record.found.path.display().to_string());
                }
                found.push(hit::from_chunk(&question, record, &stored.chunk, &fused, standing));
            }
            Ok((found, changed, gone))
        })
        .await?;
        if gone > 0 {
            warnings.push(format!("{gone} files that match were left out: they are gone, or their folder is away"));
        }
        warnings.extend(
            changed.iter().map(|path| format!("`{path}` has changed since it was indexed; its passage may be old")),
        );
        Ok(found)
    }

    /// Files whose names hold the question's words: all there is before content is read.
    async fn by_name(&self, plan: &QueryPlan, filter: &FileFilter, limit: usize) -> Result<Vec<Found>> {
        let words = excerpt::content_words(&plan.raw_user_text);
        let (catalog, mut filter) = (self.catalog.clone(), filter.clone());
        filter.name_words = words.clone();
        let (records, _) = crate::index::blocking(move || catalog.search(&filter, limit, 0)).await?;
        Ok(records.iter().map(|record| hit::from_name(&words, record)).collect())
    }

    async fn pending_warning(&self) -> Result<Vec<String>> {
        let catalog = self.catalog.clone();
        let pending = crate::index::blocking(move || catalog.pending_count(None)).await?;
        let warning = format!("{pending} files are not indexed yet; `vic status` shows the progress");
        Ok(if pending > 0 { vec![warning] } else { Vec::new() })
    }

    async fn stats(
        &self,
        served: &Served,
        root: Option<&Path>,
        hits: &[SearchHit],
        merged: usize,
    ) -> Result<ResponseStats> {
        let roots = self.index.roots().await?;
        let warehouse_root = match root {
            Some(root) => root.display().to_string(),
            None => roots.iter().map(|it| it.path.display().to_string()).collect::<Vec<_>>().join(":"),
        };
        let mut hits_by_tier = BTreeMap::new();
        for hit in hits {
            *hits_by_tier.entry(hit.tier.clone()).or_insert(0) += 1;
        }
        let chunks = served.store.chunk_count();
        let tiered = chunks > 0;
        let seen = if tiered { None } else { Some(self.index.coverage().await?.found) };
        Ok(ResponseStats {
            pipeline: if tiered { "tiered" } else { "legacy" }.into(),
            warehouse_root,
            db_path: self.db_path.display().to_string(),
            latency_ms: None,
            embed_model: served.embedder.as_ref().filter(|_| tiered).map(|it| it.name().to_string()),
            chunk_rows_indexed: tiered.then_some(chunks),
            unique_paths_in_index: tiered.then_some(merged as u64),
            l1_candidates_merged: tiered.then_some(merged as u64),
            hits_returned: hits.len() as u64,
            hits_by_tier,
            filesystem_files_seen: seen,
        })
    }
}

/// The number of hits to return.
fn limit(wanted: Option<u32>) -> Result<usize> {
    match wanted.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit as usize),
        other => Err(Error::invalid(format!("limit {other} is not between 1 and {MAX_LIMIT}"))),
    }
}

/// The best passages of a file.
fn passages(fused: &Fused) -> impl Iterator<Item = (FileId, ChunkId)> {
    let best = std::iter::once(fused).chain(&fused.other_chunks);
    best.take(PHRASE_CHUNKS).map(|it| (it.file_id, it.chunk_id.clone()))
}

/// Lifts files that hold a run of the question's words, shows the passage that does, and sorts anew.
fn prefer_phrases(words: &[String], files: &mut [Fused], chunks: &HashMap<(FileId, ChunkId), StoredChunk>) {
    for file in files.iter_mut() {
        let base = file.score;
        for key in passages(file).collect::<Vec<_>>() {
            let Some(stored) = chunks.get(&key) else { continue };
            let lifted = phrase::lift(base, words, &stored.chunk.text);
            if lifted > file.score {
                file.score = lifted;
                file.show(&key.1);
            }
        }
    }
    files.sort_by(|a, b| b.score.total_cmp(&a.score));
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
