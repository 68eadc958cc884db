//! Merges OCR text into the documents that the pipeline indexes.
//!
//! OCR of a page takes a second or more, so no other file waits for it. The pipeline indexes the text that a file has
//! without OCR, and queues the file's id in [`crate::index::ocr::queue`]. The queue runs the skill `ocr_image`, caches
//! its result (see `file`) and makes the file pending again. The pipeline then merges the OCR text, see [`merge_ocr`].
//! OCR text is thus ordinary text of the document, and needs no OCR when the file is indexed again.

use std::collections::{HashMap, HashSet};

use crate::catalog::{EvidenceCache, READ_BY_OCR};
use crate::extract;
use crate::index::ocr::cached_text::{self, OcrState};
use crate::model::{Block, BlockKind, ContentHash, Document, FileKind, OcrMode};

/// Adds cached OCR text to a document. Prefers the result of the OCR queue to that of a skill that a query ran.
pub(crate) fn add_cached_ocr(cache: &EvidenceCache, hash: ContentHash, document: &mut Document) {
    match cached_text::cached_state(cache, hash, OcrMode::Auto) {
        OcrState::Read(read) | OcrState::Partial(read) => {
            merge_ocr(document, read);
            return;
        }
        OcrState::GivenUp(why) => document.problems.push(why),
        OcrState::Unread => (),
    }
    let is_picture = extract::kind_of_media_type(&document.media_type) == FileKind::Image;
    if !is_picture && document.pages_without_text.is_empty() {
        return;
    }
    let mut found = cache.get_all(hash);
    // Tries the results of the simplest skill first.
    let best =
        ["ocr_image", "pdf_layout", "vision"].iter().find_map(|skill| found.iter().position(|it| it.0 == *skill));
    if let Some(place) = best {
        let mut read = found.swap_remove(place).1;
        // Drops tables and facts, because they repeat the text from which they were made.
        read.blocks.retain(|it| !matches!(it.kind, BlockKind::Table | BlockKind::Metadata));
        let unread = &document.pages_without_text;
        read.blocks.retain(|it| is_picture || it.anchor.page.is_some_and(|page| unread.contains(&page)));
        // Counts only pages without text as unread: a query may have skipped pages that have text.
        read.pages_without_text.retain(|page| is_picture || unread.contains(page));
        merge_ocr(document, read);
    }
}

/// Returns whether a document that was just extracted needs OCR in this mode.
pub(crate) fn needs_ocr(mode: OcrMode, kind: FileKind, document: &Document) -> bool {
    match (mode, kind) {
        (OcrMode::Never, _) => false,
        (_, FileKind::Image) => true,
        (OcrMode::Always, FileKind::Pdf) => true,
        (OcrMode::Auto, FileKind::Pdf) => !document.pages_without_text.is_empty(),
        _ => false,
    }
}

/// Inserts OCR text after the other text of its page. Returns a note for the catalog with the number of pages.
pub(crate) fn merge_ocr(document: &mut Document, read: Document) -> Option<String> {
    document.pages_without_text = read.pages_without_text;
    document.problems.extend(read.problems);
    if document.title.is_none() {
        document.title = read.title;
    }
    let mut pages: Vec<u32> = read.blocks.iter().map(page_of).collect();
    pages.dedup();
    let known = words_by_page(document, &read.blocks);
    let is_news = |it: &Block| known.get(&it.anchor.page).is_none_or(|known| !is_repeated(known, it));
    let news = read.blocks.into_iter().filter(is_news).collect();
    document.blocks = insert_by_page(std::mem::take(&mut document.blocks), news);
    (!pages.is_empty()).then(|| format!("{} pages {READ_BY_OCR}", pages.len()))
}

/// Merges cached OCR text into the document of a file whose run does not request OCR. Pages with text do not count as
/// unread. Returns a note for the catalog.
pub(crate) fn merge_unrequested_ocr(document: &mut Document, kind: FileKind, known: OcrState) -> Option<String> {
    let (OcrState::Read(mut read) | OcrState::Partial(mut read)) = known else { return None };
    let unread = &document.pages_without_text;
    read.pages_without_text.retain(|page| kind == FileKind::Image || unread.contains(page));
    merge_ocr(document, read)
}

/// Returns the page of a block, or 0 for text of the file as a whole.
fn page_of(block: &Block) -> u32 {
    block.anchor.page.unwrap_or(0)
}

/// Inserts each new block after the last block of its page or of an earlier page. Takes one pass, because a book may
/// have as many new blocks as old ones.
fn insert_by_page(blocks: Vec<Block>, mut news: Vec<Block>) -> Vec<Block> {
    news.sort_by_key(page_of);
    // For each block, the lowest page of that block and all later ones: blocks need not be in page order.
    let mut lowest: Vec<u32> = blocks.iter().map(page_of).collect();
    for at in (1..lowest.len()).rev() {
        lowest[at - 1] = lowest[at - 1].min(lowest[at]);
    }
    let place = |it: &Block| lowest.partition_point(|lowest| *lowest <= page_of(it));
    let mut merged = Vec::with_capacity(blocks.len() + news.len());
    let mut news = news.into_iter().peekable();
    for (at, block) in blocks.into_iter().enumerate() {
        merged.extend(std::iter::from_fn(|| news.next_if(|it| place(it) <= at)));
        merged.push(block);
    }
    merged.extend(news);
    merged
}

/// Returns the words of the document's own text (not OCR text), for each page that has OCR text.
fn words_by_page(document: &Document, read: &[Block]) -> HashMap<Option<u32>, HashSet<String>> {
    let mut known: HashMap<_, _> = read.iter().map(|it| (it.anchor.page, HashSet::new())).collect();
    for block in document.blocks.iter().filter(|it| it.anchor.region.is_none()) {
        if let Some(words) = known.get_mut(&block.anchor.page) {
            words.extend(block.text.split_whitespace().map(str::to_lowercase));
        }
    }
    known
}

/// Returns whether an OCR block only repeats text of its page: at least four fifths of its words are known.
fn is_repeated(known: &HashSet<String>, block: &Block) -> bool {
    let words: Vec<String> = block.text.split_whitespace().map(str::to_lowercase).collect();
    let repeated = words.iter().filter(|it| known.contains(*it)).count();
    !words.is_empty() && repeated * 5 >= words.len() * 4
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::catalog::EvidenceKey;
    use crate::model::{Anchor, Region};

    fn document(blocks: &[(u32, &str)], region: Option<Region>) -> Document {
        let block = |(page, text): &(u32, &str)| Block {
            kind: BlockKind::Paragraph,
            text: (*text).to_string(),
            anchor: Anchor { page: (*page > 0).then_some(*page), region, ..Anchor::default() },
            rows: Vec::new(),
        };
        Document { blocks: blocks.iter().map(block).collect(), ..Document::default() }
    }

    fn check(text: &[(u32, &str)], read: &[(u32, &str)], expected: &[&str]) -> Option<String> {
        let mut merged = document(text, None);
        let said = merge_ocr(&mut merged, document(read, Some(Region::default())));
        let found: Vec<&str> = merged.blocks.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(found, expected);
        said
    }

    #[test]
    fn ocr_pages_are_inserted_in_page_order() {
        let said = check(
            &[(0, "facts"), (1, "first"), (3, "third")],
            &[(2, "second a"), (2, "second b"), (4, "fourth")],
            &["facts", "first", "second a", "second b", "third", "fourth"],
        );
        assert_eq!(said.as_deref(), Some("2 pages read by OCR"));
    }

    #[test]
    fn trailing_blocks_stay_before_ocr_text() {
        check(
            &[(0, "facts"), (2, "second"), (1, "first"), (0, "attached"), (3, "third")],
            &[(3, "c"), (1, "a"), (2, "b"), (9, "z")],
            &["facts", "second", "first", "attached", "a", "b", "third", "c", "z"],
        );
        check(&[], &[(2, "b"), (1, "a")], &["a", "b"]);
        check(&[(2, "second")], &[(1, "a")], &["a", "second"]);
    }

    #[test]
    fn pages_with_text_are_not_unread_without_ocr() {
        let read = Document { pages_without_text: vec![2, 3], ..document(&[(1, "stamp")], None) };
        let mut text = document(&[(1, "first"), (2, "second")], None);
        text.pages_without_text = vec![3];
        let said = merge_unrequested_ocr(&mut text, FileKind::Pdf, OcrState::Partial(read));
        assert_eq!((said.as_deref(), text.pages_without_text), (Some("1 pages read by OCR"), vec![3]));
        let nothing = merge_unrequested_ocr(&mut document(&[], None), FileKind::Pdf, OcrState::GivenUp("why".into()));
        assert_eq!(nothing, None);
    }

    #[test]
    fn large_merge_takes_linear_time() {
        let (text, read): (Vec<_>, Vec<_>) =
            (1..=100_000).map(|it| ((it, "of the text layer"), (it, "out of a picture"))).unzip();
        let mut merged = document(&text, None);
        let begun = Instant::now();
        merge_ocr(&mut merged, document(&read, None));
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let pages: Vec<Option<u32>> = merged.blocks.iter().map(|it| it.anchor.page).collect();
        assert!(merged.blocks.len() == 200_000 && pages.is_sorted());
    }

    #[test]
    fn ocr_text_that_repeats_text_layer_is_dropped() {
        check(
            &[(1, "the same few words here")],
            &[(1, "The same few words"), (1, "a stamp")],
            &["the same few words here", "a stamp"],
        );
    }

    #[test]
    fn cached_ocr_text_is_added_to_new_extraction() {
        let dir = tempfile::tempdir().unwrap();
        let cache = EvidenceCache::open(&dir.path().join("e.sqlite"), 1 << 20).unwrap();
        let hash = ContentHash([7; 32]);
        let scan = || Document {
            pages_without_text: vec![2],
            media_type: "application/pdf".into(),
            ..document(&[(1, "first")], None)
        };
        let shown = || {
            let mut shown = scan();
            add_cached_ocr(&cache, hash, &mut shown);
            shown.blocks.iter().map(|it| it.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(shown(), ["first"]);
        let put = |skill: &str, document: &Document| {
            cache.put(&EvidenceKey { hash, skill: skill.into(), version: "1".into() }, document);
        };
        let mut looked = document(&[(1, "heading of the first"), (2, "by a question"), (2, "Signed by: A")], None);
        looked.blocks[2].kind = BlockKind::Metadata;
        put("pdf_layout", &looked);
        assert_eq!(shown(), ["first", "by a question"], "only what has no text, and nothing twice");
        put("index_pictures", &document(&[(2, "by the queue")], Some(Region::default())));
        assert_eq!(shown(), ["first", "by the queue"]);
        let mut text = Document { pages_without_text: vec![], ..scan() };
        cache.put(&cached_text::cache_key(ContentHash([8; 32]), false), &Document::default());
        put("ocr_image", &looked);
        add_cached_ocr(&cache, ContentHash([9; 32]), &mut text);
        assert_eq!(text.blocks.len(), 1, "another content gets no cached text");
    }

    #[test]
    fn pages_left_by_query_count_only_without_text() {
        let dir = tempfile::tempdir().unwrap();
        let cache = EvidenceCache::open(&dir.path().join("e.sqlite"), 1 << 20).unwrap();
        let hash = ContentHash([7; 32]);
        let looked = Document { pages_without_text: vec![2, 3, 501], ..document(&[(1, "first")], None) };
        cache.put(&EvidenceKey { hash, skill: "pdf_layout".into(), version: "1".into() }, &looked);
        let mut shown = Document { pages_without_text: vec![1, 3], ..document(&[(2, "text")], None) };
        add_cached_ocr(&cache, hash, &mut shown);
        assert_eq!((shown.pages_without_text, shown.blocks.len()), (vec![3], 2));
    }

    #[test]
    fn image_without_text_adds_nothing() {
        assert_eq!(check(&[(0, "camera: X")], &[], &["camera: X"]), None);
    }

    #[test]
    fn wants_only_files_that_may_hold_unread_text() {
        let scan = Document { pages_without_text: vec![2], ..Document::default() };
        let text = Document::default();
        for (mode, kind, document, expected) in [
            (OcrMode::Auto, FileKind::Pdf, &scan, true),
            (OcrMode::Auto, FileKind::Pdf, &text, false),
            (OcrMode::Always, FileKind::Pdf, &text, true),
            (OcrMode::Auto, FileKind::Image, &text, true),
            (OcrMode::Never, FileKind::Image, &text, false),
            (OcrMode::Always, FileKind::Text, &text, false),
        ] {
            assert_eq!(needs_ocr(mode, kind, document), expected, "{mode:?} {kind:?}");
        }
    }
}
