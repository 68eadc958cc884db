//! Binary workbooks (xlsb): parts of records, each with its number, its length and its content.
//!
//! calamine makes room for as many bytes as a record says it has, up to 256 MiB, before it looks whether they are there. So
//! a part ends for it where a record claims far more than there is; with a smaller lie it copes, or says what is wrong.

/// What a record may claim beyond the end of its part.
const BEYOND: usize = 1 << 20;

/// Cuts a part before the first record that claims far more than is there.
pub(super) fn cut(part: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(end) = end(part, at) {
        if end > part.len().saturating_add(BEYOND) {
            return part.truncate(at);
        }
        at = end;
    }
}

/// Where the record that begins here says that it ends; none where no record can begin.
fn end(part: &[u8], at: usize) -> Option<usize> {
    // Numbers take one byte or two, lengths up to four, each with seven bits and whether another follows.
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

    fn check(part: &[u8], kept: usize) {
        let mut cut_part = part.to_vec();
        cut(&mut cut_part);
        assert_eq!(cut_part, part[..kept], "{part:?}");
    }

    #[test]
    fn a_part_ends_before_the_record_that_claims_far_more_than_is_there() {
        check(&[], 0);
        check(&[7, 2, 1, 1, 0x81, 1, 0], 7);
        check(&[7, 2, 1, 1, 0x91, 1, 0x82, 0x80, 0, 9, 9], 11);
        check(&[7, 2, 1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0], 4);
        check(&[0x91, 1, 0x80, 0x80, 0x80, 1, 0, 0], 0);
        // What is not whole, or a little too long.
        check(&[7, 2, 1, 1, 7, 3, 1, 1], 8);
        check(&[7, 2, 1, 1, 0x91], 5);
    }
}
