//! Passages of the index for graph queries and tools: finds chunks by words or meaning, and returns their text and location.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, ErrorCode, Result};
use crate::graph::context::GraphInputs;
use crate::graph::node_names;
use crate::graph::query::text_match::TextMatch;
use crate::graph::service::GraphService;
use crate::graph::snapshot::NodeIx;
use crate::graph::snapshot::view::View;
use crate::index::blocking;
use crate::model::{
    Anchor, AskRequest, Chunk, ChunkId, FileFilter, FileId, FileRecord, Scope, SearchHit, StoredChunk, display_path,
};
use crate::store::{FileSet, KeywordQuery};
use crate::text::sentences;

/// Number of keyword hits that are fetched and then searched for chunks that contain every word.
const KEYWORD_DEPTH: usize = 2_000;
/// Maximum number of retries of a search if files change during it.
const MAX_RETRIES: usize = 2;
/// Maximum number of characters of each text in a list.
const EXCERPT_CHARS: usize = 1_000;
/// Maximum number of chunks whose location is looked up as evidence, for one entity.
const MAX_EVIDENCE: usize = 20;
/// Maximum number of texts quoted as evidence, for one entity.
const MAX_QUOTES: usize = 40;
/// Maximum number of characters of each quoted text.
const QUOTE_CHARS: usize = 300;

fn index_inputs(service: &GraphService) -> Result<&GraphInputs> {
    service
        .shared
        .inputs
        .as_ref()
        .ok_or_else(|| Error::new(ErrorCode::FailedPrecondition, "this graph has no index").hint("ask the daemon"))
}

async fn files_in_scope(reads: &GraphInputs, scope: &Scope) -> Result<FileSet> {
    if scope.is_all() {
        return Ok(FileSet::All);
    }
    let (catalog, filter) = (reads.catalog.clone(), FileFilter { scope: scope.clone(), ..FileFilter::default() });
    Ok(FileSet::Only(Arc::new(blocking(move || catalog.select(&filter)).await?)))
}

/// Returns the best chunks that contain all words, best first, and whether there may be more of them.
async fn search_words(
    service: &GraphService,
    words: &str,
    scope: &Scope,
    limit: usize,
) -> Result<(Vec<StoredChunk>, bool)> {
    let reads = index_inputs(service)?;
    let store = reads.index.serving().store;
    let query = KeywordQuery { terms: vic_words::question_terms(words, &vic_words::Language::ALL) };
    let files = files_in_scope(reads, scope).await?;
    let mut anew = 0;
    loop {
        let hits = store.keyword_leg(&query, &files, KEYWORD_DEPTH).await?;
        let ids: Vec<(FileId, ChunkId)> = hits.iter().map(|it| (it.file_id, it.chunk_id.clone())).collect();
        let chunks = store.chunks(&ids).await?;
        // Searches again if chunks are missing: their files have changed since the search for hits.
        if chunks.len() == ids.len() || anew == MAX_RETRIES {
            return Ok(keep_matching(&ids, chunks, words, limit));
        }
        anew += 1;
    }
}

/// Keeps the chunks that contain all words, best first. The second value tells whether there may be more.
fn keep_matching(
    ids: &[(FileId, ChunkId)],
    chunks: Vec<StoredChunk>,
    words: &str,
    limit: usize,
) -> (Vec<StoredChunk>, bool) {
    let chunks = chunks.into_iter().map(|it| ((it.file_id, it.chunk.id.clone()), it));
    let mut found: HashMap<(FileId, ChunkId), StoredChunk> = chunks.collect();
    let test = TextMatch::words(words);
    let held = ids.iter().filter_map(|id| found.remove(id)).filter(|it| test.matches(&it.chunk.text));
    (held.take(limit).collect(), ids.len() >= KEYWORD_DEPTH)
}

/// Returns the entities of the chunks that contain all words, and a note if there may be more of them.
pub(crate) async fn matching_nodes(
    service: &GraphService,
    view: &View,
    words: &str,
) -> Result<(Vec<NodeIx>, Option<String>)> {
    if service.shared.inputs.is_none() {
        return Ok((Vec::new(), None));
    }
    let found = search_words(service, words, &service.scope, KEYWORD_DEPTH).await?;
    Ok(chunk_nodes(view, words, found))
}

fn chunk_nodes(view: &View, words: &str, (found, is_cut): (Vec<StoredChunk>, bool)) -> (Vec<NodeIx>, Option<String>) {
    let mut nodes: Vec<NodeIx> = found.iter().filter_map(|it| chunk_node(view, it)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let note =
        is_cut.then(|| format!("`{words}`: only the best {KEYWORD_DEPTH} chunks were searched; add rarer words"));
    (nodes, note)
}

fn chunk_node(view: &View, stored: &StoredChunk) -> Option<NodeIx> {
    let key = format!("chunk:{}#{}", stored.file_id, stored.chunk.ordinal);
    view.snapshot.node_by_key(&key).filter(|it| view.is_visible(*it))
}

/// Returns the chunks that contain all words, as the result of the tool `fts_chunks`.
pub(crate) async fn list_chunks(service: &GraphService, view: &View, words: &str, limit: usize) -> Result<Value> {
    let (mut found, is_cut) = search_words(service, words, &service.scope, limit + 1).await?;
    let truncated = is_cut || found.len() > limit;
    found.truncate(limit);
    let records = file_records(index_inputs(service)?, found.iter().map(|it| it.file_id)).await?;
    let hits: Vec<Value> =
        found.iter().map(|it| chunk_json(view, it, records.get(&it.file_id), EXCERPT_CHARS)).collect();
    Ok(json!({"hits": hits, "truncated": truncated}))
}

async fn file_records(reads: &GraphInputs, ids: impl Iterator<Item = FileId>) -> Result<HashMap<FileId, FileRecord>> {
    let (catalog, mut ids) = (reads.catalog.clone(), ids.collect::<Vec<_>>());
    ids.sort_unstable();
    ids.dedup();
    let records = blocking(move || catalog.records(&ids)).await?;
    Ok(records.into_iter().map(|it| (it.id, it)).collect())
}

fn chunk_json(view: &View, stored: &StoredChunk, record: Option<&FileRecord>, most: usize) -> Value {
    let chunk = &stored.chunk;
    let cut = chunk.text.char_indices().nth(most).map(|it| it.0);
    let mut value = json!({
        "id": chunk.id.0,
        "chunk_id": chunk.id.0,
        "text": &chunk.text[..cut.unwrap_or(chunk.text.len())],
        "truncated": cut.is_some(),
    });
    if let Some(record) = record {
        let path = record.found.path.display().to_string();
        let absolute = display_path(&record.absolute()).into_owned();
        add_citation(&mut value, &path, &absolute, &chunk.anchor);
        if chunk.spans_pages() {
            value["pages"] = page_texts(chunk, most, &path, &absolute);
        }
    }
    if let Some(node) = chunk_node(view, stored) {
        value["chunk"] = json!(format!("Chunk#{}", view.snapshot.id(node)));
    }
    value
}

/// Returns the first `most` characters of a passage that spans several pages, split by page.
fn page_texts(chunk: &Chunk, most: usize, path: &str, absolute: &str) -> Value {
    let body = chunk.body();
    let end = body.char_indices().nth(most).map_or(body.len(), |it| it.0);
    let (mut at, mut pages) = (0, Vec::new());
    while at < end {
        let page = at..chunk.page_around(at).end.min(end);
        let mut value = json!({"text": body[page.clone()].trim()});
        add_citation(&mut value, path, absolute, &chunk.body_anchor(page.clone()));
        at = page.end;
        pages.push(value);
    }
    Value::Array(pages)
}

/// Adds the citation of a passage (e.g. `notes/bees.md, lines 3-4`), its absolute path and its anchor.
fn add_citation(value: &mut Value, path: &str, absolute: &str, anchor: &Anchor) {
    let place = anchor.place();
    value["citation"] = if place.is_empty() { json!(path) } else { json!(format!("{path}, {place}")) };
    value["path"] = json!(absolute);
    value["anchor"] = json!(anchor);
}

/// Returns a chunk with its text. `named` is its id as vic prints it, the number alone, its name, or its id in the index.
pub(crate) async fn chunk_text(service: &GraphService, view: &View, named: &str, most: usize) -> Result<Value> {
    let unknown =
        || Error::not_found(format!("there is no chunk `{named}`")).hint("`fts_chunks` finds chunks by words");
    let mut named_nodes = view.with_exact_value("chunk_id", named);
    named_nodes.extend(node_names::resolve_exactly(view, named));
    // Takes any type before the number, because the plugin protocol writes `DocChunk#128`.
    let digits = named.rsplit_once('#').map_or(named, |it| it.1);
    let by_number = digits.parse().ok().and_then(|it| view.snapshot.node_by_id(it));
    named_nodes.extend(by_number.filter(|it| view.is_visible(*it)));
    let (file, id) = named_nodes.into_iter().find_map(|it| stored_chunk_id(view, it)).ok_or_else(unknown)?;
    let reads = index_inputs(service)?;
    let found = reads.index.serving().store.chunks(&[(file, id)]).await?;
    let stored = found.first().ok_or_else(unknown)?;
    let records = file_records(reads, std::iter::once(file)).await?;
    Ok(chunk_json(view, stored, records.get(&file), most))
}

/// Returns the file id and the chunk id that an entity of type `Chunk` stands for.
fn stored_chunk_id(view: &View, node: NodeIx) -> Option<(FileId, ChunkId)> {
    let (file, _) = view.snapshot.key(node).strip_prefix("chunk:")?.split_once('#')?;
    Some((file.parse().ok()?, ChunkId(view.values(node, "chunk_id").next()?.into())))
}

/// Adds file and location to the evidence of an entity's edges, and quotes each distinct text once, so that an answer can
/// cite it. Covers the first [`MAX_EVIDENCE`] chunks.
pub(crate) async fn add_evidence(service: &GraphService, view: &View, entity: &mut Value) -> Result<()> {
    let Some(reads) = service.shared.inputs.as_ref() else { return Ok(()) };
    let mut chunks: Vec<(FileId, ChunkId)> = Vec::new();
    for side in ["out", "in"] {
        let edges = entity[side].as_array().into_iter().flatten();
        for named in edges.filter_map(|it| it["evidence"]["chunk_id"].as_str()) {
            let is_known = chunks.len() == MAX_EVIDENCE || chunks.iter().any(|(_, it)| it.0 == named);
            let node = || view.with_exact_value("chunk_id", named).into_iter().find(|it| view.is_visible(*it));
            if !is_known && let Some(stored) = node().and_then(|it| stored_chunk_id(view, it)) {
                chunks.push(stored);
            }
        }
    }
    if chunks.is_empty() {
        return Ok(());
    }
    let found = reads.index.serving().store.chunks(&chunks).await?;
    let records = file_records(reads, found.iter().map(|it| it.file_id)).await?;
    let all: HashMap<&str, &StoredChunk> = found.iter().map(|it| (it.chunk.id.0.as_str(), it)).collect();
    let mut quoted = HashSet::new();
    for side in ["out", "in"] {
        for edge in entity[side].as_array_mut().into_iter().flatten() {
            let Some(evidence) = edge.get_mut("evidence") else { continue };
            let Some(stored) = evidence["chunk_id"].as_str().and_then(|it| all.get(it)) else { continue };
            let Some(record) = records.get(&stored.file_id) else { continue };
            let path = record.found.path.display().to_string();
            let (anchor, shown) = evidence_span(&stored.chunk, evidence);
            add_citation(evidence, &path, &display_path(&record.absolute()), &anchor);
            if quoted.len() < MAX_QUOTES && quoted.insert((&stored.chunk.id, shown.clone())) {
                evidence["text"] = json!(stored.chunk.text[shown].chars().take(QUOTE_CHARS).collect::<String>());
            }
        }
    }
    Ok(())
}

/// Returns the location of evidence in a passage, and the range of its text from the start of the sentence to the end of
/// the page. If the evidence is the whole passage, returns the whole passage.
fn evidence_span(chunk: &Chunk, evidence: &Value) -> (Anchor, Range<usize>) {
    let number = |name: &str| evidence[name].as_u64().unwrap_or(0);
    let (text, body) = (&chunk.text, chunk.body_start as usize);
    let Some(found) = chunk.evidence_range(&(number("start")..number("end"))) else {
        return (chunk.anchor.clone(), 0..text.len());
    };
    let anchor = chunk.places().anchor_at(found.clone());
    if found.start < body {
        return (anchor, found);
    }
    let page = chunk.page_around(found.start - body);
    let page = body + page.start..body + page.end;
    let sentences = sentences(&text[page.clone()]);
    let before = sentences.iter().rfind(|it| page.start + it.start <= found.start);
    (anchor, before.map_or(found.start, |it| page.start + it.start)..page.end)
}

/// Searches the files by meaning and by words, as the tool `semantic_search`.
pub(crate) async fn semantic_search(service: &GraphService, query: &str, limit: u32) -> Result<Value> {
    let asker = index_inputs(service)?.asker.with_scope(service.scope.clone());
    let request = AskRequest { query: query.into(), limit: Some(limit), ..AskRequest::default() };
    let response = asker.search(request).await?;
    let hits: Vec<Value> = response.hits.iter().map(hit_json).collect();
    Ok(json!({"hits": hits, "warnings": response.warnings}))
}

fn hit_json(it: &SearchHit) -> Value {
    let text: String = it.excerpt.chars().take(EXCERPT_CHARS).collect();
    let mut value = json!({"score": (it.score * 1e3).round() / 1e3, "text": text, "reasoning": it.reasoning});
    let absolute = it.metadata.get("absolute_path").and_then(Value::as_str).unwrap_or(&it.path);
    let anchor = it.metadata.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
    add_citation(&mut value, &it.path, absolute, &anchor);
    // Uses the citation as the id of a hit that was found by its file name, because such a hit has no chunk id.
    let chunk = it.metadata.get("chunk_ids").and_then(|it| it[0].as_str().map(String::from));
    value["id"] = chunk.as_ref().map_or_else(|| value["citation"].clone(), |it| json!(it));
    if let Some(chunk) = chunk {
        value["chunk_id"] = json!(chunk);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::query::{answer, axql};
    use crate::graph::question::with_notes;
    use crate::graph::tests::graph;
    use crate::model::{EncodedPieces, Tier};

    /// Runs a query for passages with `honey`, as if the index had `hits` hits and only the first one matched.
    fn check(hits: usize) -> Value {
        let view = graph(&json!({"nodes": [{"id": 0, "key": "chunk:1#0", "type": "Chunk", "name": "bees.md#0"}]}));
        let ids: Vec<(FileId, ChunkId)> = (0..hits).map(|it| (1, ChunkId(format!("c{it}")))).collect();
        let chunk = Chunk {
            id: ChunkId("c0".into()),
            ordinal: 0,
            text: "Honey of May".into(),
            body_start: 0,
            anchor: Anchor::default(),
            pieces: EncodedPieces::default(),
            heading_path: Vec::new(),
            tokens: 3,
            tier: Tier::L1,
        };
        let chunks = vec![StoredChunk { file_id: 1, chunk }];
        let (nodes, note) = chunk_nodes(&view, "honey", keep_matching(&ids, chunks, "honey", KEYWORD_DEPTH));
        let query = axql::parse("select ?x where fts(?x, \"text\", \"honey\")").unwrap();
        let value = answer::run_query(view, &query, &[("honey".to_string(), nodes)].into(), false).unwrap();
        with_notes(value, note.into_iter().collect(), None)
    }

    #[test]
    fn every_search_hit_has_an_id() {
        let hit = |metadata: Value| {
            let Value::Object(metadata) = metadata else { panic!("not an object") };
            let (path, excerpt) = ("bees.md".to_string(), "31 kg".to_string());
            hit_json(&SearchHit {
                path,
                score: 0.5,
                tier: "L1".into(),
                layers: Vec::new(),
                excerpt,
                metadata,
                reasoning: String::new(),
            })
        };
        let passage = hit(json!({"chunk_ids": ["c7"], "anchor": {"line_start": 3, "line_end": 3}}));
        assert_eq!((&passage["id"], &passage["chunk_id"]), (&json!("c7"), &json!("c7")));
        assert_eq!(passage["citation"], "bees.md, line 3");
        let named = hit(json!({}));
        assert_eq!((&named["id"], named.get("chunk_id")), (&json!("bees.md"), None));
    }

    #[test]
    fn answer_notes_when_passage_search_was_cut() {
        let row = json!([{"?x": {"id": 0, "entity_type": "Chunk", "name": "bees.md#0"}}]);
        let whole = check(KEYWORD_DEPTH - 1);
        assert_eq!((&whole["rows"], &whole["truncated"], &whole["notes"]), (&row, &json!(false), &Value::Null));
        let cut = check(KEYWORD_DEPTH);
        assert_eq!((&cut["rows"], &cut["truncated"]), (&row, &json!(true)));
        assert!(cut["notes"][0].as_str().unwrap().contains("only the best 2000 chunks"), "{cut}");
    }
}
