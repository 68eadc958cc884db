//! Decodes the bytes of text files: by byte order mark, as UTF-8, as UTF-16 without a mark, or in a legacy encoding guessed
//! by statistics.
//!
//! Decoding never fails: invalid bytes become U+FFFD. Whether a file is text at all is decided in `detect`.

use std::borrow::Cow;

use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

/// The decoded text of a file.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    /// The text, without a byte order mark.
    pub(crate) text: Cow<'a, str>,
    /// Offset in the file of the first byte of `text`; `None` if the file is not UTF-8, because offsets in `text` then
    /// differ from offsets in the file.
    pub(crate) offset: Option<u64>,
}

/// Decodes a file. `label` is the encoding that the file declares (`<meta charset>`). It is used only if the bytes have no
/// byte order mark and are not valid UTF-8.
pub(crate) fn decode<'a>(bytes: &'a [u8], label: Option<&str>) -> Text<'a> {
    if let Some(unit) = utf32_unit_reader(bytes) {
        return decode_utf32(&bytes[4..], unit);
    }
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let rest = &bytes[mark..];
        return match std::str::from_utf8(rest) {
            Ok(text) if encoding == UTF_8 => Text { text: Cow::Borrowed(text), offset: Some(mark as u64) },
            _ => decode_as(rest, encoding),
        };
    }
    if let Some(encoding) = utf16_without_mark(bytes) {
        return decode_as(bytes, encoding);
    }
    // Checks for ISO-2022-JP before UTF-8, because its ASCII bytes are also valid UTF-8.
    if has_kanji_escape(bytes) && bytes.is_ascii() {
        return decode_as(bytes, ISO_2022_JP);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Text { text: Cow::Borrowed(text), offset: Some(0) };
    }
    let stated = label.and_then(|label| Encoding::for_label(label.trim().as_bytes()));
    match stated {
        Some(encoding) if encoding != UTF_8 && !is_utf16(encoding) => decode_as(bytes, encoding),
        _ if almost_utf8(bytes) => decode_as(bytes, UTF_8),
        _ => decode_as(bytes, guess_encoding(bytes)),
    }
}

/// Returns the decoded text of UTF-16 or UTF-32 bytes, for parsers that expect ASCII-based input; `None` for other
/// encodings.
pub(crate) fn decode_wide(bytes: &[u8]) -> Option<String> {
    (is_utf32(bytes) || utf16_encoding(bytes).is_some()).then(|| decode(bytes, None).text.into_owned())
}

/// Returns whether bytes begin with a UTF-32 byte order mark.
pub(crate) fn is_utf32(bytes: &[u8]) -> bool {
    utf32_unit_reader(bytes).is_some()
}

/// Returns the byte order of UTF-16 bytes, as one of the two encodings; `None` if they are not UTF-16.
pub(crate) fn utf16_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    if is_utf32(bytes) {
        return None;
    }
    match Encoding::for_bom(bytes) {
        Some((encoding, _)) => Some(encoding).filter(|it| is_utf16(it)),
        None => utf16_without_mark(bytes),
    }
}

/// Returns the decoder of a UTF-32 unit if the bytes begin with a UTF-32 byte order mark. The little-endian mark begins
/// with that of UTF-16, but the two zeros that follow would be a NUL in UTF-16 text.
fn utf32_unit_reader(bytes: &[u8]) -> Option<fn([u8; 4]) -> u32> {
    let unit: fn([u8; 4]) -> u32 = match bytes.first_chunk::<4>()? {
        [0xFF, 0xFE, 0, 0] => u32::from_le_bytes,
        [0, 0, 0xFE, 0xFF] => u32::from_be_bytes,
        _ => return None,
    };
    Some(unit)
}

fn decode_utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> Text<'static> {
    let (units, rest) = bytes.as_chunks::<4>();
    let cut_off = (!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER);
    let chars = units.iter().map(|it| char::from_u32(unit(*it)).unwrap_or(char::REPLACEMENT_CHARACTER));
    Text { text: Cow::Owned(chars.chain(cut_off).collect()), offset: None }
}

/// Returns whether the bytes hold an escape sequence that switches ISO-2022-JP to the kanji set of 1978 or 1983.
fn has_kanji_escape(bytes: &[u8]) -> bool {
    memchr::memmem::find_iter(bytes, b"\x1B$").any(|at| matches!(bytes.get(at + 2), Some(b'@' | b'B')))
}

fn decode_as<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> Text<'a> {
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    Text { text, offset: None }
}

fn is_utf16(encoding: &'static Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

/// Returns the byte order of UTF-16 text without a byte order mark; `None` if the bytes are not such text. In UTF-16 the
/// high bytes of spaces, line breaks and ASCII characters are zero, so zeros fall on either even or odd offsets.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    const SAMPLE: usize = 4096;
    let sample = &bytes[..bytes.len().min(SAMPLE) & !1];
    if sample.len() < 4 {
        return None;
    }
    let units = sample.len() / 2;
    let zeros = |parity: usize| sample.iter().skip(parity).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    // Assumes UTF-16 if at least a quarter of the high bytes are zero. Even Greek and Russian text has that many, because
    // of its spaces, digits and line ends.
    let encoding = match (even * 4 >= units && odd * 16 < units, odd * 4 >= units && even * 16 < units) {
        (true, false) => UTF_16BE,
        (false, true) => UTF_16LE,
        _ => return None,
    };
    let text = encoding.decode_without_bom_handling(sample).0;
    let odd_ones = text.chars().filter(|it| *it == '\u{FFFD}' || (it.is_control() && !it.is_whitespace())).count();
    (odd_ones * 50 <= units).then_some(encoding)
}

/// Returns whether the bytes are UTF-8 except for a few invalid sequences, e.g. a log that was cut inside a character.
fn almost_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|it| !it.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad * 10
}

fn guess_encoding(bytes: &[u8]) -> &'static Encoding {
    // Number of bytes examined to guess the encoding: enough for the statistics. All of a large log would take seconds.
    const SAMPLE: usize = 256 << 10;
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
    detector.feed(&bytes[..bytes.len().min(SAMPLE)], bytes.len() <= SAMPLE);
    detector.guess(None, chardetng::Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_decoded(bytes: &[u8], expected: &str, offset: Option<u64>) {
        let decoded = decode(bytes, None);
        assert_eq!(decoded.text, expected);
        assert_eq!(decoded.offset, offset);
    }

    #[test]
    fn byte_order_mark_is_stripped_but_counted() {
        assert_decoded(b"\xEF\xBB\xBFgr\xC3\xBCn", "grün", Some(3));
    }

    // Case C11
    #[test]
    fn utf16_is_detected_with_and_without_mark() {
        let text = "First line, naïve.\r\nSecond line";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_decoded(&little, text, None);
        assert_decoded(&big, text, None);
        assert_decoded(&[b"\xFF\xFE", little.as_slice()].concat(), text, None);
    }

    // Case C11
    #[test]
    fn utf32_is_detected_by_mark_before_utf16() {
        let text = "\u{FEFF}Lines, naïve 😀\n";
        let little: Vec<u8> = text.chars().flat_map(|it| u32::from(it).to_le_bytes()).collect();
        let big: Vec<u8> = text.chars().flat_map(|it| u32::from(it).to_be_bytes()).collect();
        assert_decoded(&little, "Lines, naïve 😀\n", None);
        assert_decoded(&big, "Lines, naïve 😀\n", None);
        assert!(utf16_encoding(&little).is_none());
        assert_decoded(b"\xFF\xFE\0\0\0\xD8\0\0a\0\0\0b", "\u{FFFD}a\u{FFFD}", None);
    }

    #[test]
    fn shift_jis_is_detected_by_statistics() {
        let text = "これは日本語の文章です。検索できるはずです。";
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode(text);
        assert_decoded(&bytes, text, None);
    }

    #[test]
    fn iso_2022_jp_is_detected_before_ascii() {
        assert_decoded(b"\x1B$BF|K\\8l\x1B(B", "日本語", None);
        assert_decoded(b"\x1B$@F|K\\8l\x1B(J", "日本語", None);
    }

    #[test]
    fn kanji_escape_in_non_ascii_text_is_not_iso_2022_jp() {
        let text = "grün \x1B$B log";
        assert_decoded(text.as_bytes(), text, Some(0));
    }

    #[test]
    fn declared_encoding_applies_only_to_invalid_utf8() {
        assert_eq!(decode(b"caf\xE9", Some("windows-1252")).text, "café");
        assert_eq!(decode("café".as_bytes(), Some("windows-1252")).text, "café");
    }

    #[test]
    fn one_invalid_sequence_keeps_utf8() {
        let mut bytes = "Жили-были дед да баба".as_bytes().to_vec();
        bytes.push(0xD0);
        assert!(decode(&bytes, None).text.starts_with("Жили-были"));
    }
}
