//! The envelope around every answer, the same bytes for the same question, and its limits on prose.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::contract::answer::{Answer, rounded};
use crate::contract::refusal::Refusal;
use crate::contract::registry::CONTRACT_VERSION;
use crate::model::TokenCounter;

/// Most tokens of prose in an answer, unless it is verbose.
pub(crate) const PROSE_TOKENS: usize = 500;
/// Most tokens of an error with its actions.
pub(crate) const ERROR_TOKENS: usize = 100;
/// Most tokens of a help text.
pub(crate) const HELP_TOKENS: usize = 200;

/// Counts tokens with the tokenizer of the embedder.
#[derive(Clone, Copy)]
pub(crate) struct Ruler<'t>(pub(crate) &'t dyn TokenCounter);

impl Ruler<'_> {
    pub(crate) fn count(self, text: &str) -> usize {
        self.0.token_spans(text).len()
    }

    /// The beginning of a text of at most so many tokens.
    pub(crate) fn cut(self, text: &str, most: usize) -> String {
        match self.0.token_spans(text).get(most) {
            Some((at, _)) => text[..*at].trim_end().to_string(),
            None => text.to_string(),
        }
    }
}

/// The evidence for what an answer shows: a file that is only on another page of a list needs no pointer here. An answer
/// that shows no files keeps all of it.
fn shown_evidence(answer: &Answer) -> Vec<Value> {
    let mut shown = BTreeSet::new();
    files(&answer.data, &mut shown);
    let is_shown = |it: &&Value| shown.is_empty() || it["file"].as_i64().is_some_and(|it| shown.contains(&it));
    answer.evidence.iter().filter(is_shown).cloned().collect()
}

/// The numbers of the files that a value names.
fn files(value: &Value, found: &mut BTreeSet<i64>) {
    const NAMES: [&str; 6] = ["file", "files", "doc_a", "doc_b", "source", "missing_from"];
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                match inner {
                    Value::Array(list) if NAMES.contains(&name.as_str()) => {
                        found.extend(list.iter().filter_map(Value::as_i64));
                    }
                    Value::Number(number) if NAMES.contains(&name.as_str()) => found.extend(number.as_i64()),
                    _ => files(inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|it| files(it, found)),
        _ => {}
    }
}

/// Wraps an answer.
pub(crate) fn answer(id: &str, verb: &str, form: &str, view: &Value, coverage: f64, answer: &Answer) -> Value {
    let mut method = Map::from_iter([("name".to_string(), json!(answer.method))]);
    method.extend(answer.parameters.clone());
    json!({
        "contract_version": CONTRACT_VERSION,
        "id": id,
        "verb": verb,
        "form": if form.is_empty() { Value::Null } else { json!(form) },
        "view": view,
        "data": answer.data,
        "confidence": rounded(answer.confidence),
        "coverage": rounded(answer.coverage.unwrap_or(coverage)),
        "unknowns": answer.unknowns.iter().map(|it| it.value()).collect::<Vec<_>>(),
        "method": method,
        "evidence": shown_evidence(answer),
        "error": null,
    })
}

/// Wraps a refusal.
pub(crate) fn refusal(id: Option<&str>, verb: &str, view: &Value, refusal: &Refusal, ruler: Ruler<'_>) -> Value {
    json!({
        "contract_version": CONTRACT_VERSION,
        "id": id,
        "verb": verb,
        "form": null,
        "view": view,
        "data": null,
        "confidence": 0.0,
        "coverage": 0.0,
        "unknowns": [],
        "method": null,
        "evidence": [],
        "error": short_error(refusal, ruler),
    })
}

/// The error in at most [`ERROR_TOKENS`]: the last actions go first, then the end of the message.
fn short_error(refusal: &Refusal, ruler: Ruler<'_>) -> Value {
    let mut shown = refusal.clone();
    let fits = |it: &Refusal| ruler.count(&it.value().to_string()) <= ERROR_TOKENS;
    while !fits(&shown) && shown.actions.len() > 1 {
        shown.actions.pop();
    }
    for most in [60, 40, 25, 12] {
        if fits(&shown) {
            break;
        }
        let part = if shown.actions.is_empty() { most } else { most / 2 };
        shown.message = ruler.cut(&shown.message, part);
        shown.actions.iter_mut().for_each(|it| *it = ruler.cut(it, part));
    }
    shown.value()
}

/// Keeps the prose of an envelope below [`PROSE_TOKENS`]: details of unknowns go, from the last one on.
pub(crate) fn limit_prose(envelope: &mut Value, ruler: Ruler<'_>) {
    let prose = |envelope: &Value| {
        let mut texts = Vec::new();
        sentences(&envelope["method"], &mut texts);
        sentences(&envelope["unknowns"], &mut texts);
        texts.iter().map(|it| ruler.count(it)).sum::<usize>()
    };
    let mut left = envelope["unknowns"].as_array().map_or(0, Vec::len);
    while left > 0 && prose(envelope) > PROSE_TOKENS {
        left -= 1;
        if let Some(unknown) = envelope["unknowns"][left].as_object_mut() {
            unknown.shift_remove("detail");
        }
    }
    if prose(envelope) > PROSE_TOKENS
        && let Some(method) = envelope["method"].as_object_mut()
    {
        for value in method.values_mut() {
            if let Some(text) = value.as_str() {
                *value = json!(ruler.cut(text, 60));
            }
        }
    }
}

fn sentences<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(list) => list.iter().for_each(|it| sentences(it, found)),
        Value::Object(map) => map.values().for_each(|it| sentences(it, found)),
        _ => {}
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::answer::Unknown;
    use crate::contract::refusal::Cause;

    /// A token for every word and every mark.
    pub(crate) struct Words;

    impl TokenCounter for Words {
        fn token_spans(&self, text: &str) -> Vec<(usize, usize)> {
            use unicode_segmentation::UnicodeSegmentation;
            text.split_word_bound_indices()
                .filter(|it| !it.1.trim().is_empty())
                .map(|it| (it.0, it.0 + it.1.len()))
                .collect()
        }

        fn max_chunk_tokens(&self) -> usize {
            256
        }
    }

    #[test]
    fn an_error_that_talks_too_much_is_cut() {
        let long = "word ".repeat(500);
        let refusal = Refusal::new(Cause::TypeError, long.clone()).action(long.clone()).action(long).field("limit");
        let ruler = Ruler(&Words);
        let shown = super::refusal(None, "EXTRACT", &Value::Null, &refusal, ruler);
        assert!(ruler.count(&shown["error"].to_string()) <= ERROR_TOKENS, "{}", shown["error"]);
        assert_eq!(shown["error"]["type"], "type_error");
    }

    #[test]
    fn an_answer_that_talks_too_much_is_cut_and_keeps_its_counts() {
        let mut talk = Answer::new("a method");
        for _ in 0..20 {
            talk.unknown(Unknown::new("gap", 3).detail("word ".repeat(100)));
        }
        let mut envelope = answer("r-1", "EXTRACT", "", &Value::Null, 1.0, &talk);
        limit_prose(&mut envelope, Ruler(&Words));
        let mut texts = Vec::new();
        sentences(&envelope["unknowns"], &mut texts);
        assert!(texts.iter().map(|it| Ruler(&Words).count(it)).sum::<usize>() <= PROSE_TOKENS);
        assert_eq!(envelope["unknowns"].as_array().unwrap().len(), 20);
    }
}
