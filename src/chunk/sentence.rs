//! Sentences of a text, as UAX 29 has them, in a time that grows as the text does.
//!
//! Behind a full stop the library looks from each bracket, quote and blank ahead to the next letter: of a million of them
//! in a row that takes the better part of an hour. No sentence ends within such a row, however long it is, so the library
//! is shown one character of it.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

/// Rows of so many bytes are shown as they are: nearly no text has longer ones, and is looked at where it stands.
const MOST_ROW_BYTES: usize = 16;

/// What changes nothing wherever it stands: the last ranges are of Unicode 17, which `regex` does not know yet.
const MARKS: &str = r"[\p{sb=Extend}\p{sb=Format}\x{1ACF}-\x{1ADD}\x{1AE0}-\x{1AEB}\x{10EFA}\x{10EFB}\x{11B60}-\x{11B67}\x{1E6E3}\x{1E6E6}\x{1E6EE}\x{1E6EF}\x{1E6F5}]";

/// Rows of characters of one of the two kinds that the library looks ahead from.
static ROWS: LazyLock<Regex> = LazyLock::new(|| {
    let row = |kind: &str| format!(r"(?:\p{{sb={kind}}}{MARKS}*){{2,}}");
    Regex::new(&[row("Close"), row("Sp")].join("|")).expect("the pattern is a constant")
});

/// Returns the sentences of a text in order, with what stands behind them. They cover it without gaps.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let rows: Vec<Range<usize>> = ROWS.find_iter(text).map(|it| it.range()).filter(is_long).collect();
    if rows.is_empty() {
        return bounds(text).collect();
    }
    let (shown, cuts) = without(text, &rows);
    let mut cuts = cuts.into_iter().peekable();
    let mut left_out = 0;
    let mut start = 0;
    let ends = bounds(&shown).map(|it| it.end);
    ends.map(|end| {
        while let Some(cut) = cuts.next_if(|it| it.at <= end) {
            left_out += cut.bytes;
        }
        let sentence = start..end + left_out;
        start = sentence.end;
        sentence
    })
    .collect()
}

fn is_long(row: &Range<usize>) -> bool {
    row.len() > MOST_ROW_BYTES
}

fn bounds(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split_sentence_bound_indices().map(|(start, it)| start..start + it.len())
}

/// Bytes that were left out before a byte of what is shown.
struct Cut {
    at: usize,
    bytes: usize,
}

/// Leaves of each row its first character.
fn without(text: &str, rows: &[Range<usize>]) -> (String, Vec<Cut>) {
    let mut shown = String::with_capacity(text.len());
    let mut cuts = Vec::with_capacity(rows.len());
    let mut from = 0;
    for row in rows {
        let first = text.ceil_char_boundary(row.start + 1);
        shown.push_str(&text[from..first]);
        cuts.push(Cut { at: shown.len(), bytes: row.end - first });
        from = row.end;
    }
    shown.push_str(&text[from..]);
    (shown, cuts)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// Checks that the sentences are those of the library.
    fn check(text: &str) {
        assert_eq!(sentences(text), bounds(text).collect::<Vec<_>>(), "{text:?}");
    }

    #[test]
    fn ordinary_texts_have_the_sentences_that_the_library_finds() {
        for text in [
            "",
            "One. Two! (Three?) \"Four.\" Mr. Smith paid 3.50 for e.g. nails...  And left.\n\nNext \u{2014} line",
            "Chapter 1 . . . . . . . . . . . . . . . . . . . . . 12\nChapter 2 ...................... 40",
            "Signed.                                        ____________________ of the board",
            "end.                                           Next",
            "approx.                                        three",
            "\u{3000}漢字。「はい。」　次の文。\u{201c}Ja.\u{201d} \u{ab}Non.\u{bb}",
            "a.))))))))))))))))))))))))))))))))))))))))\u{301}))))  \u{301}     b. C",
            "\u{301}))))))))))))))))))))))))))\r\n                             \u{2029}                        .",
        ] {
            check(text);
        }
    }

    #[test]
    fn a_row_of_any_length_is_passed_over_at_once() {
        for (row, behind) in [(")", "A"), (" ", "a"), ("(\u{301}", "="), (")\u{1ad0}", ""), ("\u{a0}", "1")] {
            let text = format!("One.{}{behind}", row.repeat(1_000_000));
            let begun = Instant::now();
            let found = sentences(&text);
            assert!(begun.elapsed() < Duration::from_secs(20), "{row:?}: {:?}", begun.elapsed());
            assert_eq!((found[0].start, found.last().unwrap().end), (0, text.len()), "{row:?}");
            assert!(found.len() <= 2, "{row:?}: {}", found.len());
        }
    }

    /// A character of a kind that a row is made of, or a mark on one, ends no sentence where it stands in one.
    #[test]
    fn what_makes_a_row_is_what_the_library_takes_for_it() {
        let in_row = Regex::new(&format!(r"^(?:\p{{sb=Close}}|{MARKS})$")).unwrap();
        let counted = |text: String| bounds(&text).count();
        // Between the two there are neither marks nor brackets.
        for it in ('\0'..='\u{1FAFF}').chain('\u{E0000}'..='\u{E01EF}').filter(|it| !it.is_control()) {
            let ends_none = counted(format!("x.){it})B")) == 2 && counted(format!("x.){it}=B")) == 2;
            let by_library = ends_none && bounds(&format!("x.){it})B")).next() == Some(0..4 + it.len_utf8());
            let is_stop = counted(format!("x{it} B")) == 2;
            let by_us = in_row.is_match(it.encode_utf8(&mut [0; 4]));
            assert_eq!(by_us, by_library && !is_stop, "U+{:04X}", u32::from(it));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_text_has_the_sentences_that_the_library_finds(
            parts in prop::collection::vec(("[a-zA-Z0-9.!?,)\u{201d}(\u{301}\u{ad} \t\n=漢。-]{0,4}", 0_usize..40), 0..12),
        ) {
            let text: String = parts.iter().map(|(part, times)| part.repeat(*times)).collect();
            check(&text);
        }
    }
}
