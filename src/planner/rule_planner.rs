//! Plans a question by rules, without a model: operators such as `ext:pdf`, then English phrases. Pure functions.

use chrono::NaiveDate;

use crate::error::{Error, Result};
use crate::model::{AskRequest, L0Filters, PrivacyMode, QueryPlan};
use crate::planner::rules::RuleResult;
use crate::planner::syntax::{self, Operators};
use crate::planner::validate::{MAX_QUESTION_BYTES, validate};
use crate::planner::words::{QuestionPart, Words};
use crate::planner::{dates, rules};

/// Value of [`QueryPlan::planner_model_id`] in plans that the rules made.
pub const RULES_PLANNER_ID: &str = "stub-v1";

/// Default number of files read in depth (L2); few, because each can take seconds.
pub(super) const DEFAULT_L2_TOP_K: u32 = 3;

/// Plans a question by rules. Relative dates such as `yesterday` and `last week` count from `today`.
///
/// # Errors
/// The question is empty or longer than [`MAX_QUESTION_BYTES`], an operator is invalid, or filters contradict each
/// other. The message names the part that is wrong.
pub fn plan_by_rules(request: &AskRequest, default_privacy: PrivacyMode, today: NaiveDate) -> Result<QueryPlan> {
    if let Some(given) = &request.plan {
        return use_given_plan(request, given.clone());
    }
    let question = checked_question(request)?;
    let (syntax, pieces) = syntax::split_operators(question);
    if let Some(problem) = syntax.problems.first() {
        return Err(problem.clone());
    }
    let reading = if request.plain_words { plain_words(&pieces) } else { read_question(&pieces, today) };
    let filters =
        override_filters(override_filters(reading.filters, operator_filters(&syntax, today)?), request.filters.clone());
    // A question of operators alone, such as `ext:pdf`, lists files by metadata.
    let only_operators = pieces.is_empty();
    if only_operators && filters == L0Filters::default() {
        return Err(Error::invalid("the question has only exclusions").hint("add words to find"));
    }
    let listed = only_operators || matches!(reading.intent, "list" | "count");
    // Searches for the question as typed if the rules leave no search text, e.g. if it is only punctuation.
    let text = reading.text.or_else(|| (!listed).then(|| question.to_string()));
    let plan = QueryPlan {
        intent: if only_operators { "list" } else { reading.intent }.into(),
        l0_filters: (filters != L0Filters::default()).then_some(filters),
        l1_query_text: text,
        l1_threshold: reading.threshold,
        date_order: reading.date_order,
        requires_l2: !reading.skills.is_empty(),
        l2_top_k: (!reading.skills.is_empty()).then_some(DEFAULT_L2_TOP_K),
        l2_skills: reading.skills,
        privacy_mode: request.privacy_mode.unwrap_or(default_privacy),
        raw_user_text: request.query.clone(),
        planner_model_id: Some(RULES_PLANNER_ID.into()),
    };
    validate(&plan)?;
    Ok(plan)
}

/// Searches for every word besides the operators.
fn plain_words(pieces: &[QuestionPart]) -> RuleResult {
    let text = pieces.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(" ");
    RuleResult { intent: "search", text: Some(text).filter(|it| !it.is_empty()), ..RuleResult::default() }
}

/// Applies the rules to the words of a question. If they find no condition, applies them again with typing errors corrected,
/// and takes that result if it has a condition for every corrected word.
fn read_question(pieces: &[QuestionPart], today: NaiveDate) -> RuleResult {
    let reading = rules::apply_rules(Words::new(pieces), today);
    if reading.filters != L0Filters::default() {
        return reading;
    }
    let Some((words, typed)) = Words::corrected(pieces) else { return reading };
    let corrected = rules::apply_rules(words, today);
    let left = corrected.text.clone().unwrap_or_default();
    let is_used =
        |typed: &String| !left.split_whitespace().any(|it| it == typed.trim_end_matches(['?', '.', '!', ',']));
    if corrected.filters != L0Filters::default() && typed.iter().all(is_used) { corrected } else { reading }
}

/// Validates the plan in the request, with the request's filters and privacy mode on top.
fn use_given_plan(request: &AskRequest, mut plan: QueryPlan) -> Result<QueryPlan> {
    let filters = override_filters(plan.l0_filters.unwrap_or_default(), request.filters.clone());
    plan.l0_filters = (filters != L0Filters::default()).then_some(filters);
    plan.privacy_mode = request.privacy_mode.unwrap_or(plan.privacy_mode);
    if plan.raw_user_text.trim().is_empty() {
        plan.raw_user_text = checked_question(request)?.to_string();
    }
    validate(&plan)?;
    match syntax::parse(&plan.raw_user_text).problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(plan),
    }
}

/// Returns the question without surrounding whitespace; an empty or too long question is an error.
fn checked_question(request: &AskRequest) -> Result<&str> {
    let question = request.query.trim();
    if question.is_empty() {
        return Err(Error::invalid("the question is empty").hint("ask something: `vic ask \"who signed the lease?\"`"));
    }
    if question.len() > MAX_QUESTION_BYTES {
        return Err(Error::invalid(format!("the question is longer than {MAX_QUESTION_BYTES} bytes")));
    }
    Ok(question)
}

/// Returns the words and the filters of a query for files by name: operators such as `ext:pdf`, and words that the name
/// contains.
///
/// # Errors
/// An operator is invalid, or excludes words, which names cannot.
pub(crate) fn plan_file_list(query: &str, today: NaiveDate) -> Result<(Vec<String>, L0Filters)> {
    let syntax = syntax::parse(query);
    if let Some(problem) = syntax.problems.first() {
        return Err(problem.clone());
    }
    if let Some(word) = syntax.must_not.first() {
        return Err(
            Error::invalid(format!("`-{word}` cannot exclude files by name")).hint("use `search` to exclude words")
        );
    }
    let words = syntax.free_text.split_whitespace().map(String::from).collect();
    Ok((words, operator_filters(&syntax, today)?))
}

/// Returns the metadata filters that the operators of a question set.
pub(super) fn operator_filters(syntax: &Operators, today: NaiveDate) -> Result<L0Filters> {
    let date = |key: &str, value: &Option<String>| {
        let Some(text) = value else { return Ok(None) };
        dates::parse_operand(text, today).map(Some).ok_or_else(|| {
            Error::invalid(format!("cannot parse `{key}:{text}` as a date"))
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
        language: syntax.language.map(|it| it.code().to_string()),
        author: syntax.author.clone(),
    })
}

/// Overrides the filters in `below` with those set in `above`. The two ends of a range are replaced together, because the
/// upper end that a user typed must not be combined with a lower end that the rules guessed.
pub(super) fn override_filters(below: L0Filters, above: L0Filters) -> L0Filters {
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
        language: above.language.or(below.language),
        author: above.author.or(below.author),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn ask(request: &AskRequest) -> Result<QueryPlan> {
        plan_by_rules(request, PrivacyMode::LocalOnly, NaiveDate::from_ymd_opt(2026, 3, 18).unwrap())
    }

    fn check(query: &str) -> Result<QueryPlan> {
        ask(&AskRequest { query: query.into(), ..AskRequest::default() })
    }

    #[test]
    fn file_query_has_words_and_operators() {
        let today = NaiveDate::from_ymd_opt(2026, 3, 18).unwrap();
        let (words, filters) = plan_file_list("budget ext:.PDF \"final draft\" after:2024-03", today).unwrap();
        assert_eq!(words, ["budget", "final", "draft"]);
        assert_eq!(filters.extensions, [".pdf"]);
        assert_eq!(filters.modified_after.as_deref(), Some("2024-03-01"));
        assert_eq!(plan_file_list("", today).unwrap(), (Vec::new(), L0Filters::default()));
        for wrong in ["-draft", "size:huge", "after:soon"] {
            assert!(plan_file_list(wrong, today).is_err(), "{wrong}");
        }
    }

    #[test]
    fn plan_keeps_question_as_typed() {
        let plan = check("  who signed the lease? ").unwrap();
        assert_eq!(plan.l1_query_text.as_deref(), Some("signed the lease"));
        assert_eq!(plan.raw_user_text, "  who signed the lease? ");
        assert_eq!((plan.privacy_mode, plan.planner_model_id.as_deref()), (PrivacyMode::LocalOnly, Some("stub-v1")));
    }

    #[test]
    fn empty_or_too_long_question_is_rejected() {
        assert!(check(" \n").is_err());
        assert!(check(&"x".repeat(MAX_QUESTION_BYTES + 1)).is_err());
        assert!(check("-draft").is_err());
    }

    #[test]
    fn invalid_operator_is_rejected_by_name() {
        for text in
            ["lang:klingon", "after:2024-13", "before:soon", "size:5MB", "after:2024 before:2023", "size:2M..1M"]
        {
            let error = check(&format!("x {text}")).unwrap_err();
            let value = text.split([':', ' ']).nth(1).unwrap();
            let named =
                error.message.contains(value) || error.message.contains("modified_") || error.message.contains("size");
            assert!(named, "{text}: {error}");
        }
    }

    #[test]
    fn caller_filters_override_question_filters() {
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
    fn plain_words_are_searched_and_operators_apply() {
        let query = "latest slides from 2021 about rent ext:md -draft";
        let plan = ask(&AskRequest { query: query.into(), plain_words: true, ..AskRequest::default() }).unwrap();
        assert_eq!(
            (plan.l1_query_text.as_deref(), plan.date_order),
            (Some("latest slides from 2021 about rent"), None)
        );
        let filters = L0Filters { extensions: vec![".md".into()], ..L0Filters::default() };
        assert_eq!((plan.intent.as_str(), plan.l0_filters), ("search", Some(filters)));
        let listed = ask(&AskRequest { query: "ext:md".into(), plain_words: true, ..AskRequest::default() }).unwrap();
        assert_eq!((listed.intent.as_str(), listed.l1_query_text), ("list", None));
    }

    #[test]
    fn plan_in_request_is_validated_and_used() {
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
    fn plan_round_trips_through_json() {
        let plan = check("PDFs from 2021 larger than 5 MB with a stamp on the permit").unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<QueryPlan>(&json).unwrap(), plan);
    }

    proptest::proptest! {
        #[test]
        fn random_question_gives_valid_plan_or_error(words in proptest::collection::vec(
            proptest::sample::select(WORDS), 1..12)) {
            if let Ok(plan) = check(&words.join(" ")) {
                validate(&plan).unwrap();
                let metadata = matches!(plan.intent.as_str(), "list" | "count");
                assert!(metadata || plan.l1_query_text.is_some(), "{plan:?}");
            }
        }

        #[test]
        fn arbitrary_text_gives_plan_of_it_or_invalid_argument(text in "\\PC{0,60}") {
            match check(&text) {
                Ok(plan) => proptest::prop_assert_eq!(plan.raw_user_text, text),
                Err(error) => proptest::prop_assert_eq!(error.code, ErrorCode::InvalidArgument, "{}", error),
            }
        }
    }

    /// Words that trigger rules, to build random questions.
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
