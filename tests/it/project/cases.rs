//! Tests that `tests/CASES.md`, the map of adversarial cases, lists every case once and names only tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

/// Number of cases per letter: A1 to A14, B1 to B13 and so on.
const CASES_PER_LETTER: [(char, usize); 5] = [('A', 14), ('B', 13), ('C', 17), ('D', 14), ('E', 14)];

/// Returns whether an attribute line declares a test function.
fn is_test(attribute: &str) -> bool {
    attribute.starts_with("#[test]") || attribute.starts_with("#[tokio::test")
}

/// Returns the names of the test functions in a source file.
fn tests_in(source: &str) -> BTreeSet<String> {
    let (mut names, mut is_marked) = (BTreeSet::new(), false);
    for line in source.lines().map(str::trim) {
        let function = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        match function.and_then(|it| it.split(['(', '<']).next()) {
            Some(name) if is_marked => {
                names.insert(name.to_string());
                is_marked = false;
            }
            Some(_) => is_marked = false,
            None => is_marked |= is_test(line),
        }
    }
    names
}

/// Returns the names of all test functions of the project.
fn project_tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries =
        ["src", "crates", "tests/it"].into_iter().flat_map(|it| walkdir::WalkDir::new(root.join(it))).flatten();
    let sources = entries.filter(|it| it.path().extension().is_some_and(|it| it == "rs"));
    sources.flat_map(|it| tests_in(&std::fs::read_to_string(it.path()).unwrap())).collect()
}

/// Returns the errors in a map of cases.
fn map_errors(map: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut missing: BTreeSet<String> = CASES_PER_LETTER
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |it| format!("{letter}{it}")))
        .collect();
    let mut wrong = Vec::new();
    for row in map.lines().filter_map(|it| it.strip_prefix("| ")?.strip_suffix(" |")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        if cells[0] == "case" {
            continue;
        }
        if !missing.remove(cells[0]) {
            wrong.push(format!("{}: listed twice, or not a case", cells[0]));
        }
        if cells.len() != 4 || cells.iter().any(|it| it.trim().is_empty()) {
            wrong.push(format!("{}: {} columns", cells[0], cells.len()));
            continue;
        }
        // Names of tests are between backticks, so in every second part. Names with `VIC_` are variables.
        let named: Vec<&str> = cells[3].split('`').skip(1).step_by(2).filter(|it| !it.starts_with("VIC_")).collect();
        wrong.extend(named.iter().filter(|it| !tests.contains(**it)).map(|it| format!("{}: no test `{it}`", cells[0])));
        if named.is_empty() {
            wrong.push(format!("{}: no test is named", cells[0]));
        }
    }
    wrong.extend(missing.into_iter().map(|it| format!("{it}: missing")));
    wrong
}

#[test]
fn cases_map_is_complete_and_names_existing_tests() {
    let map = include_str!("../../CASES.md");
    let tests = project_tests();
    assert!(tests.len() > 1_000, "{} tests", tests.len());
    let wrong = map_errors(map, &tests);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let checks = |changed: &str, told: &str| {
        let wrong = map_errors(changed, &tests);
        assert!(wrong.iter().any(|it| it.contains(told)), "{told}: {wrong:?}");
    };
    checks(&map.replace("| A3 |", "| A2 |"), "A2: listed twice");
    checks(&map.replace("| A3 |", "| A2 |"), "A3: missing");
    checks(&map.replace("| E14 |", "| F1 |"), "F1: listed twice, or not a case");
    checks(&map.replace("`a3_files_of", "`a3_file_of"), "A3: no test `a3_file_of");
}
