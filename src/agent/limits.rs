//! How much an agent may take, and how much of it a step is shown.

use std::time::Duration;

use serde_json::{Value, json};

use crate::llm::plugin::{PluginTask, SchemaHints, ToolOffer, TranscriptStep};

/// Bytes of one result that a step is shown.
const RESULT_BYTES: usize = 6_000;
/// Bytes of an older result, when all together are too many.
const OLD_RESULT_BYTES: usize = 600;
/// Bytes of all results that a step is shown.
const TRANSCRIPT_BYTES: usize = 32_000;
/// Names of each kind that a step is shown.
const NAMES: usize = 60;
/// Bytes of a token, as a rule of thumb.
const BYTES_A_TOKEN: usize = 4;

/// What an agent may take for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of tools.
    pub steps: u32,
    /// From the question to the answer.
    pub time: Duration,
    /// Tokens sent and received, estimated.
    pub tokens: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { steps: 12, time: Duration::from_secs(180), tokens: 120_000 }
    }
}

/// Tokens of a JSON text, estimated.
pub(super) fn tokens(value: &impl serde::Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |it| (it.len() / BYTES_A_TOKEN) as u64)
}

/// The next step, as large as it may be: the newest results nearly whole, older ones only so much.
pub(super) fn step(
    question: &str,
    schema: &SchemaHints,
    tools: &[ToolOffer],
    transcript: &[TranscriptStep],
) -> PluginTask {
    let mut left = TRANSCRIPT_BYTES;
    let mut shown: Vec<TranscriptStep> = Vec::with_capacity(transcript.len());
    for it in transcript.iter().rev() {
        let most = if left > RESULT_BYTES { RESULT_BYTES } else { OLD_RESULT_BYTES };
        let result = cut(&it.result, most);
        left = left.saturating_sub(result.to_string().len());
        shown.push(TranscriptStep { result, ..it.clone() });
    }
    shown.reverse();
    PluginTask::ToolLoopStep {
        question: question.into(),
        schema: schema.clone().cut(NAMES),
        tools: tools.to_vec(),
        transcript: shown,
    }
}

/// A result of at most so many bytes. Lists lose their end, and what is still too large becomes its beginning as text; both
/// say so.
pub(super) fn cut(result: &Value, most: usize) -> Value {
    let whole = result.to_string();
    if whole.len() <= most {
        return result.clone();
    }
    if let Some(shorter) = shorter(result, most) {
        return shorter;
    }
    let end = whole.floor_char_boundary(most);
    json!({ "truncated": true, "bytes": whole.len(), "beginning": &whole[..end] })
}

/// The same object with shorter lists, if that is enough.
fn shorter(result: &Value, most: usize) -> Option<Value> {
    let map = result.as_object()?;
    let longest = map.iter().filter_map(|(_, it)| Some(it.as_array()?.len())).max()?;
    let mut kept = longest;
    while kept > 1 {
        kept = kept * 2 / 3;
        let mut fewer = map.clone();
        for list in fewer.values_mut().filter_map(Value::as_array_mut) {
            list.truncate(kept);
        }
        fewer.insert("truncated".into(), true.into());
        let fewer = Value::Object(fewer);
        if fewer.to_string().len() <= most {
            return Some(fewer);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_cut_says_so_and_fits() {
        let hits: Vec<Value> = (0..50).map(|it| json!({ "id": it, "text": "x".repeat(100) })).collect();
        let short = cut(&json!({ "hits": hits }), 1_000);
        assert!(short.to_string().len() <= 1_000 && short["truncated"] == true, "{short}");
        assert!(short["hits"].as_array().unwrap().len() > 3);
        let text = cut(&json!({ "text": "ä".repeat(5_000) }), 1_000);
        assert!(text["truncated"] == true && text["beginning"].as_str().unwrap().len() <= 1_000);
        assert_eq!(cut(&json!({ "a": 1 }), 100), json!({ "a": 1 }));
    }

    #[test]
    fn a_long_transcript_is_shown_with_its_newest_results() {
        let result = |it: usize| json!({ "text": format!("{it} {}", "x".repeat(5_000)) });
        let step_of = |it| TranscriptStep { tool: "t".into(), args: json!({}), result: result(it) };
        let transcript: Vec<_> = (0..40).map(step_of).collect();
        let task = step("q", &SchemaHints::default(), &[], &transcript);
        assert!(tokens(&task) < 20_000, "{}", tokens(&task));
        let PluginTask::ToolLoopStep { transcript: shown, .. } = task else { panic!("another task") };
        assert_eq!((shown.len(), &shown[39].result), (40, &result(39)));
        assert_eq!(shown[0].result["truncated"], true);
    }
}
