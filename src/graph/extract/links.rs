//! Extracts references from text (Markdown links, wiki links, web addresses, papers by DOI or arXiv number), and the links
//! that a document has outside its text (HTML, mail).

use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use regex::Regex;

use crate::graph::extract::part::{PartBuilder, name_alias, shared_node};
use crate::graph::extract::source_text::{ChunkFinder, Finding, SourceText};
use crate::graph::extract::{people, relation};
use crate::model::{BlockKind, Document, FileKind, LinkKind, StoredChunk};

/// Maximum length of a link target in bytes; a longer one is ignored.
const MAX_TARGET_BYTES: usize = 1_000;

/// `[label](target "title")`, `[label]: target`, `<https://...>`, `[[Page#heading|label]]`, `https://...`, each as a group.
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        r#"\[[^\]\n]{0,300}\]\(\s*<?(?P<inline>[^\s<>()]+(?:\([^\s()]*\)[^\s<>()]*)?)>?(?:\s+["'][^\n]*?["'])?\s*\)"#,
        r"(?m:^[ ]{0,3}\[[^\]\n^][^\]\n]{0,200}\]:\s*<?(?P<definition>[^\s<>]+)>?)",
        // Accepts `¦` too, because the extracted text of a table has `¦` for a bar inside a cell.
        r"\[\[(?P<wiki>[^\[\]\n|¦]{1,200})(?:[|¦][^\[\]\n]*)?\]\]",
        r#"(?P<bare>https?://[^\s<>"'`\[\]{}|\\^]+)"#,
    ];
    Regex::new(&parts.join("|")).expect("a constant that a test compiles")
});

/// A DOI, or an arXiv number in its current form (`2101.00001`).
static PAPER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?P<doi>\b10\.\d{4,9}/[-._;()/:A-Za-z0-9]+)|(?i:\barxiv(?:\.org/(?:abs|pdf)/|:\s?))(?P<arxiv>\d{4}\.\d{4,5})",
    )
    .expect("a constant that a test compiles")
});

/// Extracts the references in a text.
pub(super) fn read_links(text: &SourceText<'_>, maker: &mut PartBuilder<'_>) {
    let is_markup = matches!(maker.reading.record.kind, FileKind::Markup | FileKind::Text | FileKind::Notebook);
    // Skips link syntax in code blocks, where it is more often an example than a reference.
    let is_code = matches!(text.kind, Some(BlockKind::Code));
    for found in LINK.captures_iter(text.text) {
        let Some(whole) = found.get(0) else { continue };
        let evidence = || text.evidence_at(whole.range());
        if let Some(target) = found.name("inline").or(found.name("definition")).filter(|_| is_markup && !is_code) {
            add_target(target.as_str(), 1.0, evidence(), maker);
        } else if let Some(page) = found.name("wiki").filter(|_| is_markup && !is_code) {
            add_wiki_link(page.as_str(), evidence(), maker);
        } else if let Some(address) = found.name("bare") {
            add_target(
                address.as_str().trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '*', '_']),
                0.9,
                evidence(),
                maker,
            );
        }
    }
    for found in PAPER.captures_iter(text.text) {
        let Some(whole) = found.get(0) else { continue };
        let evidence = text.evidence_at(whole.range());
        if let Some(doi) = found.name("doi") {
            add_paper("doi", doi.as_str().trim_end_matches(['.', ',', ';', ':', ')']), evidence, maker);
        } else if let Some(number) = found.name("arxiv") {
            add_paper("arxiv", number.as_str(), evidence, maker);
        }
    }
}

fn add_paper(kind: &str, number: &str, evidence: Finding, maker: &mut PartBuilder<'_>) {
    let number = number.to_lowercase();
    maker.add_node_and_edge(shared_node("Paper", format!("{kind}:{number}"), &number), relation::CITES, 0.95, evidence);
}

/// Extracts the links that a document has outside its text, e.g. the targets of HTML links and the ids of mail messages.
pub(super) fn read_document_links(document: &Document, maker: &mut PartBuilder<'_>) {
    let mut holders = ChunkFinder::new(maker.reading.chunks);
    for link in &document.links {
        let is_named = |it: &StoredChunk| it.chunk.text.contains(&link.text);
        let chunk = if link.text.is_empty() { None } else { holders.find_chunk(is_named) };
        let chunk = chunk.or(maker.reading.chunks.first());
        let evidence = chunk.map(|stored| {
            let at = stored.chunk.text.find(&link.text).filter(|_| !link.text.is_empty()).unwrap_or(0);
            let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
            let (start, end) = (number(at), number(at + link.text.len()));
            crate::model::GraphEvidence { chunk_id: stored.chunk.id.0.clone(), start, end }
        });
        match link.kind {
            LinkKind::Link => add_target(&link.target, 1.0, evidence, maker),
            LinkKind::Message => maker.add_alias(format!("message:{}", link.target)),
            LinkKind::Reply => {
                maker.add_edge_to_alias(&format!("message:{}", link.target), relation::LINKS_TO, 1.0, evidence);
            }
        }
    }
}

/// Adds a wiki link to a page given by its name or by folders and name: `[[Page]]`, `[[folder/Page#heading]]`. A link that
/// begins with `/`, `./` or `../` is a path instead: `[[/folder/Page]]`, `[[../Page]]`.
fn add_wiki_link(page: &str, evidence: Finding, maker: &mut PartBuilder<'_>) {
    // Drops a backslash at the end: Markdown tables write the bar between page and label as `\|`.
    let page = page.split('#').next().unwrap_or_default().trim().trim_end_matches('\\').trim_end();
    let page = page.strip_suffix(".md").unwrap_or(page);
    let (folder, name) = page.rsplit_once('/').unwrap_or(("", page));
    let name = name.trim();
    if name.is_empty() {
        return;
    }
    if page.starts_with('/') || page.starts_with("./") || page.starts_with("../") {
        let path = if name.contains('.') { page.to_string() } else { format!("{page}.md") };
        if let Some(alias) = maker.relative_path_alias(&path) {
            maker.add_edge_to_alias(&alias, relation::LINKS_TO, 0.9, evidence);
        }
        return;
    }
    let folders: Vec<&str> = folder.split('/').map(str::trim).filter(|it| !it.is_empty()).collect();
    let alias = name_alias(&maker.reading.record.root, name);
    maker.add_link_by_name(&alias, &folders.join("/"), evidence);
}

/// Adds a link to a file, a web page or a person, depending on the scheme of the target.
fn add_target(target: &str, confidence: f32, evidence: Finding, maker: &mut PartBuilder<'_>) {
    if target.is_empty() || target.len() > MAX_TARGET_BYTES || target.starts_with('#') {
        return;
    }
    let (scheme, rest) = target.split_once(':').unwrap_or(("", target));
    match scheme.to_ascii_lowercase().as_str() {
        "" => {
            let path = target.split(['#', '?']).next().unwrap_or_default();
            let path = percent_decode_str(path).decode_utf8_lossy();
            if let Some(alias) = maker.relative_path_alias(&path).filter(|_| !path.is_empty()) {
                maker.add_edge_to_alias(&alias, relation::LINKS_TO, confidence, evidence);
            }
        }
        "mailto" => {
            let address = rest.split('?').next().unwrap_or_default();
            people::add_person(address, "", relation::MENTIONS, 1.0, evidence, maker);
        }
        scheme @ ("http" | "https") => {
            if let Some(url) = sanitized_url(scheme, rest) {
                maker.add_node_and_edge(
                    shared_node("Url", format!("url:{url}"), &url),
                    relation::LINKS_TO,
                    confidence,
                    evidence,
                );
            }
        }
        _ => {}
    }
}

/// Returns a web address without the parts that may be secret: credentials, query and fragment.
fn sanitized_url(scheme: &str, rest: &str) -> Option<String> {
    let rest = rest.strip_prefix("//")?.split(['?', '#']).next()?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or(host).to_ascii_lowercase();
    (!host.is_empty()).then(|| format!("{scheme}://{host}{}", path.trim_end_matches('/')))
}
