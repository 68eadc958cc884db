//! Metadata found in the text of a document, for filters, scores and outlier detection: counts, flags and dates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::passages::SourceDocument;
use crate::corpus::document::publication_date;
use crate::corpus::document::stored_passage::{PARSER_VERSION, PassageKind, StoredPassage};
use crate::corpus::filter::FieldValue;
use crate::corpus::objects::Objects;
use crate::corpus::text::dates;
use crate::model::FileKind;

/// Metadata of one document. The field names are the names in filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    /// Version of the parser that found the facts; facts of an older version are computed again.
    pub(crate) reader: u32,
    pub(crate) content_type: String,
    pub(crate) title: Option<String>,
    pub(crate) author: Option<String>,
    /// Publication date as ISO 8601, as precise as the document states it.
    pub(crate) published_at: Option<String>,
    pub(crate) domain_type: Option<String>,
    pub(crate) word_count: u64,
    pub(crate) page_count: Option<u64>,
    pub(crate) heading_count: u64,
    pub(crate) citation_count: u64,
    pub(crate) reference_count: u64,
    pub(crate) code_count: u64,
    pub(crate) table_count: u64,
    pub(crate) quote_count: u64,
    pub(crate) definition_count: u64,
    pub(crate) link_count: u64,
    pub(crate) has_abstract: bool,
    pub(crate) has_methodology: bool,
}

impl Facts {
    /// Returns the value of a field, given by its name.
    pub(crate) fn value_of(&self, name: &str) -> Option<FieldValue> {
        let text = |it: &Option<String>| it.clone().map(FieldValue::Text);
        Some(match name {
            "content_type" => FieldValue::Text(self.content_type.clone()),
            "title" => return text(&self.title),
            "author" => return text(&self.author),
            "domain_type" => return text(&self.domain_type),
            "published_at" => FieldValue::Moment(dates::parse_moment(self.published_at.as_deref()?)?),
            "has_abstract" => FieldValue::Flag(self.has_abstract),
            "has_code_examples" => FieldValue::Flag(self.code_count > 0),
            "has_methodology" => FieldValue::Flag(self.has_methodology),
            _ => FieldValue::Number(self.number(name)?),
        })
    }

    /// Returns the value of a numeric field, given by its name.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        let count = match name {
            "year" => self.published_at.as_ref()?.get(..4)?.parse().ok()?,
            "page_count" => self.page_count?,
            "word_count" => self.word_count,
            "heading_count" => self.heading_count,
            "citation_count" => self.citation_count,
            "reference_count" => self.reference_count,
            "code_count" => self.code_count,
            "table_count" => self.table_count,
            "quote_count" => self.quote_count,
            "definition_count" => self.definition_count,
            "link_count" => self.link_count,
            _ => return None,
        };
        Some(count as f64)
    }
}

/// The parts of a document from which facts are computed.
pub(crate) struct FactsInput<'a> {
    pub(crate) source: &'a SourceDocument,
    pub(crate) kind: FileKind,
    pub(crate) pages: Option<u32>,
    pub(crate) objects: &'a Objects,
    pub(crate) stated: &'a BTreeMap<String, (String, SourceLocation)>,
    pub(crate) passages: &'a [StoredPassage],
    pub(crate) links: usize,
}

/// Computes the facts (counts, flags and dates) of a document.
pub(crate) fn compute_facts(given: &FactsInput<'_>) -> Facts {
    let count = |schema: &str| given.objects.get(schema).map_or(0, |it| it.len() as u64);
    let stated = |keys: &[&str]| keys.iter().find_map(|it| given.stated.get(*it)).map(|it| it.0.clone());
    let words = given.passages.iter().map(|it| it.text.split_whitespace().count() as u64).sum();
    let mut facts = Facts {
        reader: PARSER_VERSION,
        content_type: String::new(),
        title: stated(&["title", "subject"]).or_else(|| given.source.title.clone()),
        author: stated(&["author", "authors", "creator", "from", "by"]),
        published_at: publication_date::publication_date(given.source, given.passages),
        domain_type: top_level_domain(given),
        word_count: words,
        page_count: given.pages.map(u64::from),
        heading_count: given.passages.iter().filter(|it| it.part == PassageKind::Heading).count() as u64,
        citation_count: count("Citation"),
        reference_count: count("Reference"),
        code_count: count("Code"),
        table_count: count("Table"),
        quote_count: count("Quote"),
        definition_count: count("Definition"),
        link_count: given.links as u64,
        has_abstract: given.passages.iter().any(is_abstract),
        has_methodology: count("Methodology") > 0,
    };
    facts.content_type = content_type(given, &facts).into();
    facts
}

fn is_abstract(passage: &StoredPassage) -> bool {
    let text = passage.text.trim();
    let word = text.get(..8).is_some_and(|it| it.eq_ignore_ascii_case("abstract"));
    match passage.part {
        PassageKind::Heading => text.trim_end_matches([':', '.']).eq_ignore_ascii_case("abstract"),
        _ => text.contains("\\begin{abstract}") || word && text[8..].starts_with(['.', ':', '\n', ' ', '—']),
    }
}

fn content_type(given: &FactsInput<'_>, facts: &Facts) -> &'static str {
    match given.kind {
        FileKind::Code => return "code",
        FileKind::Mail => return "mail",
        FileKind::Data | FileKind::Spreadsheet => return "data",
        FileKind::Slides => return "presentation",
        FileKind::Notebook => return "notebook",
        _ => {}
    }
    if facts.has_abstract || facts.reference_count >= 3 && facts.citation_count >= 2 {
        "academic"
    } else if facts.code_count > 0 && facts.heading_count >= 2 {
        "docs"
    } else {
        match given.kind {
            FileKind::Web => "web",
            FileKind::Pdf | FileKind::Document => "document",
            _ => "notes",
        }
    }
}

/// Returns the top-level domain of the host from which a web page was fetched.
fn top_level_domain(given: &FactsInput<'_>) -> Option<String> {
    static CANONICAL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?i)<(?:link|meta)[^>]*(?:canonical|og:url)[^>]*(?:href|content)\s*=\s*["'](https?://[^"']+)"#)
            .expect("a constant")
    });
    let stated = ["url", "source", "source_url", "canonical"].iter().find_map(|it| given.stated.get(*it));
    let url = stated.map(|it| it.0.clone()).filter(|it| it.starts_with("http")).or_else(|| {
        let raw = given.source.raw.as_ref()?;
        CANONICAL.captures(&raw.text).map(|it| it[1].to_string())
    })?;
    let host = url.split("://").nth(1)?.split(['/', '?', '#', ':']).next()?;
    host.rsplit_once('.').map(|it| format!(".{}", it.1.to_lowercase()))
}
