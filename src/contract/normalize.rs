//! NORMALIZE: which spellings are the same thing, as mapping tables. The same table maps its own canonical forms to
//! themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use semver::Version;
use serde_json::{Value, json};
use strsim::jaro_winkler;

use crate::contract::answer::{Answer, Unknown};
use crate::contract::corpus::Corpus;
use crate::contract::dates;
use crate::contract::refusal::Outcome;
use crate::contract::snippets;
use crate::contract::tidy;
use crate::contract::validate::Request;
use crate::contract::words;
use crate::model::FileId;

/// Names that are written almost the same are the same.
const SAME_NAME: f64 = 0.95;

/// Originals with how often and where they stand.
type Seen = BTreeMap<String, (u64, BTreeSet<FileId>)>;

/// The verb.
pub(crate) fn run(request: &Request, corpus: &Corpus) -> Outcome<Answer> {
    let answer = match request.form.name {
        "entities" => match request.text("concept") {
            Some(concept) => one_concept(corpus, concept),
            None => names(corpus),
        },
        "dates" => all_dates(corpus),
        "versions" => versions(corpus, request.text("package")),
        _ => code(request, corpus),
    };
    let Made { mut answer, mapping } = answer;
    let (count, forms) =
        (mapping.len(), mapping.iter().filter_map(|it| it["canonical"].as_str()).collect::<BTreeSet<_>>().len());
    let page = answer.page(request, mapping);
    answer.data = json!({"originals": count, "canonical_forms": forms, "mapping": page});
    Ok(answer)
}

struct Made {
    answer: Answer,
    mapping: Vec<Value>,
}

fn note(seen: &mut Seen, original: &str, file: FileId) {
    let entry = seen.entry(original.to_string()).or_default();
    entry.0 += 1;
    entry.1.insert(file);
}

fn row(original: &str, canonical: &str, (count, files): &(u64, BTreeSet<FileId>)) -> Value {
    json!({"original": original, "canonical": canonical, "count": count, "files": files})
}

fn evidence(answer: &mut Answer, corpus: &Corpus, seen: &Seen) {
    for paper in &corpus.papers {
        answer.evidence(paper, seen.values().filter(|it| it.1.contains(&paper.file)).count());
    }
}

/// All ways in which one concept is written: other case, number, hyphens, and its abbreviation in parentheses.
fn one_concept(corpus: &Corpus, concept: &str) -> Made {
    let wanted: Vec<String> = words::words(concept).map(|it| words::stem(it.1)).collect();
    let initials: String =
        words::words(concept).filter_map(|it| it.1.chars().next()).flat_map(char::to_uppercase).collect();
    let mut seen = Seen::new();
    for paper in &corpus.papers {
        let mut abbreviated = false;
        for passage in &paper.reading.passages {
            let text = &passage.text;
            let all: Vec<(std::ops::Range<usize>, &str)> = words::words(text).collect();
            for window in all.windows(wanted.len().max(1)) {
                let same = window.iter().zip(&wanted).all(|(word, stem)| words::stem(word.1) == *stem);
                if same {
                    let range = window[0].0.start..window[window.len() - 1].0.end;
                    abbreviated |= text[range.end..].trim_start().starts_with(&format!("({initials}"));
                    note(&mut seen, &text[range], paper.file);
                }
            }
            for word in
                all.iter().filter(|it| abbreviated && wanted.len() > 1 && it.1.trim_end_matches('s') == initials)
            {
                note(&mut seen, word.1, paper.file);
            }
        }
    }
    let mut answer = Answer::new("equal stems word by word; initials where a text introduces them in parentheses");
    answer.parameter("concept", concept);
    answer.confidence = if seen.is_empty() { 0.0 } else { 0.9 };
    evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(original, entry)| row(original, concept, entry)).collect();
    Made { answer, mapping }
}

/// Names of several words, those that are written almost alike under the most frequent spelling.
fn names(corpus: &Corpus) -> Made {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b[A-Z][\p{L}'’-]+(?: (?:of|de|van|von|the|[A-Z][\p{L}'’-]+)){0,3} [A-Z][\p{L}'’-]+\b")
            .expect("a constant")
    });
    let mut seen = Seen::new();
    for paper in &corpus.papers {
        for passage in paper.reading.prose() {
            for found in NAME.find_iter(&passage.text).filter_map(|it| bare_name(it.as_str())) {
                note(&mut seen, found, paper.file);
            }
        }
    }
    let mut by_count: Vec<(&String, u64)> = seen.iter().map(|it| (it.0, it.1.0)).collect();
    by_count.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut canonical: Vec<&String> = Vec::new();
    let mut mapped: BTreeMap<&String, &String> = BTreeMap::new();
    for (name, _) in by_count {
        let folded = name.to_lowercase();
        let known = canonical.iter().copied().find(|it| jaro_winkler(&it.to_lowercase(), &folded) >= SAME_NAME);
        if known.is_none() {
            canonical.push(name);
        }
        mapped.insert(name, known.unwrap_or(name));
    }
    let mut answer =
        Answer::new("capitalised names of several words; Jaro-Winkler similarity, the most frequent spelling stands");
    answer.parameter("threshold", SAME_NAME);
    answer.confidence = if seen.is_empty() { 0.0 } else { 0.75 };
    evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(name, entry)| row(name, mapped[name], entry)).collect();
    Made { answer, mapping }
}

/// A name without the words that only stand before it: how somebody is addressed, and how a sentence begins. A name of one
/// word is none here.
fn bare_name(text: &str) -> Option<&str> {
    const BEFORE: [&str; 9] = ["dear", "hello", "hi", "thanks", "thank", "regards", "yours", "sincerely", "cheers"];
    const FAREWELL: [&str; 5] = ["regards", "wishes", "sincerely", "thanks", "greetings"];
    let mut rest = text;
    while let Some((first, more)) = rest.split_once(' ') {
        let first = first.to_lowercase();
        if !BEFORE.contains(&first.as_str()) && !words::is_stop_word(&first) {
            break;
        }
        rest = more;
    }
    let last = rest.rsplit(' ').next().unwrap_or_default().to_lowercase();
    (rest.contains(' ') && !FAREWELL.contains(&last.as_str())).then_some(rest)
}

fn all_dates(corpus: &Corpus) -> Made {
    let (mut seen, mut forms, mut unclear) = (Seen::new(), BTreeMap::new(), BTreeSet::new());
    for paper in &corpus.papers {
        for passage in &paper.reading.passages {
            for found in dates::find(&passage.text) {
                let original = &passage.text[found.range];
                match found.iso {
                    Some(iso) => {
                        note(&mut seen, original, paper.file);
                        forms.insert(original.to_string(), iso);
                    }
                    None => {
                        unclear.insert((original.to_string(), paper.file));
                    }
                }
            }
        }
    }
    let mut answer = Answer::new("calendar dates by their written forms, as ISO 8601");
    let certain = seen.values().map(|it| it.0).sum::<u64>() as f64;
    answer.confidence = if certain == 0.0 { 0.0 } else { certain / (certain + unclear.len() as f64) };
    if !unclear.is_empty() {
        let files: Vec<FileId> = unclear.iter().map(|it| it.1).collect::<BTreeSet<_>>().into_iter().collect();
        let first = unclear.iter().next().map(|it| it.0.clone()).unwrap_or_default();
        let detail = format!("day and month could be swapped, e.g. {first}");
        answer.unknown(Unknown::new("ambiguous_date", unclear.len()).files(&files).detail(detail));
    }
    evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(original, entry)| row(original, &forms[original], entry)).collect();
    Made { answer, mapping }
}

/// `package 1.2`, `package==1.2.3`, `package v1`.
fn versions(corpus: &Corpus, package: Option<&str>) -> Made {
    static ANY: LazyLock<Regex> = LazyLock::new(|| version_pattern(r"[A-Za-z][A-Za-z0-9_.+-]*[A-Za-z0-9]|R"));
    let own = package.map(|it| version_pattern(&regex::escape(it)));
    let pattern = own.as_ref().unwrap_or(&ANY);
    let (mut seen, mut forms, mut odd) = (Seen::new(), BTreeMap::new(), BTreeSet::new());
    for paper in &corpus.papers {
        for passage in &paper.reading.passages {
            for found in pattern.captures_iter(&passage.text) {
                if package.is_none() && !found[3].contains('.') {
                    continue;
                }
                match canonical_version(&found[3]) {
                    Some(version) => {
                        let original = words::short(&found[0], 80);
                        note(&mut seen, &original, paper.file);
                        forms.insert(original, format!("{} {version}", found[1].to_lowercase()));
                    }
                    None => {
                        odd.insert(paper.file);
                    }
                }
            }
        }
    }
    let mut answer = Answer::new("a package name with a version behind it, as semantic versions; missing parts are 0");
    answer.confidence = if seen.is_empty() { 0.0 } else { 0.9 };
    if !odd.is_empty() {
        let files: Vec<FileId> = odd.into_iter().collect();
        answer.unknown(Unknown::new("unreadable_version", files.len()).files(&files));
    }
    evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(original, entry)| row(original, &forms[original], entry)).collect();
    Made { answer, mapping }
}

fn version_pattern(name: &str) -> Regex {
    let pattern = format!(
        r"(?i)\b({name})(?:\s+version)?(\s*[=~^<>]=?=?\s*|\s+|\s*-\s*)v?(\d+(?:\.\d+){{0,2}}(?:[-+.]?(?:a|b|rc|alpha|beta|dev|post)[.-]?\d*)?)\b"
    );
    Regex::new(&pattern).unwrap_or_else(|_| Regex::new("$^").expect("a constant"))
}

fn canonical_version(text: &str) -> Option<String> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let mut parts: Vec<u64> =
        text[..end].split('.').filter(|it| !it.is_empty()).map(|it| it.parse().ok()).collect::<Option<_>>()?;
    parts.resize(3, 0);
    let label: String = text[end..].trim_start_matches(['-', '+', '.']).to_lowercase();
    let mut version = Version::new(parts[0], parts[1], parts[2]);
    if !label.is_empty() {
        version.pre = semver::Prerelease::new(&label).ok()?;
    }
    Some(version.to_string())
}

fn code(request: &Request, corpus: &Corpus) -> Made {
    let wanted = request.text("language").map(|it| snippets::canonical_language(&it.to_lowercase()).to_string());
    let style = request.text("style").unwrap_or("plain");
    let mut answer = Answer::new(match style {
        "black" => {
            "black's rules that need no parser: line ends, blank lines, quotes, spaces after commas and around ="
        }
        _ => "line ends, tabs and blank lines; other languages than the one asked for are left out",
    });
    let mut mapping = Vec::new();
    for paper in &corpus.papers {
        let all = paper.reading.objects.get("Code").map(Vec::as_slice).unwrap_or_default();
        let own: Vec<_> =
            all.iter().filter(|it| wanted.as_ref().is_none_or(|wanted| it.text("language") == wanted)).collect();
        answer.evidence(paper, own.len());
        for object in own {
            let canonical = match (style, object.text("language")) {
                ("black", "python") => tidy::black(object.text("text")),
                _ => tidy::plain(object.text("text")),
            };
            let hash = &blake3::hash(canonical.as_bytes()).to_hex()[..12];
            let mut row = json!({"file": paper.file});
            if let Some(fields) = row.as_object_mut() {
                object.place.write(fields);
            }
            row["original"] = json!(object.text("text"));
            row["canonical"] = json!(canonical);
            row["group"] = json!(hash);
            row["changed"] = json!(canonical != object.text("text"));
            mapping.push(row);
        }
    }
    answer.confidence = if mapping.is_empty() { 0.0 } else { 0.95 };
    Made { answer, mapping }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_somebody_is_addressed_is_no_part_of_a_name() {
        for (text, name) in [
            ("Dear Ada", None),
            ("Dear Ada Stone", Some("Ada Stone")),
            ("The North Pier", Some("North Pier")),
            ("When Klara Novak", Some("Klara Novak")),
            ("Kind Regards", None),
            ("Yours Sincerely", None),
            ("Ada Stone", Some("Ada Stone")),
        ] {
            assert_eq!(bare_name(text), name, "{text}");
        }
    }

    #[test]
    fn versions_become_semantic_ones_and_stay_so() {
        for (text, canonical) in [
            ("3.11", "3.11.0"),
            ("2", "2.0.0"),
            ("1.2.3", "1.2.3"),
            ("3.0rc1", "3.0.0-rc1"),
            ("3.0.0-rc1", "3.0.0-rc1"),
        ] {
            assert_eq!(canonical_version(text).as_deref(), Some(canonical), "{text}");
            assert_eq!(canonical_version(canonical).as_deref(), Some(canonical), "{text} again");
        }
    }
}
