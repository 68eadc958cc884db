//! Tests with hostile input: files, requests and replies of servers that an attacker could make.

mod archives;
mod bombs;
mod grpc_mutants;
mod daemon_mutants;
mod external_references;
mod jail_escape;
mod format_coverage;
mod ocr_bombs;
mod mutants;
mod misnamed_files;
mod path_escape;
mod pdf_bombs;
mod picture_bombs;
mod query_mutants;
mod symlink_race;
mod model_reply_mutants;
mod request_mutants;
mod secrets;
mod settings_mutants;
mod slow_files;
mod secret_names;
mod read_apis;

use std::io::Write;
use std::path::{Path, PathBuf};

use vic::embed::models::ModelStore;
use vic::extract::{PoolSettings, Tools, WorkerPool};
use vic::model::{Document, ExtractFailure, ExtractLimits};

/// Returns a pool with one extraction worker that runs this program.
fn one_worker_pool(program: &Path, limits: ExtractLimits) -> WorkerPool {
    let tools = Tools { pdfium: model_store().library("pdfium").ok(), ocr: None };
    assert!(tools.pdfium.is_some(), "`make models` fetches the PDF library");
    WorkerPool::new(program.into(), PoolSettings { workers: 1, limits, tools, skills: false })
}

fn model_store() -> ModelStore {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache");
    ModelStore::new(vec![std::env::var_os("VIC_MODELS_DIR").map_or(cache, PathBuf::from)])
}

fn worker_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_vic-worker"))
}

/// Extracts these bytes in a worker of the pool, as a file with this name.
async fn extract_with(pool: &WorkerPool, name: &str, bytes: &[u8]) -> Result<Document, ExtractFailure> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    pool.extract(file, name).await
}

#[tokio::test]
async fn worker_runs_under_stricter_inherited_limits() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("vicd");
    // Starts the worker with stricter limits on CPU time and address space than the worker sets for itself.
    let script = format!("#!/bin/sh\nulimit -t 600\nulimit -v 1200000\nexec {} \"$@\"\n", worker_program().display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pool = one_worker_pool(&program, ExtractLimits::default());
    let document = extract_with(&pool, "a.txt", b"The heron stands in the reeds.").await.unwrap();
    assert_eq!(document.text(), "The heron stands in the reeds.");
    assert_eq!(pool.problems(), Vec::<String>::new());
}
