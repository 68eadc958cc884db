//! Parses sizes and times as users type them in commands and requests. Pure functions.

use chrono::{DateTime, Local, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Utc};

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

/// Parses a time as [`parse_moment`] does, or a time before now as [`parse_time_ago`] does.
pub fn parse_moment_or_ago(text: &str) -> Option<DateTime<Utc>> {
    parse_moment(text).or_else(|| parse_time_ago(text, Utc::now(), &Local))
}

/// Parses a time before `now`: `7d`, `7 days`, `2 weeks ago`, `last month`, `past 3 hours`, `yesterday`, `today`, `now`.
/// Months and years follow the calendar; `today` and `yesterday` are the midnights of their days in `zone`.
pub fn parse_time_ago<Z: TimeZone>(text: &str, now: DateTime<Utc>, zone: &Z) -> Option<DateTime<Utc>> {
    let lower = text.trim().to_ascii_lowercase();
    let midnight = |days_ago: i64| {
        let day = now.with_timezone(zone).date_naive().checked_sub_signed(TimeDelta::days(days_ago))?;
        parse_moment_in(&day.format("%Y-%m-%d").to_string(), zone)
    };
    match lower.as_str() {
        "now" => return Some(now),
        "today" => return midnight(0),
        "yesterday" => return midnight(1),
        _ => {}
    }
    let mut rest = lower.strip_suffix("ago").unwrap_or(&lower).trim();
    for word in ["the ", "last ", "past ", "a ", "an "] {
        rest = rest.strip_prefix(word).unwrap_or(rest).trim_start();
    }
    let (number, unit) = rest.split_at(rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len()));
    let unit = unit.trim();
    let count = match number {
        // Without a number, only a word such as `week` is a time, not a letter such as `w`.
        "" if unit.len() >= 3 => 1,
        number => u32::from(number.parse::<u16>().ok()?),
    };
    let hours: i64 = match unit {
        "h" | "hr" | "hrs" | "hour" | "hours" => 1,
        "d" | "day" | "days" => 24,
        "w" | "week" | "weeks" => 7 * 24,
        "min" | "mins" | "minute" | "minutes" => {
            return now.checked_sub_signed(TimeDelta::minutes(count.into()));
        }
        "month" | "months" => return now.checked_sub_months(Months::new(count)),
        "y" | "year" | "years" => return now.checked_sub_months(Months::new(count.checked_mul(12)?)),
        _ => return None,
    };
    now.checked_sub_signed(TimeDelta::hours(i64::from(count) * hours))
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

    #[test]
    fn times_ago_count_back_from_now() {
        let now = "2024-03-31T12:00:00Z".parse::<DateTime<Utc>>().unwrap();
        for (text, expected) in [
            ("30d", "2024-03-01T12:00:00Z"),
            ("7 days", "2024-03-24T12:00:00Z"),
            ("1 week", "2024-03-24T12:00:00Z"),
            ("2 Weeks ago", "2024-03-17T12:00:00Z"),
            ("the last 7 days", "2024-03-24T12:00:00Z"),
            ("a week ago", "2024-03-24T12:00:00Z"),
            ("last week", "2024-03-24T12:00:00Z"),
            ("week", "2024-03-24T12:00:00Z"),
            ("12 hours ago", "2024-03-31T00:00:00Z"),
            ("90 minutes", "2024-03-31T10:30:00Z"),
            ("1 month", "2024-02-29T12:00:00Z"),
            ("2y", "2022-03-31T12:00:00Z"),
            (" yesterday ", "2024-03-30T00:00:00Z"),
            ("today", "2024-03-31T00:00:00Z"),
            ("now", "2024-03-31T12:00:00Z"),
        ] {
            let found = parse_time_ago(text, now, &Utc).map(|it| it.format("%Y-%m-%dT%H:%M:%SZ").to_string());
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
        for text in ["", "d", "w", "-3d", "3 parsecs", "99999y", "7", "7 m", "ago", "soon", "\u{663} days"] {
            assert_eq!(parse_time_ago(text, now, &Utc), None, "{text}");
        }
    }
}
