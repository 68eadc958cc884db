//! The verb DETECT: shows where to look more closely. `objective` states the intent; the answer names the chosen method.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::corpus::analysis::{clustering, statements, warnings};
use crate::corpus::api::answer::{Answer, Unknown, mean, median, round_score};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::{self, FieldType, FieldValue};
use crate::corpus::text::words;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::model::FileId;

/// Metadata fields by which an objective can ask to group documents, with the word stems that ask for them.
const GROUP_FIELDS: &[(&str, &[&str])] = &[
    ("content_type", &["type", "format", "kind"]),
    ("author", &["author", "writer", "sender"]),
    ("year", &["year", "date", "age"]),
];

/// Returns the value of a numeric metadata field of a document.
pub(crate) fn number_of(paper: &CorpusDocument, field: &str) -> Option<f64> {
    if field == "size" { Some(paper.size as f64) } else { paper.parsed.facts.number(field) }
}

pub(crate) fn run(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let mut answer = match request.form.name {
        "clusters" => detect_clusters(request, corpus),
        "warnings" => detect_warnings(request, corpus),
        "gaps" => detect_gaps(request, corpus),
        "anomalies" => detect_anomalies(request, corpus),
        _ => detect_trends(request, corpus),
    }?;
    if let Some(objective) = request.text("objective") {
        answer.parameter("objective", objective);
    }
    Ok(answer)
}

fn constraint_or(request: &ValidRequest, name: &str, otherwise: usize) -> usize {
    request.nested_field("constraints", name).and_then(Value::as_u64).map_or(otherwise, |it| it as usize)
}

fn detect_clusters(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let (most, least) = (constraint_or(request, "max_clusters", 5), constraint_or(request, "min_size", 1));
    let stems = words::stems(request.text("objective").unwrap_or_default());
    let by = GROUP_FIELDS.iter().find(|it| it.1.iter().any(|cue| stems.iter().any(|it| it == cue))).map(|it| it.0);
    let (mut answer, groups) = match by {
        Some(fact) => (Answer::new("groups by metadata"), group_by_field(corpus, fact, most)),
        None if corpus.documents.len() > clustering::MAX_DOCUMENTS => {
            return Err(too_many_to_cluster(corpus.documents.len()));
        }
        None => (
            Answer::new("TF-IDF of stems, cosine similarity, average linkage; number of groups by the best silhouette"),
            clustering::cluster_documents(&corpus.documents, most),
        ),
    };
    answer.parameter("algorithm", by.unwrap_or("tfidf"));
    answer.parameter("max_clusters", most);
    let small: usize = groups.iter().filter(|it| it.members.len() < least).map(|it| it.members.len()).sum();
    if small > 0 {
        answer.push_unknown(Unknown::new("in_groups_too_small", small));
    }
    let kept: Vec<&clustering::Cluster> = groups.iter().filter(|it| it.members.len() >= least).collect();
    answer.confidence = round_score(mean(&kept.iter().map(|it| it.cohesion.max(0.0)).collect::<Vec<_>>()));
    corpus.documents.iter().for_each(|it| answer.push_evidence(it, 1));
    let shown = |it: &&clustering::Cluster| {
        let files: Vec<FileId> = it.members.iter().map(|at| corpus.documents[*at].file).collect();
        json!({"label": it.label, "size": files.len(), "files": files, "confidence": round_score(it.cohesion.max(0.0))})
    };
    let list: Vec<Value> = kept.iter().map(shown).collect();
    answer.data = json!({"count": list.len(), "clusters": list});
    Ok(answer)
}

/// Returns the error for too many documents to cluster. It does not suggest `async`: every pair is compared in a job too.
fn too_many_to_cluster(documents: usize) -> ApiError {
    let most = clustering::MAX_DOCUMENTS;
    let message = format!("the view holds {documents} documents, but at most {most} can be clustered");
    ApiError::new(ApiErrorKind::TooManyDocuments, message)
        .field("view")
        .action("name a smaller `view`")
        .action("or group by type, author or year in `objective`")
}

fn group_by_field(corpus: &Corpus, fact: &str, most: usize) -> Vec<clustering::Cluster> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, paper) in corpus.documents.iter().enumerate() {
        let value = match paper.parsed.facts.value_of(fact) {
            Some(FieldValue::Text(text)) => text,
            Some(FieldValue::Number(number)) => number.to_string(),
            _ => "unknown".into(),
        };
        groups.entry(value).or_default().push(at);
    }
    let mut groups: Vec<(String, Vec<usize>)> = groups.into_iter().collect();
    groups.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
    let rest: Vec<usize> = groups.iter().skip(most).flat_map(|it| it.1.clone()).collect();
    groups.truncate(most);
    if let (false, Some(last)) = (rest.is_empty(), groups.last_mut()) {
        last.0 = "other".into();
        last.1.extend(rest);
        last.1.sort_unstable();
    }
    groups
        .into_iter()
        .map(|(label, members)| clustering::Cluster { members, label: vec![label], cohesion: 1.0 })
        .collect()
}

fn detect_warnings(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let least = request.nested_field("constraints", "min_strength").and_then(Value::as_str).unwrap_or("low");
    let mut answer =
        Answer::new("cue words of caution, each with a strength; the strongest cue word of a sentence counts");
    answer.parameter("algorithm", "lexicon");
    answer.parameter("min_strength", least);
    let mut found = Vec::new();
    for paper in &corpus.documents {
        let own = warnings::find_warnings(paper, warnings::Strength::from_name(least));
        answer.push_evidence(paper, own.len());
        found.extend(own.into_iter().map(|it| (it.strength, it.value(paper.file))));
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.0));
    answer.confidence = if found.is_empty() { 0.0 } else { 0.85 };
    let count = found.len();
    let page = answer.page(request, found.into_iter().map(|it| it.1).collect());
    answer.data = json!({"count": count, "warnings": page});
    Ok(answer)
}

fn detect_gaps(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let topics = request.nested_field("constraints", "expected_topics").and_then(Value::as_array);
    let share = request.nested_field("constraints", "min_share").and_then(Value::as_f64).unwrap_or(0.6);
    let (mut answer, expected) = match topics {
        Some(topics) => (
            Answer::new("a topic is present if a heading or a passage has its stems"),
            topics.iter().filter_map(|it| it.as_str().map(String::from)).collect(),
        ),
        None => (
            Answer::new("sections that most documents have are expected in every document"),
            usual_sections(corpus, share),
        ),
    };
    answer.parameter("algorithm", if topics.is_some() { "expected_topics" } else { "usual_sections" });
    if topics.is_none() {
        answer.parameter("min_share", share);
    }
    let mut found: Vec<Value> = Vec::new();
    for topic in &expected {
        let missing: Vec<FileId> =
            corpus.documents.iter().filter(|it| !covers_topic(it, topic)).map(|it| it.file).collect();
        if !missing.is_empty() {
            let share = missing.len() as f64 / corpus.documents.len().max(1) as f64;
            found.push(json!({"topic": topic, "missing_from": missing, "share_missing": round_score(share)}));
        }
    }
    found.sort_by(|a, b| {
        b["share_missing"].as_f64().unwrap_or(0.0).total_cmp(&a["share_missing"].as_f64().unwrap_or(0.0))
    });
    corpus
        .documents
        .iter()
        .for_each(|it| answer.push_evidence(it, expected.iter().filter(|topic| !covers_topic(it, topic)).count()));
    answer.confidence = if expected.is_empty() { 0.0 } else { 0.85 };
    if expected.is_empty() {
        answer.push_unknown(
            Unknown::new("no_expectation", corpus.documents.len()).detail("set constraints.expected_topics"),
        );
    }
    let count = found.len();
    let page = answer.page(request, found);
    answer.data = json!({"expected": expected, "count": count, "gaps": page});
    Ok(answer)
}

fn covers_topic(paper: &CorpusDocument, topic: &str) -> bool {
    let wanted = words::stems(topic);
    let part = |have: &str, want: &str| have == want || (want.len() >= 4 && have.starts_with(want));
    let holds = |text: &str| {
        let stems = words::stems(text);
        wanted.iter().all(|want| stems.iter().any(|have| part(have, want)))
    };
    !wanted.is_empty()
        && (paper.parsed.headings().any(|it| holds(&it.text)) || paper.parsed.prose().any(|it| holds(&it.text)))
}

fn usual_sections(corpus: &Corpus, share: f64) -> Vec<String> {
    let mut counts: BTreeMap<String, BTreeSet<FileId>> = BTreeMap::new();
    for paper in &corpus.documents {
        for heading in paper.parsed.headings() {
            counts.entry(words::truncate_to_line(&heading.text, 60).to_lowercase()).or_default().insert(paper.file);
        }
    }
    let needed = (corpus.documents.len() as f64 * share).max(2.0);
    counts.into_iter().filter(|it| it.1.len() as f64 >= needed).map(|it| it.0).collect()
}

fn detect_anomalies(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let threshold = request.nested_field("constraints", "threshold").and_then(Value::as_f64).unwrap_or(3.5);
    let fields: Vec<&'static str> = match request.nested_field("constraints", "field").and_then(Value::as_str) {
        Some(field) => vec![filter::numeric_field(field)?],
        None => vec!["word_count", "citation_count", "reference_count", "table_count", "code_count"],
    };
    let mut answer = Answer::new("robust z score: distance from the median in units of the median deviation");
    answer.parameter("algorithm", "median_absolute_deviation");
    answer.parameter("threshold", threshold);
    let mut found = Vec::new();
    for field in &fields {
        let values: Vec<(&CorpusDocument, f64)> =
            corpus.documents.iter().filter_map(|it| Some((it, number_of(it, field)?))).collect();
        let lacking = corpus.documents.len() - values.len();
        if lacking > 0 {
            answer.push_unknown(Unknown::new("no_value", lacking).detail(*field));
        }
        found.extend(outliers(field, &values, threshold));
    }
    found.sort_by(|a, b| b["z"].as_f64().unwrap_or(0.0).abs().total_cmp(&a["z"].as_f64().unwrap_or(0.0).abs()));
    corpus
        .documents
        .iter()
        .for_each(|paper| answer.push_evidence(paper, found.iter().filter(|it| it["file"] == paper.file).count()));
    answer.confidence = if corpus.documents.len() < 5 { 0.4 } else { 0.85 };
    let count = found.len();
    let page = answer.page(request, found);
    answer.data = json!({"fields": fields, "count": count, "anomalies": page});
    Ok(answer)
}

fn outliers(field: &str, values: &[(&CorpusDocument, f64)], threshold: f64) -> Vec<Value> {
    if values.len() < 3 {
        return Vec::new();
    }
    let middle = median(values.iter().map(|it| it.1).collect());
    let deviations: Vec<f64> = values.iter().map(|it| (it.1 - middle).abs()).collect();
    // Use the mean deviation if most documents have the same number (Iglewicz and Hoaglin): the median deviation is then 0.
    let scale = match median(deviations.clone()) * 1.4826 {
        zero if zero < f64::EPSILON => mean(&deviations) * 1.2533,
        scale => scale,
    };
    let outlier = |(paper, value): &(&CorpusDocument, f64)| {
        let z = (value - middle) / scale.max(f64::MIN_POSITIVE);
        (scale > 0.0 && z.abs() >= threshold)
            .then(|| json!({"file": paper.file, "field": field, "value": value, "median": middle, "z": round_score(z)}))
    };
    values.iter().filter_map(outlier).collect()
}

fn detect_trends(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let field = request.nested_field("constraints", "field").and_then(Value::as_str).unwrap_or("word_count");
    let length =
        if request.nested_field("constraints", "period").and_then(Value::as_str) == Some("month") { 7 } else { 4 };
    let number = filter::field_by_name(field).filter(|it| it.kind == FieldType::Number).map(|it| it.name);
    let mut answer =
        Answer::new("one value for each period, least squares over the periods, Mann-Kendall for the direction");
    answer.parameter("algorithm", "least_squares");
    answer.parameter("field", field);
    let mut periods: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut undated = Vec::new();
    for paper in &corpus.documents {
        let Some(period) = period(&paper.parsed.facts, length) else {
            undated.push(paper.file);
            continue;
        };
        let value = match number {
            Some(name) => number_of(paper, name),
            None => Some(statements::document_statements(paper, field).len() as f64),
        };
        periods.entry(period).or_default().extend(value);
        answer.push_evidence(paper, 1);
    }
    if !undated.is_empty() {
        answer.push_unknown(Unknown::new("no_date", undated.len()).files(&undated));
    }
    let series: Vec<(String, f64, usize)> = periods
        .into_iter()
        .map(|(period, values)| {
            let value = if number.is_some() { mean(&values) } else { values.iter().sum() };
            (period, round_score(value), values.len())
        })
        .collect();
    let values: Vec<f64> = series.iter().map(|it| it.1).collect();
    let is_silent = number.is_none() && !values.is_empty() && values.iter().all(|it| *it == 0.0);
    if is_silent {
        answer.push_unknown(Unknown::new("no_statement", corpus.documents.len()).detail(field));
    }
    let (slope, agreement) = (slope(&values), kendall(&values));
    answer.confidence = match values.len() {
        _ if is_silent => 0.0,
        0..3 => 0.2,
        _ => round_score(agreement.abs()),
    };
    answer.coverage = Some((corpus.documents.len() - undated.len()) as f64 / corpus.total().max(1) as f64);
    let direction = if values.len() < 2 || agreement.abs() < 0.2 {
        "none"
    } else if slope > 0.0 {
        "rising"
    } else {
        "falling"
    };
    let shown: Vec<Value> = series.iter().map(|it| json!({"period": it.0, "value": it.1, "documents": it.2})).collect();
    answer.data = json!({
        "field": field, "direction": direction, "slope_per_period": round_score(slope), "mann_kendall": round_score(agreement),
        "periods": shown,
    });
    Ok(answer)
}

fn period(facts: &Facts, length: usize) -> Option<String> {
    facts.published_at.as_ref()?.get(..length).map(String::from)
}

/// Returns the slope of the least-squares line through the values.
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, mean(values));
    let spread: f64 = (0..values.len()).map(|at| (at as f64 - middle).powi(2)).sum();
    let together: f64 = values.iter().enumerate().map(|(at, it)| (at as f64 - middle) * (it - mean)).sum();
    if spread == 0.0 { 0.0 } else { together / spread }
}

/// Returns Kendall's rank correlation of the values with time, -1 to 1.
fn kendall(values: &[f64]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (at, one) in values.iter().enumerate() {
        for other in &values[at + 1..] {
            sum += (other - one).partial_cmp(&0.0).map_or(0.0, |it| f64::from(it as i8));
            pairs += 1.0;
        }
    }
    if pairs == 0.0 { 0.0 } else { sum / pairs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_and_kendall_of_straight_line() {
        assert!((slope(&[1.0, 3.0, 5.0]) - 2.0).abs() < 1e-9);
        assert!((kendall(&[1.0, 3.0, 5.0]) - 1.0).abs() < 1e-9);
        assert!(kendall(&[2.0, 2.0]).abs() < 1e-9);
        assert!(slope(&[4.0]).abs() < 1e-9);
    }
}
