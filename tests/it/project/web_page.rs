//! Rules for the files of the web page: small, readable, in two languages, without anything that its policy forbids.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use regex::Regex;

/// Maximum size of all files together as a browser loads them, compressed by gzip, in bytes.
const MAX_BYTES: usize = 150_000;

/// Returns the files of the page with their contents.
fn files() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("ui")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push((path.clone(), std::fs::read_to_string(&path).unwrap())),
            }
        }
    }
    files
}

#[test]
fn page_is_small() {
    let compressed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap().len()
    };
    let total: usize = files().iter().map(|it| compressed(&it.1)).sum();
    assert!(total <= MAX_BYTES, "the files of the page have {total} bytes compressed");
}

#[test]
fn page_has_nothing_that_its_policy_forbids() {
    let own = files().into_iter().filter(|it| !it.0.to_string_lossy().contains("/vendor/"));
    for (path, text) in own {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            " style=\"",
            "<style",
        ] {
            assert!(!text.contains(forbidden), "`{forbidden}` in {}", path.display());
        }
        let foreign = text.lines().find(|it| it.contains("http://") || it.contains("https://"));
        let is_name = |it: &str| it.contains("http://www.w3.org/") || it.contains("127.0.0.1");
        assert!(foreign.is_none_or(is_name), "{foreign:?} in {}", path.display());
    }
}

/// Returns the keys of a file with texts.
fn keys(text: &str) -> BTreeSet<String> {
    let key = Regex::new(r#"(?:[{,]|^)\s*'?(\w+)'?:\s*['"`]"#).unwrap();
    text.lines().flat_map(|line| key.captures_iter(line).map(|it| it[1].to_string()).collect::<Vec<_>>()).collect()
}

#[test]
fn texts_have_the_same_keys_in_both_languages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui/texts");
    let [english, german] = ["en.js", "de.js"].map(|it| keys(&std::fs::read_to_string(folder.join(it)).unwrap()));
    assert!(english.len() > 100, "{} texts", english.len());
    assert_eq!(english.difference(&german).collect::<Vec<_>>(), Vec::<&String>::new(), "missing in German");
    assert_eq!(german.difference(&english).collect::<Vec<_>>(), Vec::<&String>::new(), "missing in English");
}
