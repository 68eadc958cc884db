//! Measures text extraction in this process, without worker processes: files per second for each file extension.
//!
//! Corpus: `--folder DIR`, else the sample files. Files that cannot be read count like other files.
//!
//! ```text
//! cargo bench --profile release --bench extract -- --folder ~/Documents
//! ```

mod measure;

use std::collections::BTreeMap;

use serde_json::json;
use vic::config::Config;
use vic::embed::models::ModelStore;
use vic::extract::{Tools, extract_bytes};
use vic::model::ExtractLimits;

use measure::{Outcome, Times, corpus_folder, number_argument};

fn main() -> Outcome {
    let runs = number_argument("runs", 5)?;
    let pdfium = ModelStore::new(Config::load()?.model_dirs).library("pdfium").ok();
    let (tools, limits) = (Tools { pdfium, ocr: None }, ExtractLimits::default());
    let mut by_extension: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    for entry in walkdir::WalkDir::new(corpus_folder()) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let extension = entry.path().extension().unwrap_or_default().to_string_lossy().to_lowercase();
            let name = entry.file_name().to_string_lossy().into_owned();
            by_extension.entry(extension).or_default().push((name, std::fs::read(entry.path())?));
        }
    }
    for (extension, files) in by_extension {
        let read = || files.iter().filter(|(name, bytes)| extract_bytes(bytes, name, &limits, &tools).is_ok()).count();
        let readable = read();
        let mut times = Times::default();
        for _ in 0..runs {
            times.time(read);
        }
        let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let more = json!({ "files": files.len(), "read": readable, "kib": bytes / 1024 });
        times.report(&format!("extract .{extension}"), files.len() as f64, "files", more);
    }
    Ok(())
}
