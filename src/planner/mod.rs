//! Turns a question into a `QueryPlan`, which `src/ask` runs.
//!
//! | field | content |
//! |---|---|
//! | `intent` | one of [`crate::model::INTENTS`]: `search` finds passages; `list` and `count` find files (without `l1_query_text` by metadata alone); `summarize` summarizes; `read_evidence` needs L2, reading page by page |
//! | `l0_filters` | metadata filters in the question, overridden by the operators of [`syntax`], overridden by the caller's filters |
//! | `l1_query_text` | text to search for, without operators, conditions, `find me`, `what is`; absent only when files are listed |
//! | `date_order` | whether the newest or the oldest of equally relevant files come first |
//! | `l1_threshold` | minimum similarity, only when the question asks for one |
//! | `requires_l2`, `l2_skills`, `l2_top_k` | for questions about signatures, tables, totals, stamps, scans, forms, images |
//!
//! The rules ([`plan_by_rules`]) are written for English. `translate` gives them the English words of German, French and
//! Spanish questions; operators work in any language. Quoted words, `+word` and `-word` are not
//! metadata filters and have no field in the plan: the code that runs the plan parses them from `raw_user_text` with
//! [`syntax::parse`], and detects requests for attachments with [`asks_for_attachments`]. This module reads neither the
//! index nor files.

mod attachment_questions;
pub mod completion;
mod date_order;
mod dates;
mod file_types;
mod filters;
mod l2_skills;
mod listing;
mod model_planner;
#[cfg(test)]
mod published_tests;
mod question_type;
mod quotations;
mod rule_planner;
mod rules;
mod sizes;
mod spelling;
pub mod syntax;
mod synthetic_plans;
mod translate;
mod typed_words;
mod validate;
mod vocabulary;
mod words;

use chrono::NaiveDate;

use crate::config::Config;
use crate::error::Result;
use crate::llm::{self, LlmClient, Task};
use crate::machine::block_in_place;
use crate::model::{AskRequest, PrivacyMode};
use crate::planner::words::Words;

pub use model_planner::PlanOutcome;
pub(crate) use rule_planner::plan_file_list;
pub use rule_planner::{RULES_PLANNER_ID, plan_by_rules};
pub use synthetic_plans::{Example, synthetic_plans};
pub use validate::{MAX_L2_TOP_K, MAX_QUESTION_BYTES, validate, validate_filters};

/// Questions up to this size are planned on the async thread, because that takes a fraction of a millisecond.
const INLINE_QUESTION_BYTES: usize = 1 << 10;

/// Plans questions with the configured backend: rules, or a model with the rules as fallback. Cheap to clone.
#[derive(Clone)]
pub struct Planner {
    llm: Option<LlmClient>,
    privacy: PrivacyMode,
}

impl Planner {
    /// Opens the planner that the configuration names. Sends nothing to a model yet.
    ///
    /// # Errors
    /// As [`llm::open`].
    pub fn open(config: &Config) -> Result<Planner> {
        Ok(Planner { llm: llm::open(config, Task::Reasoning)?, privacy: config.privacy_mode })
    }

    /// Makes a planner with a model, or with rules alone.
    pub fn new(llm: Option<LlmClient>, privacy: PrivacyMode) -> Planner {
        Planner { llm, privacy }
    }

    /// Plans a question. If the model fails, uses the plan of the rules, with a warning. A plan in the request is validated
    /// and used instead.
    ///
    /// # Errors
    /// As [`plan_by_rules`]: only an invalid request. A failing model is a warning.
    pub async fn plan(&self, request: &AskRequest, today: NaiveDate) -> Result<PlanOutcome> {
        let rules = match request.query.len() {
            0..=INLINE_QUESTION_BYTES => plan_by_rules(request, self.privacy, today)?,
            _ => block_in_place(|| plan_by_rules(request, self.privacy, today))?,
        };
        match &self.llm {
            Some(llm) if request.plan.is_none() && !request.words_only && !request.plain_words => {
                Ok(model_planner::plan_with_model(llm, request, rules, today).await)
            }
            _ => Ok(PlanOutcome::without_warnings(rules)),
        }
    }
}

/// Whether a question asks for mail attachments, judged by its words.
pub(crate) fn asks_for_attachments(question: &str) -> bool {
    attachment_questions::find_attachment_request(&Words::new(&syntax::split_operators(question).1)).is_some()
}

/// Whether all these extensions are of mail files. A date filter on mail is about when the mail was sent.
pub(crate) fn is_mail(extensions: &[String]) -> bool {
    file_types::is_mail(extensions)
}
