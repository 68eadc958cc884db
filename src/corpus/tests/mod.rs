//! Tests of the whole corpus API: rejected requests, objects in labelled documents, and the token cost of answers.

mod schema_check;
mod delta;
mod explain;
mod first_requests;
mod objects;
mod verb_results;
mod labelled;
mod sessions;
mod published_schemas;
mod validation;
mod answer_limits;
mod determinism;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::embed::tokenizer::ModelTokenizer;
use crate::extract::{Tools, extract_bytes, kind_of_name};
use crate::model::{ContentHash, ExtractLimits, Redaction};

/// Returns the folder of the labelled documents.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus")
}

/// Returns the tokenizer of the default model, which `make test` downloads: the limits count its tokens.
pub(super) fn tokenizer() -> ModelTokenizer {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache/all-MiniLM-L6-v2/tokenizer.json");
    ModelTokenizer::open(&path, 256, "").expect("run `make models` first")
}

/// Parses bytes as a file with this name.
pub(super) fn reading(name: &str, bytes: &[u8]) -> ParsedDocument {
    let document = extract_bytes(bytes, name, &ExtractLimits::default(), &Tools::default()).unwrap();
    let extension = name.rsplit('.').next().unwrap().to_string();
    let raw =
        String::from_utf8(bytes.to_vec()).ok().filter(|_| !["docx", "xlsx", "epub", "pdf"].contains(&&*extension));
    ParsedDocument::parse(&extension, kind_of_name(name), document, raw, Redaction::default())
}

/// Parses bytes as a document with this id and name.
pub(super) fn paper(file: i64, name: &str, bytes: &[u8]) -> CorpusDocument {
    let hash = ContentHash(*blake3::hash(bytes).as_bytes());
    let reading = Arc::new(reading(name, bytes));
    CorpusDocument {
        file,
        path: name.into(),
        modified_ns: file * 1_000_000_000,
        size: bytes.len() as u64,
        hash,
        parsed: reading,
    }
}

/// Returns a view of these documents, given as (name, text).
pub(in crate::corpus) fn corpus(files: &[(&str, &str)]) -> Corpus {
    let papers = (1..).zip(files).map(|(number, (name, text))| paper(number, name, text.as_bytes())).collect();
    Corpus { view: Value::Null, documents: papers, ..Corpus::default() }
}

/// Returns a view of the labelled documents, sorted by name.
pub(super) fn labelled() -> Corpus {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|it| it.unwrap().path()).collect();
    names.retain(|it| it.extension().is_some_and(|it| it != "jsonl"));
    names.sort();
    let read = |(number, path): (i64, &PathBuf)| {
        paper(number, path.file_name().unwrap().to_str().unwrap(), &std::fs::read(path).unwrap())
    };
    Corpus { view: Value::Null, documents: (1..).zip(&names).map(read).collect(), ..Corpus::default() }
}
