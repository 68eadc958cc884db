//! The verb SCORE: scores documents by stated criteria, with reasons and the distribution of the scores.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::corpus::analysis::citation_graph;
use crate::corpus::api::answer::{Answer, Unknown, mean, quantile, round_score};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::text::{dates, words};
use crate::corpus::verbs::trace;
use crate::corpus::views::documents::{Corpus, CorpusDocument};

/// Age of a document in days at which its freshness score is one half.
const HALF_LIFE: f64 = 365.0;

/// Runs SCORE. `earlier` is the envelope of the result that the form `confidence` scores.
pub(crate) fn run(request: &ValidRequest, corpus: &Corpus, earlier: Option<&Value>) -> ApiResult<Answer> {
    match request.form.name {
        "authority" => Ok(score_authority(request, corpus)),
        "freshness" => Ok(score_freshness(request, corpus)),
        "coverage" => Ok(score_coverage(request, corpus)),
        _ => score_confidence(request, earlier),
    }
}

/// Creates the answer with the scores of the documents, best first, and their distribution.
fn scores_answer(request: &ValidRequest, mut answer: Answer, corpus: &Corpus, scores: Vec<(f64, Value)>) -> Answer {
    let values: Vec<f64> = scores.iter().map(|it| it.0).collect();
    let row = |(paper, (score, reasons)): (&CorpusDocument, (f64, Value))| {
        (round_score(score), json!({"file": paper.file, "score": round_score(score), "reasons": reasons}))
    };
    let mut rows: Vec<_> = corpus.documents.iter().zip(scores).map(row).collect();
    // The sort is stable, so documents with equal scores stay in the order of the view.
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    corpus.documents.iter().for_each(|it| answer.push_evidence(it, 1));
    let page = answer.page(request, rows.into_iter().map(|it| it.1).collect());
    answer.data = json!({"scores": page, "distribution": distribution(values)});
    answer
}

/// Returns summary statistics and a histogram of the values.
pub(crate) fn distribution(mut values: Vec<f64>) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    values.sort_by(f64::total_cmp);
    let mut histogram = [0_u32; 5];
    for value in &values {
        histogram[((value * 5.0) as usize).min(4)] += 1;
    }
    let (at, average) = (|share| round_score(quantile(&values, share)), mean(&values));
    let variance = values.iter().map(|it| (it - average).powi(2)).sum::<f64>() / values.len() as f64;
    json!({
        "count": values.len(), "min": at(0.0), "p25": at(0.25), "median": at(0.5), "p75": at(0.75), "max": at(1.0),
        "mean": round_score(average), "std_dev": round_score(variance.sqrt()), "fifths": histogram,
    })
}

fn score_authority(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let by = request.text("criteria").unwrap_or("citations");
    let edges = citation_graph::citation_edges(corpus);
    let cited: BTreeMap<_, _> =
        citation_graph::cited_by(corpus, &edges).into_iter().map(|it| (it.0, it.1.len() as f64)).collect();
    let values = if by == "pagerank" { citation_graph::page_rank(corpus, &edges) } else { cited.clone() };
    let highest = values.values().copied().fold(0.0, f64::max);
    let mut answer = Answer::new("share of the highest value in the view");
    answer.parameter("criteria", by);
    answer.confidence = if edges.is_empty() { 0.2 } else { 0.85 };
    let score = |paper: &CorpusDocument| {
        let score = if highest > 0.0 { values[&paper.file] / highest } else { 0.0 };
        (score, json!({"cited_by": cited[&paper.file]}))
    };
    let scores = corpus.documents.iter().map(score).collect();
    scores_answer(request, answer, corpus, scores)
}

fn score_freshness(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let baseline = trace::baseline_date(request, corpus);
    let mut answer = Answer::new("a score that halves with every year of age");
    answer.parameter("baseline_date", dates::day_of(baseline));
    answer.parameter("half_life_days", HALF_LIFE);
    let mut undated = Vec::new();
    let mut scores = Vec::new();
    for paper in &corpus.documents {
        let (moment, is_stated) = trace::document_date(paper);
        if !is_stated {
            undated.push(paper.file);
        }
        let age = dates::days_between(moment, baseline).max(0);
        let source = if is_stated { "stated" } else { "last change" };
        scores.push((
            0.5_f64.powf(age as f64 / HALF_LIFE),
            json!({"date": dates::day_of(moment), "age_days": age, "from": source}),
        ));
    }
    if !undated.is_empty() {
        answer.push_unknown(Unknown::new("date_of_last_change_used", undated.len()).files(&undated));
    }
    answer.confidence = round_score(1.0 - 0.5 * undated.len() as f64 / corpus.documents.len().max(1) as f64);
    scores_answer(request, answer, corpus, scores)
}

/// How much a document covers a topic.
pub(crate) struct TopicCoverage {
    pub(crate) score: f64,
    pub(crate) mentions: u32,
    pub(crate) matched: usize,
    /// Headings that contain the topic's words.
    pub(crate) headings: Vec<String>,
}

/// Measures how much a document covers a topic: which share of the topic's stems occur in it, and how often.
pub(crate) fn topic_coverage(paper: &CorpusDocument, topic: &str) -> TopicCoverage {
    let mut wanted = words::stems(topic);
    wanted.sort();
    wanted.dedup();
    let counts: Vec<u32> = wanted.iter().map(|it| paper.parsed.terms.get(it).copied().unwrap_or(0)).collect();
    let matched = counts.iter().filter(|it| **it > 0).count();
    let mentions = counts.iter().copied().min().unwrap_or(0).max(u32::from(matched > 0));
    let holds = |text: &str| words::stems(text).iter().any(|it| wanted.contains(it));
    let headings: Vec<String> =
        paper.parsed.headings().filter(|it| holds(&it.text)).map(|it| words::truncate_to_line(&it.text, 60)).collect();
    let share = matched as f64 / wanted.len().max(1) as f64;
    let often = (f64::from(mentions) / 10.0).min(1.0);
    let score =
        if matched == 0 { 0.0 } else { 0.5 * share + 0.3 * often + if headings.is_empty() { 0.0 } else { 0.2 } };
    TopicCoverage { score, mentions, matched, headings }
}

fn score_coverage(request: &ValidRequest, corpus: &Corpus) -> Answer {
    let topic = request.text("topic").unwrap_or_default();
    let mut answer =
        Answer::new("weights: share of the topic's words 0.5, their frequency 0.3, a heading with them 0.2");
    answer.parameter("topic", topic);
    let score = |paper: &CorpusDocument| {
        let found = topic_coverage(paper, topic);
        (
            found.score,
            json!({"matched_words": found.matched, "mentions": found.mentions, "headings": found.headings.len()}),
        )
    };
    let scores: Vec<(f64, Value)> = corpus.documents.iter().map(score).collect();
    answer.confidence = if scores.iter().any(|it| it.0 > 0.0) { 0.85 } else { 0.5 };
    scores_answer(request, answer, corpus, scores)
}

/// Scores an earlier result by the confidence of its objects.
fn score_confidence(request: &ValidRequest, earlier: Option<&Value>) -> ApiResult<Answer> {
    let id = request.text("extraction").unwrap_or_default();
    let Some(earlier) = earlier else {
        return Err(ApiError::unknown_name(ApiErrorKind::UnknownResult, "result", id, &[])
            .field("extraction")
            .action("give the `id` of an envelope"));
    };
    let mut values = Vec::new();
    collect_confidences(&earlier["data"], &mut values);
    let mut answer = Answer::new("the confidences of the objects of a result");
    let low = values.iter().filter(|it| **it < 0.8).count();
    if low > 0 {
        answer.push_unknown(Unknown::new("low_confidence_objects", low).detail(format!("EXPLAIN_FAILURE id={id}")));
    }
    answer.coverage = earlier["coverage"].as_f64();
    answer.confidence = earlier["confidence"].as_f64().unwrap_or(0.0);
    answer.data = json!({
        "extraction": id, "verb": earlier["verb"], "score": earlier["confidence"], "coverage": earlier["coverage"],
        "reasons": {"objects": values.len(), "below_0.8": low, "unknowns": earlier["unknowns"].as_array().map_or(0, Vec::len)},
        "distribution": distribution(values),
    });
    Ok(answer)
}

fn collect_confidences(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("confidence").and_then(Value::as_f64));
            map.values().for_each(|it| collect_confidences(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| collect_confidences(it, found)),
        _ => {}
    }
}
