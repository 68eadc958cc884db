//! From when until when a certificate is valid, read out of its DER: nothing else of it is wanted here.

use chrono::{DateTime, NaiveDate, Utc};

/// What DER calls the kinds of elements that are met on the way.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which the oldest certificates do not have.
const VERSION: u8 = 0xa0;

/// The years of two digits from here on are those of the last century.
const LAST_CENTURY: u32 = 50;

/// See the module. Both ends are within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: DateTime<Utc>,
    pub(super) until: DateTime<Utc>,
}

impl Validity {
    /// Says whether a time is within.
    pub(super) fn holds_at(self, time: DateTime<Utc>) -> bool {
        self.from <= time && time <= self.until
    }
}

/// Returns when a certificate is valid; None of what is none.
pub(super) fn of(certificate: &[u8]) -> Option<Validity> {
    let mut signed = Elements(Elements(certificate).take(SEQUENCE)?);
    let mut fields = Elements(signed.take(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.take(VERSION)?;
    }
    // The serial number, how it is signed, and by whom.
    fields.take(INTEGER)?;
    fields.take(SEQUENCE)?;
    fields.take(SEQUENCE)?;
    let mut times = Elements(fields.take(SEQUENCE)?);
    Some(Validity { from: time(times.next()?)?, until: time(times.next()?)? })
}

/// Elements of DER, one after the other.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The kind and the content of the next.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [kind, length, rest @ ..] = self.0 else { return None };
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            // Of so many bytes; four say more than any certificate has.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
                (bytes.iter().fold(0_usize, |sum, it| sum << 8 | usize::from(*it)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*kind, content))
    }

    /// The content of the next, which must be of that kind.
    fn take(&mut self, kind: u8) -> Option<&'a [u8]> {
        self.next().filter(|it| it.0 == kind).map(|it| it.1)
    }
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, as certificates have it.
fn time((kind, text): (u8, &[u8])) -> Option<DateTime<Utc>> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            (year + if year < LAST_CENTURY { 2_000 } else { 1_900 }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    let rest: &[u8; 10] = rest.try_into().ok()?;
    let two = |at: usize| number(&rest[at..at + 2]);
    let day = NaiveDate::from_ymd_opt(year.cast_signed(), two(0)?, two(2)?)?;
    Some(day.and_hms_opt(two(4)?, two(6)?, two(8)?)?.and_utc())
}

/// A few digits, and nothing else.
fn number(digits: &[u8]) -> Option<u32> {
    let digit = |it: &u8| it.is_ascii_digit().then(|| u32::from(it - b'0'));
    digits.iter().try_fold(0, |sum, it| Some(10 * sum + digit(it)?))
}

/// As much of a certificate as is read here.
#[cfg(test)]
pub(super) fn made(from: DateTime<Utc>, until: DateTime<Utc>) -> Vec<u8> {
    let text = |it: DateTime<Utc>| tests::element(GENERALIZED_TIME, it.format("%Y%m%d%H%M%SZ").to_string().as_bytes());
    tests::certificate(true, &[text(from), text(until)].concat())
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    use super::*;

    /// Of the year 2020.
    const REAL: &str = "\
-----BEGIN CERTIFICATE-----
MIIBQjCB6aADAgECAgEDMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
dDAeFw0yMDAxMDEwMDAwMDBaFw0yMTAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxv
Y2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGRzBjrz5cWGA61f0lTU
CTD7mk1jX28w/oRY09SjFqnnzvIPhJ8bAys3JUQZCmbvn57T2itETWxfNl3v6A/S
KJyjLDAqMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAMBgNVHRMBAf8EAjAA
MAoGCCqGSM49BAMCA0gAMEUCIQDrMehqtW2ub675Ir1Y3eYpMa+ks4VHfy3KgAUD
G907XwIgFVSMcVWkVPJ8+RNjSomizR9OsqYWc5/+fAssajMzxJA=
-----END CERTIFICATE-----
";

    pub(super) fn element(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        let head: &[u8] = match content.len() {
            0..0x80 => &[kind, length[7]],
            0x80..0x100 => &[kind, 0x81, length[7]],
            _ => &[kind, 0x82, length[6], length[7]],
        };
        [head, content].concat()
    }

    /// One with these times, and with a name that is long enough for lengths of several bytes.
    pub(super) fn certificate(has_version: bool, times: &[u8]) -> Vec<u8> {
        let version = if has_version { element(VERSION, &element(INTEGER, &[2])) } else { Vec::new() };
        let (number, algorithm) = (element(INTEGER, &[1]), element(SEQUENCE, &[]));
        let fields = [version, number, algorithm, element(SEQUENCE, &[0; 300]), element(SEQUENCE, times)].concat();
        element(SEQUENCE, &element(SEQUENCE, &fields))
    }

    /// The ends of a certificate in seconds since the epoch, of which each is of that kind and has that text.
    fn check(kind: u8, texts: [&str; 2]) -> Option<[i64; 2]> {
        let times = texts.map(|it| element(kind, it.as_bytes())).concat();
        let [with, without] = [true, false].map(|it| of(&certificate(it, &times)));
        assert_eq!(with, without, "whether it says its version or not");
        with.map(|it| [it.from.timestamp(), it.until.timestamp()])
    }

    #[test]
    fn both_ends_of_a_certificate_are_read_however_their_year_is_written() {
        let real = CertificateDer::from_pem_slice(REAL.as_bytes()).unwrap();
        let told = of(&real).map(|it| [it.from.timestamp(), it.until.timestamp()]);
        assert_eq!(told, Some([1_577_836_800, 1_609_459_200]));
        assert_eq!(check(UTC_TIME, ["200101000000Z", "210101000000Z"]), told);
        assert_eq!(check(GENERALIZED_TIME, ["20200101000000Z", "20210101000000Z"]), told);
        assert_eq!(check(UTC_TIME, ["500101000000Z", "491231235959Z"]), Some([-631_152_000, 2_524_607_999]));
        let for_ever = check(GENERALIZED_TIME, ["20200101000000Z", "99991231235959Z"]);
        assert_eq!(for_ever, Some([1_577_836_800, 253_402_300_799]));
    }

    #[test]
    fn what_is_no_time_of_a_certificate_is_none() {
        let good = "20210101000000Z";
        for text in ["", "Z", "20210101000000", "20210101000000+0100", "202101010000Z", "20210101000000.5Z"] {
            assert_eq!(check(GENERALIZED_TIME, [good, text]), None, "{text}");
            assert_eq!(check(GENERALIZED_TIME, [text, good]), None, "{text}");
        }
        for text in ["20211301000000Z", "20210230000000Z", "20210101240000Z", "2021010100006 Z", "+0210101000000Z"] {
            assert_eq!(check(GENERALIZED_TIME, [good, text]), None, "{text}");
        }
        assert_eq!(check(UTC_TIME, [good, good]), None);
        assert_eq!(check(INTEGER, [good, good]), None);
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_anywhere_is_read_to_some_end() {
        let real = CertificateDer::from_pem_slice(REAL.as_bytes()).unwrap();
        (0..real.len()).for_each(|it| assert_eq!(of(&real[..it]), None, "{it} bytes"));
        for at in 0..real.len() {
            for value in [0, 0x7f, 0x80, 0x81, 0x84, 0x88, 0xff] {
                let mut changed = real.to_vec();
                changed[at] = value;
                of(&changed);
            }
        }
        assert_eq!(of(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(of(&[SEQUENCE, 0x80, 0, 0]), None, "a length that DER does not have");
    }
}
