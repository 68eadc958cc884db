//! The verb EXTRACT: returns the objects of one schema, e.g. all tables or quotes, that pass the filters of the request.

use serde_json::{Value, json};

use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::ApiResult;
use crate::corpus::api::request::ValidRequest;
use crate::corpus::objects::Object;
use crate::corpus::text::code_blocks::canonical_language;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::verbs::{self, ObjectSchema};

pub(crate) fn run(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let schema = verbs::schema(request.text("schema").unwrap_or_default()).unwrap_or(&verbs::SCHEMAS[0]);
    let wanted = ObjectFilter::new(request, corpus)?;
    let mut answer = Answer::new("rules for the structure that each file format marks");
    let (mut objects, mut without, mut sum) = (Vec::new(), Vec::new(), 0.0);
    for paper in &corpus.documents {
        let found = paper.parsed.objects.get(schema.name).map(Vec::as_slice).unwrap_or_default();
        let kept: Vec<&Object> = found.iter().filter(|it| wanted.matches(it, paper, schema)).collect();
        if kept.is_empty() {
            without.push(paper.file);
        }
        sum += kept.iter().map(|it| it.confidence).sum::<f64>();
        answer.push_evidence(paper, kept.len());
        objects.extend(kept.into_iter().map(|it| (paper.file, it)));
    }
    let count = objects.len();
    answer.confidence = if count == 0 { 0.0 } else { sum / count as f64 };
    if !without.is_empty() {
        answer.push_unknown(Unknown::new("no_objects", without.len()).files(&without));
    }
    // Render only the objects on the page, because one object can be a table of megabytes.
    let (_, page) = answer.page_of(request, objects, |(file, object)| object.value(file));
    answer.data = json!({"schema": schema.name, "count": count, "objects": page});
    Ok(answer)
}

/// The object filters of a request; its `file` is resolved to a file id.
struct ObjectFilter<'r> {
    request: &'r ValidRequest,
    file: Option<i64>,
}

impl<'r> ObjectFilter<'r> {
    fn new(request: &'r ValidRequest, corpus: &Corpus) -> ApiResult<ObjectFilter<'r>> {
        let file =
            request.nested_field("filters", "file").map(|it| corpus.find_document(it, "filters.file")).transpose()?;
        Ok(ObjectFilter { request, file: file.map(|it| it.file) })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.request.nested_field("filters", name).and_then(Value::as_str).map(str::to_lowercase)
    }

    fn whole(&self, name: &str) -> Option<i64> {
        self.request.nested_field("filters", name).and_then(Value::as_i64)
    }

    fn matches(&self, object: &Object, paper: &CorpusDocument, schema: &ObjectSchema) -> bool {
        let least = self.request.nested_field("filters", "min_confidence").and_then(Value::as_f64).unwrap_or(0.0);
        object.confidence >= least
            && self.file.is_none_or(|it| it == paper.file)
            && self.text("content_type").is_none_or(|it| it == paper.parsed.facts.content_type)
            && self.text("contains").is_none_or(|it| contains_text(object, &it))
            && schema.filters.iter().all(|field| self.passes_filter(object, field.name))
    }

    /// Returns whether an object passes one filter of the schema; a filter that is not set accepts every object.
    fn passes_filter(&self, object: &Object, name: &str) -> bool {
        let same = |field: &str| self.text(name).is_none_or(|it| object.text(field).to_lowercase() == it);
        let part = |field: &str| self.text(name).is_none_or(|it| object.text(field).to_lowercase().contains(&it));
        let length = |field: &str| object.fields.get(field).and_then(Value::as_array).map_or(0, Vec::len) as i64;
        let any = |field: &str| self.text(name).is_none_or(|it| list_contains(object, field, &it));
        let least = |count: i64| self.whole(name).is_none_or(|it| count >= it);
        match name {
            "language" => self.text(name).is_none_or(|it| object.text(name) == canonical_language(&it)),
            "doi" | "arxiv_id" | "approach" => same(name),
            "term" | "author" => part(name),
            "min_lines" => least(object.text("text").lines().count() as i64),
            "min_rows" => least(length("rows")),
            "min_columns" => least(column_count(object)),
            "header" => any("headers"),
            "tool" => any("tools_mentioned"),
            "min_words" => least(object.fields.get("word_count").and_then(Value::as_i64).unwrap_or(0)),
            "number" => {
                self.whole(name).is_none_or(|it| object.fields.get("number").and_then(Value::as_i64) == Some(it))
            }
            "year" => self.whole(name).is_none_or(|it| object.text("full_text").contains(&it.to_string())),
            _ => true,
        }
    }
}

/// Returns the number of columns of a table, with or without headers.
fn column_count(object: &Object) -> i64 {
    let width = |it: &Value| it.as_array().map_or(0, Vec::len) as i64;
    let rows = object.fields.get("rows").and_then(Value::as_array).into_iter().flatten();
    rows.map(width).chain(object.fields.get("headers").map(width)).max().unwrap_or(0)
}

fn contains_text(object: &Object, text: &str) -> bool {
    object.fields.values().any(|it| it.to_string().to_lowercase().contains(text))
}

fn list_contains(object: &Object, field: &str, wanted: &str) -> bool {
    let list = object.fields.get(field).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).any(|it| it.to_lowercase() == wanted)
}
