//! Answers a question from its plan: filters files by metadata, searches by keywords and by vectors in parallel, fuses both
//! ranked lists, merges passages by file, runs skills if the plan requires them, and checks every file before it is shown.
//!
//! [`Asker::ask`] runs the steps in order. `retrieve` searches, `l2_skills` runs skills, [`fuse`] computes the scores,
//! `hit_builder` builds the hits, `answer` builds the summary, `citation` checks a hit against its file, `index_state`
//! reads the roots and the warnings about unfinished indexing.

mod answer;
mod answer_events;
mod asker;
mod citation;
mod corpus_languages;
mod counts;
mod date_order;
mod document_part;
mod excerpt;
mod file_filter;
mod file_lines;
pub mod fuse;
mod grep;
mod grep_context;
mod grep_pattern;
mod hit;
mod hit_builder;
mod index_state;
mod l2_skills;
mod search_legs;
mod llm_summary;
mod name_search;
mod name_typing_errors;
mod near_duplicates;
mod numbers;
mod question;
mod relevance;
mod marks;
mod model_rerank;
mod rerank;
mod retrieve;
mod similar;
mod stop_words;
mod terms;
mod typing_errors;
mod word_runs;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;

use crate::ask::answer::ComposedAnswer;
use crate::ask::answer_events::Events;
use crate::ask::hit::SearchOutcome;
use crate::ask::index_state::SearchFolder;
use crate::ask::model_rerank::RERANKED_HITS;
use crate::ask::question::{HitRange, Question};
use crate::ask::retrieve::FoundHits;
use crate::ask::terms::Terms;
use crate::error::Result;
use crate::index::ServingTable;
use crate::model::{AskEvent, AskRequest, AskResponse, L0Filters, QueryPlan, ResponseStats, SearchHit};
use crate::planner::{self, syntax};

pub use asker::Asker;
pub use file_filter::resolve as resolve_filters;
pub(crate) use marks::QuestionMatcher;
pub use marks::find_marks;

/// Warning in the answer to a question that filters mail by date: which date is compared.
const MAIL_DATES_WARNING: &str = "dates are compared with the date each mail was sent (mail date), or if a mail has none, \
                          with the date its file was modified";

/// Capacity of the event channel of `Asker::ask_stream`. While a slow reader keeps the channel full, the answer waits.
const CHANNEL_CAPACITY: usize = 64;

impl Asker {
    /// Answers a question: returns the plan, the hits and a summary with citations.
    ///
    /// # Errors
    /// The request is invalid, or the index cannot be read.
    pub async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.answer_request(request, true, &Events::none()).await
    }

    /// Returns the hits of a question, without building a summary.
    ///
    /// # Errors
    /// See [`Asker::ask`].
    pub async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        self.answer_request(request, false, &Events::none()).await
    }

    /// Answers a question and sends each step as an event. The channel closes after the complete answer or the first error.
    /// Dropping the receiver cancels the work.
    pub fn ask_stream(&self, request: AskRequest) -> mpsc::Receiver<Result<AskEvent>> {
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let asker = self.clone();
        tokio::spawn(async move {
            let events = Events::to(sender.clone());
            let last = tokio::select! {
                answer = asker.answer_request(request, true, &events) => answer.map(|it| AskEvent::Done(Box::new(it))),
                () = sender.closed() => return,
            };
            let _gone = sender.send(last).await;
        });
        receiver
    }

    async fn answer_request(&self, request: AskRequest, summarize: bool, events: &Events) -> Result<AskResponse> {
        let begun = Instant::now();
        let range = HitRange::new(request.limit, request.offset)?;
        // What is added to the best hits belongs to the first part of a ranking alone.
        let (is_first, summarize) = (range.offset == 0, summarize && range.offset == 0);
        let folder = self.resolve_search_folder(request.warehouse_root.as_deref()).await;
        let served = self.index.serving();
        let first = self.plan_and_search(&served, request, folder.as_ref().map(SearchFolder::path));
        // Waits for both futures before it sends the first event: `read_index_state` fails if the caller may not search the
        // folder, and then neither the plan nor a hit may be sent.
        let (around, (question, mut outcome)) = tokio::try_join!(self.read_index_state(folder.as_ref()), first)?;
        range.cut(&mut outcome.hits);
        events.send(|| AskEvent::Plan(Box::new(question.plan.clone()))).await;
        events.send(|| AskEvent::Hits(outcome.search_hits())).await;
        if is_first
            && !question.is_listing()
            && !question.words_only
            && self.run_l2_skills(&served, &question, &mut outcome).await?
        {
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

    /// Plans the question and searches. Searches again if no file is of the type that the question seems to name, or if words
    /// of the question are mistyped, and for a later part of the ranking.
    async fn plan_and_search(
        &self,
        served: &ServingTable,
        request: AskRequest,
        root: Option<&Path>,
    ) -> Result<(Question, SearchOutcome)> {
        let may_widen = request.plan.is_none() && request.filters.extensions.is_empty();
        let range = HitRange::new(request.limit, request.offset)?;
        let mut question = self.plan(request, root).await?;
        let mut found = self.search_planned(served, &question).await?;
        let mut other = None;
        if may_widen && found.outcome.hits.is_empty() {
            other = self.without_unknown_types(&question).await?;
        }
        if other.is_none() && !question.words_only {
            let corrected = self.correct_typing_errors(served, &question, &found.outcome.hits).await;
            other = corrected.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot look for typing errors in a question");
                None
            });
        }
        if let Some(other) = other {
            question = other;
            found = self.search_planned(served, &question).await?;
        }
        let mut outcome = self.complete_search(&question, found).await?;
        for limit in range.larger_rankings() {
            if range.is_filled(outcome.hits.len()) {
                break;
            }
            // A model judges the first ranking alone.
            (question.limit, question.reranked_hits) = (limit, 0);
            let found = self.search_planned(served, &question).await?;
            let larger = self.complete_search(&question, found).await?;
            hit::add_larger_ranking(&mut outcome.hits, larger.hits, limit);
            (outcome.warnings, outcome.merged) = (larger.warnings, larger.merged);
        }
        Ok((question, outcome))
    }

    /// Lists files by metadata, searches by name (if no text is indexed), or searches the index.
    async fn search_planned(&self, served: &ServingTable, question: &Question) -> Result<FoundHits> {
        if question.is_listing() {
            self.list_files(question).await
        } else if served.store.chunk_count() == 0 {
            self.search_by_name(question).await
        } else {
            self.search_index(served, question).await
        }
    }

    /// Validates the request and resolves its plan (given by the caller, or made by the planner) to a `Question`.
    async fn plan(&self, mut request: AskRequest, root: Option<&Path>) -> Result<Question> {
        let range = HitRange::new(request.limit, request.offset)?;
        let (explain, words_only) = (request.explain, request.words_only);
        let mut warnings = Vec::new();
        // A request may ask for a stricter privacy mode than the configuration, never for a laxer one.
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
        if filter.mail_dates && !request.plain_words {
            filter.with_inner_names = planner::asks_for_attachments(&plan.raw_user_text);
        }
        if filter.mail_dates && (filter.modified_after_ns.is_some() || filter.modified_before_ns.is_some()) {
            warnings.push(MAIL_DATES_WARNING.to_string());
        }
        let terms = Arc::new(Terms::parse(&plan.raw_user_text)?);
        let words = excerpt::content_words(plan.l1_query_text.as_deref().unwrap_or(&plan.raw_user_text));
        // The order by date is not that of relevance.
        let may_rerank = self.reranking.is_some() && plan.date_order.is_none() && !words_only;
        let reranked_hits = if may_rerank { RERANKED_HITS } else { 0 };
        Ok(Question {
            plan,
            privacy,
            warnings,
            model_unavailable: planned.is_model_unavailable,
            terms,
            words,
            filter,
            limit: range.first_ranking(),
            reranked_hits,
            explain,
            words_only,
        })
    }

    /// Returns the question without a filter by file type that the planner read from its words, if no file is of that type:
    /// the words are then part of what the question is about (`xsd file to python object`).
    async fn without_unknown_types(&self, question: &Question) -> Result<Option<Question>> {
        let Some(filters) = question.plan.l0_filters.as_ref().filter(|it| !it.extensions.is_empty()) else {
            return Ok(None);
        };
        let operators = syntax::parse(&question.plan.raw_user_text);
        if question.is_listing() || !operators.all_extensions().is_empty() {
            return Ok(None);
        }
        let types = L0Filters { extensions: filters.extensions.clone(), ..L0Filters::default() };
        let (catalog, filter) = (self.catalog.clone(), self.file_filter(&types, None)?);
        if !crate::index::blocking(move || catalog.select(&filter)).await?.is_empty() {
            return Ok(None);
        }
        let left = L0Filters { extensions: Vec::new(), ..filters.clone() };
        let mut wider = question.clone();
        wider.filter.extensions = Vec::new();
        (wider.filter.with_inner_names, wider.filter.mail_dates) = (false, false);
        wider.warnings.retain(|it| it != MAIL_DATES_WARNING);
        wider.words = excerpt::content_words(&operators.free_text);
        wider.plan.l0_filters = (left != L0Filters::default()).then_some(left);
        wider.plan.l1_query_text = Some(operators.free_text);
        wider.warnings.push(format!("no file is of the type {}: all types were searched", types.extensions.join(", ")));
        Ok(Some(wider))
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
            // Only a caller that may see all files gets the path of the index.
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
