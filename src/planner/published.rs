//! The published questions: what the rules must make of each.
//!
//! `questions.jsonl` has one question a line with the fields of its plan; fields that are absent must be absent. Those
//! marked `held_out` were written before the rules.

use serde_json::{Map, Value, json};

use crate::planner::*;

const FIELDS: &[&str] =
    &["intent", "l0_filters", "l1_query_text", "l1_threshold", "requires_l2", "l2_skills", "l2_top_k"];

struct Score {
    questions: usize,
    fields: usize,
    right: usize,
    failures: Vec<String>,
}

fn score(split: Option<&str>) -> Score {
    let mut score = Score { questions: 0, fields: 0, right: 0, failures: Vec::new() };
    for line in include_str!("questions.jsonl").lines() {
        let expected: Map<String, Value> = serde_json::from_str(line).unwrap();
        if split.is_some_and(|it| expected["split"] != it) {
            continue;
        }
        let question = expected["question"].as_str().unwrap();
        let today = expected["today"].as_str().unwrap().parse().unwrap();
        let request = AskRequest { query: question.into(), ..AskRequest::default() };
        let plan = plan(&request, PrivacyMode::LocalOnly, today)
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
fn the_published_questions_get_their_plans() {
    let all = score(None);
    let accuracy = all.right as f64 / all.fields as f64;
    let report = format!("{} of {} fields\n{}", all.right, all.fields, all.failures.join("\n"));
    assert!(all.questions >= 150, "{} questions", all.questions);
    assert!(accuracy >= 0.95, "{report}");
    // Rules that have become better or worse than this show here, with the fields that fail.
    assert!(all.failures.is_empty(), "{report}");
}
