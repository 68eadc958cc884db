//! The letters of the standard fonts, which the PDF library draws without a font file: Western European text, Greek letters
//! and common signs.

use unicode_normalization::UnicodeNormalization;

/// A standard font of PDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Font {
    Regular,
    Bold,
    Symbol,
    Dingbats,
}

/// All fonts, with their names in PDF.
pub(super) const FONTS: [(Font, &str); 4] = [
    (Font::Regular, "Helvetica"),
    (Font::Bold, "Helvetica-Bold"),
    (Font::Symbol, "Symbol"),
    (Font::Dingbats, "ZapfDingbats"),
];

/// A letter of a font.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Letter {
    pub(super) font: Font,
    /// Code of the letter in the font.
    pub(super) code: u8,
    /// Width in thousandths of the size of the font.
    pub(super) width: u16,
}

/// Code of the space in every font.
pub(super) const SPACE: u8 = 0x20;

/// Widths of the letters from `!` to `~` in Helvetica and in Helvetica Bold.
const WIDTHS: [[u16; 94]; 2] = [
    [
        278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
        556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556,
        833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556,
        500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500,
        500, 500, 334, 260, 334, 584,
    ],
    [
        333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
        556, 556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611,
        833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611,
        556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556,
        556, 500, 389, 280, 389, 584,
    ],
];

/// Letters with the codes 0x80 to 0x9F of Windows-1252; a space stands for a code without a letter.
const WINDOWS_LETTERS: &str = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";

/// Widths of letters beyond ASCII that have no base letter.
const OTHER_WIDTHS: [(&str, u16); 9] = [
    ("‘’‚", 222),
    ("·¦", 278),
    ("¡¨¯´¸²³¹‹›“”„ˆ˜", 333),
    ("•ªº", 365),
    ("°", 400),
    ("±÷×¬", 584),
    ("ßø¿þðµ", 611),
    ("©®ŠØ", 750),
    ("—…‰™Æ¼½¾Œæœ", 1000),
];

/// Letters of the Symbol font, each with its code.
const SYMBOL_UPPER: &str = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ";
const SYMBOL_LOWER: &str = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ";
const SYMBOLS: [(char, u8, u16); 29] = [
    ('\u{2212}', 0x2D, 549),
    ('≤', 0xA3, 549),
    ('∞', 0xA5, 713),
    ('↔', 0xAB, 1042),
    ('←', 0xAC, 987),
    ('↑', 0xAD, 603),
    ('→', 0xAE, 987),
    ('↓', 0xAF, 603),
    ('≥', 0xB3, 549),
    ('∝', 0xB5, 713),
    ('∂', 0xB6, 494),
    ('≠', 0xB9, 549),
    ('≡', 0xBA, 549),
    ('≈', 0xBB, 549),
    ('∩', 0xC7, 768),
    ('∪', 0xC8, 768),
    ('∈', 0xCE, 713),
    ('∇', 0xD1, 713),
    ('∏', 0xD5, 823),
    ('√', 0xD6, 549),
    ('⋅', 0xD7, 250),
    ('∧', 0xD9, 603),
    ('∨', 0xDA, 603),
    ('⇔', 0xDB, 1042),
    ('⇐', 0xDC, 987),
    ('⇒', 0xDE, 987),
    ('∑', 0xE5, 713),
    ('∫', 0xF2, 274),
    ('∆', 0x44, 612),
];

/// Signs of the font Dingbats, each with its code.
const DINGBATS: [(char, u8); 14] = [
    ('✓', 0x33),
    ('✔', 0x34),
    ('✗', 0x37),
    ('✘', 0x38),
    ('★', 0x48),
    ('●', 0x6C),
    ('■', 0x6E),
    ('▪', 0x6E),
    ('▲', 0x73),
    ('▼', 0x74),
    ('◆', 0x75),
    ('➔', 0xD4),
    ('➢', 0xE2),
    ('➤', 0xE4),
];

/// Adds the letters of a text to a list; line breaks are left out. Fails with the first character that cannot be drawn.
pub(super) fn push_letters(text: &str, bold: bool, letters: &mut Vec<Letter>) -> Result<(), char> {
    for character in text.chars() {
        if is_invisible(character) {
            continue;
        }
        if let Some(letter) = letter(character, bold) {
            letters.push(letter);
            continue;
        }
        // Ligatures, full-width letters and circled digits are drawn as the letters that they stand for.
        for part in character.nfkc() {
            letters.push(letter(part, bold).filter(|_| part != character).ok_or(character)?);
        }
    }
    Ok(())
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}')
        || (character.is_control() && character != '\t')
}

/// Returns the letter of a font for a character; `None` if no font has it.
fn letter(character: char, bold: bool) -> Option<Letter> {
    let font = if bold { Font::Bold } else { Font::Regular };
    let simple = match character {
        '\t' | '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{3000}' => ' ',
        '\u{2010}' | '\u{2011}' | '\u{2043}' => '-',
        '\u{2032}' => '\'',
        '\u{2033}' => '"',
        '\u{2015}' => '\u{2014}',
        other => other,
    };
    if let Some(code) = windows_code(simple) {
        return Some(Letter { font, code, width: latin_width(simple, bold) });
    }
    if let Some((_, code, width)) = SYMBOLS.iter().find(|it| it.0 == simple) {
        return Some(Letter { font: Font::Symbol, code: *code, width: *width });
    }
    for (letters, first, width) in [(SYMBOL_UPPER, b'A', 650), (SYMBOL_LOWER, b'a', 550)] {
        if let Some(place) = letters.chars().position(|it| it == simple) {
            return Some(Letter { font: Font::Symbol, code: first + place as u8, width });
        }
    }
    let (_, code) = DINGBATS.iter().find(|it| it.0 == simple)?;
    Some(Letter { font: Font::Dingbats, code: *code, width: 840 })
}

/// Returns the code of a character in Windows-1252, the encoding of the Latin fonts.
fn windows_code(character: char) -> Option<u8> {
    match character {
        ' '..='~' | '\u{A1}'..='\u{FF}' => u8::try_from(u32::from(character)).ok(),
        _ => WINDOWS_LETTERS.chars().position(|it| it == character).map(|place| 0x80 + place as u8),
    }
}

/// Returns the width of a character; that of a letter with an accent is the one of the letter without it.
fn latin_width(character: char, bold: bool) -> u16 {
    if character == ' ' {
        return 278;
    }
    if let Some((_, width)) = OTHER_WIDTHS.iter().find(|it| it.0.contains(character)) {
        return *width;
    }
    let base = character.nfd().next().unwrap_or(character);
    let place = u32::from(base).checked_sub(0x21).and_then(|it| WIDTHS[usize::from(bold)].get(it as usize));
    place.copied().unwrap_or(556)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Result<Vec<(Font, u8)>, char> {
        let mut letters = Vec::new();
        push_letters(text, false, &mut letters)?;
        Ok(letters.iter().map(|it| (it.font, it.code)).collect())
    }

    #[test]
    fn western_letters_are_of_the_latin_font() {
        assert_eq!(codes("Aé€–").unwrap(), [0x41, 0xE9, 0x80, 0x96].map(|it| (Font::Regular, it)));
        assert_eq!(
            codes("\u{FB01}\u{AD}\u{A0}\u{2011}").unwrap(),
            [0x66, 0x69, 0x20, 0x2D].map(|it| (Font::Regular, it))
        );
        for code in 0x80..=0x9F_u8 {
            let letter = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&[code]).0.chars().next().unwrap();
            assert_eq!(windows_code(letter), Some(code).filter(|_| !letter.is_control()), "{code:x}");
        }
    }

    #[test]
    fn signs_and_greek_letters_are_of_other_fonts() {
        let expected = [(Font::Symbol, 0xAE), (Font::Symbol, 0x61), (Font::Symbol, 0x57), (Font::Dingbats, 0x33)];
        assert_eq!(codes("→αΩ✓").unwrap(), expected);
        assert_eq!((SYMBOL_UPPER.chars().count(), SYMBOL_LOWER.chars().count()), (26, 26));
    }

    #[test]
    fn other_scripts_cannot_be_drawn() {
        for (text, first) in [("Zażółć", 'ż'), ("漢字", '漢'), ("мир", 'м'), ("שלום", 'ש'), ("🙂", '🙂')]
        {
            assert_eq!(codes(text), Err(first));
        }
    }

    #[test]
    fn accents_do_not_change_the_width() {
        assert_eq!((latin_width('é', false), latin_width('e', false)), (556, 556));
        assert_eq!((latin_width('i', true), latin_width('W', false), latin_width('~', true)), (278, 944, 584));
    }
}
