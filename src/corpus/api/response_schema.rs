//! The JSON Schema of the field `data` in answers, by verb and form. Fields not listed here are not allowed.

use serde_json::{Map, Value, json};

use crate::corpus::filter::{self, FieldType};
use crate::verbs::{ObjectSchema, SCHEMAS};

/// States of a job.
const JOB_STATES: [&str; 4] = ["running", "completed", "failed", "cancelled"];

/// Returns the schema of an object with exactly these fields; a name that ends with `?` is an optional field.
pub(crate) fn record<'n>(fields: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, shape) in fields {
        match name.strip_suffix('?') {
            Some(name) => properties.insert(name.into(), shape),
            None => {
                required.push(name);
                properties.insert(name.into(), shape)
            }
        };
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

pub(crate) fn list(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

pub(crate) fn text() -> Value {
    json!({"type": "string"})
}

pub(crate) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

pub(crate) fn whole() -> Value {
    json!({"type": "integer"})
}

pub(crate) fn number() -> Value {
    json!({"type": "number"})
}

pub(crate) fn share() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1})
}

pub(crate) fn flag() -> Value {
    json!({"type": "boolean"})
}

fn one_of(names: &[&str]) -> Value {
    json!({"enum": names})
}

fn files() -> Value {
    list(whole())
}

/// Returns the schema of a text that a summary replaces by null if the text is advice.
fn withholdable_text() -> Value {
    json!({"type": ["string", "null"]})
}

/// Returns the fields of a location: page, lines (inclusive), bytes (end exclusive), and the part of the file.
fn place() -> [(&'static str, Value); 4] {
    let pair = || json!({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2});
    [("page?", whole()), ("lines?", pair()), ("bytes?", pair()), ("part?", text())]
}

/// Returns the schema of an object with these fields, a file and a location in the file.
fn located_record<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    record([("file", whole())].into_iter().chain(place()).chain(fields))
}

/// Returns the schema of a statement or an argument of a document.
fn statement() -> Value {
    located_record([("text?", text())])
}

/// Returns the schema of `data` for a form of a verb.
pub(crate) fn data_schema(verb: &str, form: &str) -> Value {
    match verb {
        "INGEST" => ingest(),
        "EXTRACT" => json!({"oneOf": SCHEMAS.iter().map(objects).collect::<Vec<_>>()}),
        "NORMALIZE" => normalize(form),
        "COMPARE" => compare(form),
        "DETECT" => detect(form),
        "TRACE" => trace(form),
        "SCORE" => score(form),
        "QUERY" => query(),
        "DELTA" => delta(),
        "SUMMARIZE" => summarize(form),
        "EXPLAIN_FAILURE" => explain(),
        "VIEW" => view(form),
        "JOB" => record([
            ("job_id", text()),
            ("state", one_of(&JOB_STATES)),
            ("result?", text()),
            ("error?", error_schema()),
        ]),
        "HELP" => record([("help", text())]),
        _ => schema(),
    }
}

/// Returns the schema of `data` if a job does the work of a verb. `answer` is the schema of the answer of the verb.
pub(crate) fn job_schema(answer: Value) -> Value {
    record([
        ("job_id", text()),
        ("state", one_of(&JOB_STATES)),
        ("documents", count()),
        ("ask", text()),
        ("result?", text()),
        ("error?", error_schema()),
        ("answer?", answer),
    ])
}

/// Returns the schema of the field `error`.
pub(crate) fn error_schema() -> Value {
    let causes: Vec<&str> = crate::corpus::api::error::ApiErrorKind::ALL.iter().map(|it| it.name()).collect();
    record([
        ("type", one_of(&causes)),
        ("message", text()),
        ("field", json!({"type": ["string", "null"]})),
        ("suggested_actions", json!({"type": "array", "items": text(), "minItems": 1})),
    ])
}

fn ingest() -> Value {
    record([
        ("session", whole()),
        ("files", count()),
        ("indexed", count()),
        ("unread", count()),
        ("failed", count()),
        ("pages", record([("fetched", count()), ("failed", count())])),
        ("distinct_contents", count()),
        ("duplicates", count()),
        ("bytes", count()),
        ("failures", list(record([("path", text()), ("reason", text())]))),
        ("failures_file?", text()),
    ])
}

fn objects(schema: &ObjectSchema) -> Value {
    let own = schema.fields.iter().map(|(name, kind)| match kind.strip_suffix('?') {
        Some(kind) => (format!("{name}?"), json!({"type": kind})),
        None => (name.to_string(), json!({"type": kind})),
    });
    let own: Vec<(String, Value)> = own.collect();
    let fields = [("file", whole())].into_iter().chain(place());
    let fields = fields.chain(own.iter().map(|it| (it.0.as_str(), it.1.clone())));
    let object = record(fields.chain([("confidence", share())]));
    record([("schema", json!({"const": schema.name})), ("count", count()), ("objects", list(object))])
}

fn normalize(form: &str) -> Value {
    let row = match form {
        "code" => located_record([
            ("original", text()),
            ("canonical", text()),
            ("style", one_of(&["plain", "black"])),
            ("group", text()),
            ("changed", flag()),
        ]),
        _ => record([("original", text()), ("canonical", text()), ("count", count()), ("files", files())]),
    };
    record([("originals", count()), ("canonical_forms", count()), ("mapping", list(row))])
}

/// Returns the schema of a difference between two states of a document.
fn change() -> Value {
    let side = || record([("lines?", list(whole())), ("page?", whole()), ("text", text())]);
    record([
        ("op", one_of(&["added", "removed", "modified"])),
        ("part", one_of(&["heading", "text", "item", "table", "code", "facts"])),
        ("section", text()),
        ("a?", side()),
        ("b?", side()),
    ])
}

fn contradiction() -> [(&'static str, Value); 3] {
    [("why", text()), ("a", statement()), ("b", statement())]
}

fn compare(form: &str) -> Value {
    let operations = || ["added?", "removed?", "modified?"].into_iter();
    let objects = [("schema", text())].into_iter();
    let objects = objects.chain(["doc_a", "doc_b", "added", "removed"].map(|it| (it, count())));
    match form {
        "versions" => record([
            ("doc_a", whole()),
            ("doc_b", whole()),
            ("identical", flag()),
            ("same_text", flag()),
            ("added", count()),
            ("removed", count()),
            ("modified", count()),
            ("sections", record([("added", list(text())), ("removed", list(text())), ("changed", list(text()))])),
            ("parts", json!({"type": "object", "additionalProperties": record(operations().map(|it| (it, count())))})),
            ("objects", list(record(objects))),
            ("changes", list(change())),
        ]),
        "consensus" => {
            let point = record([
                ("statement", statement()),
                ("agree", count()),
                ("disagree", count()),
                ("agreement", share()),
                ("files", files()),
                ("against", list(statement())),
            ]);
            record([
                ("field", text()),
                ("consensus_points", count()),
                ("below_threshold", count()),
                ("points", list(point)),
            ])
        }
        "contradictions" => record([
            ("field", text()),
            ("disagreements", count()),
            ("topics_compared", count()),
            ("contradictions", list(record(contradiction()))),
        ]),
        _ => {
            let approach = record([("approach", text()), ("pros", list(statement())), ("cons", list(statement()))]);
            record([("approaches", count()), ("pros", count()), ("cons", count()), ("list", list(approach))])
        }
    }
}

fn detect(form: &str) -> Value {
    match form {
        "clusters" => {
            let cluster =
                record([("label", list(text())), ("size", count()), ("files", files()), ("confidence", share())]);
            record([("count", count()), ("clusters", list(cluster))])
        }
        "warnings" => {
            let strength = one_of(&["low", "medium", "high"]);
            let warning = located_record([("strength", strength), ("cue", text()), ("text", text())]);
            record([("count", count()), ("warnings", list(warning))])
        }
        "gaps" => {
            let gap = record([("topic", text()), ("missing_from", files()), ("share_missing", share())]);
            record([("expected", list(text())), ("count", count()), ("gaps", list(gap))])
        }
        "anomalies" => {
            let anomaly = record([
                ("file", whole()),
                ("field", text()),
                ("value", number()),
                ("median", number()),
                ("z", number()),
            ]);
            record([("fields", list(text())), ("count", count()), ("anomalies", list(anomaly))])
        }
        _ => {
            let period = record([("period", text()), ("value", number()), ("documents", count())]);
            record([
                ("field", text()),
                ("direction", one_of(&["none", "rising", "falling"])),
                ("slope_per_period", number()),
                ("mann_kendall", number()),
                ("periods", list(period)),
            ])
        }
    }
}

fn trace(form: &str) -> Value {
    let node = |own: &[(&'static str, Value)]| {
        let known = [("id", text()), ("file?", whole()), ("title?", text()), ("date?", text())];
        list(record(known.into_iter().chain(own.iter().cloned())))
    };
    let edge = [("from", text()), ("to", text()), ("kind", one_of(&["link", "reference", "web"]))];
    let edges = list(record(edge.into_iter().chain(place())));
    match form {
        "citations" => {
            record([("edge_count", count()), ("inside_view", count()), ("nodes", node(&[])), ("edges", edges)])
        }
        "authority" => record([("nodes", node(&[("cited_by", count()), ("pagerank", number())])), ("edges", edges)]),
        "influence" => record([
            ("source", whole()),
            ("reached", count()),
            ("nodes", node(&[("distance", count())])),
            ("edges", edges),
        ]),
        _ => record([("nodes", node(&[("days_after_baseline", whole()), ("stale", flag())])), ("edges", edges)]),
    }
}

fn distribution() -> Value {
    let numbers = ["min", "p25", "median", "p75", "max", "mean", "std_dev"].map(|it| (it, number()));
    record([("count", count())].into_iter().chain(numbers).chain([("fifths", list(count()))]))
}

fn score(form: &str) -> Value {
    let reasons = match form {
        "authority" => record([("cited_by", number())]),
        "freshness" => record([("date", text()), ("age_days", count()), ("from", one_of(&["stated", "last change"]))]),
        "coverage" => record([("matched_words", count()), ("mentions", count()), ("headings", count())]),
        _ => {
            let reasons = record([("objects", count()), ("below_0.8", count()), ("unknowns", count())]);
            return record([
                ("extraction", text()),
                ("verb", text()),
                ("score", share()),
                ("coverage", share()),
                ("reasons", reasons),
                ("distribution?", distribution()),
            ]);
        }
    };
    let scored = record([("file", whole()), ("score", share()), ("reasons", reasons)]);
    record([("scores", list(scored)), ("distribution?", distribution())])
}

/// Returns the schema of a document in an answer of QUERY, with the fields that the filter names.
fn query() -> Value {
    let known: Vec<(String, Value)> = filter::FILTER_FIELDS
        .iter()
        .filter(|it| it.name != "path")
        .map(|it| {
            let shape = match it.kind {
                FieldType::Text | FieldType::Moment => text(),
                FieldType::Number => number(),
                FieldType::Flag => flag(),
            };
            (format!("{}?", it.name), shape)
        })
        .collect();
    let fields = [("file", whole()), ("path", text())].into_iter();
    let document = record(fields.chain(known.iter().map(|it| (it.0.as_str(), it.1.clone()))));
    record([("count", count()), ("documents_in_view", count()), ("documents", list(document))])
}

fn delta() -> Value {
    let named = || [("file", whole()), ("path", text())];
    let added = named().into_iter().chain([("same_content_as_removed?", text())]);
    let modified = named().into_iter().chain([
        ("moved_from?", text()),
        ("size?", list(count())),
        ("sections?", list(text())),
        ("changes?", count()),
    ]);
    let counts = record([("added", count()), ("removed", count()), ("modified", count())]);
    let lists = [
        ("counts", counts),
        ("added?", list(record(added))),
        ("removed?", list(record(named()))),
        ("modified?", list(record(modified))),
    ];
    let contradictions = list(record([("field", text())].into_iter().chain(contradiction())));
    let new =
        [("count", count()), ("resolved", count()), ("undecided", count()), ("new_contradictions", contradictions)];
    json!({"oneOf": [record(lists), record(new), watched_field()]})
}

/// Returns the schema of one field of one file before and after a change.
fn watched_field() -> Value {
    let value = || json!({"type": ["string", "number", "boolean", "null"]});
    record([
        ("file", whole()),
        ("path", text()),
        ("field", text()),
        ("vanished", flag()),
        ("changed", json!({"type": ["boolean", "null"]})),
        ("before?", value()),
        ("after?", value()),
        ("lines_added?", count()),
        ("lines_removed?", count()),
        ("diff?", list(text())),
        ("added?", list(text())),
        ("removed?", list(text())),
    ])
}

fn summarize(form: &str) -> Value {
    match form {
        "coverage" => {
            let row = record([
                ("file", whole()),
                ("mentions", count()),
                ("sections", list(withholdable_text())),
                ("score", share()),
            ]);
            record([("topic?", text()), ("documents_covering", count()), ("documents", count()), ("rows", list(row))])
        }
        "decision-inputs" => decision_inputs(),
        "timeline" => {
            let event = located_record([("date", text()), ("title?", text()), ("text?", text())]);
            record([
                ("field", text()),
                ("count", count()),
                ("first?", text()),
                ("last?", text()),
                ("events", list(event)),
            ])
        }
        _ => {
            let cell = json!({"type": ["string", "number", "boolean", "null"]});
            record([("columns", list(text())), ("rows", list(list(cell)))])
        }
    }
}

fn decision_inputs() -> Value {
    let sides = || json!({"type": "object", "additionalProperties": list(statement())});
    let unknown = record([("type", text()), ("option?", text()), ("reason?", text())]);
    record([
        ("question?", text()),
        ("options", list(withholdable_text())),
        ("evidence_for", sides()),
        ("evidence_against", sides()),
        ("disagreements", list(record(contradiction()))),
        ("consensus_points", list(record([("statement", statement()), ("documents", count())]))),
        ("unknowns", list(unknown)),
        ("coverage", share()),
        ("confidence", share()),
    ])
}

fn explain() -> Value {
    let issue = record([
        ("type", text()),
        ("unknown?", text()),
        ("count?", count()),
        ("reason?", text()),
        ("message?", text()),
        ("counted?", text()),
        ("field?", text()),
        ("file?", whole()),
        ("files?", files()),
        ("schemas?", list(text())),
        ("missing_from?", files()),
        ("affected_blocks?", list(count())),
        ("recommendation?", text()),
        ("confidence?", share()),
    ]);
    let both =
        || [("fixable", flag()), ("issues", list(issue.clone())), ("suggested_actions", list(text()))].into_iter();
    let of_result =
        [("verb", text()), ("target", text()), ("result", text()), ("confidence", share()), ("coverage", share())];
    let of_document = [("file", whole()), ("path", text()), ("read", flag())];
    json!({"oneOf": [record(of_result.into_iter().chain(both())), record(of_document.into_iter().chain(both()))]})
}

fn view(form: &str) -> Value {
    let named = || {
        [
            ("name", text()),
            ("type", one_of(&["session", "query", "set", "evolving"])),
            ("filter?", text()),
            ("since?", text()),
            ("upto?", whole()),
            ("session?", whole()),
            ("files?", files()),
            ("paths?", list(text())),
        ]
        .into_iter()
    };
    match form {
        "list" => record([("count", count()), ("views", list(record(named()))), ("sessions", list(whole()))]),
        "show" => {
            let vanished = list(record([("file", whole()), ("path", text())]));
            record(named().chain([("not_yet_read", count()), ("documents", count()), ("vanished?", vanished)]))
        }
        "delete" => record([("deleted?", text()), ("deleted_session?", whole())]),
        _ => record(named()),
    }
}

fn schema() -> Value {
    let any = || json!({"type": "object"});
    let one = record([("verb", text()), ("contract_version", text()), ("request", any()), ("response", any())]);
    json!({"oneOf": [one.clone(), list(one)]})
}
