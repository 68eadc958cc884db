//! Limits a large text file to its beginning, so that the part far beyond the text limit is not even decoded.

use encoding_rs::{Encoding, UTF_16LE};

use crate::extract::encoding::utf16_encoding;
use crate::extract::text_pieces::cut_outside_secrets;
use crate::extract::{Input, Sink};
use crate::secrets;

/// Cuts a text file at twice the text limit of the sink, so that only the beginning of a huge log is decoded.
pub(crate) fn text_prefix<'a>(input: Input<'a>, sink: &mut Sink) -> Input<'a> {
    // Keeps twice the text limit, because UTF-16 may need twice the bytes of UTF-8, and because readers drop markup.
    let most = usize::try_from(sink.limits().text_bytes).unwrap_or(usize::MAX).saturating_mul(2);
    if input.bytes.len() <= most {
        return input;
    }
    sink.mark_truncated();
    Input { bytes: &input.bytes[..cut_position(input.bytes, most)], ..input }
}

/// Returns the offset at which to cut text, near `at`: after the last line end before `at`. If there is no line end,
/// returns an offset that splits neither a character nor a secret, because the secret scan cannot recognize half a secret.
fn cut_position(bytes: &[u8], at: usize) -> usize {
    let encoding = utf16_encoding(bytes);
    let line_end: &[u8] = match encoding {
        Some(it) if it == UTF_16LE => b"\n\0",
        Some(_) => b"\0\n",
        None => b"\n",
    };
    let width = line_end.len();
    let at = at / width * width;
    match bytes[..at].chunks_exact(width).rposition(|it| it == line_end) {
        Some(line) => (line + 1) * width,
        None => {
            let cut = byte_cut_outside_secrets(bytes, at, encoding);
            // Moves the cut back to the start of its character, by at most three bytes or one UTF-16 unit.
            let mut before = (0..=3).map(|it| cut.saturating_sub(it * width));
            before.find(|it| !is_inside_character(bytes, *it, encoding)).unwrap_or(cut)
        }
    }
}

/// Returns the offset `at`, or the start or end of the secret that contains it.
fn byte_cut_outside_secrets(bytes: &[u8], at: usize, encoding: Option<&'static Encoding>) -> usize {
    // Decodes text that is not UTF-16 byte by byte, because the characters of secrets are the same in all single-byte
    // encodings. Each byte or UTF-16 unit becomes one UTF-16 unit of the result, so that positions in it can be converted
    // to byte offsets.
    let text = |part: &[u8]| -> String {
        match encoding {
            Some(it) => it.decode_without_bom_handling(part).0.into_owned(),
            None => part.iter().map(|it| char::from(*it)).collect(),
        }
    };
    let width = if encoding.is_some() { 2 } else { 1 };
    let length = |text: &str| text.encode_utf16().count() * width;
    let around = 2 * secrets::MAX_SECRET_BYTES * width;
    let before = text(&bytes[at.saturating_sub(around)..at]);
    let behind = text(&bytes[at..bytes.len().min(at + around)]);
    match cut_outside_secrets(&format!("{before}{behind}"), before.len()) {
        cut if cut <= before.len() => at - length(&before[cut..]),
        cut => at + length(&behind[..cut - before.len()]),
    }
}

/// Returns whether `at` is inside a character of several bytes. In single-byte encodings this may be a false positive,
/// which only drops a few bytes.
fn is_inside_character(bytes: &[u8], at: usize, encoding: Option<&'static Encoding>) -> bool {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    match encoding {
        Some(it) if it == UTF_16LE => byte(at + 1) & 0xFC == 0xDC,
        Some(_) => byte(at) & 0xFC == 0xDC,
        None => byte(at) & 0xC0 == 0x80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::encoding::decode;
    use crate::extract::{Tools, extract_bytes};
    use crate::model::ExtractLimits;

    #[test]
    fn text_prefix_ends_after_line_in_any_encoding() {
        let text = "naïve line\nsecond \u{a0a} one";
        let units: Vec<u16> = text.encode_utf16().collect();
        let mark = |mark: &[u8], rest: Vec<u8>| [mark, rest.as_slice()].concat();
        for (bytes, end) in [
            (text.as_bytes().to_vec(), 12),
            (units.iter().flat_map(|it| it.to_le_bytes()).collect(), 22),
            (mark(b"\xFF\xFE", units.iter().flat_map(|it| it.to_le_bytes()).collect()), 24),
            (mark(b"\xFE\xFF", units.iter().flat_map(|it| it.to_be_bytes()).collect()), 24),
        ] {
            for at in end..bytes.len() {
                assert_eq!(cut_position(&bytes, at), end, "at {at} of {bytes:?}");
            }
        }
    }

    #[test]
    fn long_line_is_cut_outside_secrets_and_characters() {
        let key = format!("-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----", "MIIEvQ+/".repeat(3_000));
        for secret in ["ghp_16C7e42F292c6912E7710c838347Ae178B4a", &key] {
            let (before, behind) = ("é ".repeat(90_000), " é".repeat(90_000));
            let text = format!("{before}{secret}{behind}");
            let units = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
            for (bytes, start, length) in [
                (text.as_bytes().to_vec(), before.len(), secret.len()),
                (units(&text), units(&before).len(), 2 * secret.len()),
            ] {
                for at in [start + 1, start + 30, start + length / 2, start + length - 1] {
                    assert_eq!(cut_position(&bytes, at), start, "at {at}");
                }
                for at in (start + length..start + length + 9).chain(9..20) {
                    let cut = cut_position(&bytes, at);
                    assert!(
                        cut.abs_diff(at) < 3 && decode(&bytes[..cut], None).text.chars().all(|it| it != '\u{FFFD}')
                    );
                }
            }
        }
    }

    // Case E13
    #[test]
    fn cut_long_line_leaves_no_partial_secret() {
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let limits = ExtractLimits { text_bytes: 1_000, ..ExtractLimits::default() };
        for place in 940..1_005 {
            let text = format!("{} {token} {}", "x".repeat(place), "y".repeat(9_000));
            let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let double = format!("{{\"a\": \"{}\"}}", "\\u0078".repeat(2 * place / 6) + &text[place..]);
            for (name, bytes) in [("a.txt", wide), ("a.json", double.into_bytes())] {
                let document = extract_bytes(&bytes, name, &limits, &Tools::default()).unwrap();
                let found = document.text();
                assert!(document.truncated && !found.contains("ghp_"), "{name} at {place}: {found}");
            }
        }
    }
}
