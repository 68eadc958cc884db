//! A question to a plan.
//!
//! | field | what the librarian gives |
//! |---|---|
//! | `intent` | one of [`crate::model::INTENTS`]: `search` finds passages; `list` and `count` are about the files as such (without `l1_query_text` they are metadata alone); `summarize` wants the gist; `read_evidence` needs L2 |
//! | `l0_filters` | what the question says of the files, the operators of [`syntax`] over it, the caller's filters over both |
//! | `l1_query_text` | the meaning: without operators, conditions, `find me`, `what is`; absent only when files are listed |
//! | `l1_threshold` | only when the question asks for a similarity |
//! | `requires_l2`, `l2_skills`, `l2_top_k` | signatures, tables, totals, stamps, scans, forms, pictures |
//!
//! The rules ([`plan`]) know English; operators work in any language. Quoted words, `+word` and `-word` are no filters of
//! metadata and have no field: whoever carries the plan out reads them by [`syntax::parse`] from `raw_user_text`, and whether
//! attachments are asked for by [`asks_for_attachments`]. Nothing here touches the index or a file.

mod attachments;
mod by_model;
mod check;
mod conditions;
mod dates;
mod evidence;
mod head;
mod kinds;
mod quotes;
mod rules;
mod sizes;
pub mod syntax;
mod synthetic;
mod words;

#[cfg(test)]
mod published;

use chrono::NaiveDate;

pub use crate::planner::check::{MAX_L2_TOP_K, validate, validate_filters};
pub use crate::planner::synthetic::{Example, synthetic_plans};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::llm::{self, LlmClient, Task};
use crate::machine::computing;
use crate::model::{AskRequest, L0Filters, PrivacyMode, QueryPlan};
use crate::planner::syntax::Syntax;
use crate::planner::words::Words;

/// Name of these rules in [`QueryPlan::planner_model_id`].
pub const PLANNER: &str = "stub-v1";

/// The longest question in bytes. Longer ones are a document, not a question.
pub const MAX_QUESTION_BYTES: usize = 32 << 10;

/// Bytes of a question that is planned in a fraction of a millisecond.
const SHORT: usize = 1 << 10;

/// Files that are looked at in depth unless the plan says otherwise: each can take seconds.
const L2_TOP_K: u32 = 3;

/// Plans questions with the configured backend: rules, or a model with the rules behind it. Cheap to clone.
#[derive(Clone)]
pub struct Librarian {
    llm: Option<LlmClient>,
    privacy: PrivacyMode,
}

/// A plan, and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What is to be carried out.
    pub plan: QueryPlan,
    /// What went wrong on the way to it.
    pub warnings: Vec<String>,
    /// Whether the model's server could not be reached or fell silent: whoever asks need not wait for it once more.
    pub model_away: bool,
}

impl Planned {
    fn sure(plan: QueryPlan) -> Planned {
        Planned { plan, warnings: Vec::new(), model_away: false }
    }
}

impl Librarian {
    /// Makes the librarian that the configuration asks for; nothing is sent yet.
    ///
    /// # Errors
    /// As [`llm::open`].
    pub fn open(config: &Config) -> Result<Librarian> {
        Ok(Librarian { llm: llm::open(config, Task::Reasoning)?, privacy: config.privacy_mode })
    }

    /// Makes a librarian with a model, or with rules alone.
    pub fn with(llm: Option<LlmClient>, privacy: PrivacyMode) -> Librarian {
        Librarian { llm, privacy }
    }

    /// Plans a question, and says in warnings when the rules had to stand in for the model. A plan that the request brings
    /// is checked and taken.
    ///
    /// # Errors
    /// As [`plan`]: only what is wrong with the request. A model that fails is a warning.
    pub async fn plan(&self, request: &AskRequest, today: NaiveDate) -> Result<Planned> {
        let rules = match request.query.len() {
            0..=SHORT => plan(request, self.privacy, today)?,
            _ => computing(|| plan(request, self.privacy, today))?,
        };
        match &self.llm {
            Some(llm) if request.plan.is_none() => Ok(by_model::plan(llm, request, rules, today).await),
            _ => Ok(Planned::sure(rules)),
        }
    }
}

/// Says whether a question asks for what is attached to mail: as a condition on words, that is no filter of metadata.
pub(crate) fn asks_for_attachments(question: &str) -> bool {
    attachments::find(&Words::new(&syntax::pieces(question).1)).is_some()
}

/// Says whether only mail has these extensions: a date is when it was sent then, not when its file was written.
pub(crate) fn is_mail(extensions: &[String]) -> bool {
    kinds::is_mail(extensions)
}

/// Plans a question by rules. `today` is what `yesterday` and `last week` count from.
///
/// # Errors
/// The question is empty or longer than [`MAX_QUESTION_BYTES`], an operator in it cannot be understood, or filters
/// contradict each other; the message names what is wrong.
pub fn plan(request: &AskRequest, default_privacy: PrivacyMode, today: NaiveDate) -> Result<QueryPlan> {
    if let Some(given) = &request.plan {
        return bring(request, given.clone());
    }
    let question = question(request)?;
    let (syntax, pieces) = syntax::pieces(question);
    if let Some(problem) = syntax.problems.first() {
        return Err(problem.clone());
    }
    let reading = rules::read(Words::new(&pieces), today);
    let filters = over(over(reading.filters, operators(&syntax, today)?), request.filters.clone());
    // Operators alone are a metadata listing, as `ext:pdf`.
    let only_operators = pieces.is_empty();
    if only_operators && filters == L0Filters::default() {
        return Err(Error::invalid("the question says only what must not be found").hint("add what to look for"));
    }
    let listed = only_operators || matches!(reading.intent, "list" | "count");
    // A question of punctuation alone is still a question.
    let text = reading.text.or_else(|| (!listed).then(|| question.to_string()));
    let plan = QueryPlan {
        intent: if only_operators { "list" } else { reading.intent }.into(),
        l0_filters: (filters != L0Filters::default()).then_some(filters),
        l1_query_text: text,
        l1_threshold: reading.threshold,
        requires_l2: !reading.skills.is_empty(),
        l2_top_k: (!reading.skills.is_empty()).then_some(L2_TOP_K),
        l2_skills: reading.skills,
        privacy_mode: request.privacy_mode.unwrap_or(default_privacy),
        raw_user_text: request.query.clone(),
        planner_model_id: Some(PLANNER.into()),
    };
    validate(&plan)?;
    Ok(plan)
}

/// Takes the plan that a request brings.
fn bring(request: &AskRequest, mut plan: QueryPlan) -> Result<QueryPlan> {
    let filters = over(plan.l0_filters.unwrap_or_default(), request.filters.clone());
    plan.l0_filters = (filters != L0Filters::default()).then_some(filters);
    plan.privacy_mode = request.privacy_mode.unwrap_or(plan.privacy_mode);
    if plan.raw_user_text.trim().is_empty() {
        plan.raw_user_text = question(request)?.to_string();
    }
    validate(&plan)?;
    match syntax::parse(&plan.raw_user_text).problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(plan),
    }
}

/// The question without the blanks around it.
fn question(request: &AskRequest) -> Result<&str> {
    let question = request.query.trim();
    if question.is_empty() {
        return Err(Error::invalid("the question is empty").hint("ask something: `vic ask \"who signed the lease?\"`"));
    }
    if question.len() > MAX_QUESTION_BYTES {
        return Err(Error::invalid(format!("the question is longer than {MAX_QUESTION_BYTES} bytes")));
    }
    Ok(question)
}

/// The operators that are filters of metadata.
fn operators(syntax: &Syntax, today: NaiveDate) -> Result<L0Filters> {
    let date = |key: &str, value: &Option<String>| {
        let Some(text) = value else { return Ok(None) };
        dates::operand(text, today).map(Some).ok_or_else(|| {
            Error::invalid(format!("cannot understand `{key}:{text}`"))
                .hint(format!("write e.g. `{key}:2024-03-15`, `{key}:2024-03`, `{key}:2024` or `{key}:7d`"))
        })
    };
    Ok(L0Filters {
        extensions: syntax.all_extensions(),
        path_glob: syntax.path_glob(),
        modified_after: date("after", &syntax.after)?,
        modified_before: date("before", &syntax.before)?,
        min_size: syntax.min_size,
        max_size: syntax.max_size,
        owner: syntax.owner.clone(),
    })
}

/// Filters over others. Both ends of a range belong together: an upper end that was typed does not meet a lower end that
/// was guessed.
fn over(below: L0Filters, above: L0Filters) -> L0Filters {
    let dated = above.modified_after.is_some() || above.modified_before.is_some();
    let sized = above.min_size.is_some() || above.max_size.is_some();
    let (after, before) = if dated { (&above, &above) } else { (&below, &below) };
    let size = if sized { &above } else { &below };
    L0Filters {
        modified_after: after.modified_after.clone(),
        modified_before: before.modified_before.clone(),
        min_size: size.min_size,
        max_size: size.max_size,
        extensions: if above.extensions.is_empty() { below.extensions } else { above.extensions },
        path_glob: above.path_glob.or(below.path_glob),
        owner: above.owner.or(below.owner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &AskRequest) -> Result<QueryPlan> {
        plan(request, PrivacyMode::LocalOnly, NaiveDate::from_ymd_opt(2026, 3, 18).unwrap())
    }

    fn check(query: &str) -> Result<QueryPlan> {
        ask(&AskRequest { query: query.into(), ..AskRequest::default() })
    }

    #[test]
    fn the_question_is_kept_as_it_was_asked() {
        let plan = check("  who signed the lease? ").unwrap();
        assert_eq!(plan.l1_query_text.as_deref(), Some("signed the lease"));
        assert_eq!(plan.raw_user_text, "  who signed the lease? ");
        assert_eq!((plan.privacy_mode, plan.planner_model_id.as_deref()), (PrivacyMode::LocalOnly, Some("stub-v1")));
    }

    #[test]
    fn an_empty_or_endless_question_is_refused() {
        assert!(check(" \n").is_err());
        assert!(check(&"x".repeat(MAX_QUESTION_BYTES + 1)).is_err());
        assert!(check("-draft").is_err());
    }

    #[test]
    fn an_operator_that_cannot_be_understood_is_refused_by_name() {
        for text in ["lang:german", "after:2024-13", "before:soon", "size:5MB", "after:2024 before:2023", "size:2M..1M"]
        {
            let error = check(&format!("x {text}")).unwrap_err();
            let value = text.split([':', ' ']).nth(1).unwrap();
            let named =
                error.message.contains(value) || error.message.contains("modified_") || error.message.contains("size");
            assert!(named, "{text}: {error}");
        }
    }

    #[test]
    fn the_callers_filters_win_over_the_questions() {
        let filters = L0Filters {
            extensions: vec![".md".into()],
            modified_before: Some("2020-01-01".into()),
            ..L0Filters::default()
        };
        let request = AskRequest { query: "PDFs from 2021 owned by ada".into(), filters, ..AskRequest::default() };
        let found = ask(&request).unwrap().l0_filters.unwrap();
        assert_eq!(found.extensions, [".md"]);
        assert_eq!((found.modified_after, found.modified_before.as_deref()), (None, Some("2020-01-01")));
        assert_eq!(found.owner.as_deref(), Some("ada"));
    }

    #[test]
    fn a_plan_that_the_request_brings_is_checked_and_taken() {
        let mut given = check("PDFs about rent").unwrap();
        given.planner_model_id = Some("mine".into());
        let filters = L0Filters { owner: Some("ada".into()), ..L0Filters::default() };
        let request = AskRequest { plan: Some(given.clone()), filters, ..AskRequest::default() };
        let plan = ask(&request).unwrap();
        assert_eq!((plan.planner_model_id.as_deref(), plan.l1_query_text.as_deref()), (Some("mine"), Some("rent")));
        assert_eq!(plan.l0_filters.unwrap().owner.as_deref(), Some("ada"));
        given.l2_skills = vec!["teleport".into()];
        let error = ask(&AskRequest { plan: Some(given), ..AskRequest::default() }).unwrap_err();
        assert!(error.message.contains("l2_skills") && error.message.contains("teleport"), "{error}");
    }

    #[test]
    fn a_plan_survives_json() {
        let plan = check("PDFs from 2021 larger than 5 MB with a stamp on the permit").unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<QueryPlan>(&json).unwrap(), plan);
    }

    proptest::proptest! {
        #[test]
        fn every_question_gets_a_valid_plan_or_a_reason(words in proptest::collection::vec(
            proptest::sample::select(WORDS), 1..12)) {
            if let Ok(plan) = check(&words.join(" ")) {
                validate(&plan).unwrap();
                let metadata = matches!(plan.intent.as_str(), "list" | "count");
                assert!(metadata || plan.l1_query_text.is_some(), "{plan:?}");
            }
        }

        #[test]
        fn any_text_is_planned_without_panic(text in "\\PC{0,60}") {
            let _ = check(&text);
        }
    }

    /// Words that rules take hold of, in any order.
    const WORDS: &[&str] = &[
        "find",
        "all",
        "files",
        "PDFs",
        "notes",
        "from",
        "since",
        "between",
        "and",
        "2021",
        "March",
        "last",
        "week",
        "the",
        "3",
        "months",
        "larger",
        "than",
        "5",
        "MB",
        "in",
        "folder",
        "contracts",
        "owned",
        "by",
        "anna",
        "who",
        "signed",
        "table",
        "scanned",
        "photo",
        "show",
        "today's",
        "anna's",
        "\"a b\"",
        "-draft",
        "ext:pdf",
        "how",
        "many",
        "?",
        "I",
        "edited",
        "under",
        "a/b",
        "~/x",
        "to",
        "before",
        "what",
        "is",
        "similarity",
        "above",
        "0.5",
        ",",
    ];
}
