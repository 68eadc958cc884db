//! The verb TRACE: returns the citation graph of a view, as nodes and edges.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

use crate::corpus::analysis::citation_graph::{self, CitationEdge, CitationNode};
use crate::corpus::api::answer::{Answer, Unknown, round_score};
use crate::corpus::api::error::ApiResult;
use crate::corpus::api::request::ValidRequest;
use crate::corpus::text::dates;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::model::FileId;

pub(crate) fn run(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let edges = citation_graph::citation_edges(corpus);
    let mut answer = match request.form.name {
        "citations" => trace_citations(request, corpus, &edges),
        "authority" => trace_authority(request, corpus, &edges),
        "influence" => trace_influence(request, corpus, &edges)?,
        _ => trace_freshness(request, corpus, &edges),
    };
    for paper in &corpus.documents {
        answer.push_evidence(paper, edges.iter().filter(|it| it.from == paper.file).count());
    }
    answer.parameter("edges", "references, links and web addresses in the text");
    Ok(answer)
}

fn document_node(paper: &CorpusDocument) -> Value {
    json!({"id": format!("f{}", paper.file), "file": paper.file, "title": paper.parsed.facts.title, "date": paper.parsed.facts.published_at})
}

/// Returns every document, and every work that a document cites.
fn trace_citations(request: &ValidRequest, corpus: &Corpus, edges: &[CitationEdge]) -> Answer {
    let mut answer = Answer::new("an edge for every reference and link; targets by name, DOI, arXiv id and title");
    let works: BTreeSet<&CitationNode> =
        edges.iter().map(|it| &it.to).filter(|it| matches!(it, CitationNode::Work(_))).collect();
    if !works.is_empty() {
        answer.push_unknown(Unknown::new("works_outside_the_view", works.len()));
    }
    let outside = works.iter().map(|it| json!({"id": it.id()}));
    let nodes: Vec<Value> = corpus.documents.iter().map(document_node).chain(outside).collect();
    let inside = edges.iter().filter(|it| matches!(it.to, CitationNode::Document(_))).count();
    answer.confidence = if edges.is_empty() { 0.0 } else { 0.9 };
    let nodes = answer.page(request, nodes);
    let shown = answer.page(request, edges.iter().map(CitationEdge::value).collect());
    answer.data = json!({"edge_count": edges.len(), "inside_view": inside, "nodes": nodes, "edges": shown});
    answer
}

fn trace_authority(request: &ValidRequest, corpus: &Corpus, edges: &[CitationEdge]) -> Answer {
    let by = request.text("rank_by").unwrap_or("citations");
    let mut answer = Answer::new("documents of the view that name a document");
    answer.parameter("rank_by", by);
    let cited = citation_graph::cited_by(corpus, edges);
    let ranks = citation_graph::page_rank(corpus, edges);
    let mut nodes: Vec<Value> = corpus
        .documents
        .iter()
        .map(|paper| {
            let mut shown = document_node(paper);
            shown["cited_by"] = json!(cited[&paper.file].len());
            shown["pagerank"] = json!((ranks[&paper.file] * 1e6).round() / 1e6);
            shown
        })
        .collect();
    let key = if by == "pagerank" { "pagerank" } else { "cited_by" };
    nodes.sort_by(|a, b| b[key].as_f64().unwrap_or(0.0).total_cmp(&a[key].as_f64().unwrap_or(0.0)));
    let inside: Vec<Value> =
        edges.iter().filter(|it| matches!(it.to, CitationNode::Document(_))).map(CitationEdge::value).collect();
    answer.confidence = if inside.is_empty() { 0.2 } else { 0.85 };
    let nodes = answer.page(request, nodes);
    let edges = answer.page(request, inside);
    answer.data = json!({"nodes": nodes, "edges": edges});
    answer
}

/// Returns every document that cites the source directly or indirectly, with its distance in citations.
fn trace_influence(request: &ValidRequest, corpus: &Corpus, edges: &[CitationEdge]) -> ApiResult<Answer> {
    let source = corpus.find_document(&request.fields["source"], "source")?;
    let cited = citation_graph::cited_by(corpus, edges);
    let mut distance: BTreeMap<FileId, u32> = BTreeMap::from([(source.file, 0)]);
    let mut queue = VecDeque::from([source.file]);
    while let Some(file) = queue.pop_front() {
        let next = distance[&file] + 1;
        for by in cited.get(&file).into_iter().flatten() {
            if !distance.contains_key(by) {
                distance.insert(*by, next);
                queue.push_back(*by);
            }
        }
    }
    let mut nodes: Vec<(u32, Value)> = corpus
        .documents
        .iter()
        .filter_map(|paper| {
            let steps = *distance.get(&paper.file)?;
            let mut shown = document_node(paper);
            shown["distance"] = json!(steps);
            Some((steps, shown))
        })
        .collect();
    nodes.sort_by_key(|it| it.0);
    let taking = |it: &&CitationEdge| match it.to {
        CitationNode::Document(to) => distance.contains_key(&it.from) && distance.contains_key(&to),
        CitationNode::Work(_) => false,
    };
    let edges: Vec<Value> = edges.iter().filter(taking).map(CitationEdge::value).collect();
    let mut answer = Answer::new("citations followed backwards from the source, nearest first");
    answer.confidence = if distance.len() > 1 { 0.85 } else { 0.4 };
    let reached = distance.len() - 1;
    let nodes = answer.page(request, nodes.into_iter().map(|it| it.1).collect());
    let edges = answer.page(request, edges);
    answer.data = json!({"source": source.file, "reached": reached, "nodes": nodes, "edges": edges});
    Ok(answer)
}

fn trace_freshness(request: &ValidRequest, corpus: &Corpus, edges: &[CitationEdge]) -> Answer {
    let mut answer = Answer::new("the date that a document states, else its last change");
    let baseline = baseline_date(request, corpus);
    answer.parameter("baseline_date", dates::day_of(baseline));
    let mut guessed = Vec::new();
    let mut nodes = Vec::new();
    for paper in &corpus.documents {
        let (moment, is_stated) = document_date(paper);
        if !is_stated {
            guessed.push(paper.file);
        }
        let mut shown = document_node(paper);
        shown["date"] = json!(dates::day_of(moment));
        shown["days_after_baseline"] = json!(dates::days_between(baseline, moment));
        shown["stale"] = json!(moment < baseline && request.has("baseline_date"));
        nodes.push((std::cmp::Reverse(moment), shown));
    }
    nodes.sort_by_key(|it| it.0);
    if !guessed.is_empty() {
        answer.push_unknown(Unknown::new("date_of_last_change_used", guessed.len()).files(&guessed));
    }
    let known = corpus.documents.len() - guessed.len();
    answer.confidence = round_score(0.5 + 0.4 * known as f64 / corpus.documents.len().max(1) as f64);
    let inside: Vec<Value> =
        edges.iter().filter(|it| matches!(it.to, CitationNode::Document(_))).map(CitationEdge::value).collect();
    let nodes = answer.page(request, nodes.into_iter().map(|it| it.1).collect());
    let edges = answer.page(request, inside);
    answer.data = json!({"nodes": nodes, "edges": edges});
    answer
}

/// Returns the date of a document, and whether the document states that date itself.
pub(crate) fn document_date(paper: &CorpusDocument) -> (i64, bool) {
    let stated = paper.parsed.facts.published_at.as_deref().and_then(dates::parse_moment);
    (stated.unwrap_or(paper.modified_ns), stated.is_some())
}

/// Returns the date from which ages are counted: the requested one, else the date of the newest document.
pub(crate) fn baseline_date(request: &ValidRequest, corpus: &Corpus) -> i64 {
    let given = request.text("baseline_date").and_then(dates::parse_moment);
    given.or_else(|| corpus.documents.iter().map(|it| document_date(it).0).max()).unwrap_or(0)
}
