//! Checks the plans of the rules against the published questions in `questions.jsonl`.
//!
//! That file has one question per line, with the expected fields of its plan. A field that is absent in the line must be
//! absent in the plan. Questions with the split `held_out` were written before the rules.

use serde_json::{Map, Value, json};

use crate::planner::*;

const FIELDS: &[&str] =
    &["intent", "l0_filters", "l1_query_text", "l1_threshold", "date_order", "requires_l2", "l2_skills", "l2_top_k"];

struct Score {
    questions: usize,
    fields: usize,
    right: usize,
    failures: Vec<String>,
}

fn score_questions(split: Option<&str>) -> Score {
    let mut score = Score { questions: 0, fields: 0, right: 0, failures: Vec::new() };
    for line in include_str!("questions.jsonl").lines() {
        let expected: Map<String, Value> = serde_json::from_str(line).unwrap();
        if split.is_some_and(|it| expected["split"] != it) {
            continue;
        }
        let question = expected["question"].as_str().unwrap();
        let today = expected["today"].as_str().unwrap().parse().unwrap();
        let request = AskRequest { query: question.into(), ..AskRequest::default() };
        let plan = plan_by_rules(&request, PrivacyMode::LocalOnly, today)
            .map_or_else(|it| json!({ "error": it.message }), |it| json!(it));
        score.questions += 1;
        for field in FIELDS {
            score.fields += 1;
            let wanted = expected.get(*field).unwrap_or(&Value::Null);
            let got = plan.get(field).unwrap_or(&Value::Null);
            if wanted == got {
                score.right += 1;
            } else {
                score.failures.push(format!("{question}\n    {field}: expected {wanted}, got {got}"));
            }
        }
    }
    score
}

#[test]
fn published_questions_give_expected_plans() {
    let all = score_questions(None);
    let accuracy = all.right as f64 / all.fields as f64;
    let report = format!("{} of {} fields\n{}", all.right, all.fields, all.failures.join("\n"));
    assert!(all.questions >= 150, "{} questions", all.questions);
    assert!(accuracy >= 0.95, "{report}");
    // Any field that differs fails the test, so that each change of the rules shows which plans it changes.
    assert!(all.failures.is_empty(), "{report}");
}
