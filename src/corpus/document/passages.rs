//! A document prepared for finding objects: passages with their role, their heading and their exact location.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::corpus::document::location::{BlockFinder, BlockPosition, MAX_MISSES, Markup, SourceLocation, SourceText};
use crate::corpus::text::code_blocks;
use crate::model::{Anchor, Block, BlockKind, Document};

/// What a passage is in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassageRole {
    Heading(u8),
    Prose,
    Item,
    Table,
    Code,
    Facts,
}

/// A passage of a document, e.g. a paragraph, with its role and location.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) role: PassageRole,
    pub(crate) text: String,
    /// Index of the nearest heading passage above this one.
    pub(crate) heading: Option<usize>,
    /// Whether the document marks the passage as a quotation.
    pub(crate) quoted: bool,
    /// Code only: the language that the document states.
    pub(crate) language: Option<String>,
    /// Code only: the symbol that the passage defines, e.g. a function.
    pub(crate) symbol: Option<String>,
    /// Text of the whole block that contains the passage, and the offset of the passage in the block.
    block: String,
    offset: usize,
    spot: BlockPosition,
}

impl Passage {
    /// Returns whether the passage is running text and not too long for a paragraph.
    pub(crate) fn is_prose(&self) -> bool {
        matches!(self.role, PassageRole::Prose | PassageRole::Item) && self.text.len() <= MAX_PARAGRAPH_BYTES
    }
}

/// Maximum number of nested tags that are searched before a passage, and likewise after it.
const MAX_NESTED_TAGS: usize = 4;

/// Maximum bytes of a tag, which may contain a long address; a longer tag is not recognized.
const MAX_TAG_BYTES: usize = 2_000;

/// Bytes before code or a table in which its tag is searched. A tag farther away belongs to other text, and an unlimited
/// search would scan the whole file for each passage.
pub(crate) const TAG_SEARCH_BYTES: usize = 64 << 10;

/// Maximum bytes of a heading; longer ones are truncated. Some formats mark paragraphs as headings, and every passage
/// below a heading stores a copy.
pub(crate) const MAX_HEADING_BYTES: usize = 640;

/// Maximum bytes of a paragraph; a longer passage is machine-made, and does not count as running text.
const MAX_PARAGRAPH_BYTES: usize = 16 << 10;

/// A document as the input of the code that finds objects in it, such as tables, citations and definitions.
pub(crate) struct SourceDocument {
    /// Extension of the file in lower case.
    pub(crate) extension: String,
    pub(crate) title: Option<String>,
    pub(crate) passages: Vec<Passage>,
    pub(crate) raw: Option<SourceText>,
    /// Code blocks that the parser did not recognize as code: those in lightweight markup other than Markdown.
    pub(crate) snippets: Vec<code_blocks::CodeBlock>,
}

/// Common section headings in plain text, which has no heading markup.
static PLAIN_HEADING: LazyLock<Regex> = LazyLock::new(|| {
    let names = "abstract|introduction|background|methods?|methodology|materials and methods|approach|procedure|experimental setup|study design|data collection|participants and (?:procedures?|methods?|design)|(?:patients|subjects) and methods?|results|discussion|conclusions?|references|bibliography|works cited|literature|sources|glossary|definitions|definition of terms|terms|pros|cons|advantages|disadvantages";
    Regex::new(&format!(r"(?i)^(?:\d+(?:\.\d+)*\.?\s+)?(?:{names})\s*:?$")).expect("the pattern is a constant")
});

impl SourceDocument {
    /// Splits a document into passages. `raw` is the content of the file, if the file is a text file.
    pub(crate) fn new(extension: &str, document: Document, raw: Option<String>) -> SourceDocument {
        let markup = match extension {
            "html" | "htm" | "xhtml" | "xml" => Markup::Tags,
            "ipynb" | "json" => Markup::Escapes,
            _ => Markup::None,
        };
        let raw = raw.map(|it| SourceText::new(it, markup));
        let snippets = raw.as_ref().map(|it| code_blocks::find_code_blocks(&it.text, extension)).unwrap_or_default();
        let quotes =
            raw.as_ref().filter(|_| markup == Markup::Tags).map(|it| blockquotes(&it.text)).unwrap_or_default();
        let mut source =
            SourceDocument { extension: extension.into(), title: document.title, passages: Vec::new(), raw, snippets };
        let kernel = source.raw.as_ref().filter(|_| extension == "ipynb").map(|it| notebook_language(&it.text));
        let mut finder = BlockFinder::new(None);
        let raw = source.raw.take();
        if raw.is_some() {
            finder = BlockFinder::new(raw.as_ref());
        }
        let page = raw.as_ref().filter(|it| extension == "eml" && it.text.contains("<table"));
        let page = page.map(|it| SourceText::new(it.text.clone(), Markup::Tags));
        let (mut page_at, mut misses) = (0, 0);
        for mut block in document.blocks {
            let is_of_page = block.kind == BlockKind::Table && block.anchor.member.is_none() && misses < MAX_MISSES;
            if let Some(page) = page.as_ref().filter(|_| is_of_page) {
                match place_in_page(page, &mut block, page_at) {
                    Some(end) => page_at = end,
                    None => misses += 1,
                }
            }
            let spot = finder.next(&block);
            let role = role_of(block.kind, extension, block.anchor.symbol.is_some());
            let mut passage = Passage {
                role,
                heading: None,
                quoted: block.anchor.part.as_deref().is_some_and(is_quote_part),
                language: None,
                symbol: block.anchor.symbol,
                block: block.text.clone(),
                text: block.text,
                offset: 0,
                spot,
            };
            let bytes = passage.spot.bytes(raw.as_ref(), &passage.block, &(0..passage.block.len()));
            if let (Some(bytes), Some(raw)) = (&bytes, &raw) {
                passage.quoted |= is_quoted(raw, bytes, extension, &quotes);
                if role == PassageRole::Code {
                    passage.language = kernel.clone().or_else(|| stated_language(raw, bytes, extension));
                }
                let at = source.snippets.partition_point(|it| it.outer.end < bytes.end);
                if source.snippets.get(at).is_some_and(|it| it.covers(bytes)) {
                    passage.role = PassageRole::Code;
                    passage.language = Some(String::new());
                }
            }
            source.add_passage(passage);
        }
        source.raw = raw;
        source.link_headings();
        source
    }

    /// Adds a passage. If plain text starts with a heading line, that line becomes a passage of its own.
    fn add_passage(&mut self, passage: Passage) {
        let first_line = passage.text.lines().next().unwrap_or_default();
        let plain = matches!(passage.role, PassageRole::Prose) && PLAIN_HEADING.is_match(first_line.trim());
        if !plain {
            self.passages.push(passage);
            return;
        }
        let (text, end) = (first_line.to_string(), first_line.len());
        let rest = &passage.text[end..];
        let skipped = end + rest.len() - rest.trim_start().len();
        let body = passage.text[skipped..].to_string();
        self.passages.push(Passage { role: PassageRole::Heading(2), text, ..passage.clone() });
        if !body.is_empty() {
            self.passages.push(Passage { text: body, offset: skipped, ..passage });
        }
    }

    fn link_headings(&mut self) {
        let mut heading = None;
        for at in 0..self.passages.len() {
            if matches!(self.passages[at].role, PassageRole::Heading(_)) {
                heading = Some(at);
            } else {
                self.passages[at].heading = heading;
            }
        }
    }

    /// Returns the heading above a passage, truncated to [`MAX_HEADING_BYTES`].
    pub(crate) fn heading(&self, passage: &Passage) -> &str {
        let text = passage.heading.map_or("", |at| self.passages[at].text.as_str());
        &text[..text.floor_char_boundary(MAX_HEADING_BYTES)]
    }

    /// Returns the location of a part of a passage.
    pub(crate) fn place(&self, passage: &Passage, part: &Range<usize>) -> SourceLocation {
        let part = part.start + passage.offset..part.end + passage.offset;
        passage.spot.place(self.raw.as_ref(), &passage.block, &part)
    }

    /// Returns the location of a whole passage.
    pub(crate) fn place_of(&self, passage: &Passage) -> SourceLocation {
        self.place(passage, &(0..passage.text.len()))
    }

    /// Returns the byte range in the file of a part of a passage.
    pub(crate) fn bytes(&self, passage: &Passage, part: &Range<usize>) -> Option<Range<usize>> {
        let part = part.start + passage.offset..part.end + passage.offset;
        passage.spot.bytes(self.raw.as_ref(), &passage.block, &part)
    }

    /// Returns whether the document is a web page.
    pub(crate) fn is_page(&self) -> bool {
        matches!(self.extension.as_str(), "html" | "htm" | "xhtml")
    }

    /// Returns the byte range of a passage including its opening tags and the tags after its last word.
    pub(crate) fn markup_around(&self, passage: &Passage) -> Option<Range<usize>> {
        let bytes = self.bytes(passage, &(0..passage.text.len()))?;
        let text = &self.raw.as_ref()?.text;
        let (mut start, mut end) = (bytes.start, bytes.end);
        for _ in 0..MAX_NESTED_TAGS {
            let before = text[..start].trim_end();
            let near = before.ceil_char_boundary(before.len().saturating_sub(MAX_TAG_BYTES));
            let open = before.ends_with('>').then(|| before[near..].rfind('<')).flatten();
            match open.map(|it| near + it) {
                Some(open) if !before[open..].starts_with("</") => start = open,
                _ => break,
            }
        }
        for _ in 0..MAX_NESTED_TAGS {
            let after = text[end..].trim_start();
            let begin = text.len() - after.len();
            let near = &after[..after.floor_char_boundary(MAX_TAG_BYTES + 1)];
            let close = near.starts_with('<').then(|| near.find('>')).flatten();
            match close {
                Some(close) if !ends_block(after) => end = begin + close + 1,
                _ => break,
            }
        }
        Some(start..end)
    }

    /// Finds `words` in a passage: the occurrence that lies in these bytes of the file. Returns its range in the passage.
    pub(crate) fn locate_words(&self, passage: &Passage, words: &str, bytes: &Range<usize>) -> Option<Range<usize>> {
        let mut found = passage.text.match_indices(words).map(|it| it.0..it.0 + words.len());
        found.find(|it| !it.is_empty() && self.bytes(passage, it).is_some_and(|it| bytes.contains(&it.start)))
    }

    /// Returns the passages that hold running text. Leaves out a passage longer than any paragraph, which is machine-made
    /// and would take quadratic time to search.
    pub(crate) fn prose(&self) -> impl Iterator<Item = &Passage> {
        self.passages.iter().filter(|it| it.is_prose())
    }
}

fn role_of(kind: BlockKind, extension: &str, has_symbol: bool) -> PassageRole {
    match kind {
        BlockKind::Heading(level) => PassageRole::Heading(level),
        BlockKind::Paragraph if has_symbol && extension != "md" => PassageRole::Code,
        BlockKind::Paragraph => PassageRole::Prose,
        BlockKind::ListItem => PassageRole::Item,
        BlockKind::Table => PassageRole::Table,
        BlockKind::Code => PassageRole::Code,
        BlockKind::Metadata => PassageRole::Facts,
    }
}

/// Returns whether a tag ends a paragraph or begins another one.
fn ends_block(tag: &str) -> bool {
    const BLOCKS: &[&str] = &[
        "p",
        "li",
        "div",
        "dd",
        "dt",
        "dl",
        "ul",
        "ol",
        "td",
        "th",
        "tr",
        "table",
        "section",
        "article",
        "main",
        "aside",
        "header",
        "footer",
        "nav",
        "blockquote",
        "pre",
        "body",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ];
    let name: String = tag[1..].trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
    BLOCKS.contains(&name.to_ascii_lowercase().as_str())
}

/// Returns HTML without its tags, on one line.
pub(crate) fn strip_tags(html: &str) -> String {
    static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new("<[^>]*>").expect("a constant"));
    let text = TAG.replace_all(html, "").replace("&amp;", "&").replace("&nbsp;", " ").replace("&#39;", "'");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the byte ranges of the outermost `blockquote` elements.
fn blockquotes(html: &str) -> Vec<Range<usize>> {
    let lower = html.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = lower[at..].find("<blockquote").map(|it| at + it) {
        let end = lower[start..].find("</blockquote").map_or(lower.len(), |it| start + it);
        found.push(start..end);
        at = end;
    }
    found
}

/// Sets the location of a table of a mail to its bytes in the HTML part, at or after byte `from`, and returns the end of
/// the table. An encoded HTML part has no byte positions.
fn place_in_page(page: &SourceText, block: &mut Block, from: usize) -> Option<usize> {
    let start = from + page.text[from..].find("<table")?;
    let anchor = Anchor { byte_start: Some(start as u64), ..Anchor::default() };
    let looked_for = Block { anchor, ..block.clone() };
    let spot = BlockFinder::new(Some(page)).next(&looked_for);
    let bytes = spot.bytes(Some(page), &block.text, &(0..block.text.len()))?;
    let place = page.place(&bytes);
    (block.anchor.line_start, block.anchor.line_end) = place.lines.unzip();
    (block.anchor.byte_start, block.anchor.byte_end) = place.bytes.unzip();
    Some(bytes.end)
}

/// Returns whether the parser marks this part of a file as a quotation.
fn is_quote_part(part: &str) -> bool {
    part.rsplit(", ").next() == Some("quote")
}

fn is_quoted(raw: &SourceText, bytes: &Range<usize>, extension: &str, quotes: &[Range<usize>]) -> bool {
    if !quotes.is_empty() {
        let at = quotes.partition_point(|it| it.end <= bytes.start);
        return quotes.get(at).is_some_and(|it| it.contains(&bytes.start));
    }
    if extension == "ipynb" {
        return raw.text[..bytes.start].trim_end().ends_with('>');
    }
    let line = raw.text[..bytes.start].rfind('\n').map_or(0, |it| it + 1);
    let marked = raw.text[line..].trim_start_matches([' ', '\t']).starts_with('>');
    marked && matches!(extension, "md" | "markdown" | "mdx" | "qmd" | "rmd" | "txt" | "text" | "eml" | "")
}

/// Returns the programming language that a code fence, an HTML class or a notebook states.
fn stated_language(raw: &SourceText, bytes: &Range<usize>, extension: &str) -> Option<String> {
    static CLASS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:language|lang|highlight-source)-([A-Za-z0-9+#]+)").expect("a constant"));
    let named = match extension {
        "html" | "htm" | "xhtml" => {
            let before = raw.text.get(..bytes.start)?;
            let before = &before[before.ceil_char_boundary(before.len().saturating_sub(TAG_SEARCH_BYTES))..];
            let start = before.rfind("<pre")?;
            CLASS.captures(&before[start..]).map(|it| it[1].to_lowercase())
        }
        _ => {
            let info = raw.line_before(bytes.start).trim().trim_start_matches(['`', '~']);
            let fenced = raw.line_before(bytes.start).trim().starts_with(['`', '~']);
            let word = info.trim().trim_start_matches(['{', '.']).split([' ', ',', '}', '{', ':']).next()?;
            (fenced && !word.is_empty()).then(|| word.to_lowercase())
        }
    };
    named.map(|it| code_blocks::canonical_language(&it).to_string())
}

/// Returns the programming language that a notebook states.
fn notebook_language(notebook: &str) -> String {
    static KERNEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""(?:language|language_info)"\s*:\s*(?:\{[^}]*"name"\s*:\s*)?"([a-z+#]+)"#).expect("a constant")
    });
    let named = KERNEL.captures(notebook).map_or_else(|| "python".into(), |it| it[1].to_lowercase());
    code_blocks::canonical_language(&named).to_string()
}
