//! Decompresses the RTF bodies of Outlook messages (LZFu), which use a sliding window that initially holds common RTF
//! words.

/// Initial content of the sliding window, defined by the LZFu format.
const DICTIONARY: &[u8] = b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \
\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";

const WINDOW_BYTES: usize = 4096;

/// Decompresses an RTF body up to the first damaged byte. The output is at most 9 times as long as the input.
pub(super) fn decompress(bytes: &[u8]) -> Vec<u8> {
    const HEADER: usize = 16;
    let Some(body) = bytes.get(HEADER..) else { return Vec::new() };
    if &bytes[8..12] == b"MELA" {
        return body.to_vec();
    }
    let mut window = [0u8; WINDOW_BYTES];
    window[..DICTIONARY.len()].copy_from_slice(DICTIONARY);
    let mut at = DICTIONARY.len();
    let mut text = Vec::new();
    let mut input = body.iter().copied();
    let mut put = |byte: u8, at: &mut usize, window: &mut [u8; WINDOW_BYTES]| {
        text.push(byte);
        window[*at] = byte;
        *at = (*at + 1) % WINDOW_BYTES;
    };
    'runs: while let Some(flags) = input.next() {
        for bit in 0..8 {
            let Some(first) = input.next() else { break 'runs };
            if flags >> bit & 1 == 0 {
                put(first, &mut at, &mut window);
                continue;
            }
            let Some(second) = input.next() else { break 'runs };
            let reference = usize::from(first) << 8 | usize::from(second);
            let (from, length) = (reference >> 4, (reference & 0xF) + 2);
            if from == at {
                break 'runs;
            }
            for step in 0..length {
                let byte = window[(from + step) % WINDOW_BYTES];
                put(byte, &mut at, &mut window);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompress_expands_literals_and_references() {
        let mut bytes = vec![0; 16];
        bytes[8..12].copy_from_slice(b"LZFu");
        // Encodes a reference to six bytes of the dictionary, then `ab`, then the end mark: a reference to position 207 +
        // 8.
        bytes.extend([0b0000_1001, 0x00, 0x04, b'a', b'b', 0x0D, 0x70]);
        assert_eq!(DICTIONARY.len(), 207);
        assert_eq!(decompress(&bytes), b"{\\rtf1ab");
    }

    #[test]
    fn decompress_corrupt_input_has_bounded_output() {
        // Tries each length, so that the data end inside each part. Below 19 bytes there is no complete header, flags byte
        // and reference, and so no output.
        for length in 0..40 {
            let text = decompress(&vec![0xFF; length]);
            assert!(text.is_empty() == (length < 19) && text.len() <= 9 * length, "{length}: {}", text.len());
        }
    }
}
