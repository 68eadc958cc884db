//! The input of the graph extraction: the texts of a file, with their locations and the chunks that contain them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::model::{Anchor, Block, BlockKind, Chunk, Document, FileRecord, GraphEvidence, StoredChunk};

/// Maximum number of occurrences of a text in its chunk that are compared with the page of the text; others are ignored.
const MAX_OCCURRENCES: usize = 100;
/// After this many searches without a match, only the `NEARBY_CHUNKS` chunks from the last match on are searched, because
/// each failed search scans all chunks.
const MAX_FULL_SCANS: usize = 200;
const NEARBY_CHUNKS: usize = 8;

/// Input for the extraction of nodes and edges from one file.
pub(crate) struct ExtractInput<'a> {
    pub(crate) record: &'a FileRecord,
    /// The chunks of the file, sorted by ordinal.
    pub(crate) chunks: &'a [StoredChunk],
    /// The whole document, if the file was parsed again.
    pub(crate) document: Option<&'a Document>,
}

impl<'a> ExtractInput<'a> {
    /// Returns the texts to extract from: the blocks of the document if the file was parsed again, else the chunks.
    pub(super) fn texts(&self) -> Vec<SourceText<'a>> {
        match self.document {
            Some(document) => {
                let mut holders = ChunkFinder::new(self.chunks);
                let text = |block: &'a Block| SourceText {
                    text: &block.text,
                    kind: Some(block.kind),
                    anchor: &block.anchor,
                    chunk: holders.chunk_of_block(&block.text, &block.anchor),
                };
                document.blocks.iter().map(text).collect()
            }
            None => {
                let text = |stored: &'a StoredChunk| SourceText {
                    text: stored.chunk.body(),
                    kind: None,
                    anchor: &stored.chunk.anchor,
                    chunk: Some(stored),
                };
                self.chunks.iter().map(text).collect()
            }
        }
    }
}

/// The chunk and range in which a reference was found, as evidence of an edge; `None` if no chunk is known.
pub(super) type Finding = Option<GraphEvidence>;

/// A text of a file, with its location.
pub(crate) struct SourceText<'a> {
    pub(crate) text: &'a str,
    pub(crate) kind: Option<BlockKind>,
    pub(crate) anchor: &'a Anchor,
    /// The chunk that contains the text, if the file has chunks.
    pub(crate) chunk: Option<&'a StoredChunk>,
}

impl SourceText<'_> {
    /// Returns a byte range of the text as evidence: as a range of the file if the anchor says that the text is the same as
    /// in the file (`verbatim`), otherwise as a range of the text of the chunk.
    pub(super) fn evidence_at(&self, range: Range<usize>) -> Finding {
        let chunk = &self.chunk?.chunk;
        let (start, end) = match self.anchor.byte_start.filter(|_| self.anchor.verbatim) {
            Some(first) => (first + range.start as u64, first + range.end as u64),
            None => position_in_chunk(self, chunk, &range).map_or((0, 0), |at| (at as u64, (at + range.len()) as u64)),
        };
        let number = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
        Some(GraphEvidence { chunk_id: chunk.id.0.clone(), start: number(start), end: number(end) })
    }

    /// Returns the `key: value` lines of a metadata block, by key, each with its value and byte range.
    pub(super) fn metadata_lines(&self) -> BTreeMap<String, (String, Range<usize>)> {
        let mut facts = BTreeMap::new();
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            if let Some((key, value)) = line.split_once(':') {
                let key = key.trim().to_lowercase();
                let known = !key.is_empty() && key.len() <= 40 && !key.contains(char::is_whitespace);
                if known && !value.trim().is_empty() {
                    facts.entry(key).or_insert((value.trim().to_string(), at..at + line.trim_end().len()));
                }
            }
            at += line.len();
        }
        facts
    }
}

/// Returns the position of a range of the text in its chunk. If its words occur there more than once, prefers an occurrence
/// in the page and message of the text.
fn position_in_chunk(text: &SourceText<'_>, chunk: &Chunk, range: &Range<usize>) -> Option<usize> {
    if text.kind.is_none() {
        return Some(chunk.body_start as usize + range.start);
    }
    let words = text.text.get(range.clone())?;
    position_in_part(chunk, words, text.anchor).or_else(|| chunk.text.find(words))
}

/// Returns the position of words in a chunk, in the page and the part (such as a message of a mailbox) of an anchor.
fn position_in_part(chunk: &Chunk, words: &str, anchor: &Anchor) -> Option<usize> {
    let mut found = chunk.text.match_indices(words).map(|it| it.0).take(MAX_OCCURRENCES).peekable();
    found.peek()?;
    let places = chunk.places();
    found.find(|at| {
        let here = places.anchor_at(*at..at + words.len());
        here.page == anchor.page && here.part == anchor.part
    })
}

/// Finds the chunks that contain the texts of a document. Each search starts at the last match, because texts come in order.
pub(super) struct ChunkFinder<'a> {
    chunks: &'a [StoredChunk],
    last: usize,
    misses: usize,
}

impl<'a> ChunkFinder<'a> {
    pub(super) fn new(chunks: &'a [StoredChunk]) -> ChunkFinder<'a> {
        ChunkFinder { chunks, last: 0, misses: 0 }
    }

    /// Returns the chunk that contains a block: by byte offsets if both have them, else by the first words of the block, if
    /// possible in its page or message, because all replies of a thread may begin with one subject.
    fn chunk_of_block(&mut self, text: &str, anchor: &Anchor) -> Option<&'a StoredChunk> {
        let holds = |start: u64, it: &StoredChunk| {
            let (first, last) = (it.chunk.anchor.byte_start, it.chunk.anchor.byte_end);
            first.is_some_and(|it| it <= start)
                && last.is_some_and(|it| start < it)
                && it.chunk.anchor.member == anchor.member
        };
        let begin = text.lines().next().unwrap_or_default();
        let begin = &begin[..begin.floor_char_boundary(60)];
        let by_bytes = anchor.byte_start.and_then(|start| self.find_chunk(|it| holds(start, it)));
        by_bytes
            .or_else(|| self.find_chunk(|it| position_in_part(&it.chunk, begin, anchor).is_some()))
            .or_else(|| self.find_chunk(|it| it.chunk.text.contains(begin)))
            .or(self.chunks.first())
    }

    /// Returns the first chunk that satisfies `is_so`, searching from the last match on.
    pub(super) fn find_chunk(&mut self, is_so: impl Fn(&StoredChunk) -> bool) -> Option<&'a StoredChunk> {
        let all = self.chunks.len();
        let most = if self.misses < MAX_FULL_SCANS { all } else { NEARBY_CHUNKS.min(all) };
        // Starts one chunk before the last match, which may contain the text too, because neighbouring chunks overlap.
        let from = self.last.saturating_sub(1);
        let found = (from..from + most).map(|it| it % all).find(|it| is_so(&self.chunks[*it]));
        match found {
            Some(found) => self.last = found,
            None => self.misses += 1,
        }
        found.map(|it| &self.chunks[it])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChunkId, EncodedPieces, Tier};

    fn chunk(text: &str) -> StoredChunk {
        let chunk = Chunk {
            id: ChunkId(text.into()),
            ordinal: 0,
            text: text.into(),
            body_start: 0,
            anchor: Anchor::default(),
            pieces: EncodedPieces::default(),
            heading_path: Vec::new(),
            tokens: 1,
            tier: Tier::L1,
        };
        StoredChunk { file_id: 1, chunk }
    }

    #[test]
    fn chunk_search_starts_at_last_match() {
        let chunks = ["a yes", "b", "c yes", "d"].map(chunk);
        let mut holders = ChunkFinder::new(&chunks);
        let mut check = |text: &str, expected: &str| {
            let found = holders.chunk_of_block(text, &Anchor::default()).unwrap();
            assert_eq!(found.chunk.text, expected, "{text}");
        };
        for (text, expected) in
            [("yes\nand", "a yes"), ("d", "d"), ("yes", "c yes"), ("b", "b"), ("nowhere", "a yes"), ("c", "c yes")]
        {
            check(text, expected);
        }
        assert!(ChunkFinder::new(&[]).chunk_of_block("a", &Anchor::default()).is_none());
    }

    #[test]
    fn replies_with_one_subject_are_found_in_their_own_messages() {
        let of_message = |number: u32| Anchor { part: Some(format!("message {number}")), ..Anchor::default() };
        let header = |number: u32| format!("subject: Re: Bus\nfrom: writer{number}@x.org");
        let mut chunks: Vec<StoredChunk> = (1..6).map(|it| chunk(&header(it))).collect();
        (1..).zip(&mut chunks).for_each(|(number, it)| it.chunk.anchor = of_message(number));
        let mut holders = ChunkFinder::new(&chunks);
        for number in 1..6 {
            let (text, anchor) = (header(number), of_message(number));
            let found = holders.chunk_of_block(&text, &anchor);
            assert_eq!(found.unwrap().chunk.text, text);
            let block = SourceText { text: &text, kind: Some(BlockKind::Metadata), anchor: &anchor, chunk: found };
            let evidence = block.evidence_at(18..text.len()).unwrap();
            assert_eq!(&text[evidence.start as usize..evidence.end as usize], &text[18..]);
        }
    }

    #[test]
    fn search_for_missing_texts_is_bounded() {
        let chunks: Vec<StoredChunk> = (0..1_000).map(|it| chunk(&format!("{it} {}", "x".repeat(9_000)))).collect();
        let mut holders = ChunkFinder::new(&chunks);
        let begun = std::time::Instant::now();
        for _ in 0..20_000 {
            holders.chunk_of_block("nowhere", &Anchor::default());
        }
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    }
}
