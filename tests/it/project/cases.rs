//! Generates `tests/CASES.md`, the list of adversarial cases with their tests, from `tests/cases.toml` and from the tags
//! above the tests, and checks that it is up to date.
//!
//! A tag is a comment above the attributes of a test: `// Case A1` or `// Cases A1, B3`. `UPDATE_CASES=1 cargo test
//! --release --test it cases` writes the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

const HEAD: &str = "\
# Adversarial cases and the tests that prove them

One row per case: what is done to vic, what must happen, and the tests that assert it. In every case the same daemon process
must keep running and continue with the other files; the tests with mutated and hostile files assert that too. This file is
generated from `tests/cases.toml` and from the tags above the tests; see `tests/it/project/cases.rs`.
";

#[derive(Deserialize)]
struct Cases {
    section: Vec<Section>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Section {
    letter: char,
    title: String,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    attack: String,
    expected: String,
    /// The part of the case that the tests do not prove, if any.
    note: Option<String>,
}

fn project_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Adds the tagged tests of a source file, by case. A tag that no test follows is an error.
fn add_tagged_tests(source: &str, tests: &mut BTreeMap<String, BTreeSet<String>>) -> Result<(), String> {
    let (mut ids, mut is_test): (Vec<String>, bool) = (Vec::new(), false);
    for line in source.lines().map(str::trim) {
        if let Some(list) = line.strip_prefix("// Cases ").or_else(|| line.strip_prefix("// Case ")) {
            ids = list.split(", ").map(String::from).collect();
        }
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let function = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        let Some(name) = function.and_then(|it| it.split(['(', '<']).next()) else { continue };
        if !is_test && !ids.is_empty() {
            return Err(format!("the tag above `{name}` belongs to no test"));
        }
        for id in ids.drain(..) {
            tests.entry(id).or_default().insert(name.to_string());
        }
        is_test = false;
    }
    Ok(())
}

/// Returns the tagged tests of the project, by case.
fn tagged_tests() -> BTreeMap<String, BTreeSet<String>> {
    let mut tests = BTreeMap::new();
    for entry in ["src", "crates", "tests/it"].iter().flat_map(|it| walkdir::WalkDir::new(project_path(it))).flatten() {
        if entry.path().extension().is_some_and(|it| it == "rs") && !entry.path().ends_with("project/cases.rs") {
            let source = std::fs::read_to_string(entry.path()).unwrap();
            add_tagged_tests(&source, &mut tests).unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
        }
    }
    tests
}

/// Renders the text of `tests/CASES.md`. The cases of a section are numbered without gaps, and each has a test.
fn render(cases: &Cases, mut tests: BTreeMap<String, BTreeSet<String>>) -> Result<String, String> {
    let mut map = HEAD.to_string();
    let mut rest = cases.case.iter();
    for Section { letter, title } in &cases.section {
        let count = cases.case.iter().filter(|it| it.id.starts_with(*letter)).count();
        write!(
            map,
            "\n## {letter}. {title}\n\n| case | what is done | what is expected | tests |\n|---|---|---|---|\n"
        )
        .unwrap();
        for number in 1..=count {
            let case = rest.next().filter(|it| it.id == format!("{letter}{number}"));
            let case = case.ok_or_else(|| format!("the case {letter}{number} is missing or not in its place"))?;
            let names = tests.remove(&case.id).ok_or_else(|| format!("{} has no test", case.id))?;
            let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
            let note = case.note.as_ref().map(|it| format!("; {it}")).unwrap_or_default();
            writeln!(map, "| {} | {} | {} | {}{note} |", case.id, case.attack, case.expected, names.join(" ")).unwrap();
        }
    }
    match tests.keys().next() {
        Some(id) => Err(format!("{:?} are tagged with {id}, which is no case", tests[id])),
        None => Ok(map),
    }
}

#[test]
fn cases_map_matches_tags_at_tests() {
    let cases: Cases = toml::from_str(&std::fs::read_to_string(project_path("tests/cases.toml")).unwrap()).unwrap();
    let map = render(&cases, tagged_tests()).unwrap();
    let path = project_path("tests/CASES.md");
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&path, &map).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == map, "tests/CASES.md is out of date: run with UPDATE_CASES=1");
}

#[test]
fn invalid_case_tags_are_reported() {
    let cases = |text: &str| toml::from_str::<Cases>(text).unwrap();
    let section = "[[section]]\nletter = 'A'\ntitle = 'T'\n";
    let case = "[[case]]\nid = 'A1'\nattack = 'a'\nexpected = 'e'\n";
    let tags = |ids: &[&str]| ids.iter().map(|it| (it.to_string(), BTreeSet::from(["t".to_string()]))).collect();
    let map = render(&cases(&format!("{section}{case}")), tags(&["A1"])).unwrap();
    assert!(map.ends_with("| A1 | a | e | `t` |\n"), "{map}");
    let error = |text: String, ids: &[&str]| render(&cases(&text), tags(ids)).unwrap_err();
    assert!(error(format!("{section}{case}"), &[]).contains("A1 has no test"));
    assert!(error(format!("{section}{case}"), &["A1", "A2"]).contains("A2, which is no case"));
    assert!(error(format!("{section}{}", case.replace("A1", "A2")), &["A2"]).contains("A1 is missing"));
    let source = "// Case A1\nfn helper() {}";
    assert!(add_tagged_tests(source, &mut BTreeMap::new()).unwrap_err().contains("no test"));
}
