//! Parses the validity period of an X.509 certificate from its DER encoding, for the expiry warning. Other fields are
//! skipped.

use chrono::{DateTime, NaiveDate, Utc};

/// DER tags of the elements that are parsed here.
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Tag of the version, which certificates of X.509 version 1 omit.
const VERSION: u8 = 0xa0;

/// Two-digit years of at least this number mean 1950 to 1999; smaller ones mean 2000 to 2049.
const LAST_CENTURY: u32 = 50;

/// Validity period of a certificate; both ends are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Validity {
    pub(in crate::serve) from: DateTime<Utc>,
    pub(in crate::serve) until: DateTime<Utc>,
}

impl Validity {
    /// Returns whether a time is within the validity period.
    pub(in crate::serve) fn holds_at(self, time: DateTime<Utc>) -> bool {
        self.from <= time && time <= self.until
    }
}

/// Returns the validity period of a certificate; `None` if the certificate cannot be parsed.
pub(in crate::serve) fn parse_validity(certificate: &[u8]) -> Option<Validity> {
    let mut signed = DerReader(DerReader(certificate).take_tag(SEQUENCE)?);
    let mut fields = DerReader(signed.take_tag(SEQUENCE)?);
    if fields.0.first() == Some(&VERSION) {
        fields.take_tag(VERSION)?;
    }
    // Skips the serial number, the signature algorithm and the issuer.
    fields.take_tag(INTEGER)?;
    fields.take_tag(SEQUENCE)?;
    fields.take_tag(SEQUENCE)?;
    let mut times = DerReader(fields.take_tag(SEQUENCE)?);
    Some(Validity { from: parse_time(times.next_element()?)?, until: parse_time(times.next_element()?)? })
}

/// Reads a sequence of DER elements, one after another.
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    /// Returns the tag and the content of the next element; `None` at the end or if it is malformed.
    fn next_element(&mut self) -> Option<(u8, &'a [u8])> {
        let [kind, length, rest @ ..] = self.0 else { return None };
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            // The length follows in 1 to 4 bytes, which suffices for any certificate.
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

    /// Returns the content of the next element; `None` if it has another tag.
    fn take_tag(&mut self, kind: u8) -> Option<&'a [u8]> {
        self.next_element().filter(|it| it.0 == kind).map(|it| it.1)
    }
}

/// Parses a time of the form `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn parse_time((kind, text): (u8, &[u8])) -> Option<DateTime<Utc>> {
    let digits = text.strip_suffix(b"Z")?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = parse_digits(year)?;
            (year + if year < LAST_CENTURY { 2_000 } else { 1_900 }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (parse_digits(year)?, rest)
        }
        _ => return None,
    };
    let rest: &[u8; 10] = rest.try_into().ok()?;
    let two = |at: usize| parse_digits(&rest[at..at + 2]);
    let day = NaiveDate::from_ymd_opt(year.cast_signed(), two(0)?, two(2)?)?;
    Some(day.and_hms_opt(two(4)?, two(6)?, two(8)?)?.and_utc())
}

/// Parses a number of ASCII digits.
fn parse_digits(digits: &[u8]) -> Option<u32> {
    let digit = |it: &u8| it.is_ascii_digit().then(|| u32::from(it - b'0'));
    digits.iter().try_fold(0, |sum, it| Some(10 * sum + digit(it)?))
}

/// Builds the part of a certificate that is parsed here.
#[cfg(test)]
pub(in crate::serve) fn test_certificate(from: DateTime<Utc>, until: DateTime<Utc>) -> Vec<u8> {
    let text = |it: DateTime<Utc>| tests::element(GENERALIZED_TIME, it.format("%Y%m%d%H%M%SZ").to_string().as_bytes());
    tests::certificate(true, &[text(from), text(until)].concat())
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    use super::*;

    /// A real certificate, issued in 2020.
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

    /// Builds a certificate with these times, whose issuer is long enough to need a multi-byte length.
    pub(super) fn certificate(has_version: bool, times: &[u8]) -> Vec<u8> {
        let version = if has_version { element(VERSION, &element(INTEGER, &[2])) } else { Vec::new() };
        let (number, algorithm) = (element(INTEGER, &[1]), element(SEQUENCE, &[]));
        let fields = [version, number, algorithm, element(SEQUENCE, &[0; 300]), element(SEQUENCE, times)].concat();
        element(SEQUENCE, &element(SEQUENCE, &fields))
    }

    /// Returns both ends of the validity period in seconds since the epoch, for times with this tag and these texts.
    fn check(kind: u8, texts: [&str; 2]) -> Option<[i64; 2]> {
        let times = texts.map(|it| element(kind, it.as_bytes())).concat();
        let [with, without] = [true, false].map(|it| parse_validity(&certificate(it, &times)));
        assert_eq!(with, without, "with and without a version");
        with.map(|it| [it.from.timestamp(), it.until.timestamp()])
    }

    #[test]
    fn validity_is_read_from_both_time_formats() {
        let real = CertificateDer::from_pem_slice(REAL.as_bytes()).unwrap();
        let told = parse_validity(&real).map(|it| [it.from.timestamp(), it.until.timestamp()]);
        assert_eq!(told, Some([1_577_836_800, 1_609_459_200]));
        assert_eq!(check(UTC_TIME, ["200101000000Z", "210101000000Z"]), told);
        assert_eq!(check(GENERALIZED_TIME, ["20200101000000Z", "20210101000000Z"]), told);
        assert_eq!(check(UTC_TIME, ["500101000000Z", "491231235959Z"]), Some([-631_152_000, 2_524_607_999]));
        let for_ever = check(GENERALIZED_TIME, ["20200101000000Z", "99991231235959Z"]);
        assert_eq!(for_ever, Some([1_577_836_800, 253_402_300_799]));
    }

    #[test]
    fn invalid_times_are_rejected() {
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
    fn damaged_certificate_has_same_validity_or_none() {
        let real = CertificateDer::from_pem_slice(REAL.as_bytes()).unwrap();
        let validity = parse_validity(&real);
        (0..real.len()).for_each(|it| assert_eq!(parse_validity(&real[..it]), None, "{it} bytes"));
        for at in 0..real.len() {
            for value in [0, 0x7f, 0x80, 0x81, 0x84, 0x88, 0xff] {
                let mut changed = real.to_vec();
                changed[at] = value;
                let found = parse_validity(&changed);
                assert!(found.is_none() || found == validity, "{value} at {at}: {found:?}");
            }
        }
        assert_eq!(parse_validity(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(parse_validity(&[SEQUENCE, 0x80, 0, 0]), None, "an indefinite length is no DER");
    }
}
