//! The envelope around every answer of the corpus API. Equal requests give equal bytes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::corpus::api::answer::{Answer, round_score};
use crate::corpus::api::output_budget::{self, TokenRuler};
use crate::verbs::CONTRACT_VERSION;

/// Shortens an answer: limits its prose unless `verbose` is set. Keeps the evidence of a file only if the page mentions the
/// file and the data does not already give its path. An answer without files keeps all evidence.
pub(crate) fn shorten(envelope: &mut Value, verbose: bool, offset: usize, ruler: TokenRuler<'_>) {
    if !verbose {
        output_budget::limit_answer(envelope, offset, ruler);
    }
    let mut shown = BTreeSet::new();
    collect_files(&envelope["data"], &mut shown);
    let mut named = BTreeSet::new();
    collect_files_with_path(&envelope["data"], &mut named);
    if let (false, Some(evidence)) = (shown.is_empty(), envelope["evidence"].as_array_mut()) {
        evidence.retain(|it| it["file"].as_i64().is_some_and(|it| shown.contains(&it) && !named.contains(&it)));
    }
}

/// Collects the ids of the files in a value.
fn collect_files(value: &Value, found: &mut BTreeSet<i64>) {
    const NAMES: [&str; 6] = ["file", "files", "doc_a", "doc_b", "source", "missing_from"];
    match value {
        Value::Object(map) => {
            found.extend(matrix_files(map));
            for (name, inner) in map {
                match inner {
                    Value::Array(list) if NAMES.contains(&name.as_str()) => {
                        found.extend(list.iter().filter_map(Value::as_i64));
                    }
                    Value::Number(number) if NAMES.contains(&name.as_str()) => found.extend(number.as_i64()),
                    _ => collect_files(inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|it| collect_files(it, found)),
        _ => {}
    }
}

/// Collects the ids of the files that are given together with their path.
fn collect_files_with_path(value: &Value, found: &mut BTreeSet<i64>) {
    match value {
        Value::Object(map) => {
            found.extend(matrix_files(map));
            found.extend(map.get("path").and(map.get("file")).and_then(Value::as_i64));
            map.values().for_each(|it| collect_files_with_path(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| collect_files_with_path(it, found)),
        _ => {}
    }
}

/// Returns the file ids in a matrix, whose first two columns are file id and path.
fn matrix_files(data: &Map<String, Value>) -> Vec<i64> {
    let is_matrix = data.get("columns").is_some_and(|it| it[0] == "file");
    let rows = data.get("rows").filter(|_| is_matrix).and_then(Value::as_array).into_iter().flatten();
    rows.filter_map(|it| it[0].as_i64()).collect()
}

/// Removes object fields that are null, which would cost tokens. List items that are null stay, and so does an envelope in the
/// value (the finished result of a job), which clients compare with the same result from other calls.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) if map.contains_key("contract_version") => {}
        Value::Object(map) => {
            map.retain(|_, it| !it.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Wraps an answer in its envelope. `id` is empty for an answer that is not stored.
pub(crate) fn wrap_answer(id: &str, verb: &str, form: &str, view: &Value, coverage: f64, answer: &Answer) -> Value {
    let mut method = Map::from_iter([("name".to_string(), json!(answer.method))]);
    method.extend(answer.parameters.clone());
    let mut data = answer.data.clone();
    drop_nulls(&mut data);
    json!({
        "contract_version": CONTRACT_VERSION,
        "id": if id.is_empty() { Value::Null } else { json!(id) },
        "verb": verb,
        "form": if form.is_empty() { Value::Null } else { json!(form) },
        "view": view,
        "data": data,
        "confidence": round_score(answer.confidence),
        "coverage": round_score(answer.coverage.unwrap_or(coverage)),
        "unknowns": answer.unknowns.iter().map(|it| it.value()).collect::<Vec<_>>(),
        "method": method,
        "evidence": answer.evidence,
        "error": null,
    })
}

/// Wraps an error in an envelope.
pub(crate) fn wrap_error(id: Option<&str>, verb: &str, view: &Value, error: Value) -> Value {
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
        "error": error,
    })
}
