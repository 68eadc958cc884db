//! Finds methodology: sections with a methods heading, and the approach and the tools that they name.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use crate::corpus::document::passages::{Passage, PassageRole, SourceDocument};
use crate::corpus::objects::object::Object;

/// Maximum characters kept of a section.
const MAX_SECTION_CHARS: usize = 3_000;

static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:\d+(?:\.\d+)*\.?\s+)?(?:our approach|(?:our |the )?(?:methods?|methodology|methodik|materials? and methods?|methods? and materials?|research methods?|research design|study design|experimental (?:setup|design|procedure)|data collection(?: and analysis)?|procedure|approach and methods?|(?:participants?|subjects?|patients?|sample|data|design) and (?:methods?|procedures?|design)|methods? and (?:data|procedures?|design)|how (?:we|it was) (?:measured|tested|did it)))\s*:?$")
        .expect("a constant")
});

/// Cue words of each approach. A section gets the approach with the most matches, the first one on a tie.
const APPROACHES: &[(&str, &[&str])] = &[
    (
        "experimental",
        &[
            "experiment",
            "randomi",
            "randomly assigned",
            "randomly allocated",
            "control group",
            "treatment",
            "trial",
            "tested",
            "laborator",
        ],
    ),
    ("survey", &["survey", "questionnaire", "respondent"]),
    ("interview", &["interview", "focus group"]),
    ("simulation", &["simulat", "monte carlo", "model run", "numerical model"]),
    ("case study", &["case study", "case studies"]),
    ("observational", &["observ", "field measurement", "measured", "recorded", "sampled", "logger"]),
    ("review", &["literature review", "systematic review", "we searched", "databases were searched", "screened"]),
    ("statistical", &["regression", "anova", "t-test", "bayesian", "correlation", "statistical"]),
    ("machine learning", &["trained", "training set", "neural", "fine-tun", "classifier", "embedding"]),
];

/// Names of tools that are recognized anywhere in a section.
const TOOLS: &[&str] = &[
    "Python",
    "pandas",
    "NumPy",
    "SciPy",
    "scikit-learn",
    "PyTorch",
    "TensorFlow",
    "MATLAB",
    "SPSS",
    "Stata",
    "Excel",
    "Julia",
    "SQL",
    "PostgreSQL",
    "SQLite",
    "Docker",
    "Kubernetes",
    "Git",
    "Jupyter",
    "ArcGIS",
    "QGIS",
    "ImageJ",
    "NVivo",
    "Zotero",
    "LaTeX",
    "Arduino",
    "Raspberry Pi",
    "LabVIEW",
    "GraphPad Prism",
    "SAS",
    "Prometheus",
    "Grafana",
    "Rust",
    "BERT",
    "Qualtrics",
    "RStudio",
    "ggplot2",
];

/// A tool after a preposition: `using the Foo Bar`, `with a Foo-12`.
static TOOL_AFTER_PREPOSITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:using|with|by means of|on|in) (?:an? |the )?(?:[A-Z][a-z]+ )?([A-Z][\w-]*\d[\w-]*|[A-Z][a-z]+[A-Z]\w*|R)(?:[ ,.;)]|$)")
        .expect("a constant")
});
/// A tool after a verb or before `package`: `analysed in Foo`, `built with Foo Bar`, `the foo package`.
static TOOL_AFTER_VERB: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:analy[sz]ed|performed|implemented|built|written|coded|computed|fitted|modell?ed|simulated|estimated|calculated|processed|measured|done|run)\s+(?:\w+\s+){0,3}?(?:in|with|using)\s+([A-Z][A-Za-z]+)(?:[ \n]\d|[,.;)]|\s+(?:and|on|to|for|with|by)\b|$)|\bthe\s+([A-Za-z][\w.-]*\d|[a-z][\w.-]*)\s+(?:package|library)\b")
        .expect("a constant")
});

/// The start or end of a TeX table, figure or listing.
static FLOAT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\\(?:begin|end)\{(?:table|figure|lstlisting|verbatim|minted|tabular|document)\*?\}")
        .expect("a constant")
});

/// Finds the method sections of a document.
pub(crate) fn find_methodology(source: &SourceDocument) -> Vec<Object> {
    let mut found = Vec::new();
    for (at, passage) in source.passages.iter().enumerate() {
        let PassageRole::Heading(level) = passage.role else { continue };
        if HEADING.is_match(passage.text.trim()) {
            found.extend(section_object(source, at, level));
        }
    }
    found
}

fn section_object(source: &SourceDocument, heading: usize, level: u8) -> Option<Object> {
    let below = source.passages[heading + 1..].iter();
    let body: Vec<_> =
        below.take_while(|it| !matches!(it.role, PassageRole::Heading(other) if other <= level)).collect();
    let body: Vec<_> = body.into_iter().take_while(|it| !it.text.starts_with("\\begin{thebibliography}")).collect();
    let is_told = |it: &&&Passage| it.role != PassageRole::Code && !FLOAT.is_match(&it.text);
    let texts: Vec<&str> = body.iter().filter(is_told).map(|it| it.text.as_str()).collect();
    let text = texts.join("\n\n");
    let (first, last) = (body.first()?, body.iter().rfind(is_told).or(body.last())?);
    let cut = text.char_indices().nth(MAX_SECTION_CHARS).map_or(text.len(), |it| it.0);
    let fields =
        json!({"section_text": text[..cut], "approach": guess_approach(&text), "tools_mentioned": find_tools(&text)});
    let place = source.place_of(first).merge(&source.place_of(last));
    Some(Object::new(place, if text.split_whitespace().count() < 8 { 0.7 } else { 0.95 }, fields))
}

fn guess_approach(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let count = |cues: &[&str]| cues.iter().map(|it| text.matches(it).count()).sum::<usize>();
    let best = APPROACHES.iter().map(|it| (count(it.1), it.0)).rev().max_by_key(|it| it.0)?;
    (best.0 > 0).then_some(best.1)
}

fn find_tools(text: &str) -> Vec<String> {
    let is_word = |at: usize, length: usize| {
        let before = text[..at].chars().next_back().is_none_or(|it| !it.is_alphanumeric());
        before && text[at + length..].chars().next().is_none_or(|it| !it.is_alphanumeric())
    };
    let known = TOOLS
        .iter()
        .filter_map(|it| Some((text.match_indices(it).find(|at| is_word(at.0, it.len()))?.0, it.to_string())));
    let named = [&*TOOL_AFTER_PREPOSITION, &*TOOL_AFTER_VERB]
        .into_iter()
        .flat_map(|it| it.captures_iter(text))
        .filter_map(|it| it.iter().skip(1).flatten().next().map(|it| (it.start(), it.as_str().to_string())));
    let mut found: Vec<(usize, String)> = known.chain(named).collect();
    found.sort();
    let mut tools: Vec<String> = Vec::new();
    for (_, tool) in found {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    tools
}
