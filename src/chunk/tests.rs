use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::chunk_places::line_breaks;
use crate::model::{Anchor, Block, BlockKind};

/// Tokenizer for tests: splits words into tokens of up to six characters. A word of over 100 bytes is one unknown token.
struct WordPieces {
    limit: usize,
}

impl TokenCounter for WordPieces {
    fn token_spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        let mut start = None;
        for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
            if !character.is_whitespace() {
                start.get_or_insert(at);
            } else if let Some(from) = start.take() {
                push_word_pieces(&text[from..at], from, &mut spans);
            }
        }
        spans
    }

    fn max_chunk_tokens(&self) -> usize {
        self.limit
    }
}

fn push_word_pieces(text: &str, from: usize, spans: &mut Vec<(usize, usize)>) {
    if text.len() > 100 {
        return spans.push((from, from + text.len()));
    }
    let bounds: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(6).chain([text.len()]).collect();
    spans.extend(bounds.windows(2).map(|pair| (from + pair[0], from + pair[1])));
}

fn settings() -> ChunkSettings {
    ChunkSettings { target_tokens: 40, max_tokens: 60, overlap_tokens: 8 }
}

fn chunks(document: &Document) -> Vec<Chunk> {
    Chunker::new(Arc::new(WordPieces { limit: 510 }), settings()).chunk(document, &ContentHash([7; 32]))
}

/// Returns a file text that consists of the given blocks, and the document with anchors into that text.
fn document_with_source(title: Option<&str>, blocks: &[(BlockKind, &str)]) -> (String, Document) {
    let mut source = String::new();
    let mut document = Document { title: title.map(String::from), ..Document::default() };
    for (kind, text) in blocks {
        let line = 1 + line_breaks(&source);
        let anchor = Anchor {
            line_start: Some(line),
            line_end: Some(line + line_breaks(text.trim_end())),
            byte_start: Some(source.len() as u64),
            byte_end: Some((source.len() + text.len()) as u64),
            verbatim: true,
            ..Anchor::default()
        };
        document.blocks.push(Block { kind: *kind, text: (*text).to_owned(), anchor, rows: Vec::new() });
        source.push_str(text);
        source.push_str("\n\n");
    }
    (source, document)
}

/// Checks the texts of the chunks of a document.
fn assert_chunks(title: Option<&str>, blocks: &[(BlockKind, &str)], expected: &[&str]) {
    let texts: Vec<String> = chunks(&document_with_source(title, blocks).1).into_iter().map(|it| it.text).collect();
    assert_eq!(texts, expected);
}

/// Returns the byte range of each sentence, which must end with a period.
fn sentences_of(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    let ends = text.match_indices('.').map(|it| it.0 + 1);
    ends.map(|end| std::mem::replace(&mut start, end)..end).collect()
}

fn sentences(count: usize) -> String {
    (0..count).map(|it| format!("Sentence {it} has six words here. ")).collect()
}

use BlockKind::{Code, Heading, Metadata, Paragraph, Table};

#[test]
fn title_equal_to_heading_is_not_repeated() {
    assert_chunks(Some("The title"), &[(Heading(1), "The title"), (Paragraph, "A body.")], &["The title\nA body."]);
}

#[test]
fn title_at_start_of_body_is_not_repeated() {
    assert_chunks(Some("The title"), &[(Paragraph, "The title. And more.")], &["The title. And more."]);
}

#[test]
fn text_below_max_tokens_stays_whole() {
    let text = sentences(7);
    let chunks = chunks(&document_with_source(None, &[(Paragraph, &text)]).1);
    assert_eq!(chunks.len(), 1);
    assert!(chunks[0].tokens > 40, "{}", chunks[0].tokens);
}

#[test]
fn small_sections_share_chunk_with_headings_in_body() {
    assert_chunks(
        Some("Doc"),
        &[(Heading(2), "A"), (Paragraph, "One."), (Heading(2), "B"), (Paragraph, "Two.")],
        &["Doc\nA\nOne.\n\nB\nTwo."],
    );
}

#[test]
fn large_section_does_not_join_next_one() {
    let text = sentences(3);
    assert_chunks(
        None,
        &[(Heading(2), "A"), (Paragraph, &text), (Heading(2), "B"), (Paragraph, "Two.")],
        &[&format!("A\n{}", text.trim_end()), "B\nTwo."],
    );
}

#[test]
fn heading_path_lists_headings_above_passage() {
    let (_, document) =
        document_with_source(Some("Doc"), &[(Heading(1), "A"), (Heading(2), "B"), (Paragraph, "Text.")]);
    let chunks = chunks(&document);
    assert_eq!(chunks[0].text, "Doc\nA > B\nText.");
    assert_eq!(chunks[0].body(), "Text.");
    assert_eq!(chunks[0].heading_path, ["A", "B"]);
}

#[test]
fn heading_without_body_is_chunked() {
    assert_chunks(None, &[(Heading(1), "Lonely")], &["Lonely"]);
}

#[test]
fn overlap_is_whole_sentences() {
    let text = sentences(20);
    let chunks = chunks(&document_with_source(None, &[(Paragraph, &text)]).1);
    assert!(chunks.len() > 2);
    for pair in chunks.windows(2) {
        assert!(pair[1].body().starts_with("Sentence"), "{}", pair[1].body());
        let first = pair[1].body().split_inclusive('.').next().unwrap();
        assert!(pair[0].body().ends_with(first), "{:?} {:?}", pair[0].body(), first);
    }
}

#[test]
fn code_and_tables_split_at_lines_without_overlap() {
    for kind in [Code, Table] {
        let text: String = (0..60).map(|it| format!("    value{it} | other{it}\n")).collect();
        let (source, document) = document_with_source(None, &[(kind, &text)]);
        let mut end = 0;
        for chunk in chunks(&document) {
            let (from, to) = (chunk.anchor.byte_start.unwrap() as usize, chunk.anchor.byte_end.unwrap() as usize);
            assert!(from >= end, "overlap");
            assert!(source[..from].ends_with('\n') || source[..from].trim().is_empty() || kind == Table);
            assert!(source[to..].starts_with('\n'));
            end = to;
        }
    }
}

#[test]
fn code_keeps_its_indentation() {
    assert_chunks(None, &[(Code, "\n    if x:\n        y()\n")], &["    if x:\n        y()"]);
}

#[test]
fn members_parts_and_sheets_never_share_chunk() {
    let (_, mut document) =
        document_with_source(None, &[(Paragraph, "One."), (Paragraph, "Two."), (Paragraph, "Three.")]);
    document.blocks[1].anchor.member = Some("a.txt".into());
    document.blocks[2].anchor.sheet = Some("b".into());
    assert_eq!(chunks(&document).len(), 3);
}

#[test]
fn metadata_joins_text_only_when_small() {
    let many: String = (0..20).map(|it| format!("key{it}: value{it}\n")).collect();
    assert_eq!(chunks(&document_with_source(None, &[(Metadata, "author: me"), (Paragraph, "Text.")]).1).len(), 1);
    assert!(
        chunks(&document_with_source(None, &[(Metadata, &many), (Paragraph, "Text.")]).1).last().unwrap().text
            == "Text."
    );
}

#[test]
fn chunk_of_sheet_names_its_cells() {
    let rows: String = (0..40).map(|it| format!("cell{it} | value{it}\n")).collect();
    let (_, mut document) = document_with_source(None, &[(Table, &rows)]);
    document.blocks[0].anchor = Anchor { cell: Some("B2:C41".into()), ..Anchor::default() };
    let chunks = chunks(&document);
    let last = chunks.last().unwrap();
    assert!(chunks[0].anchor.cell.as_ref().unwrap().starts_with("B2:C"));
    assert_eq!(last.anchor.cell, Some(format!("B{}:C41", 42 - last.body().lines().count())));
}

#[test]
fn chunk_over_pages_keeps_page_of_each_sentence() {
    let blocks: Vec<String> = (1..=60).map(|it| format!("Sentence {it} stands alone. The next of {it} too.")).collect();
    let (_, mut document) =
        document_with_source(None, &blocks.iter().map(|it| (Paragraph, it.as_str())).collect::<Vec<_>>());
    for (page, block) in (1..).zip(&mut document.blocks) {
        block.anchor = Anchor { page: Some(page), ..Anchor::default() };
    }
    let chunks = chunks(&document);
    assert!(chunks.len() > 3 && chunks.iter().all(|it| it.spans_pages() && it.anchor.page.is_none()));
    let mut seen = HashSet::new();
    for chunk in &chunks {
        for range in sentences_of(chunk.body()) {
            let number = chunk.body()[range.clone()].split(|it: char| !it.is_ascii_digit()).find(|it| !it.is_empty());
            let page = chunk.body_anchor(range).page;
            assert_eq!(page, Some(number.unwrap().parse().unwrap()));
            seen.insert(page);
        }
    }
    assert_eq!(seen.len(), 60);
}

#[test]
fn heading_in_context_keeps_its_place() {
    let (source, document) =
        document_with_source(Some("Doc"), &[(Heading(1), "A"), (Heading(2), "B  b"), (Paragraph, "Text.")]);
    let chunk = &chunks(&document)[0];
    let places = chunk.places();
    let headings: Vec<(&str, Anchor)> =
        places.headings().map(|it| (&chunk.text[it.clone()], places.anchor_at(it))).collect();
    assert_eq!(
        headings.iter().map(|it| (it.0, it.1.line_start, it.1.verbatim)).collect::<Vec<_>>(),
        [("A", Some(1), true), ("B b", Some(3), false)]
    );
    let text = chunk.body_anchor(0..5);
    assert_eq!(&source[text.byte_start.unwrap() as usize..text.byte_end.unwrap() as usize], "Text.");
}

#[test]
fn long_context_is_cut_to_its_share() {
    let title = "word ".repeat(100);
    let (_, document) =
        document_with_source(Some(&title), &[(Heading(1), &"many words ".repeat(20)), (Paragraph, "Text.")]);
    let chunks = chunks(&document);
    assert!(chunks.iter().all(|it| it.text[..it.body_start as usize].split_whitespace().count() <= 15));
    assert!(chunks.iter().any(|it| it.text.contains("many words many words")));
}

#[test]
fn settings_above_model_limit_are_lowered() {
    let chunker = Chunker::new(Arc::new(WordPieces { limit: 30 }), settings());
    let (_, document) = document_with_source(None, &[(Paragraph, &sentences(30))]);
    assert!(chunker.chunk(&document, &ContentHash([0; 32])).iter().all(|it| it.tokens <= 30));
}

#[test]
fn chunking_time_is_linear_in_text_size() {
    let chunker = Chunker::new(Arc::new(WordPieces { limit: 510 }), ChunkSettings::default());
    let cut = |words: usize| {
        let text = sentences(words);
        let started = std::time::Instant::now();
        let chunks = chunker.chunk(&document_with_source(None, &[(Paragraph, &text)]).1, &ContentHash([0; 32]));
        (text.len(), chunks.len(), started.elapsed())
    };
    let (_, _, one) = cut(32_000);
    let (bytes, chunks, ten) = cut(320_000);
    assert!(bytes > 10 << 20 && chunks > 5_000);
    assert!(ten < 30 * one, "{one:?} for a tenth, {ten:?} for all");
}

#[test]
fn million_brackets_after_full_stop_are_cut_in_time() {
    let text = format!("An end.{} And a beginning.", ")".repeat(1_000_000));
    let started = std::time::Instant::now();
    let chunks = chunks(&document_with_source(None, &[(Paragraph, &text)]).1);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    assert!(chunks[0].text.starts_with("An end.)") && chunks.last().unwrap().text.ends_with("And a beginning."));
}

fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => "[a-zA-Z]{1,12}[.!?]?",
        1 => "[äß漢字。\u{301}🦀]{1,8}",
        1 => "[a-z0-9]{90,300}",
        1 => Just("\n".to_owned()),
        1 => Just("\n\n".to_owned()),
    ];
    (prop::collection::vec(word, 1..120), prop_oneof![Just(" "), Just(""), Just("\t")])
        .prop_map(|(words, gap)| words.join(gap))
        .prop_filter("a block is never empty", |it| !it.trim().is_empty())
}

fn any_kind() -> impl Strategy<Value = BlockKind> {
    prop_oneof![
        2 => (1_u8..7).prop_map(Heading),
        4 => Just(Paragraph),
        1 => Just(BlockKind::ListItem),
        1 => Just(Table),
        1 => Just(Code),
        1 => Just(Metadata),
    ]
}

/// Returns the words in a part of a text with their byte offsets in the whole text.
fn words_with_offsets(text: &str, part: std::ops::Range<usize>) -> Vec<(usize, &str)> {
    let at = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text[part].split_whitespace().map(|it| (at(it), it)).collect()
}

fn without_white_space(text: &str) -> String {
    text.chars().filter(|it| !it.is_whitespace()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_documents_keep_chunk_invariants(
        title in prop::option::of("[a-zA-Z ]{0,60}"),
        blocks in prop::collection::vec((any_kind(), any_text()), 1..8),
    ) {
        let blocks: Vec<(BlockKind, &str)> = blocks.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        let (source, document) = document_with_source(title.as_deref(), &blocks);
        let chunks = chunks(&document);
        prop_assert_eq!(&chunks, &super::tests::chunks(&document), "not deterministic");
        let ids: HashSet<_> = chunks.iter().map(|it| it.id.clone()).collect();
        prop_assert_eq!(ids.len(), chunks.len());
        for chunk in &chunks {
            let tokens = WordPieces { limit: 510 }.token_spans(&chunk.text).len();
            prop_assert_eq!(tokens, chunk.tokens as usize);
            prop_assert!(tokens <= 60, "{} tokens: {:?}", tokens, chunk.text);
            prop_assert!(!chunk.body().trim().is_empty());
            let (from, to) = (chunk.anchor.byte_start.unwrap() as usize, chunk.anchor.byte_end.unwrap() as usize);
            prop_assert_eq!(without_white_space(&source[from..to]), without_white_space(chunk.body()));
            if chunk.anchor.verbatim {
                prop_assert_eq!(&source[from..to], chunk.body());
            }
            let line = |byte: usize| 1 + line_breaks(&source[..byte]);
            let places = chunk.places();
            let own = places.headings().chain(std::iter::once(chunk.body_start as usize..chunk.text.len()));
            for (at, word) in own.flat_map(|it| words_with_offsets(&chunk.text, it)) {
                let place = places.anchor_at(at..at + word.len());
                if !place.verbatim {
                    // A word outside verbatim anchors must be in a heading: headings are shown on one line, and so may
                    // differ from the file.
                    prop_assert!(at < chunk.body_start as usize, "{:?}", word);
                    continue;
                }
                let bytes = place.byte_start.unwrap() as usize..place.byte_end.unwrap() as usize;
                prop_assert_eq!(&source[bytes.clone()], word);
                prop_assert_eq!((place.line_start, place.line_end), (Some(line(bytes.start)), Some(line(bytes.end))));
            }
            prop_assert_eq!(chunk.anchor.line_start, Some(line(from)));
            prop_assert_eq!(chunk.anchor.line_end, Some(line(to)));
        }
        let covered = |byte: u64| {
            chunks.iter().any(|it| (it.anchor.byte_start..it.anchor.byte_end).contains(&Some(byte)))
        };
        for block in &document.blocks {
            let start = block.anchor.byte_start.unwrap();
            let mut visible = block.text.char_indices().filter(|(_, it)| !it.is_whitespace());
            let in_bodies = visible.all(|(at, _)| covered(start + at as u64));
            let in_context = || chunks.iter().any(|it| without_white_space(&it.text).contains(&without_white_space(&block.text)));
            prop_assert!(in_bodies || in_context(), "lost: {:?}", block.text);
        }
    }
}
