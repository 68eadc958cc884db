//! Folds text for comparison: compatibility forms, case, accents and vowel marks.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Folds a text: words that a reader of the script takes for equal become equal.
///
/// - Compatibility forms (NFKC): half and full width, ligatures, superscripts.
/// - Lower case; `ß` is `ss`, `æ` is `ae`, `ø` is `o`, `İ` and `ı` are `i`, a final `ς` is `σ`.
/// - Without accents on Latin, Greek and Cyrillic letters, except that `й` stays a letter of its own.
/// - Without the vowel marks of Arabic and Hebrew; the forms of alef, yeh, kaf and teh marbuta are one each.
/// - Decimal digits of all scripts are ASCII digits.
/// - Without soft hyphens, joiners and variation selectors.
///
/// Marks of other scripts stay: they are vowels of Indic and South-East Asian scripts, and the voicing of kana.
pub fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let is_lower = !text.bytes().any(|it| it.is_ascii_uppercase());
        return if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
    }
    let mut folded = String::with_capacity(text.len());
    let mut base = '\0';
    for character in text.nfkd() {
        if is_mark_left_out(base, character) {
            continue;
        }
        if !unicode_normalization::char::is_combining_mark(character) {
            base = character;
        }
        push_folded(character, &mut folded);
    }
    if folded.is_ascii() { Cow::Owned(folded) } else { Cow::Owned(folded.nfc().collect()) }
}

/// Returns whether folding drops this character after the letter `base` of a decomposed text.
fn is_mark_left_out(base: char, character: char) -> bool {
    /// The breve of `й`, which is a letter of its own, not an accented `и`.
    const BREVE: char = '\u{306}';
    match character {
        BREVE => !matches!(base, 'и' | 'И'),
        '\u{300}'..='\u{36f}' => true,
        // Hebrew points and cantillation.
        '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' => true,
        // Arabic vowel marks, hamza above and below, superscript alef, Koranic marks, and the stretching line.
        '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}'
        | '\u{670}'
        | '\u{6d6}'..='\u{6dc}'
        | '\u{6df}'..='\u{6e8}'
        | '\u{6ea}'..='\u{6ed}'
        | '\u{640}' => true,
        // Soft hyphen, zero-width characters, byte order mark, variation selectors.
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' => true,
        _ => false,
    }
}

/// Appends the folded form of one character of a decomposed text.
fn push_folded(character: char, folded: &mut String) {
    match character {
        'ß' | 'ẞ' => folded.push_str("ss"),
        'æ' | 'Æ' => folded.push_str("ae"),
        'œ' | 'Œ' => folded.push_str("oe"),
        'þ' | 'Þ' => folded.push_str("th"),
        'ø' | 'Ø' => folded.push('o'),
        'ł' | 'Ł' => folded.push('l'),
        'đ' | 'Đ' | 'ð' | 'Ð' => folded.push('d'),
        'ħ' | 'Ħ' => folded.push('h'),
        'ı' => folded.push('i'),
        'ς' => folded.push('σ'),
        // Arabic: alef wasla, Farsi yeh, alef maksura, keheh, teh marbuta.
        '\u{671}' => folded.push('\u{627}'),
        '\u{6cc}' | '\u{649}' => folded.push('\u{64a}'),
        '\u{6a9}' => folded.push('\u{643}'),
        '\u{629}' => folded.push('\u{647}'),
        other => match ascii_digit(other) {
            Some(digit) => folded.push(digit),
            None => folded.extend(other.to_lowercase()),
        },
    }
}

/// Returns the ASCII digit for a decimal digit of another script.
fn ascii_digit(character: char) -> Option<char> {
    /// First digits of the scripts whose digits are in common use; nine more follow each.
    const ZEROS: [u32; 14] =
        [0x660, 0x6f0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xe50, 0xed0, 0x17e0, 0x1040];
    let code = u32::from(character);
    let zero = ZEROS.into_iter().find(|zero| (*zero..zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_of_a_script_fold_to_one_form() {
        for (texts, folded) in [
            (&["Résumé", "RE\u{301}SUME\u{301}", "resume"][..], "resume"),
            (&["Straße", "STRASSE", "STRAẞE"], "strasse"),
            (&["İzmir", "Izmir", "ızmir"], "izmir"),
            (&["Ёлка", "елка"], "елка"),
            (&["Αποθήκη", "ΑΠΟΘΗΚΗ", "αποθηκη"], "αποθηκη"),
            (&["Οδός", "ΟΔΟΣ", "οδοσ"], "οδοσ"),
            (&["الفاتورة", "الفاتُورَة", "الفاتوره"], "الفاتوره"),
            (&["أحمد", "احمد"], "احمد"),
            (&["ＡＢＣ１２３", "abc123", "abc١٢٣"], "abc123"),
            (&["ｶﾞｲﾄﾞ", "ガイド"], "ガイド"),
            (&["žluťoučký", "Zlutoucky"], "zlutoucky"),
            (&["co\u{ad}operate", "cooperate"], "cooperate"),
        ] {
            for text in texts {
                assert_eq!(fold(text), folded, "{text}");
            }
        }
    }

    #[test]
    fn marks_that_make_another_word_stay() {
        for text in ["й", "が", "한글", "हिन्दी", "ที่", "か"] {
            assert_eq!(fold(text), text);
        }
        assert_ne!(fold("が"), fold("か"));
    }

    #[test]
    fn ascii_text_is_borrowed() {
        assert!(matches!(fold("plain text"), Cow::Borrowed(_)));
    }
}
