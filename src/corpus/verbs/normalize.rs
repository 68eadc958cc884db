//! The verb NORMALIZE: maps different spellings to one canonical form. Canonical forms map to themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use semver::Version;
use serde_json::{Value, json};

use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::ApiResult;
use crate::corpus::api::request::ValidRequest;
use crate::corpus::text::fuzzy_names::{NameMatcher, SAME_NAME};
use crate::corpus::text::{code_blocks, dates, normalize_code, words};
use crate::corpus::views::documents::Corpus;
use crate::model::FileId;

/// Spellings as found, each with its count and its files.
type SpellingCounts = BTreeMap<String, (u64, BTreeSet<FileId>)>;

pub(crate) fn run(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let answer = match request.form.name {
        "entities" => match request.text("concept") {
            Some(concept) => normalize_concept(corpus, concept),
            None => normalize_names(corpus),
        },
        "dates" => normalize_dates(corpus),
        "versions" => normalize_versions(corpus, request.text("package")),
        _ => normalize_code(request, corpus),
    };
    let NormalizedMapping { mut answer, mapping } = answer;
    let (count, forms) =
        (mapping.len(), mapping.iter().filter_map(|it| it["canonical"].as_str()).collect::<BTreeSet<_>>().len());
    let page = answer.page(request, mapping);
    answer.data = json!({"originals": count, "canonical_forms": forms, "mapping": page});
    Ok(answer)
}

struct NormalizedMapping {
    answer: Answer,
    mapping: Vec<Value>,
}

fn count_spelling(seen: &mut SpellingCounts, original: &str, file: FileId) {
    let entry = seen.entry(original.to_string()).or_default();
    entry.0 += 1;
    entry.1.insert(file);
}

fn mapping_row(original: &str, canonical: &str, (count, files): &(u64, BTreeSet<FileId>)) -> Value {
    json!({"original": original, "canonical": canonical, "count": count, "files": files})
}

fn push_evidence(answer: &mut Answer, corpus: &Corpus, seen: &SpellingCounts) {
    let mut counts: BTreeMap<FileId, usize> = BTreeMap::new();
    for file in seen.values().flat_map(|it| &it.1) {
        *counts.entry(*file).or_default() += 1;
    }
    for paper in &corpus.documents {
        answer.push_evidence(paper, counts.get(&paper.file).copied().unwrap_or_default());
    }
}

/// Returns the files in the order of the view.
fn sort_by_view(corpus: &Corpus, files: &BTreeSet<FileId>) -> Vec<FileId> {
    corpus.documents.iter().map(|it| it.file).filter(|it| files.contains(it)).collect()
}

/// Finds the spellings of one concept: other case, number or hyphens, and its abbreviation if a text introduces that in
/// parentheses.
fn normalize_concept(corpus: &Corpus, concept: &str) -> NormalizedMapping {
    let wanted: Vec<String> = words::words(concept).map(|it| words::stem(it.1)).collect();
    let initials: String =
        words::words(concept).filter_map(|it| it.1.chars().next()).flat_map(char::to_uppercase).collect();
    let mut seen = SpellingCounts::new();
    for paper in &corpus.documents {
        let mut abbreviated = false;
        for passage in &paper.parsed.passages {
            let text = &passage.text;
            let all: Vec<(std::ops::Range<usize>, &str)> = words::words(text).collect();
            for window in all.windows(wanted.len().max(1)) {
                let same = window.iter().zip(&wanted).all(|(word, stem)| words::stem(word.1) == *stem);
                if same {
                    let range = window[0].0.start..window[window.len() - 1].0.end;
                    abbreviated |= text[range.end..].trim_start().starts_with(&format!("({initials}"));
                    count_spelling(&mut seen, &text[range], paper.file);
                }
            }
            for word in
                all.iter().filter(|it| abbreviated && wanted.len() > 1 && it.1.trim_end_matches('s') == initials)
            {
                count_spelling(&mut seen, word.1, paper.file);
            }
        }
    }
    let mut answer = Answer::new("equal stems word by word; initials where a text introduces them in parentheses");
    answer.parameter("concept", concept);
    answer.confidence = if seen.is_empty() { 0.0 } else { 0.9 };
    push_evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(original, entry)| mapping_row(original, concept, entry)).collect();
    NormalizedMapping { answer, mapping }
}

/// Finds names of several words, and maps similar names to the most frequent spelling.
fn normalize_names(corpus: &Corpus) -> NormalizedMapping {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b[A-Z][\p{L}'’-]+(?: (?:of|de|van|von|the|[A-Z][\p{L}'’-]+)){0,3} [A-Z][\p{L}'’-]+\b")
            .expect("a constant")
    });
    let mut seen = SpellingCounts::new();
    for paper in &corpus.documents {
        for passage in paper.parsed.prose() {
            for found in NAME.find_iter(&passage.text).filter_map(|it| strip_salutation(it.as_str())) {
                count_spelling(&mut seen, found, paper.file);
            }
        }
    }
    let mut by_count: Vec<(&String, u64)> = seen.iter().map(|it| (it.0, it.1.0)).collect();
    by_count.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut spellings = NameMatcher::new(seen.keys());
    let mut canonical: Vec<&String> = Vec::new();
    let mut mapped: BTreeMap<&String, &String> = BTreeMap::new();
    for (name, _) in by_count {
        let place = spellings.match_name(name);
        if place == canonical.len() {
            canonical.push(name);
        }
        mapped.insert(name, canonical[place]);
    }
    let mut answer = Answer::new(
        "capitalised names of several words; Jaro-Winkler similarity, the most frequent spelling is canonical",
    );
    answer.parameter("threshold", SAME_NAME);
    answer.confidence = if seen.is_empty() { 0.0 } else { 0.75 };
    if spellings.left_out() > 0 {
        let detail = "the rarest names are not compared: comparing all of them takes too long; name a smaller view";
        answer.push_unknown(Unknown::new("names_not_compared", spellings.left_out()).detail(detail));
    }
    push_evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(name, entry)| mapping_row(name, mapped[name], entry)).collect();
    NormalizedMapping { answer, mapping }
}

/// Removes a salutation or the start of a sentence from a name; returns `None` if only one word remains.
fn strip_salutation(text: &str) -> Option<&str> {
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

fn normalize_dates(corpus: &Corpus) -> NormalizedMapping {
    let (mut seen, mut forms, mut unclear) = (SpellingCounts::new(), BTreeMap::new(), BTreeSet::new());
    for paper in &corpus.documents {
        for passage in &paper.parsed.passages {
            for found in dates::find(&passage.text) {
                let original = &passage.text[found.range];
                match found.iso {
                    Some(iso) => {
                        count_spelling(&mut seen, original, paper.file);
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
        let files = sort_by_view(corpus, &unclear.iter().map(|it| it.1).collect());
        let first = unclear.iter().next().map(|it| it.0.clone()).unwrap_or_default();
        let detail = format!("day and month could be swapped, e.g. {first}");
        answer.push_unknown(Unknown::new("ambiguous_date", unclear.len()).files(&files).detail(detail));
    }
    push_evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(original, entry)| mapping_row(original, &forms[original], entry)).collect();
    NormalizedMapping { answer, mapping }
}

/// Finds package versions: `package 1.2`, `package==1.2.3`, `package v1`, `python3.11`, `py311`.
fn normalize_versions(corpus: &Corpus, package: Option<&str>) -> NormalizedMapping {
    static ANY: LazyLock<[Regex; 2]> = LazyLock::new(|| {
        [
            version_pattern(r"[A-Za-z][A-Za-z0-9_.+-]*[A-Za-z0-9]|R", &format!(r"{SEPARATORS}|\s+")),
            version_pattern(SUFFIX_VERSION_NAMES, ""),
        ]
    });
    let own = package.map(|it| {
        [version_pattern(&regex::escape(it), &format!(r"{SEPARATORS}|\s*")), Regex::new("$^").expect("a constant")]
    });
    let patterns = own.as_ref().unwrap_or(&ANY);
    let mut found = VersionTable::default();
    for paper in &corpus.documents {
        for passage in &paper.parsed.passages {
            for captures in patterns.iter().flat_map(|it| it.captures_iter(&passage.text)) {
                if package.is_none() && !captures[2].contains('.') {
                    continue;
                }
                found.record(&captures[0], &captures[1], &captures[2], paper.file);
            }
            if package.is_none_or(|it| it.eq_ignore_ascii_case("python")) {
                for tag in PYTHON_TAG.captures_iter(&passage.text) {
                    found.record(&tag[0], "python", &format!("{}.{}", &tag[1], &tag[2]), paper.file);
                }
            }
        }
    }
    let VersionTable { seen, forms, unreadable: odd } = found;
    let mut answer = Answer::new("versions after a package name, as semantic versions; missing parts are 0");
    answer.confidence = if seen.is_empty() { 0.0 } else { 0.9 };
    if !odd.is_empty() {
        let files = sort_by_view(corpus, &odd);
        answer.push_unknown(Unknown::new("unreadable_version", files.len()).files(&files));
    }
    push_evidence(&mut answer, corpus, &seen);
    let mapping = seen.iter().map(|(original, entry)| mapping_row(original, &forms[original], entry)).collect();
    NormalizedMapping { answer, mapping }
}

/// Versions found: their spellings, their canonical forms, and the files with a version that cannot be parsed.
#[derive(Default)]
struct VersionTable {
    seen: SpellingCounts,
    forms: BTreeMap<String, String>,
    unreadable: BTreeSet<FileId>,
}

impl VersionTable {
    fn record(&mut self, written: &str, package: &str, version: &str, file: FileId) {
        match canonical_version(version) {
            Some(version) => {
                let original = words::truncate_to_line(written, 80);
                count_spelling(&mut self.seen, &original, file);
                self.forms.insert(original, format!("{} {version}", package.to_lowercase()));
            }
            None => {
                self.unreadable.insert(file);
            }
        }
    }
}

/// Pattern of languages and compilers whose version can follow the name without a space.
const SUFFIX_VERSION_NAMES: &str = "python|pypy|node|go|java|php|ruby|perl|lua|gcc|clang";

/// Python package tags: `py311`, `cp312`.
static PYTHON_TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(?:py|cp)([23])(\d{1,2})\b").expect("a constant"));

/// Pattern of the separators between a name and a version, besides spaces: an operator or a hyphen.
const SEPARATORS: &str = r"\s*[=~^<>]=?=?\s*|\s*-\s*";

/// Returns the pattern for a name, a separator and a version.
fn version_pattern(name: &str, between: &str) -> Regex {
    let pattern = format!(
        r"(?i)\b({name})(?:\s+version)?(?:{between})v?(\d+(?:\.\d+){{0,2}}(?:[-+.]?(?:a|b|rc|alpha|beta|dev|post)[.-]?\d*)?)\b"
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

fn normalize_code(request: &ValidRequest, corpus: &Corpus) -> NormalizedMapping {
    let wanted = request.text("language").map(|it| code_blocks::canonical_language(&it.to_lowercase()).to_string());
    let style = request.text("style").unwrap_or("plain");
    let mut answer = Answer::new(match style {
        "black" => {
            "black's rules that need no parser: line ends, blank lines, quotes, spaces after commas and around ="
        }
        _ => "line ends, tabs and blank lines; code in other languages than the requested one is left out",
    });
    answer.parameter("style", style);
    let (mut mapping, mut unstyled) = (Vec::new(), BTreeSet::new());
    for paper in &corpus.documents {
        let all = paper.parsed.objects.get("Code").map(Vec::as_slice).unwrap_or_default();
        let own: Vec<_> =
            all.iter().filter(|it| wanted.as_ref().is_none_or(|wanted| it.text("language") == wanted)).collect();
        answer.push_evidence(paper, own.len());
        for object in own {
            let (applied, canonical) = match (style, object.text("language")) {
                ("black", "python") => ("black", normalize_code::format_like_black(object.text("text"))),
                _ => ("plain", normalize_code::normalize_whitespace(object.text("text"))),
            };
            if applied != style {
                unstyled.insert(paper.file);
            }
            let hash = &blake3::hash(canonical.as_bytes()).to_hex()[..12];
            let mut row = json!({"file": paper.file});
            if let Some(fields) = row.as_object_mut() {
                object.place.write(fields);
            }
            row["original"] = json!(object.text("text"));
            row["canonical"] = json!(canonical);
            row["style"] = json!(applied);
            row["group"] = json!(hash);
            row["changed"] = json!(canonical != object.text("text"));
            mapping.push(row);
        }
    }
    if !unstyled.is_empty() {
        let files = sort_by_view(corpus, &unstyled);
        let detail = "the style is for another language: `plain` was applied";
        answer.push_unknown(Unknown::new("style_not_applied", files.len()).files(&files).detail(detail));
    }
    answer.confidence = if mapping.is_empty() { 0.0 } else { 0.95 };
    NormalizedMapping { answer, mapping }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;
    use crate::corpus::api::validate;
    use crate::corpus::tests::corpus;

    /// Returns the mapping for a text, as (spelling, canonical form).
    fn mapping(text: &str, request: Value) -> Vec<(String, String)> {
        let Value::Object(fields) = request else { panic!("an object") };
        let request = validate::validate_request("NORMALIZE", Map::from_iter(fields)).unwrap();
        let answer = run(&request, &corpus(&[("a.txt", text)])).unwrap();
        let text = |it: &Value| it.as_str().unwrap().to_string();
        let rows = answer.data["mapping"].as_array().unwrap().iter();
        rows.map(|it| (text(&it["original"]), text(&it["canonical"]))).collect()
    }

    fn check_idempotent(text: &str, request: Value) {
        let once = mapping(text, request.clone());
        let canonical: Vec<&str> = once.iter().map(|it| it.1.as_str()).collect();
        let again = mapping(&canonical.join(" ; "), request);
        for (original, canonical) in &again {
            assert_eq!(original, canonical, "of {once:?}");
        }
        let found: BTreeSet<&str> = again.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(found, canonical.into_iter().collect(), "every canonical form is found again");
    }

    #[test]
    fn bare_name_strips_salutation() {
        for (text, name) in [
            ("Dear Ada", None),
            ("Dear Ada Stone", Some("Ada Stone")),
            ("The North Pier", Some("North Pier")),
            ("When Klara Novak", Some("Klara Novak")),
            ("Kind Regards", None),
            ("Yours Sincerely", None),
            ("Ada Stone", Some("Ada Stone")),
        ] {
            assert_eq!(strip_salutation(text), name, "{text}");
        }
    }

    #[test]
    fn canonical_version_is_semver_and_idempotent() {
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

    #[test]
    fn python_version_spellings_share_one_form() {
        let text = "python3.11 ; Python 3.11.0 ; py311 ; cp311 ; python==3.11 ; Python version 3.11 ; python-3.11";
        for request in [json!({"form": "versions", "package": "python"}), json!({"form": "versions"})] {
            let found = mapping(text, request.clone());
            assert_eq!(found.len(), 7, "{found:?}");
            assert!(found.iter().all(|it| it.1 == "python 3.11.0"), "{found:?}");
        }
        assert!(mapping("numpy 1.24 and sha256.1", json!({"form": "versions", "package": "python"})).is_empty());
    }

    #[test]
    fn applied_style_is_reported_per_code_block() {
        let text = "# T\n\n```python\nx=1\n```\n\n```rust\nlet x=1;\n```\n";
        let fields = json!({"form": "code", "style": "black"}).as_object().unwrap().clone();
        let request = validate::validate_request("NORMALIZE", fields).unwrap();
        let answer = run(&request, &corpus(&[("a.md", text)])).unwrap();
        let rows = answer.data["mapping"].as_array().unwrap();
        let told: Vec<(&Value, &Value)> = rows.iter().map(|it| (&it["style"], &it["canonical"])).collect();
        assert_eq!(told, [(&json!("black"), &json!("x = 1")), (&json!("plain"), &json!("let x=1;"))]);
        assert_eq!((&answer.parameters["style"], answer.unknowns.len()), (&json!("black"), 1));
    }

    const MONTHS: [&str; 4] = ["January", "Mar.", "may", "Sept"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn date_normalization_is_idempotent(
            dates in prop::collection::vec((1_930_i32..2_080, 1_u32..13, 1_u32..29, 0_usize..8, 0_usize..4), 1..6)
        ) {
            let written = dates.iter().map(|(year, month, day, form, name)| match form {
                0 => format!("{year}-{month:02}-{day:02}"),
                1 => format!("{day}.{month}.{year}"),
                2 => format!("{month}/{day}/{year}"),
                3 => format!("{day} {} {year}", MONTHS[*name]),
                4 => format!("{} {day}, {year}", MONTHS[*name]),
                5 => format!("{} {year}", MONTHS[*name]),
                6 => format!("{year}-{month:02}-{day:02} 10:{day:02}"),
                _ => format!("{year}/{month}/{day}"),
            });
            let text = written.collect::<Vec<_>>().join(" ; ");
            let once = mapping(&text, json!({"form": "dates"}));
            // Leave out months before 2012: `2009-11` may be November 2009 or the years 2009 to 2011.
            let clear = once.iter().filter(|it| it.1.len() > 7 || it.1.as_str() >= "2012");
            for (_, canonical) in clear {
                prop_assert_eq!(mapping(canonical, json!({"form": "dates"})), [(canonical.clone(), canonical.clone())]);
            }
        }

        #[test]
        fn version_normalization_is_idempotent(
            parts in prop::collection::vec(("(numpy|Torch|python|go)", "( |==|-| v)", "[1-9][0-9]?(\\.[0-9]{1,2}){1,2}(rc[1-9])?"), 1..5)
        ) {
            let text = parts.iter().map(|it| format!("{}{}{}", it.0, it.1, it.2)).collect::<Vec<_>>().join(" ; ");
            check_idempotent(&text, json!({"form": "versions"}));
        }

        #[test]
        fn code_normalization_is_idempotent(lines in prop::collection::vec(
            "(    |\t|  )?(x=1|def f\\(a,b\\):|class C:|# 'a',b|y = 'z'|return x,y|@d|import os|s = \"a,b\"|t\\[1,2\\]=3)?[ \t]{0,2}", 0..12
        )) {
            let code = lines.join("\n");
            for tidy in [normalize_code::normalize_whitespace, normalize_code::format_like_black] {
                let once = tidy(&code);
                prop_assert_eq!(tidy(&once), once);
            }
        }

        #[test]
        fn name_normalization_is_idempotent(names in prop::collection::vec("(Klara|Clara|Anna) (Novak|Nowak|Novák|Stone)", 1..6)) {
            check_idempotent(&names.iter().map(|it| format!("so said {it}")).collect::<Vec<_>>().join(", "), json!({"form": "entities"}));
        }
    }
}
