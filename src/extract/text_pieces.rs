//! Splits text into pieces that fit into a block, never inside a secret.

use std::ops::Range;

use crate::secrets;

/// Maximum size of a block in bytes, except for a secret key, which is never split. Chunks hold about a thousand bytes, so
/// larger blocks would only slow down later stages.
pub(super) const MAX_BLOCK_BYTES: usize = 8 << 10;

/// Splits a range of a text into pieces of at most [`MAX_BLOCK_BYTES`]: after a nearby line end, else after a space, else
/// between any two characters, but never inside a secret.
pub(super) fn split_pieces(text: &str, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut rest = range;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.end;
        if rest.len() > MAX_BLOCK_BYTES {
            end = text.floor_char_boundary(rest.start + MAX_BLOCK_BYTES);
            let window = &text[rest.start..end];
            let far_enough = |at: &usize| *at > MAX_BLOCK_BYTES / 4;
            let cut = window.rfind('\n').filter(far_enough).or_else(|| window.rfind(' ').filter(far_enough));
            end = cut.map_or(end, |at| rest.start + at + 1);
            end = rest.start + cut_outside_secrets(&text[rest.clone()], end - rest.start);
        }
        let piece = rest.start..end;
        rest.start = end;
        Some(piece)
    })
}

/// Moves a cut at byte `at` that is inside a secret to the start of the secret, or to its end if the text begins with it.
/// The secret scan sees one piece at a time, and cannot recognize a part of a key.
pub(super) fn cut_outside_secrets(text: &str, at: usize) -> usize {
    match secrets::unsplittable_range(text, at) {
        Some(whole) if whole.start > 0 => whole.start,
        Some(whole) => whole.end,
        None => at,
    }
}

/// Trims leading and trailing blank lines, but keeps indentation.
pub(super) fn trim_blank_lines(text: &str) -> &str {
    let text = text.trim_end();
    let first = text.len() - text.trim_start().len();
    let line = text[..first].rfind('\n').map_or(0, |newline| newline + 1);
    &text[line..]
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case C11
    #[test]
    fn line_without_spaces_is_cut_between_characters() {
        let text = "é".repeat(MAX_BLOCK_BYTES);
        assert_eq!(split_pieces(&text, 0..text.len()).map(|it| text[it].len()).sum::<usize>(), text.len());
    }
}
