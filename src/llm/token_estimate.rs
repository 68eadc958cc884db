//! Estimates the number of tokens of a text without the model's tokenizer, which servers do not make available.

/// Estimates the number of tokens of a text; the estimate is rather too high than too low. Counts one token per
/// four Latin letters of a word, and one or more for each digit, punctuation mark and character of other scripts.
pub fn estimated_tokens(text: &str) -> usize {
    let (mut count, mut letters, mut blanks) = (0, 0_usize, 0_usize);
    for it in text.chars() {
        if it.is_ascii_alphabetic() {
            letters += 1;
            blanks = 0;
            continue;
        }
        count += letters.div_ceil(4);
        letters = 0;
        match it {
            // Does not count a single space, which belongs to the following word.
            ' ' => {
                blanks += 1;
                count += usize::from(blanks == 2);
            }
            it => {
                blanks = 0;
                count += it.len_utf8().saturating_sub(1).max(1);
            }
        }
    }
    count + letters.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_estimate_errs_high() {
        for (text, count) in [
            ("", 0),
            ("The hive weighed 31 kg.", 8),
            ("{\"id\": 7}", 7),
            ("2026-11-22", 10),
            ("a    b", 3),
            ("käse 漢字", 7),
            ("internationalization", 5),
        ] {
            assert_eq!(estimated_tokens(text), count, "{text}");
        }
    }
}
