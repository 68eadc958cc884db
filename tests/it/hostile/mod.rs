//! Files and programs that mean harm: what readers are given here, nobody sends by accident.

mod bombs;
mod escape;
mod mutants;
mod outside;
mod secrets;
mod slow;

use std::io::Write;
use std::path::{Path, PathBuf};

use vic::embed::models::ModelStore;
use vic::extract::{PoolSettings, Tools, WorkerPool};
use vic::model::{Document, ExtractFailure, ExtractLimits};

/// A pool of one of the daemon's own workers, or of those of another program.
fn pool(program: &Path, limits: ExtractLimits) -> WorkerPool {
    let tools = Tools { pdfium: models().library("pdfium").ok(), ocr: None };
    assert!(tools.pdfium.is_some(), "`make models` fetches the PDF library");
    WorkerPool::new(program.into(), PoolSettings { workers: 1, limits, tools, skills: false })
}

fn models() -> ModelStore {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache");
    ModelStore::new(vec![std::env::var_os("VIC_MODELS_DIR").map_or(cache, PathBuf::from)])
}

fn worker() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_vicd"))
}

/// Has a worker read these bytes.
async fn read(pool: &WorkerPool, name: &str, bytes: &[u8]) -> Result<Document, ExtractFailure> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    pool.extract(file, name).await
}
