//! Measures chunking with the tokenizer of the configured model in chunks per second, and the tokenizer alone in bytes per
//! second.
//!
//! Corpus: the documents of `--folder DIR`, else the sample files, extracted before the timing starts.
//!
//! ```text
//! cargo bench --profile release --bench chunk
//! ```

mod measure;

use vic::chunk::{ChunkSettings, Chunker};
use vic::config::Config;
use vic::embed;
use vic::extract::{Tools, extract_bytes};
use vic::model::{ContentHash, Document, ExtractLimits};

use measure::{Outcome, corpus_folder, measure, number_argument};

fn main() -> Outcome {
    // Must run before any thread starts; otherwise no model can be loaded.
    vic::embed::disable_telemetry();
    let runs = number_argument("runs", 7)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let counter = runtime.block_on(embed::open(&Config::load()?))?.token_counter();
    let chunker = Chunker::new(counter.clone(), ChunkSettings::default());
    let documents = documents()?;
    let hash = ContentHash([0; 32]);
    let characters: usize = documents.iter().map(|it| it.text().len()).sum();
    let chunks: usize = documents.iter().map(|it| chunker.chunk(it, &hash).len()).sum();
    let cut = || documents.iter().for_each(|it| drop(chunker.chunk(it, &hash)));
    measure("chunk", runs, chunks as f64, "chunks", || {
        cut();
        Ok(())
    })?;
    measure("tokenize alone", runs, characters as f64, "bytes", || {
        documents.iter().for_each(|it| drop(counter.token_spans(&it.text())));
        Ok(())
    })
}

fn documents() -> Outcome<Vec<Document>> {
    let mut documents = Vec::new();
    for entry in walkdir::WalkDir::new(corpus_folder()) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let bytes = std::fs::read(entry.path())?;
            let name = entry.file_name().to_string_lossy();
            documents.extend(extract_bytes(&bytes, &name, &ExtractLimits::default(), &Tools::default()).ok());
        }
    }
    Ok(documents)
}
