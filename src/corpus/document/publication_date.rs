//! Finds the publication date of a document, only if the document states it. Other dates in the text are not used,
//! because they belong to other things, and a missing date is better than a wrong one.

use std::sync::LazyLock;

use regex::Regex;

use crate::corpus::document::passages::SourceDocument;
use crate::corpus::document::stored_passage::{PassageKind, StoredPassage};
use crate::corpus::text::dates;
use crate::corpus::text::words::normalize_key;

/// Maximum offset in bytes of a date label: further down, a date may belong to a part of the document only.
const MAX_LABEL_OFFSET: usize = 2_000;

/// Bytes at the start of a web page that are searched: pages state their date in the head or above the text.
const PAGE_HEAD_BYTES: usize = 512 << 10;

/// Keys of metadata, front matter and mail headers that hold the date, the most specific first.
const METADATA_KEYS: [&str; 16] = [
    "published",
    "published_at",
    "published_on",
    "publication_date",
    "date_published",
    "datepublished",
    "publishdate",
    "pubdate",
    "issued",
    "released",
    "release_date",
    "date",
    "sent",
    "datum",
    "created",
    "year",
];

/// Names of `meta` tags that hold the date.
const META_NAMES: [&str; 24] = [
    "article:published_time",
    "og:published_time",
    "datepublished",
    "citation_publication_date",
    "citation_online_date",
    "citation_date",
    "dc.date.issued",
    "dc.date.created",
    "dc.date",
    "dcterms.issued",
    "dcterms.created",
    "dcterms.date",
    "pubdate",
    "pub_date",
    "publishdate",
    "publish_date",
    "publish-date",
    "publication_date",
    "publication-date",
    "published",
    "parsely-pub-date",
    "sailthru.date",
    "release_date",
    "date",
];

static META_TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)<meta\s([^>]*)>").expect("a constant"));
static TIME_TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)<time\b([^>]*)>([^<]*)").expect("a constant"));
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"([A-Za-z][\w:-]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?"#).expect("a constant")
});
/// A date in the JSON-LD data of a web page.
static LINKED_DATA: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""datePublished"\s*:\s*"([^"]{4,40})""#).expect("a constant"));

/// A date label, e.g. `Published:`, at the start of a line or after a gap; the date follows it.
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    let begin = r"(?im)(?:^|[ \t]{2,}|[|·•;]|[\t ](?:–|—)\s)[^\p{L}\d\n>]{0,8}";
    let clear = r"(?:(?:first|originally|date)[ \t]+)?(?:published|posted|released|issued)|publication[ \t]+date|release[ \t]+date|date[ \t]+of[ \t]+(?:publication|issue)|pubdate|veröffentlicht|erschienen|publiée?|publicado|pubblicato";
    // These labels need a separator after them, because `Date palms` and `data` are ordinary words.
    let marked = r"(?:date|dated|datum|fecha|data|sent|revdate)";
    Regex::new(&format!(r"{begin}(?:(?P<clear>{clear})\b|{marked}[\s*_]*[:=|{{])")).expect("a constant")
});
/// Text that may stand between a label and its date: `online on Monday, `, `by Ann Stone on `.
static BETWEEN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"^(?:\s+online)?[\s:=|*_–—{<"'\[(-]*(?:by\s[^,\n]{1,40}?(?:,\s*|\s+on\s+))?(?:(?:on|am|le|el|il|in)\s+)?(?:\p{L}{2,10}\.?,?\s+)?$"#,
    )
    .expect("a constant")
});
/// A year as the only text after a label.
static YEAR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\D{0,12}\b((?:1[5-9]|20)[0-9][0-9])[\s.)}\]|*_]*$").expect("a constant"));

/// Returns the publication date that a document states, as ISO 8601 and as precise as written. Returns `None` for an
/// ambiguous date, which could be two different days.
pub(crate) fn publication_date(source: &SourceDocument, passages: &[StoredPassage]) -> Option<String> {
    date_in_metadata(passages).or_else(|| date_in_page(source)).or_else(|| labelled_date(passages))
}

/// Returns the date in metadata, front matter or mail headers.
fn date_in_metadata(passages: &[StoredPassage]) -> Option<String> {
    let facts = passages.iter().filter(|it| it.part == PassageKind::Facts);
    let pairs: Vec<(String, &str)> = facts
        .flat_map(|it| it.text.lines())
        .filter_map(|it| it.split_once([':', '=']))
        .map(|(key, value)| (normalize_key(key), value))
        .collect();
    METADATA_KEYS.iter().find_map(|key| pairs.iter().filter(|it| it.0 == *key).find_map(|it| leading_date(it.1)))
}

/// Returns the date of a web page: from `meta` tags, else JSON-LD, else the first `time` tag, preferably a published one.
fn date_in_page(source: &SourceDocument) -> Option<String> {
    let raw = source.raw.as_ref().filter(|_| matches!(source.extension.as_str(), "html" | "htm" | "xhtml"))?;
    let html = &raw.text[..raw.text.floor_char_boundary(PAGE_HEAD_BYTES)];
    let metas: Vec<(String, &str)> =
        META_TAG.captures_iter(html).filter_map(|it| meta_content(it.get(1)?.as_str())).collect();
    let named =
        META_NAMES.iter().find_map(|name| metas.iter().filter(|it| it.0 == *name).find_map(|it| leading_date(it.1)));
    if named.is_some() {
        return named;
    }
    let linked = LINKED_DATA.captures_iter(html).find_map(|it| leading_date(it.get(1)?.as_str()));
    if linked.is_some() {
        return linked;
    }
    let times: Vec<(&str, &str)> =
        TIME_TAG.captures_iter(html).filter_map(|it| Some((it.get(1)?.as_str(), it.get(2)?.as_str()))).collect();
    let is_own = |it: &&(&str, &str)| {
        let attributes = it.0.to_ascii_lowercase();
        ["pubdate", "datepublished", "dt-published", "published", "entry-date"].iter().any(|it| attributes.contains(it))
    };
    let own = times.iter().filter(is_own).find_map(time_tag_date);
    own.or_else(|| times.iter().find_map(time_tag_date))
}

/// Returns the name and the content of a `meta` tag.
fn meta_content(attributes: &str) -> Option<(String, &str)> {
    let name = ["name", "property", "itemprop"].iter().find_map(|it| attribute_value(attributes, it))?;
    Some((name.to_ascii_lowercase(), attribute_value(attributes, "content")?))
}

fn attribute_value<'t>(attributes: &'t str, name: &str) -> Option<&'t str> {
    let found = ATTRIBUTE.captures_iter(attributes).find(|it| it[1].eq_ignore_ascii_case(name))?;
    found.iter().skip(2).flatten().next().map(|it| it.as_str())
}

fn time_tag_date(&(attributes, text): &(&str, &str)) -> Option<String> {
    leading_date(attribute_value(attributes, "datetime").unwrap_or(text))
}

/// Returns the date that directly follows a date label near the start of the text.
fn labelled_date(passages: &[StoredPassage]) -> Option<String> {
    let mut seen = 0;
    for passage in passages {
        if seen > MAX_LABEL_OFFSET {
            break;
        }
        seen += passage.text.len();
        if passage.part != PassageKind::Code
            && let Some(found) = LABEL.captures_iter(&passage.text).find_map(|it| date_after_label(&passage.text, &it))
        {
            return Some(found);
        }
    }
    None
}

fn date_after_label(text: &str, label: &regex::Captures<'_>) -> Option<String> {
    let rest = text[label.get(0)?.end()..].lines().next()?;
    match dates::find(rest).into_iter().next() {
        Some(found) => found.iso.filter(|_| BETWEEN.is_match(&rest[..found.range.start])),
        // Without a full date, accept a year alone: `Published 1984` is as clear as `Published: 1984`.
        None => YEAR.captures(rest).filter(|_| rest.len() < 24).map(|it| it[1].to_string()),
    }
}

/// Returns the date at the start of a value.
fn leading_date(value: &str) -> Option<String> {
    let value = value.trim().trim_matches(['"', '\'']);
    match dates::find(value).into_iter().next() {
        Some(found) => found.iso,
        None => (value.len() == 4 && value.bytes().all(|it| it.is_ascii_digit())).then(|| value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::corpus::tests::reading;

    fn check_date(name: &str, text: &str, expected: Option<&str>) {
        assert_eq!(reading(name, text.as_bytes()).facts.published_at.as_deref(), expected, "{name}: {text}");
    }

    #[test]
    fn date_in_running_text_is_ignored() {
        check_date("a.md", "# Fair\n\nIt is held on 3 March 2024 at the pier.\n", None);
        check_date("a.txt", "2024-03-03 level 4.1\n2024-03-04 level 4.2\n", None);
        check_date("a.txt", "Date palms were planted on 3 March 2024.\n", None);
        check_date("a.txt", "Published figures from 3 March 2024 show a rise.\n", None);
        check_date("a.txt", "The report, published 3 March 2024, is late.\n", None);
        check_date("a.csv", "Date,Amount\n2024-03-03,4\n2024-03-04,5\n", None);
        check_date("a.html", "<p>It came on 3 March 2024.</p>", None);
        let late = format!("# T\n\n{}\n\nPublished: 2024-03-03\n", "A line about nothing.\n\n".repeat(200));
        check_date("a.md", &late, None);
    }

    #[test]
    fn label_at_top_gives_date() {
        for (text, expected) in [
            ("Published: 2 March 2024", "2024-03-02"),
            ("**Published:** 2024-03-02", "2024-03-02"),
            ("Published on Monday, 4 March 2024 by Ann Stone", "2024-03-04"),
            ("Published by Ann Stone on March 4, 2024", "2024-03-04"),
            ("First published online: March 2024", "2024-03"),
            ("By Ann Stone · Posted March 4, 2024", "2024-03-04"),
            ("Date: 4 March 2024", "2024-03-04"),
            ("- Date: 2024-03-04", "2024-03-04"),
            ("Invoice 12   Date: 4 March 2024", "2024-03-04"),
            ("Datum: 4.3.2024", "2024-03-04"),
            ("Veröffentlicht am 4.3.2024", "2024-03-04"),
            ("Published 1984", "1984"),
            ("Publication date: 1984.", "1984"),
        ] {
            check_date("a.txt", &format!("A title\n\n{text}\n\nIt was fine on 1 May 2001.\n"), Some(expected));
        }
        check_date("a.txt", "A title\n\nPublished 19٢٤\n", None);
        check_date("a.rst", "Title\n=====\n\n:Author: Ann\n:Date: 2024-03-04\n", Some("2024-03-04"));
        check_date("a.tex", "\\title{On it}\n\\author{Ann}\n\\date{4 March 2024}\n", Some("2024-03-04"));
        check_date("a.org", "#+TITLE: On it\n#+DATE: <2024-03-04 Mon>\n", Some("2024-03-04"));
    }

    #[test]
    fn metadata_wins_over_text_and_specific_key_over_general() {
        check_date("a.md", "---\ntitle: T\ndate: \"2024-03-04\"\n---\n\nPublished: 2020-01-01\n", Some("2024-03-04"));
        check_date(
            "a.md",
            "---\ncreated: 2020-01-01\npublished: 2024-03-04T10:00:00Z\n---\n\nText\n",
            Some("2024-03-04T10:00:00Z"),
        );
        check_date("a.md", "---\nyear: 1984\n---\n\nText of 3 March 2024\n", Some("1984"));
        let mail = "From: Ann <ann@example.org>\nDate: Mon, 4 Mar 2024 10:00:00 +0100\nSubject: Late\n\nSee you on 9 May 2025.\n";
        check_date("a.eml", mail, Some("2024-03-04T10:00:00+01:00"));
    }

    #[test]
    fn html_meta_jsonld_and_time_give_date() {
        let page = |head: &str, body: &str| {
            format!("<html><head>{head}</head><body><p>On 1 May 2001.</p>{body}</body></html>")
        };
        for (head, body) in [
            (
                r#"<meta property="article:published_time" content="2024-03-04">"#,
                r#"<time datetime="2020-01-01">then</time>"#,
            ),
            (r#"<META CONTENT='2024/03/04' NAME='citation_publication_date'>"#, ""),
            (r#"<script type="application/ld+json">{"datePublished": "2024-03-04"}</script>"#, ""),
            ("", r#"<time datetime="2020-01-01">an event</time> <time datetime="2024-03-04" pubdate>it</time>"#),
            ("", r#"<time datetime="2024-03-04">4 March</time>"#),
            ("", "<time>4 March 2024</time>"),
            ("", "<p>Published: 4 March 2024</p>"),
        ] {
            check_date("a.html", &page(head, body), Some("2024-03-04"));
        }
    }

    #[test]
    fn ambiguous_date_is_none() {
        check_date("a.md", "# T\n\nPublished: 03/04/2024\n", None);
        check_date("a.md", "# T\n\nDate: 03/04/2024\n\nPublished: 2024-04-03\n", Some("2024-04-03"));
    }
}
