//! A question to a plan, by rules.
//!
//! The rules look only at the question's text and the caller's filters; nothing here touches the index or a model.

use crate::error::{Error, Result};
use crate::model::{AskRequest, L0Filters, PrivacyMode, QueryPlan};

/// Name of these rules in [`QueryPlan::planner_model_id`]. Changes whenever the same question can give another plan.
pub const PLANNER: &str = "stub-v1";

/// The longest question in bytes. Longer ones are a document, not a question.
pub const MAX_QUESTION_BYTES: usize = 32 << 10;

/// Plans a question.
///
/// # Errors
/// The question is empty or longer than [`MAX_QUESTION_BYTES`].
pub fn plan(request: &AskRequest, default_privacy: PrivacyMode) -> Result<QueryPlan> {
    let question = request.query.trim();
    if question.is_empty() {
        return Err(Error::invalid("the question is empty").hint("ask something: `vic ask \"who signed the lease?\"`"));
    }
    if question.len() > MAX_QUESTION_BYTES {
        return Err(Error::invalid(format!("the question is longer than {MAX_QUESTION_BYTES} bytes")));
    }
    Ok(QueryPlan {
        intent: "search".into(),
        l0_filters: (request.filters != L0Filters::default()).then(|| request.filters.clone()),
        l1_query_text: Some(question.to_string()),
        l1_threshold: None,
        requires_l2: false,
        l2_skills: Vec::new(),
        l2_top_k: None,
        privacy_mode: request.privacy_mode.unwrap_or(default_privacy),
        raw_user_text: request.query.clone(),
        planner_model_id: Some(PLANNER.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str) -> Result<QueryPlan> {
        plan(&AskRequest { query: query.into(), ..AskRequest::default() }, PrivacyMode::LocalOnly)
    }

    #[test]
    fn the_question_is_what_is_embedded() {
        let plan = check("  who signed the lease? ").unwrap();
        assert_eq!(plan.l1_query_text.as_deref(), Some("who signed the lease?"));
        assert_eq!(plan.raw_user_text, "  who signed the lease? ");
        assert_eq!(plan.privacy_mode, PrivacyMode::LocalOnly);
    }

    #[test]
    fn an_empty_or_endless_question_is_refused() {
        assert!(check(" \n").is_err());
        assert!(check(&"x".repeat(MAX_QUESTION_BYTES + 1)).is_err());
    }

    #[test]
    fn the_callers_filters_are_in_the_plan() {
        let filters = L0Filters { extensions: vec![".pdf".into()], ..L0Filters::default() };
        let request = AskRequest { query: "x".into(), filters: filters.clone(), ..AskRequest::default() };
        assert_eq!(plan(&request, PrivacyMode::LocalOnly).unwrap().l0_filters, Some(filters));
    }
}
