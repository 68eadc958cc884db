//! Tests the dependencies in `Cargo.lock` against `deny.toml`.

use std::fs;
use std::path::Path;

use regex::Regex;
use semver::{Version, VersionReq};
use toml::{Table, Value};

fn read(file: &str) -> Table {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap().parse().unwrap()
}

/// Returns the string field with this name of a TOML table.
fn field<'a>(it: &'a Value, name: &str) -> &'a str {
    it[name].as_str().unwrap()
}

/// Returns the packages of a lock file that the deny list matches.
fn denied<'a>(lock: &'a Table, list: &Table) -> Vec<(&'a str, Version)> {
    let packages = lock["package"].as_array().unwrap().iter();
    let packages = packages.map(|it| (field(it, "name"), field(it, "version").parse::<Version>().unwrap()));
    let entries: Vec<_> = list["bans"]["deny"].as_array().unwrap().iter().map(|it| field(it, "crate")).collect();
    let is_denied = |name: &str, version: &Version| {
        entries.iter().any(|entry| {
            let (of, versions) = entry.split_once(':').unwrap_or((entry, "*"));
            of == name && VersionReq::parse(versions).unwrap().matches(version)
        })
    };
    packages.filter(|(name, version)| is_denied(name, version)).collect()
}

#[test]
fn locked_dependencies_are_not_denied() {
    let list = read("deny.toml");
    assert_eq!(denied(&read("Cargo.lock"), &list), []);
    // Control: the deny list must match two versions with known vulnerabilities.
    let old = "[[package]]\nname = 'rmcp'\nversion = '1.3.0'\n[[package]]\nname = 'lopdf'\nversion = '0.41.0'"
        .parse()
        .unwrap();
    assert_eq!(denied(&old, &list).len(), 2);
}

#[test]
fn advisory_exceptions_have_date_and_reason() {
    let list = read("deny.toml");
    let form = Regex::new(r"^20\d\d-\d\d-\d\d: \S.{20,}").unwrap();
    for it in list["advisories"]["ignore"].as_array().unwrap() {
        assert!(form.is_match(field(it, "reason")), "{it}");
    }
}
