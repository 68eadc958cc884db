//! One hit as the answer shows it: path, excerpt, metadata, and reasoning made of facts.

use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};

use crate::ask::citation::Standing;
use crate::ask::excerpt;
use crate::ask::fuse::Fused;
use crate::model::{Chunk, FileRecord, QueryPlan, SearchHit, Tier};

/// Sentences of the answer's summary at most.
const SUMMARY_HITS: usize = 3;

/// A hit with the sentence that the summary may quote.
pub(crate) struct Found {
    pub(crate) hit: SearchHit,
    sentence: String,
    /// Path and place, e.g. `Contracts/lease.pdf, page 3`.
    place: String,
    words_matched: usize,
}

/// Makes a hit of a chunk.
pub(crate) fn from_chunk(
    plan: &QueryPlan,
    record: &FileRecord,
    chunk: &Chunk,
    fused: &Fused,
    standing: Standing,
) -> Found {
    let words = excerpt::content_words(plan.l1_query_text.as_deref().unwrap_or(&plan.raw_user_text));
    let body = chunk.body();
    let mut metadata = facts(record);
    metadata.insert("chunk_ids".into(), json!([chunk.id.0]));
    metadata.insert("anchor".into(), json!(chunk.anchor));
    if !chunk.heading_path.is_empty() {
        metadata.insert("heading_path".into(), json!(chunk.heading_path));
    }
    if let Some((rank, score)) = fused.keyword {
        metadata.insert("keyword".into(), json!({ "rank": rank, "bm25": score }));
    }
    if let Some((rank, similarity)) = fused.vector {
        metadata.insert("vector".into(), json!({ "rank": rank, "cosine": similarity }));
    }
    if let Some(similarity) = fused.similarity {
        metadata.insert("similarity".into(), json!(similarity));
    }
    metadata.insert("citation".into(), json!(standing.name()));
    let present = excerpt::words_present(&words, &chunk.text);
    let words_matched = present.len();
    let mut layers = vec![Tier::L1.name().to_string()];
    if plan.l0_filters.is_some() {
        layers.insert(0, Tier::L0.name().into());
    }
    let hit = SearchHit {
        path: shown_path(record, chunk.anchor.member.as_deref()),
        score: f64::from(fused.score),
        tier: chunk.tier.name().into(),
        layers,
        excerpt: body[excerpt::excerpt(&words, body)].trim().to_string(),
        metadata,
        reasoning: reasoning(&words, &present, fused, standing),
    };
    let place = match chunk.anchor.place() {
        place if place.is_empty() => hit.path.clone(),
        place => format!("{}, {place}", hit.path),
    };
    Found { hit, sentence: excerpt::best_sentence(&words, body).to_string(), place, words_matched }
}

/// Makes a hit of a file whose name matches.
pub(crate) fn from_name(words: &[String], record: &FileRecord) -> Found {
    let hit = SearchHit {
        path: shown_path(record, None),
        score: 0.5,
        tier: Tier::L0.name().into(),
        layers: vec![Tier::L0.name().into()],
        excerpt: String::new(),
        metadata: facts(record),
        reasoning: format!("the file's name holds: {}", words.join(", ")),
    };
    Found { hit, sentence: String::new(), place: String::new(), words_matched: 0 }
}

/// What the answer says in words: the best sentences of the best hits, quoted, each with its place. None when no hit
/// holds a word of the question: then nothing is quoted that may not answer it.
pub(crate) fn summary(plan: &QueryPlan, hits: &[Found]) -> Option<String> {
    let most = hits.iter().map(|it| it.words_matched).max().filter(|it| *it > 0)?;
    let quoted: Vec<String> = hits
        .iter()
        .enumerate()
        .filter(|(_, it)| it.words_matched * 4 >= most * 3 && !it.sentence.is_empty())
        .take(SUMMARY_HITS)
        .map(|(index, it)| format!("[{}] \"{}\" ({})", index + 1, it.sentence, it.place))
        .collect();
    (!quoted.is_empty() && plan.intent == "search").then(|| quoted.join("\n"))
}

pub(crate) fn shown_path(record: &FileRecord, member: Option<&str>) -> String {
    let path = record.found.path.to_string_lossy();
    member.map_or_else(|| path.to_string(), |member| format!("{path}!/{member}"))
}

/// The L0 fields of a file.
fn facts(record: &FileRecord) -> Map<String, Value> {
    let modified = DateTime::from_timestamp_nanos(record.found.modified_ns);
    let facts = json!({
        "root": record.root.to_string_lossy(),
        "absolute_path": record.absolute().to_string_lossy(),
        "name": record.found.path.file_name().map(|it| it.to_string_lossy()),
        "extension": record.extension,
        "size": record.found.size,
        "modified": modified.to_rfc3339_opts(SecondsFormat::Secs, true),
        "owner": record.owner,
        "kind": record.kind,
        "media_type": record.media_type,
    });
    match facts {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Facts only: which words stand there, how near it is, at which place of which leg.
fn reasoning(words: &[String], present: &[&str], fused: &Fused, standing: Standing) -> String {
    let mut parts = Vec::new();
    if !words.is_empty() {
        let shown = if present.is_empty() { String::new() } else { format!(" ({})", present.join(", ")) };
        parts.push(format!("{} of {} words{shown}", present.len(), words.len()));
    }
    if let Some((rank, _)) = fused.keyword {
        parts.push(format!("keyword rank {rank}"));
    }
    match (fused.vector, fused.similarity) {
        (Some((rank, similarity)), _) => parts.push(format!("similarity {similarity:.2}, rank {rank}")),
        (None, Some(similarity)) => parts.push(format!("similarity {similarity:.2}")),
        (None, None) => (),
    }
    if standing == Standing::Verified {
        parts.push("passage read again in the file".into());
    }
    parts.join("; ")
}
