//! Protects calamine from malicious xlsb workbooks, whose parts are sequences of records: type, length and content.
//!
//! calamine allocates the claimed length of a record, up to 256 MiB, before it checks that the bytes exist. Therefore a
//! part is truncated before a record that claims far more bytes than exist. calamine handles smaller errors itself.

/// Maximum number of bytes that a record may claim beyond the end of its part. The part is truncated before a larger
/// record.
const MAX_OVERRUN_BYTES: usize = 1 << 20;

/// Truncates a part before the first record that claims far more bytes than exist.
pub(super) fn cut_oversized_records(part: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(end) = record_end(part, at) {
        if end > part.len().saturating_add(MAX_OVERRUN_BYTES) {
            return part.truncate(at);
        }
        at = end;
    }
}

/// Returns the end offset that the record at an offset claims; `None` if there is not a complete record header.
fn record_end(part: &[u8], at: usize) -> Option<usize> {
    // Parses the type (one or two bytes) and the length (up to four); each byte has seven bits and a continuation flag.
    let mut place = at + if part.get(at)? & 0x80 == 0 { 1 } else { 2 };
    let mut length = 0;
    for shift in [0, 7, 14, 21] {
        let byte = *part.get(place)?;
        place += 1;
        length |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    place.checked_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_kept(part: &[u8], kept: usize) {
        let mut cut_part = part.to_vec();
        cut_oversized_records(&mut cut_part);
        assert_eq!(cut_part, part[..kept], "{part:?}");
    }

    #[test]
    fn part_is_cut_before_oversized_record() {
        assert_kept(&[], 0);
        assert_kept(&[7, 2, 1, 1, 0x81, 1, 0], 7);
        assert_kept(&[7, 2, 1, 1, 0x91, 1, 0x82, 0x80, 0, 9, 9], 11);
        assert_kept(&[7, 2, 1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], 4);
        assert_kept(&[0x91, 1, 0x80, 0x80, 0x80, 1, 0, 0], 0);
        // Keeps records that are incomplete or a little too long.
        assert_kept(&[7, 2, 1, 1, 7, 3, 1, 1], 8);
        assert_kept(&[7, 2, 1, 1, 0x91], 5);
    }
}
