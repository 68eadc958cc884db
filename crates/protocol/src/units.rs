//! Parses sizes and times as users type them in commands and requests. Pure functions.

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Utc};

/// Parses a size with an optional unit, a power of 1024: `512`, `10k`, `1.5M`, `2GiB`, `3 megabytes`.
pub fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = unit_bytes(unit.trim())?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    Some((number.parse::<f64>().ok()? * factor as f64) as u64)
}

/// Returns the number of bytes in a unit such as `k` or `MiB`.
pub fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "kb" | "kib" | "kilobyte" | "kilobytes" => 1 << 10,
        "m" | "mb" | "mib" | "megabyte" | "megabytes" => 1 << 20,
        "g" | "gb" | "gib" | "gigabyte" | "gigabytes" => 1 << 30,
        "t" | "tb" | "tib" | "terabyte" | "terabytes" => 1 << 40,
        _ => return None,
    })
}

/// Parses a time: RFC 3339, or local time if it has no zone. A date means its midnight, or the first valid time after
/// midnight if the clock skips it.
pub fn parse_moment(text: &str) -> Option<DateTime<Utc>> {
    parse_moment_in(text, &Local)
}

/// Parses a time as [`parse_moment`] does, with `zone` in place of the local time zone.
pub fn parse_moment_in<Z: TimeZone>(text: &str, zone: &Z) -> Option<DateTime<Utc>> {
    if let Ok(zoned) = DateTime::parse_from_rfc3339(text) {
        return Some(zoned.to_utc());
    }
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok();
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|it| it.and_time(NaiveTime::MIN));
    let local = naive.or_else(day)?;
    let later = |hours| local.checked_add_signed(TimeDelta::hours(hours));
    (0..4).find_map(|hours| zone.from_local_datetime(&later(hours)?).earliest()).map(|it| it.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        for (text, expected) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("10k", Some(10_240)),
            ("5M", Some(5 << 20)),
            ("1.5MiB", Some(3 << 19)),
            ("1 GB", Some(1 << 30)),
            ("3 megabytes", Some(3 << 20)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("10x", None),
            ("1.2.3k", None),
            ("99999999999999T", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    #[test]
    fn time_without_zone_is_local() {
        let zone = chrono::FixedOffset::east_opt(2 * 3_600).unwrap();
        for (text, expected) in [
            ("2026-05-01", Some("2026-04-30T22:00:00Z")),
            ("2026-05-01T12:00:00", Some("2026-05-01T10:00:00Z")),
            ("2026-05-01T12:00:00+01:00", Some("2026-05-01T11:00:00Z")),
            ("2026-02-30", None),
            ("", None),
        ] {
            let expected = expected.map(|it| it.parse::<DateTime<Utc>>().unwrap());
            assert_eq!(parse_moment_in(text, &zone), expected, "{text}");
        }
    }
}
