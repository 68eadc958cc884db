//! SCORE: numbers by stated criteria, with their reasons and distribution.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::corpus::analysis::citation_graph;
use crate::corpus::api::answer::{Answer, Unknown, mean, quantile, rounded};
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::validate::Request;
use crate::corpus::text::{dates, words};
use crate::corpus::verbs::trace;
use crate::corpus::views::documents::{Corpus, Paper};

/// Age in days at which the freshness score is one half.
const HALF_LIFE: f64 = 365.0;

/// Runs SCORE. `earlier` is the result that `confidence` scores.
pub(crate) fn run(request: &Request, corpus: &Corpus, earlier: Option<&Value>) -> Outcome<Answer> {
    match request.form.name {
        "authority" => Ok(authority(request, corpus)),
        "freshness" => Ok(freshness(request, corpus)),
        "coverage" => Ok(coverage(request, corpus)),
        _ => confidence(request, earlier),
    }
}

/// The scores of the documents, best first, with their distribution.
fn scored(request: &Request, mut answer: Answer, corpus: &Corpus, scores: Vec<(f64, Value)>) -> Answer {
    let values: Vec<f64> = scores.iter().map(|it| it.0).collect();
    let row = |(paper, (score, reasons)): (&Paper, (f64, Value))| {
        (rounded(score), json!({"file": paper.file, "score": rounded(score), "reasons": reasons}))
    };
    let mut rows: Vec<_> = corpus.papers.iter().zip(scores).map(row).collect();
    // A stable sort: equal scores stay in view order.
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    corpus.papers.iter().for_each(|it| answer.evidence(it, 1));
    let page = answer.page(request, rows.into_iter().map(|it| it.1).collect());
    answer.data = json!({"scores": page, "distribution": distribution(values)});
    answer
}

/// Summary statistics and histogram.
pub(crate) fn distribution(mut values: Vec<f64>) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    values.sort_by(f64::total_cmp);
    let mut histogram = [0_u32; 5];
    for value in &values {
        histogram[((value * 5.0) as usize).min(4)] += 1;
    }
    let (at, average) = (|share| rounded(quantile(&values, share)), mean(&values));
    let variance = values.iter().map(|it| (it - average).powi(2)).sum::<f64>() / values.len() as f64;
    json!({
        "count": values.len(), "min": at(0.0), "p25": at(0.25), "median": at(0.5), "p75": at(0.75), "max": at(1.0),
        "mean": rounded(average), "std_dev": rounded(variance.sqrt()), "fifths": histogram,
    })
}

fn authority(request: &Request, corpus: &Corpus) -> Answer {
    let by = request.text("criteria").unwrap_or("citations");
    let edges = citation_graph::edges(corpus);
    let cited: BTreeMap<_, _> =
        citation_graph::cited_by(corpus, &edges).into_iter().map(|it| (it.0, it.1.len() as f64)).collect();
    let values = if by == "pagerank" { citation_graph::page_rank(corpus, &edges) } else { cited.clone() };
    let highest = values.values().copied().fold(0.0, f64::max);
    let mut answer = Answer::new("share of the highest value in the view");
    answer.parameter("criteria", by);
    answer.confidence = if edges.is_empty() { 0.2 } else { 0.85 };
    let score = |paper: &Paper| {
        let score = if highest > 0.0 { values[&paper.file] / highest } else { 0.0 };
        (score, json!({"cited_by": cited[&paper.file]}))
    };
    let scores = corpus.papers.iter().map(score).collect();
    scored(request, answer, corpus, scores)
}

fn freshness(request: &Request, corpus: &Corpus) -> Answer {
    let baseline = trace::baseline(request, corpus);
    let mut answer = Answer::new("halves with every year of age");
    answer.parameter("baseline_date", dates::day_of(baseline));
    answer.parameter("half_life_days", HALF_LIFE);
    let mut undated = Vec::new();
    let mut scores = Vec::new();
    for paper in &corpus.papers {
        let (moment, is_stated) = trace::dated(paper);
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
        answer.unknown(Unknown::new("date_of_last_change_used", undated.len()).files(&undated));
    }
    answer.confidence = rounded(1.0 - 0.5 * undated.len() as f64 / corpus.papers.len().max(1) as f64);
    scored(request, answer, corpus, scores)
}

/// How much a document covers a topic.
pub(crate) struct Treatment {
    pub(crate) score: f64,
    pub(crate) mentions: u32,
    pub(crate) matched: usize,
    /// Headings that name the topic.
    pub(crate) headings: Vec<String>,
}

/// Measures how much a document covers a topic: the share of its stems that occur, and how often.
pub(crate) fn treatment(paper: &Paper, topic: &str) -> Treatment {
    let mut wanted = words::stems(topic);
    wanted.sort();
    wanted.dedup();
    let counts: Vec<u32> = wanted.iter().map(|it| paper.reading.terms.get(it).copied().unwrap_or(0)).collect();
    let matched = counts.iter().filter(|it| **it > 0).count();
    let mentions = counts.iter().copied().min().unwrap_or(0).max(u32::from(matched > 0));
    let holds = |text: &str| words::stems(text).iter().any(|it| wanted.contains(it));
    let headings: Vec<String> =
        paper.reading.headings().filter(|it| holds(&it.text)).map(|it| words::short(&it.text, 60)).collect();
    let share = matched as f64 / wanted.len().max(1) as f64;
    let often = (f64::from(mentions) / 10.0).min(1.0);
    let score =
        if matched == 0 { 0.0 } else { 0.5 * share + 0.3 * often + if headings.is_empty() { 0.0 } else { 0.2 } };
    Treatment { score, mentions, matched, headings }
}

fn coverage(request: &Request, corpus: &Corpus) -> Answer {
    let topic = request.text("topic").unwrap_or_default();
    let mut answer = Answer::new("share of the topic's words (half), how often (three tenths), a heading (two tenths)");
    answer.parameter("topic", topic);
    let score = |paper: &Paper| {
        let found = treatment(paper, topic);
        (
            found.score,
            json!({"matched_words": found.matched, "mentions": found.mentions, "headings": found.headings.len()}),
        )
    };
    let scores: Vec<(f64, Value)> = corpus.papers.iter().map(score).collect();
    answer.confidence = if scores.iter().any(|it| it.0 > 0.0) { 0.85 } else { 0.5 };
    scored(request, answer, corpus, scores)
}

/// The confidence of the objects of an earlier result.
fn confidence(request: &Request, earlier: Option<&Value>) -> Outcome<Answer> {
    let id = request.text("extraction").unwrap_or_default();
    let Some(earlier) = earlier else {
        return Err(Refusal::unknown(Cause::UnknownResult, "result", id, &[])
            .field("extraction")
            .action("give the `id` of an envelope"));
    };
    let mut values = Vec::new();
    confidences(&earlier["data"], &mut values);
    let mut answer = Answer::new("the confidences of the objects of a result");
    let low = values.iter().filter(|it| **it < 0.8).count();
    if low > 0 {
        answer.unknown(Unknown::new("low_confidence_objects", low).detail(format!("EXPLAIN_FAILURE id={id}")));
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

fn confidences(value: &Value, found: &mut Vec<f64>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("confidence").and_then(Value::as_f64));
            map.values().for_each(|it| confidences(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| confidences(it, found)),
        _ => {}
    }
}
