//! The answer of a verb: data, with confidence, coverage, evidence and unknowns.

use serde_json::{Map, Value, json};

use crate::corpus::api::request::ValidRequest;
use crate::corpus::views::documents::CorpusDocument;
use crate::model::FileId;

/// Maximum number of files listed in one entry of `unknowns`; its count includes files that are not listed.
const MAX_FILES: usize = 20;

/// One kind of information that the answer lacks, as data: its type, a count, and the affected files.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unknown {
    kind: &'static str,
    count: usize,
    files: Vec<FileId>,
    detail: Option<String>,
}

impl Unknown {
    pub(crate) fn new(kind: &'static str, count: usize) -> Unknown {
        Unknown { kind, count, files: Vec::new(), detail: None }
    }

    /// Sets the affected files.
    pub(crate) fn files(mut self, files: &[FileId]) -> Unknown {
        self.files = files.iter().copied().take(MAX_FILES).collect();
        self
    }

    /// Sets one short sentence with details.
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Unknown {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn value(&self) -> Value {
        let mut shown =
            Map::from_iter([("type".to_string(), json!(self.kind)), ("count".to_string(), json!(self.count))]);
        if !self.files.is_empty() {
            shown.insert("files".into(), json!(self.files));
        }
        if let Some(detail) = &self.detail {
            shown.insert("detail".into(), json!(detail));
        }
        Value::Object(shown)
    }
}

/// The answer of a verb, before the envelope is added.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) data: Value,
    /// Confidence in the data, 0 to 1.
    pub(crate) confidence: f64,
    /// Coverage of the answer, 0 to 1. `None` if this is simply the share of the view's documents that could be read.
    pub(crate) coverage: Option<f64>,
    pub(crate) unknowns: Vec<Unknown>,
    /// How the data was found, in a few words.
    pub(crate) method: String,
    /// Parameters of the method.
    pub(crate) parameters: Map<String, Value>,
    /// Documents that contributed to the data: id, path and number of contributions.
    pub(crate) evidence: Vec<Value>,
}

impl Answer {
    /// Creates an empty answer with this method.
    pub(crate) fn new(method: impl Into<String>) -> Answer {
        Answer {
            data: Value::Null,
            confidence: 1.0,
            coverage: None,
            unknowns: Vec::new(),
            method: method.into(),
            parameters: Map::new(),
            evidence: Vec::new(),
        }
    }

    /// Records a parameter of the method.
    pub(crate) fn parameter(&mut self, name: &str, value: impl Into<Value>) {
        self.parameters.insert(name.into(), value.into());
    }

    pub(crate) fn push_unknown(&mut self, unknown: Unknown) {
        self.unknowns.push(unknown);
    }

    /// Adds a document that contributed `count` items; a count of 0 adds nothing.
    pub(crate) fn push_evidence(&mut self, paper: &CorpusDocument, count: usize) {
        if count > 0 {
            let mut pointer = json!({"file": paper.file, "path": paper.path});
            if count > 1 {
                pointer["count"] = json!(count);
            }
            self.evidence.push(pointer);
        }
    }

    /// Returns the items of a list on the requested page, and reports the number of items after it.
    pub(crate) fn page(&mut self, request: &ValidRequest, list: Vec<Value>) -> Vec<Value> {
        self.page_of(request, list, |it| it).1
    }

    /// Works like [`Answer::page`] for lists that may exceed memory: only items on the page are rendered. Also returns the
    /// total number of items.
    pub(crate) fn page_of<T>(
        &mut self,
        request: &ValidRequest,
        found: impl IntoIterator<Item = T>,
        shown: impl Fn(T) -> Value,
    ) -> (usize, Vec<Value>) {
        let (most, offset) = request.page();
        let (mut all, mut page) = (0, Vec::new());
        for one in found {
            if all >= offset && page.len() < most {
                page.push(shown(one));
            }
            all += 1;
        }
        let left = all.saturating_sub(offset + page.len());
        if left > 0 {
            self.push_unknown(
                Unknown::new("more_objects", left).detail(format!("go on at offset {}", offset + page.len())),
            );
        }
        (all, page)
    }
}

/// Rounds a score to three digits.
pub(crate) fn round_score(value: f64) -> f64 {
    // Adding 0.0 turns a result of -0.0 into 0.0.
    (value * 1000.0).round() / 1000.0 + 0.0
}

/// Returns the mean of the values; 0 for no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Returns the quantile `share` (0 to 1) of sorted values, interpolated linearly; 0 for no values.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// Returns the median of the values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::api::validate;

    #[test]
    fn page_of_renders_only_items_on_page() {
        let fields = json!({"schema": "Code", "limit": 2, "offset": 3});
        let request = validate::validate_request("EXTRACT", fields.as_object().unwrap().clone()).unwrap();
        let (mut answer, made) = (Answer::new("a method"), std::cell::Cell::new(0));
        let shown = |it: usize| {
            made.set(made.get() + 1);
            json!(it)
        };
        assert_eq!(answer.page_of(&request, 0..1_000_000, shown), (1_000_000, vec![json!(3), json!(4)]));
        assert_eq!(made.get(), 2);
        let told = Unknown::new("more_objects", 999_995).detail("go on at offset 5");
        assert_eq!(answer.unknowns, [told]);
        assert_eq!(answer.page_of(&request, 0..2, |it| json!(it)), (2, vec![]), "a page beyond the end is empty");
        assert_eq!(answer.unknowns.len(), 1);
    }

    #[test]
    fn quantile_interpolates_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0];
        assert_eq!((quantile(&sorted, 0.0), quantile(&sorted, 0.5), quantile(&sorted, 0.75)), (1.0, 2.0, 3.0));
        assert_eq!((quantile(&[], 0.5), median(vec![3.0, 1.0])), (0.0, 2.0));
    }
}
