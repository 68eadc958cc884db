//! Turns a plan into an answer: metadata filter, both legs at once, fusion, merge by file, skills if the plan requires them,
//! and a check of every file before it is shown.
//!
//! [`Asker::ask`] runs the steps in order. `retrieve` searches, `l2` runs skills, [`fuse`] computes the score, `hits`
//! builds hits, `answer` builds the summary, `citation` checks the current file, `around` reads the index state.

mod answer;
mod index_state;
mod citation;
mod grep_context;
mod l2;
mod answer_events;
mod excerpt;
mod file_filter;
mod near_duplicates;
pub mod fuse;
mod llm_summary;
mod grep;
mod hit;
mod names;
mod numbers;
mod word_runs;
mod hits;
mod relevance;
mod retrieve;
mod similar;
mod stop_words;
mod terms;
mod document_part;
mod rerank;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ask::answer::ComposedAnswer;
use crate::ask::answer_events::Events;
use crate::ask::hit::RankedHit;
use crate::ask::index_state::SearchFolder;
use crate::ask::terms::Terms;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::embed::redact_hosts;
use crate::error::{Error, Result};
use crate::index::{Index, ServingTable};
use crate::llm::{self, LlmClient, Task};
use crate::model::{
    Anchor, AskEvent, AskRequest, AskResponse, FileFilter, L0Filters, PrivacyMode, QueryPlan, Redaction, ResponseStats,
    Scope, SearchHit,
};
use crate::planner::{self, Planner};
use crate::skills::Skills;
use crate::store::FileSet;

pub use crate::ask::file_filter::resolve as resolve_filters;

/// Hits when the request sets no limit.
const DEFAULT_LIMIT: u32 = 10;
/// Highest limit of a request.
const MAX_LIMIT: u32 = 1_000;

/// Warning for a question about mail of some period.
const MAIL_DATES_WARNING: &str = "dates are compared with the date each mail was sent (mail date), or if a mail has none, \
                          with the date its file was modified";

/// Longest time for checks of files: a fast disk allows a thousand checks a second.
const FILE_CHECK_TIMEOUT: Duration = Duration::from_secs(120);

/// Answers questions from the index. Cheap to clone.
#[derive(Clone)]
pub struct Asker {
    catalog: Catalog,
    index: Index,
    skills: Skills,
    librarian: Planner,
    /// Writes the summary, if a model is configured.
    llm: Option<LlmClient>,
    privacy: PrivacyMode,
    /// Redaction of text that is read from a file again.
    redaction: Redaction,
    default_root: Option<PathBuf>,
    db_path: PathBuf,
    scales: answer::CosineScaleCache,
    /// The files that the caller may see; all others do not exist for the caller.
    scope: Scope,
}

/// A planned question.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) plan: QueryPlan,
    /// Network limit: the stricter of the plan's and the configuration's privacy mode.
    pub(crate) privacy: PrivacyMode,
    /// Problems during planning.
    pub(crate) warnings: Vec<String>,
    /// Whether the planning model was unavailable.
    pub(crate) model_unavailable: bool,
    /// Required and excluded words.
    pub(crate) terms: Arc<Terms>,
    /// The content words, lower case.
    pub(crate) words: Vec<String>,
    /// The metadata filter, including the root.
    pub(crate) filter: FileFilter,
    pub(crate) limit: usize,
    pub(crate) explain: bool,
}

impl Question {
    /// Returns the text to search for, if any.
    pub(crate) fn text(&self) -> Option<&str> {
        self.plan.l1_query_text.as_deref().filter(|it| !it.trim().is_empty())
    }

    /// Returns whether the question lists files by metadata, without a text search.
    fn is_listing(&self) -> bool {
        self.text().is_none()
    }
}

/// The search result before an answer is built.
#[derive(Default)]
struct SearchOutcome {
    hits: Vec<RankedHit>,
    /// Number of distinct files that matched, before the limit.
    merged: usize,
    warnings: Vec<String>,
    /// The vector of the question, if it was embedded.
    vector: Option<Vec<f32>>,
    /// Weight of each content word of the question, by word key.
    word_weights: HashMap<String, f32>,
}

impl SearchOutcome {
    fn search_hits(&self) -> Vec<SearchHit> {
        self.hits.iter().map(|it| it.hit.clone()).collect()
    }
}

impl Asker {
    /// Opens an asker over an index, with the configured model and root.
    ///
    /// # Errors
    /// The address of the model's server is invalid.
    pub fn new(config: &Config, catalog: Catalog, index: Index, skills: Skills) -> Result<Asker> {
        Ok(Asker {
            catalog,
            index,
            skills,
            librarian: Planner::open(config)?,
            llm: llm::open(config, Task::Reasoning)?,
            privacy: config.privacy_mode,
            redaction: config.limits.redaction,
            default_root: config.warehouse_root.clone(),
            db_path: config.db_path.clone(),
            scales: answer::CosineScaleCache::default(),
            scope: Scope::All,
        })
    }

    /// Returns an asker limited to the files of a scope.
    pub fn with_scope(&self, scope: Scope) -> Asker {
        Asker { scope, ..self.clone() }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The request is invalid, or the index cannot be read.
    pub async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.answer_request(request, true, &Events::none()).await
    }

    /// Finds the hits of a question without a summary.
    ///
    /// # Errors
    /// See [`Asker::ask`].
    pub async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        self.answer_request(request, false, &Events::none()).await
    }

    /// Returns whether a passage is still at its place in a file of the caller's scope. Reads a verbatim passage again; for
    /// other formats the file must be unchanged.
    pub async fn passage_is_current(&self, path: &Path, anchor: &Anchor, passage: &str) -> bool {
        let (catalog, scope) = (self.catalog.clone(), self.scope.clone());
        let (path, anchor, passage) = (path.to_path_buf(), anchor.clone(), passage.to_string());
        let looked = crate::index::blocking_with_timeout(FILE_CHECK_TIMEOUT, move || {
            let record = crate::index::find_record(&catalog, &scope, &path)?;
            Ok(citation::passage_is_current(&record, &anchor, &passage))
        });
        looked.await.unwrap_or(false)
    }

    async fn answer_request(&self, request: AskRequest, summarize: bool, events: &Events) -> Result<AskResponse> {
        let begun = Instant::now();
        let folder = self.resolve_search_folder(request.warehouse_root.as_deref()).await;
        let served = self.index.serving();
        let first = self.plan_and_search(&served, request, folder.as_ref().map(SearchFolder::path));
        // Sends no plan and no hit before the folder is known to be allowed.
        let (around, (question, mut outcome)) = tokio::try_join!(self.read_index_state(folder.as_ref()), first)?;
        events.send(|| AskEvent::Plan(Box::new(question.plan.clone()))).await;
        events.send(|| AskEvent::Hits(outcome.search_hits())).await;
        if !question.is_listing() && self.run_l2_skills(&served, &question, &mut outcome).await? {
            events.send(|| AskEvent::Hits(outcome.search_hits())).await;
        }
        let ComposedAnswer { summary: answer_summary, answer } = match summarize {
            true => self.build_answer(&served, &question, &mut outcome, events).await?,
            false => {
                answer::show_best_unit(&question, &mut outcome);
                ComposedAnswer::default()
            }
        };
        let mut warnings = question.warnings;
        warnings.append(&mut outcome.warnings);
        warnings.extend(around.warnings);
        let hits: Vec<SearchHit> = outcome.hits.into_iter().map(|it| it.hit).collect();
        let mut stats = self.response_stats(&served, around.folders, &hits, outcome.merged).await?;
        stats.latency_ms = Some(begun.elapsed().as_secs_f64() * 1e3);
        let plan = question.plan;
        Ok(AskResponse { query_plan: plan, hits, answer_summary, answer, warnings, stats: Some(stats) })
    }

    /// Plans the question, and searches the index.
    async fn plan_and_search(
        &self,
        served: &ServingTable,
        request: AskRequest,
        root: Option<&Path>,
    ) -> Result<(Question, SearchOutcome)> {
        let question = self.plan(request, root).await?;
        let outcome = if question.is_listing() {
            self.list_files(&question).await?
        } else if served.store.chunk_count() == 0 {
            self.search_by_name(&question).await?
        } else {
            self.search_index(served, &question).await?
        };
        Ok((question, outcome))
    }

    /// Returns the caller's plan, or the planner's.
    async fn plan(&self, mut request: AskRequest, root: Option<&Path>) -> Result<Question> {
        let limit = checked_limit(request.limit)?;
        let explain = request.explain;
        let mut warnings = Vec::new();
        // A caller may be stricter than the configuration, never laxer.
        let wanted = request.plan.as_ref().map(|it| it.privacy_mode).or(request.privacy_mode).unwrap_or(self.privacy);
        let wanted = request.privacy_mode.unwrap_or(wanted);
        let privacy = wanted.stricter(self.privacy);
        if privacy != wanted {
            let name = self.privacy.name();
            warnings.push(format!("the daemon runs with privacy mode `{name}`, which holds for this question too"));
        }
        request.privacy_mode = Some(privacy);
        let planned = self.librarian.plan(&request, chrono::Local::now().date_naive()).await?;
        let plan = QueryPlan { privacy_mode: wanted, ..planned.plan };
        warnings.extend(planned.warnings.iter().map(|it| self.redact_addresses(it)));
        let mut filter = self.file_filter(&plan.l0_filters.clone().unwrap_or_default(), root)?;
        if planner::is_mail(&filter.extensions) {
            filter.with_inner_names = planner::asks_for_attachments(&plan.raw_user_text);
            filter.mail_dates = filter.modified_after_ns.is_some() || filter.modified_before_ns.is_some();
        }
        if filter.mail_dates {
            warnings.push(MAIL_DATES_WARNING.to_string());
        }
        let terms = Arc::new(Terms::parse(&plan.raw_user_text)?);
        let words = excerpt::content_words(plan.l1_query_text.as_deref().unwrap_or(&plan.raw_user_text));
        let model_away = planned.is_model_unavailable;
        Ok(Question { plan, privacy, warnings, model_unavailable: model_away, terms, words, filter, limit, explain })
    }

    /// Returns the plan of a request that is not a question.
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

    /// Hides server addresses in a message from callers other than the owner.
    fn redact_addresses(&self, text: &str) -> String {
        if self.scope.is_all() {
            return text.to_string();
        }
        let told = redact_hosts::hide_in_text(text);
        if told != text {
            tracing::warn!("a server failed during a question: {text}");
        }
        told.into_owned()
    }

    /// Builds the file filter from the request's filters, the searched folder and the scope.
    fn file_filter(&self, filters: &L0Filters, root: Option<&Path>) -> Result<FileFilter> {
        Ok(FileFilter { scope: self.scope.clone(), ..file_filter::resolve(filters, root)? })
    }

    /// Returns the files that pass the filter, before any leg runs.
    async fn allowed_files(&self, filter: &FileFilter) -> Result<FileSet> {
        if filter.is_empty() {
            return Ok(FileSet::All);
        }
        let (catalog, filter) = (self.catalog.clone(), filter.clone());
        let ids = crate::index::blocking(move || catalog.select_part(&filter)).await?;
        Ok(ids.map_or(FileSet::All, |it| FileSet::Only(Arc::new(it))))
    }

    async fn response_stats(
        &self,
        served: &ServingTable,
        warehouse_root: String,
        hits: &[SearchHit],
        merged: usize,
    ) -> Result<ResponseStats> {
        let mut hits_by_tier = BTreeMap::new();
        for hit in hits {
            *hits_by_tier.entry(hit.tier.clone()).or_insert(0) += 1;
        }
        let tiered = served.store.chunk_count() > 0;
        let chunks = if tiered { Some(self.index.chunks(&self.scope).await?) } else { None };
        let seen = if tiered { None } else { Some(self.index.coverage(&self.scope).await?.found) };
        Ok(ResponseStats {
            pipeline: if tiered { "tiered" } else { "legacy" }.into(),
            warehouse_root,
            // Only the owner may see the path.
            db_path: if self.scope.is_all() { self.db_path.display().to_string() } else { String::new() },
            latency_ms: None,
            embed_model: served.embedder.as_ref().filter(|_| tiered).map(|it| it.name().to_string()),
            chunk_rows_indexed: chunks,
            unique_paths_in_index: tiered.then_some(merged as u64),
            l1_candidates_merged: tiered.then_some(merged as u64),
            hits_returned: hits.len() as u64,
            hits_by_tier,
            filesystem_files_seen: seen,
        })
    }
}

/// Returns the number of hits to return.
fn checked_limit(wanted: Option<u32>) -> Result<usize> {
    match wanted.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit as usize),
        other => Err(Error::invalid(format!("limit {other} is not between 1 and {MAX_LIMIT}"))),
    }
}
