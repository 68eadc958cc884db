//! Splits text into words by script.

use std::ops::Range;
use std::sync::LazyLock;

use icu_segmenter::WordSegmenter;
use icu_segmenter::options::WordBreakInvariantOptions;
use unicode_normalization::char::is_combining_mark;

/// How the words of a segment are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// One word: letters, digits and marks without a break.
    Word,
    /// A run of Han characters, kana or Hangul, which holds words without blanks between them.
    EastAsian,
    /// A run of Thai, Lao, Khmer or Burmese, which holds words without blanks between them.
    SouthEastAsian,
}

/// A run of characters of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Byte range in the text.
    pub range: Range<usize>,
    /// How its words are written.
    pub kind: SegmentKind,
}

/// Returns the segments of a text in order. The characters between them are no part of a word.
pub fn segments(text: &str) -> Segments<'_> {
    Segments { text, at: 0 }
}

/// Iterator over the segments of a text; see [`segments`].
#[derive(Clone, Debug)]
pub struct Segments<'t> {
    text: &'t str,
    at: usize,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        let mut found: Option<(usize, SegmentKind)> = None;
        let from = self.at;
        for (offset, character) in self.text[from..].char_indices() {
            let (at, class) = (from + offset, classify(character));
            match (&found, class) {
                (None, Class::Of(kind)) => found = Some((at, kind)),
                (None, _) => (),
                (Some((_, kind)), Class::Of(other)) if *kind == other => (),
                (Some(_), Class::Continues) => (),
                (Some((start, kind)), _) => {
                    self.at = at;
                    return Some(Segment { range: *start..at, kind: *kind });
                }
            }
        }
        self.at = self.text.len();
        found.map(|(start, kind)| Segment { range: start..self.text.len(), kind })
    }
}

enum Class {
    Of(SegmentKind),
    /// Belongs to the segment before it.
    Continues,
    Separates,
}

fn classify(character: char) -> Class {
    if character.is_ascii() {
        return if character.is_ascii_alphanumeric() { Class::Of(SegmentKind::Word) } else { Class::Separates };
    }
    match u32::from(character) {
        // Iteration marks, kana with the long vowel mark, halfwidth kana, bopomofo, Han with its extensions.
        0x3005..=0x3007 | 0x3041..=0x3096 | 0x3099..=0x309f | 0x30a1..=0x30fa | 0x30fc..=0x30ff | 0x3105..=0x312f
        | 0x31a0..=0x31bf | 0x31f0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0xff66..=0xff9f
        | 0x1_b000..=0x1_b16f | 0x2_0000..=0x3_ffff
        // Hangul letters and syllables.
        | 0x1100..=0x11ff | 0x3131..=0x318e | 0xa960..=0xa97f | 0xac00..=0xd7ff => Class::Of(SegmentKind::EastAsian),
        // Digits of these scripts are written like words of other scripts.
        0xe50..=0xe59 | 0xed0..=0xed9 | 0x1040..=0x1049 | 0x17e0..=0x17e9 => Class::Of(SegmentKind::Word),
        // Currency, marks of sentences and sections.
        0xe3f | 0xe4f | 0xe5a | 0xe5b | 0x104a..=0x104f | 0x17d4..=0x17da => Class::Separates,
        0xe01..=0xeff | 0x1000..=0x109f | 0x1780..=0x17ff | 0xa9e0..=0xa9fe | 0xaa60..=0xaa7f => {
            Class::Of(SegmentKind::SouthEastAsian)
        }
        // Soft hyphen, joiners: inside a word.
        0xad | 0x200c | 0x200d | 0x2060 => Class::Continues,
        // Before letters, because some marks count as letters, too.
        _ if is_combining_mark(character) => Class::Continues,
        _ if character.is_alphanumeric() => Class::Of(SegmentKind::Word),
        _ => Class::Separates,
    }
}

/// Calls `each` with the words of a South-East Asian run, as byte ranges in the run.
pub(crate) fn dictionary_words(run: &str) -> impl Iterator<Item = Range<usize>> {
    static SEGMENTER: LazyLock<icu_segmenter::WordSegmenterBorrowed<'static>> =
        LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));
    let mut start = 0;
    SEGMENTER.segment_str(run).filter_map(move |end| {
        let word = start..end;
        start = end;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = segments(text).map(|it| &text[it.range]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn text_is_split_by_script_and_separator() {
        check("The café's pump, 1,234", &["The", "café", "s", "pump", "1", "234"]);
        check("发票2231号 ok", &["发票", "2231", "号", "ok"]);
        check("ใบแจ้งหนี้ 12", &["ใบแจ้งหนี้", "12"]);
        check("हिन्दी में", &["हिन्दी", "में"]);
        check("e\u{301}t\u{e9}", &["e\u{301}t\u{e9}"]);
        check("co\u{ad}op", &["co\u{ad}op"]);
        check("\u{301}", &[]);
        check("", &[]);
    }

    #[test]
    fn dictionary_splits_thai_words() {
        let run = "ใบแจ้งหนี้ค่าไฟฟ้า";
        let words: Vec<&str> = dictionary_words(run).map(|it| &run[it]).collect();
        assert!(words.len() >= 3 && words.concat() == run, "{words:?}");
    }

    proptest::proptest! {
        #[test]
        fn segments_lie_in_order_on_char_boundaries(text in ".{0,200}") {
            let mut end = 0;
            for segment in segments(&text) {
                proptest::prop_assert!(segment.range.start >= end && segment.range.end > segment.range.start);
                proptest::prop_assert!(text.get(segment.range.clone()).is_some());
                end = segment.range.end;
            }
        }
    }
}
