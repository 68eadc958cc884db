//! Finds dates in texts and converts them to ISO 8601. An ambiguous date is reported as ambiguous, never guessed.

use std::ops::Range;
use std::sync::LazyLock;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use regex::{Captures, Regex};

use crate::units;

/// A date found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundDate {
    /// Byte range of the date in the text.
    pub(crate) range: Range<usize>,
    /// The date as ISO 8601, as precise as written: a day, a month or a time. `None` if it could be two different days.
    pub(crate) iso: Option<String>,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// All forms of dates. Only ASCII digits match, because the code below parses them and slices the text by bytes.
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let month = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?";
    let pattern = [
        r"(?P<moment>\b[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)",
        r"(?P<iso>\b[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}\b)",
        &format!(r"(?P<dmy>\b[0-9]{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{month},?\s+[0-9]{{4}}\b)"),
        &format!(r"(?P<mdy>\b{month}\s+[0-9]{{1,2}}(?:st|nd|rd|th)?,?\s+[0-9]{{4}}\b)"),
        r"(?P<dots>\b[0-9]{1,2}\.\s?[0-9]{1,2}\.\s?[0-9]{4}\b)",
        r"(?P<slashes>\b[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}\b)",
        &format!(r"(?P<my>\b{month}\s+[0-9]{{4}}\b)"),
        r"(?P<month>\b(?:19|20)[0-9]{2}-[0-9]{2}\b)",
    ]
    .join("|");
    Regex::new(&format!("(?i){pattern}")).expect("the pattern is a constant")
});

/// Returns the dates of a text in order.
pub(crate) fn find(text: &str) -> Vec<FoundDate> {
    let found = PATTERN.captures_iter(text);
    found.filter_map(|it| Some(FoundDate { range: it.get(0)?.range(), iso: to_iso(&it)? })).collect()
}

/// Converts a match to ISO 8601. The outer `None` means that it is not a date, the inner that it is ambiguous.
fn to_iso(found: &Captures<'_>) -> Option<Option<String>> {
    let numbers = |text: &str| -> Vec<u32> {
        text.split(|it: char| !it.is_ascii_digit())
            .filter(|it| !it.is_empty())
            .filter_map(|it| it.parse().ok())
            .collect()
    };
    let day = |year: u32, month: u32, day: u32| {
        let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
        Some(Some(date.format("%Y-%m-%d").to_string()))
    };
    if let Some(text) = found.name("moment") {
        let text = text.as_str().replacen(' ', "T", 1);
        // Check day and time, but keep the text unchanged, with its precision and time zone offset.
        NaiveDate::parse_from_str(text.get(..10)?, "%Y-%m-%d").ok()?;
        let time = text.get(11..)?;
        let part = |range: Range<usize>| time.get(range).map_or(Some(0), |it| it.parse::<u32>().ok());
        let second = if time.as_bytes().get(5) == Some(&b':') { part(6..8)? } else { 0 };
        return (part(0..2)? < 24 && part(3..5)? < 60 && second <= 60).then_some(Some(text));
    }
    if let Some(text) = found.name("month") {
        let (year, month) = (text.as_str().get(..4)?, text.as_str().get(5..)?);
        let (first, second): (u32, u32) = (year.get(2..)?.parse().ok()?, month.parse().ok()?);
        return match second {
            // Report e.g. `2004-05` as ambiguous: it could be a month, or a span of years.
            1..=12 if second > first => Some(None),
            1..=12 => Some(Some(text.as_str().to_string())),
            _ => None,
        };
    }
    if let Some(text) = found.name("iso") {
        let parts = numbers(text.as_str());
        return day(*parts.first()?, *parts.get(1)?, *parts.get(2)?);
    }
    if let Some(text) = found.name("dmy").or(found.name("mdy")) {
        let parts = numbers(text.as_str());
        return day(*parts.get(1)?, month_number(text.as_str())?, *parts.first()?);
    }
    if let Some(text) = found.name("dots") {
        let parts = numbers(text.as_str());
        return day(*parts.get(2)?, *parts.get(1)?, *parts.first()?);
    }
    if let Some(text) = found.name("slashes") {
        let parts = numbers(text.as_str());
        return match (*parts.first()?, *parts.get(1)?, *parts.get(2)?) {
            (a, b, year) if a == b => day(year, a, b),
            (a, b, year) if a > 12 => day(year, b, a),
            (a, b, year) if b > 12 => day(year, a, b),
            _ => Some(None),
        };
    }
    let text = found.name("my")?.as_str();
    Some(Some(format!("{:04}-{:02}", numbers(text).first()?, month_number(text)?)))
}

fn month_number(text: &str) -> Option<u32> {
    let lower = text.to_lowercase();
    let word =
        lower.split(|it: char| !it.is_alphabetic()).find(|it| MONTHS.iter().any(|month| it.starts_with(month)))?;
    let at = MONTHS.iter().position(|it| word.starts_with(it))?;
    u32::try_from(at + 1).ok()
}

/// Converts an ISO 8601 date or date-time to nanoseconds since the epoch. A day means its midnight UTC, a month or a year
/// the midnight of its first day.
pub(crate) fn parse_moment(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return moment.timestamp_nanos_opt();
    }
    for format in ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"] {
        if let Ok(moment) = NaiveDateTime::parse_from_str(text, format) {
            return moment.and_utc().timestamp_nanos_opt();
        }
    }
    let padded = match text.len() {
        4 => format!("{text}-01-01"),
        7 => format!("{text}-01"),
        _ => text.to_string(),
    };
    let date = NaiveDate::parse_from_str(&padded, "%Y-%m-%d").ok()?;
    date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_nanos_opt()
}

/// Converts a date, or a time before `now_ns` such as `30d`, `2 weeks` or `yesterday`, to nanoseconds since the epoch.
/// Days begin at midnight UTC.
pub(crate) fn parse_since(text: &str, now_ns: i64) -> Option<i64> {
    let ago = || units::parse_time_ago(text, DateTime::from_timestamp_nanos(now_ns), &Utc)?.timestamp_nanos_opt();
    parse_moment(text).or_else(ago)
}

/// Returns the current time in nanoseconds since the epoch, for times that depend on the clock.
pub(crate) fn now_ns() -> i64 {
    Utc::now().timestamp_nanos_opt().unwrap_or(i64::MAX)
}

/// Formats a time in nanoseconds since the epoch as ISO 8601 in UTC, to the second.
pub(crate) fn format_moment(nanoseconds: i64) -> String {
    DateTime::<Utc>::from_timestamp_nanos(nanoseconds).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the day in UTC of a time in nanoseconds since the epoch.
pub(crate) fn day_of(nanoseconds: i64) -> String {
    DateTime::<Utc>::from_timestamp_nanos(nanoseconds).format("%Y-%m-%d").to_string()
}

/// Returns the whole days from one time to another; negative if the second is earlier.
pub(crate) fn days_between(from: i64, to: i64) -> i64 {
    const DAY: i128 = 86_400_000_000_000;
    // Calculate in 128 bits: the difference can exceed 292 years, the range of 64-bit nanoseconds.
    let days = (i128::from(to) - i128::from(from)).div_euclid(DAY);
    i64::try_from(days).expect("a difference of two i64 in nanoseconds is below 2^18 days")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[Option<&str>]) {
        let found = find(text);
        let found: Vec<Option<&str>> = found.iter().map(|it| it.iso.as_deref()).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn common_date_formats_give_one_iso_date() {
        for text in [
            "on 2024-03-12",
            "on 12 March 2024",
            "March 12, 2024",
            "12.03.2024",
            "the 12th of March 2024",
            "13/12/2024 is not it, Mar 12 2024 is",
        ] {
            assert_eq!(find(text).last().unwrap().iso.as_deref(), Some("2024-03-12"), "{text}");
        }
        check("March 2024", &[Some("2024-03")]);
        check("in 2024-03 and in 2024-03-12", &[Some("2024-03"), Some("2024-03-12")]);
        check("2024-03-12T10:00:00Z", &[Some("2024-03-12T10:00:00Z")]);
    }

    #[test]
    fn ambiguous_dates_have_no_iso_and_invalid_are_skipped() {
        check("03/04/2024", &[None]);
        check("2024-13-45 and 31 February 2024", &[]);
        check("version 1.2.3 of 10.0.0.1", &[]);
        check("the season 2010-11 and 2010-13", &[None]);
        check("2024-13-45 10:00, 2024-02-30T10:00 and 2024-02-28T25:00", &[]);
        check("2024-02-28 10:61 and 2024-02-28T23:59:60Z", &[Some("2024-02-28T23:59:60Z")]);
    }

    #[test]
    fn non_ascii_digits_are_ignored() {
        for text in [
            "٢٠٢٤-٠٣-١٢ ١٠:٠٠",
            "۲۰۲۴-۰۳-۱۲T۱۰:۰۰:۰۰Z",
            "२०२४-०३-१२ १०:००",
            "２０２４-０３-１２ １０:００",
            "٢٠٢٤-٠٣-١٢",
            "١٢ March ٢٠٢٤",
            "١٢.٠٣.٢٠٢٤",
        ] {
            check(text, &[]);
        }
        check("٢٠٢٤-٠٣-١٢ ١٠:٠٠, that is 2024-03-12 10:00", &[Some("2024-03-12T10:00")]);
    }

    #[test]
    fn moment_parses_each_precision() {
        assert_eq!(parse_moment("1970-01-02"), Some(86_400_000_000_000));
        assert_eq!(parse_moment("1970"), Some(0));
        assert_eq!(parse_moment("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse_moment("yesterday"), None);
        assert_eq!(days_between(0, 86_400_000_000_000 * 3), 3);
        assert_eq!(day_of(86_400_000_000_000), "1970-01-02");
    }

    #[test]
    fn days_between_spans_centuries() {
        let (old, new) = (parse_moment("1700-01-01").unwrap(), parse_moment("2026-01-01").unwrap());
        assert_eq!((days_between(old, new), days_between(new, old)), (119_069, -119_069));
        assert_eq!(days_between(i64::MIN, i64::MAX), 213_503);
    }

    #[test]
    fn since_subtracts_duration_and_accepts_date() {
        let now = parse_moment("2024-03-31T12:00:00").unwrap();
        for (text, expected) in [
            ("30d", "2024-03-01T12:00:00Z"),
            ("1 week", "2024-03-24T12:00:00Z"),
            ("12 hours ago", "2024-03-31T00:00:00Z"),
            ("1 month", "2024-02-29T12:00:00Z"),
            ("2y", "2022-03-31T12:00:00Z"),
            ("yesterday", "2024-03-30T00:00:00Z"),
            ("2024-01-01", "2024-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse_since(text, now).map(format_moment).as_deref(), Some(expected), "{text}");
        }
        for text in ["soon", "d", "-3d", "3 parsecs", "99999y"] {
            assert_eq!(parse_since(text, now), None, "{text}");
        }
    }
}
