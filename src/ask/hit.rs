//! Builds the hits of a search: path, excerpt, metadata, and a reasoning text that lists the facts behind the score.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};

use crate::ask::citation::CitationStatus;
use crate::ask::fuse::FusedFile;
use crate::ask::question::Question;
use crate::ask::{excerpt, fuse};
use crate::model::{
    Anchor, Chunk, FileId, FileRecord, FileState, L0Filters, SearchHit, Tier, display_path, display_relative,
};

/// A hit, with the data from which the answer and its summary are built.
#[derive(Clone, Debug)]
pub(crate) struct RankedHit {
    pub(crate) hit: SearchHit,
    pub(crate) record: FileRecord,
    /// The shown passage; `None` if only the file's name or metadata matched.
    pub(crate) evidence: Option<Box<Evidence>>,
}

/// The passage that a hit shows, with the values that tell how well it matches the question.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    pub(crate) chunk: Chunk,
    /// Location of the excerpt in the file.
    pub(crate) anchor: Anchor,
    /// The best passages of the file, best first; empty for lower-ranked hits, which an answer does not quote.
    pub(crate) passages: Vec<Passage>,
    /// Number of the question's words in the best passages of the file or in its path.
    pub(crate) words_matched: usize,
    /// Cosine between the question and the most similar passage of the file, if known.
    pub(crate) similarity: Option<f32>,
}

/// A passage of a file with its relevance to a question.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) chunk: Chunk,
    /// Place of the cosine between passage and question: 0 as of unrelated texts, 1 as of an answer; `None` if unknown.
    pub(crate) nearness: Option<f32>,
    /// Score from keyword search, vector search and wording, 0 to 1.
    pub(crate) score: f32,
}

impl RankedHit {
    /// Returns the path and a location in the file as text, e.g. `Contracts/lease.pdf, page 3`.
    pub(crate) fn citation(&self, anchor: &Anchor) -> String {
        let (path, place) = (shown_path(&self.record, anchor.member.as_deref()), anchor.place());
        if place.is_empty() { path } else { format!("{path}, {place}") }
    }
}

/// The hits and warnings of a search, before the answer is built.
#[derive(Default)]
pub(super) struct SearchOutcome {
    pub(super) hits: Vec<RankedHit>,
    /// Number of distinct files that matched, before `hits` was cut at the limit.
    pub(super) merged: usize,
    pub(super) warnings: Vec<String>,
    /// The vector of the question, if it was embedded.
    pub(super) vector: Option<Vec<f32>>,
    /// Weight of each content word of the question, higher for rarer words; the keys are those of `word_runs::word_key`.
    pub(super) word_weights: HashMap<String, f32>,
}

impl SearchOutcome {
    pub(super) fn search_hits(&self) -> Vec<SearchHit> {
        self.hits.iter().map(|it| it.hit.clone()).collect()
    }
}

/// Adds the other files of a larger ranking to the hits of a smaller one, up to `limit` hits.
pub(super) fn add_larger_ranking(hits: &mut Vec<RankedHit>, larger: Vec<RankedHit>, limit: usize) {
    let known: HashSet<FileId> = hits.iter().map(|it| it.record.id).collect();
    hits.extend(larger.into_iter().filter(|it| !known.contains(&it.record.id)));
    hits.truncate(limit);
}

/// Makes a hit that shows an excerpt of a chunk.
pub(crate) fn from_chunk(
    question: &Question,
    record: &FileRecord,
    chunk: &Chunk,
    fused: &FusedFile,
    words_in_file: usize,
    standing: CitationStatus,
) -> RankedHit {
    let words = &question.words;
    let body = chunk.body();
    // Takes the excerpt from a single page, because the citation can name only one page.
    let page = chunk.page_around(excerpt::best_sentence(words, body).start);
    let shown = excerpt::excerpt(words, &body[page.clone()]);
    let shown = page.start + shown.start..page.start + shown.end;
    let anchor = chunk.body_anchor(shown.clone());
    let present = excerpt::words_present(words, &chunk.text);
    let mut layers = vec![Tier::L1.name().to_string()];
    if question.plan.l0_filters.is_some() {
        layers.insert(0, Tier::L0.name().into());
    }
    let hit = SearchHit {
        path: shown_path(record, chunk.anchor.member.as_deref()),
        score: f64::from(fused.score),
        tier: Tier::L1.name().into(),
        layers,
        excerpt: body[shown].trim().to_string(),
        metadata: passage_metadata(question, record, (chunk, &anchor), fused, standing),
        reasoning: reasoning(question, &present, fused, standing),
    };
    let evidence = Evidence {
        chunk: chunk.clone(),
        anchor,
        passages: Vec::new(),
        words_matched: words_in_file.max(present.len()),
        similarity: fused.chunks().filter_map(|it| it.similarity).max_by(f32::total_cmp),
    };
    RankedHit { hit, record: record.clone(), evidence: Some(Box::new(evidence)) }
}

/// Makes a hit for a file found by its name; `held` are the words of the question that the name contains.
pub(crate) fn from_name(question: &Question, record: &FileRecord, held: &[String], score: f64) -> RankedHit {
    let names = format!("{} of {} words in the file's name ({})", held.len(), question.words.len(), held.join(", "));
    from_record(question, record, score, names)
}

/// Makes a hit for a file that was listed by metadata alone.
pub(crate) fn from_listing(question: &Question, record: &FileRecord) -> RankedHit {
    from_record(question, record, 1.0, String::new())
}

/// Makes a hit for a file that passes the filter, but whose text was not searched.
pub(crate) fn from_filter(question: &Question, record: &FileRecord) -> RankedHit {
    from_record(question, record, 0.0, "its text was not searched".into())
}

fn from_record(question: &Question, record: &FileRecord, score: f64, fact: String) -> RankedHit {
    let mut parts = Vec::from_iter(Some(fact).filter(|it| !it.is_empty()));
    parts.extend(describe_filter(question));
    parts.extend(record.reason.map(|it| format!("not in the index: {}", it.name())));
    let mut metadata = file_metadata(record);
    if record.state != FileState::Indexed {
        metadata.insert("state".into(), json!(record.state.name()));
        metadata.extend(record.reason.map(|it| ("reason".to_string(), json!(it.name()))));
    }
    let hit = SearchHit {
        path: shown_path(record, None),
        score,
        tier: Tier::L0.name().into(),
        layers: vec![Tier::L0.name().into()],
        excerpt: String::new(),
        metadata,
        reasoning: parts.join("; "),
    };
    RankedHit { hit, record: record.clone(), evidence: None }
}

/// Returns the path that hits show: relative to the root of the file, and `archive.zip!/member` for a file in an archive.
pub(crate) fn shown_path(record: &FileRecord, member: Option<&str>) -> String {
    display_relative(&record.root, &record.found.path, member)
}

/// Returns the metadata of a file from the catalog (the L0 fields).
fn file_metadata(record: &FileRecord) -> Map<String, Value> {
    let modified = DateTime::from_timestamp_nanos(record.found.modified_ns);
    let facts = json!({
        "root": display_path(&record.root),
        "absolute_path": display_path(&record.absolute()),
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

/// Returns the metadata of a file (the L0 fields), the location of the excerpt, and the ranks in keyword and vector search.
fn passage_metadata(
    question: &Question,
    record: &FileRecord,
    (chunk, anchor): (&Chunk, &Anchor),
    fused: &FusedFile,
    standing: CitationStatus,
) -> Map<String, Value> {
    let mut metadata = file_metadata(record);
    metadata.insert("chunk_ids".into(), json!([chunk.id.0]));
    metadata.insert("chunk_tier".into(), json!(chunk.tier.name()));
    metadata.insert("anchor".into(), json!(anchor));
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
    if !fused.copies.is_empty() {
        metadata.insert("copies".into(), json!(fused.copies));
    }
    if question.explain {
        metadata.insert("explain".into(), fuse::explain_score(fused));
    }
    metadata
}

/// Returns the facts behind a hit: matched words, ranks, similarity, required terms, and the metadata filter.
fn reasoning(question: &Question, present: &[&str], fused: &FusedFile, standing: CitationStatus) -> String {
    let mut parts = Vec::new();
    if !question.words.is_empty() {
        let shown = if present.is_empty() { String::new() } else { format!(" ({})", present.join(", ")) };
        parts.push(format!("{} of {} words{shown}", present.len(), question.words.len()));
    }
    if let Some((rank, _)) = fused.keyword {
        parts.push(format!("keyword rank {rank}"));
    }
    match (fused.vector, fused.similarity) {
        (Some((rank, _)), Some(similarity)) => parts.push(format!("similarity {similarity:.2}, rank {rank}")),
        (None, Some(similarity)) => parts.push(format!("similarity {similarity:.2}")),
        (_, None) => (),
    }
    parts.extend(Some(question.terms.describe()).filter(|it| !it.is_empty()).map(str::to_string));
    parts.extend(describe_filter(question));
    if standing == CitationStatus::Verified {
        parts.push("passage verified in the file".into());
    }
    if !fused.copies.is_empty() {
        parts.push(format!("{} other files are near-duplicates", fused.copies.len()));
    }
    parts.join("; ")
}

/// Describes the metadata filter in words; `None` if the question has none.
fn describe_filter(question: &Question) -> Option<String> {
    let L0Filters {
        extensions,
        path_glob,
        modified_after,
        modified_before,
        min_size,
        max_size,
        owner,
        language,
        author,
    } = question.plan.l0_filters.clone()?;
    let mut parts = Vec::new();
    parts.extend(Some(extensions.join(" ")).filter(|it| !it.is_empty()));
    parts.extend(path_glob);
    let date = if question.filter.mail_dates { "mail date" } else { "modified" };
    parts.extend(modified_after.map(|it| format!("{date} from {it}")));
    parts.extend(modified_before.map(|it| format!("{date} before {it}")));
    parts.extend(min_size.map(|it| format!("at least {it} bytes")));
    parts.extend(max_size.map(|it| format!("at most {it} bytes")));
    parts.extend(owner.map(|it| format!("owned by {it}")));
    parts.extend(language.map(|it| format!("in the language {it}")));
    parts.extend(author.map(|it| format!("from {it}")));
    (!parts.is_empty()).then(|| format!("meets the filter: {}", parts.join(", ")))
}
