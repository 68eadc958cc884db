//! Parses dates in English questions into periods of whole days. Pure functions: the caller passes today's date.
//!
//! `last week` is the previous week, Monday to Sunday; months, quarters and years work alike. `the last week` and
//! `the past week` begin seven days before today; `the last 3 months` works alike. A month without a year is the latest
//! one that has begun. `after X`, `since X` and `from X on` start at the first day of X, as `--after` does. `before X`
//! ends before the first day of X, `until X` after the last day of X.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, Weekday};

/// A range of consecutive days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    start: NaiveDate,
    /// First day after the period; `None` if the period has no end.
    end: Option<NaiveDate>,
    /// Whether the period needs no preposition: `modified yesterday`, but not `modified 2021`.
    stands_alone: bool,
}

/// Bounds on the modification date of files: `after` is inclusive, `before` exclusive; `None` is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) after: Option<NaiveDate>,
    pub(super) before: Option<NaiveDate>,
}

impl Bounds {
    /// Returns the range from the earlier start to the later end of two ranges.
    pub(super) fn union(self, other: Bounds) -> Bounds {
        Bounds {
            after: self.after.zip(other.after).map(|(one, other)| one.min(other)),
            before: self.before.zip(other.before).map(|(one, other)| one.max(other)),
        }
    }

    /// Returns the bounds of all other days, or `None` if both ends are bounded, because then there are two ranges.
    pub(super) fn complement(self) -> Option<Bounds> {
        match (self.after, self.before) {
            (Some(after), None) => Some(Bounds { after: None, before: Some(after) }),
            (None, Some(before)) => Some(Bounds { after: Some(before), before: None }),
            _ => None,
        }
    }
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const NUMBERS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
/// A number outside this range is not a year. Files have no dates before 1970.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// Parses a date with its preposition at the start of `words`: `since march 2024`. Returns the bounds and their length in
/// words.
pub(super) fn parse_bounds(words: &[&str], today: NaiveDate) -> Option<(Bounds, usize)> {
    let word = |index: usize| words.get(index).copied().unwrap_or("");
    let period = |index: usize| parse_period(words.get(index..).unwrap_or_default(), today);
    let since = |it: NaiveDate| Bounds { after: Some(it), before: None };
    let until = |it: NaiveDate| Bounds { after: None, before: Some(it) };
    let within = |it: Period| Bounds { after: Some(it.start), before: it.end };
    match (word(0), word(1)) {
        ("since" | "after", _) => period(1).map(|(it, length)| (since(it.start), 1 + length)),
        ("later", "than") => period(2).map(|(it, length)| (since(it.start), 2 + length)),
        ("before", _) => period(1).map(|(it, length)| (until(it.start), 1 + length)),
        ("prior", "to") | ("earlier", "than") => period(2).map(|(it, length)| (until(it.start), 2 + length)),
        ("older" | "newer", "than") => {
            let (ago, length) = parse_span(&words[2..])?;
            let start = subtract_units(today, ago.0, ago.1)?;
            Some((if word(0) == "older" { until(start) } else { since(start) }, 2 + length))
        }
        ("until" | "till", _) => period(1).and_then(|(it, length)| Some((until(it.end?), 1 + length))),
        ("up", "to") => period(2).and_then(|(it, length)| Some((until(it.end?), 2 + length))),
        ("between", _) => parse_range(words, 1, &["and"], today),
        ("from", _) => parse_range(words, 1, &["to", "until", "till", "through"], today).or_else(|| {
            let (it, length) = period(1)?;
            if matches!(word(1 + length), "on" | "onward" | "onwards") {
                return Some((since(it.start), 2 + length));
            }
            Some((within(it), 1 + length))
        }),
        ("in" | "during" | "on" | "of" | "within" | "over", _) => {
            period(1).map(|(it, length)| (within(it), 1 + length))
        }
        _ => period(0).filter(|(it, _)| it.stands_alone).map(|(it, length)| (within(it), length)),
    }
}

/// Parses `A and B` or `A to B`. If only the second month has a year, the first month gets that year or the year before.
fn parse_range(words: &[&str], at: usize, joints: &[&str], today: NaiveDate) -> Option<(Bounds, usize)> {
    let (mut first, length) = parse_period(&words[at..], today)?;
    let joint = at + length;
    if !joints.contains(words.get(joint)?) {
        return None;
    }
    let (last, last_length) = parse_period(&words[joint + 1..], today)?;
    // The year comes only once, at the end: `May and July 2023`.
    if length == 1 && MONTHS.contains(&full_month(words[at])) {
        first = month_of(words[at], last.start.year())?;
        if first.start > last.start {
            first = month_of(words[at], last.start.year() - 1)?;
        }
    }
    let bounds = Bounds { after: Some(first.start), before: last.end };
    (last.end.is_none_or(|end| first.start < end)).then_some((bounds, joint + 1 + last_length))
}

/// Parses a period such as `last week` or `March 2024` at the start of `words`. Returns it and its length in words.
fn parse_period(words: &[&str], today: NaiveDate) -> Option<(Period, usize)> {
    let the = usize::from(words.first() == Some(&"the"));
    let rest = &words[the..];
    let (period, length) = parse_relative(rest, the == 1, today)
        .or_else(|| parse_quarter(rest))
        .or_else(|| parse_day_of_month(rest, today))
        .or_else(|| parse_month(rest, today))
        .or_else(|| parse_numeric(rest))?;
    Some((period, the + length))
}

fn parse_relative(words: &[&str], the: bool, today: NaiveDate) -> Option<(Period, usize)> {
    let first = *words.first()?;
    let open = |start: NaiveDate| Period { start, end: None, stands_alone: true };
    match first {
        "today" => return Some((open(today), 1)),
        "yesterday" => {
            let start = subtract_units(today, 1, Unit::Day)?;
            return Some((Period { start, end: Some(today), stands_alone: true }, 1));
        }
        _ => (),
    }
    if let Some(day) = DAYS.iter().position(|it| *it == first) {
        return Some((Period { stands_alone: false, ..latest_weekday(day, today)? }, 1));
    }
    // Other languages have the preposition first, and so do the translations of their questions: `ago 3 days`.
    let (span, ago) = match first {
        "ago" => (parse_span(&words[1..]), true),
        _ => (parse_span(words), false),
    };
    if let Some(((count, unit), length)) = span
        && (ago || words.get(length) == Some(&"ago"))
    {
        let start = subtract_units(today, count, unit)?;
        // `two months ago` does not mean one day, so only a preposition can use it as a bound: `since two months ago`.
        return Some((Period { start, end: Some(start + Days::new(1)), stands_alone: unit == Unit::Day }, length + 1));
    }
    let second = *words.get(1)?;
    match first {
        "last" | "past" if parse_span(&words[1..]).is_some_and(|(_, length)| length == 2) => {
            let ((count, unit), length) = parse_span(&words[1..])?;
            Some((open(subtract_units(today, count, unit)?), 1 + length))
        }
        "last" | "past" | "previous" | "this" | "current" => {
            if let Some(unit) = parse_unit(second) {
                let period = match first {
                    "this" | "current" => open(start_of_unit(today, unit)?),
                    "past" => open(subtract_units(today, 1, unit)?),
                    "last" if the => open(subtract_units(today, 1, unit)?),
                    _ => previous_period(today, unit)?,
                };
                return Some((period, 2));
            }
            let before = if first == "last" { start_of_unit(today, Unit::Month)?.pred_opt()? } else { today };
            let period = match DAYS.iter().position(|it| *it == second) {
                Some(day) => latest_weekday(day, if first == "last" { today.pred_opt()? } else { today })?,
                None if MONTHS.contains(&second) => latest_month(second, before)?,
                None => return None,
            };
            Some((Period { stands_alone: true, ..period }, 2))
        }
        _ => None,
    }
}

/// Parses a quarter: `Q1 2024`.
fn parse_quarter(words: &[&str]) -> Option<(Period, usize)> {
    let number: u32 = words.first()?.strip_prefix('q')?.parse().ok().filter(|it| (1..=4).contains(it))?;
    let start = NaiveDate::from_ymd_opt(parse_year(words.get(1)?)?, number * 3 - 2, 1)?;
    Some((Period { start, end: start.checked_add_months(Months::new(3)), stands_alone: false }, 2))
}

/// Parses a day: `15 March 2024`, `March 15, 2024`, `15 March`.
fn parse_day_of_month(words: &[&str], today: NaiveDate) -> Option<(Period, usize)> {
    let [first, second, ..] = words else { return None };
    let (name, day) = match (parse_day(first), parse_day(second)) {
        (Some(day), None) => (second, day),
        (None, Some(day)) => (first, day),
        _ => return None,
    };
    let month = MONTHS.iter().position(|it| *it == full_month(name))? as u32 + 1;
    let named = words.get(2).and_then(|it| parse_year(it));
    let day_in = |year| NaiveDate::from_ymd_opt(year, month, day);
    let start = match named {
        Some(year) => day_in(year)?,
        None => day_in(today.year()).filter(|it| *it <= today).or_else(|| day_in(today.year() - 1))?,
    };
    Some((Period { start, end: start.succ_opt(), stands_alone: false }, 2 + usize::from(named.is_some())))
}

/// Parses a month: `March 2024`, `March of 2024`, `March`.
fn parse_month(words: &[&str], today: NaiveDate) -> Option<(Period, usize)> {
    let name = full_month(words.first()?);
    if !MONTHS.contains(&name) {
        return None;
    }
    let of = usize::from(words.get(1) == Some(&"of"));
    match words.get(1 + of).and_then(|it| parse_year(it)) {
        Some(year) => Some((month_of(name, year)?, 2 + of)),
        None => Some((latest_month(name, today)?, 1)),
    }
}

/// Parses a date in digits: `2024-03-15`, `2024-03`, `2024`, `15.03.2024`, `15/03/2024`.
fn parse_numeric(words: &[&str]) -> Option<(Period, usize)> {
    let text = *words.first()?;
    let period = |start: NaiveDate, end| Some((Period { start, end, stands_alone: false }, 1));
    if let Some(year) = parse_year(text) {
        return period(NaiveDate::from_ymd_opt(year, 1, 1)?, NaiveDate::from_ymd_opt(year + 1, 1, 1));
    }
    if let Some(start) = parse_local_date(text) {
        return period(start, start.succ_opt());
    }
    let mut parts = text.split('-');
    let (first, second, third) = (parse_year(parts.next()?)?, parts.next()?.parse().ok()?, parts.next());
    match (third, parts.next()) {
        (None, _) => month_of(MONTHS.get(usize::checked_sub(second, 1)?)?, first).map(|it| (it, 1)),
        (Some(day), None) => {
            let start = NaiveDate::from_ymd_opt(first, second as u32, day.parse().ok()?)?;
            period(start, start.succ_opt())
        }
        _ => None,
    }
}

/// Parses a date with the year last. With slashes, a number above 12 must show which one is the day.
fn parse_local_date(text: &str) -> Option<NaiveDate> {
    let is_dotted = text.contains('.');
    let parts: Vec<&str> = text.split(if is_dotted { '.' } else { '/' }).collect();
    let [first, second, year] = parts[..] else { return None };
    let (first, second): (u32, u32) = (first.parse().ok()?, second.parse().ok()?);
    let (day, month) = match (first > 12, second > 12) {
        (true, false) => (first, second),
        (false, true) if !is_dotted => (second, first),
        (false, false) if is_dotted || first == second => (first, second),
        _ => return None,
    };
    NaiveDate::from_ymd_opt(parse_year(year)?, month, day)
}

/// Parses the value of `after:` and `before:` to a date: a year, month, day or RFC 3339 date-time, `today`, `yesterday`, or
/// `7d`, `2w`, `6m`, `1y` for a number of days, weeks, months or years ago.
pub(super) fn parse_operand(text: &str, today: NaiveDate) -> Option<String> {
    let lower = text.to_lowercase();
    let day = |it: NaiveDate| it.format("%Y-%m-%d").to_string();
    if DateTime::parse_from_rfc3339(text).is_ok() {
        return Some(text.to_string());
    }
    if let Some((period, _)) = parse_numeric(&[&lower]) {
        return Some(day(period.start));
    }
    match lower.as_str() {
        "today" => return Some(day(today)),
        "yesterday" => return today.pred_opt().map(day),
        _ => (),
    }
    let letter = lower.chars().next_back()?;
    let unit = match letter {
        'd' => Unit::Day,
        'w' => Unit::Week,
        'm' => Unit::Month,
        'y' => Unit::Year,
        _ => return None,
    };
    subtract_units(today, lower[..lower.len() - 1].parse().ok()?, unit).map(day)
}

/// Parses a number of units: `3 months`, `two weeks`. Returns it and its length in words.
fn parse_span(words: &[&str]) -> Option<((u32, Unit), usize)> {
    let [count, name, ..] = words else { return None };
    let count = match NUMBERS.iter().position(|it| it == count) {
        Some(index) => index as u32 + 1,
        None if matches!(*count, "a" | "an") => 1,
        None => count.parse().ok()?,
    };
    Some(((count, parse_unit(name.strip_suffix('s').unwrap_or(name))?), 2))
}

fn parse_unit(name: &str) -> Option<Unit> {
    Some(match name {
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "quarter" => Unit::Quarter,
        "year" => Unit::Year,
        _ => return None,
    })
}

fn subtract_units(day: NaiveDate, count: u32, unit: Unit) -> Option<NaiveDate> {
    let months = |each: u32| day.checked_sub_months(Months::new(count.checked_mul(each)?));
    match unit {
        Unit::Day => day.checked_sub_days(Days::new(count.into())),
        Unit::Week => day.checked_sub_days(Days::new(u64::from(count) * 7)),
        Unit::Month => months(1),
        Unit::Quarter => months(3),
        Unit::Year => months(12),
    }
}

/// Returns the first day of the week, month, quarter or year that contains `day`.
fn start_of_unit(day: NaiveDate, unit: Unit) -> Option<NaiveDate> {
    match unit {
        Unit::Day => Some(day),
        Unit::Week => Some(day.week(Weekday::Mon).first_day()),
        Unit::Month => day.with_day(1),
        Unit::Quarter => NaiveDate::from_ymd_opt(day.year(), (day.month0() / 3) * 3 + 1, 1),
        Unit::Year => NaiveDate::from_ymd_opt(day.year(), 1, 1),
    }
}

fn previous_period(today: NaiveDate, unit: Unit) -> Option<Period> {
    let end = start_of_unit(today, unit)?;
    Some(Period { start: subtract_units(end, 1, unit)?, end: Some(end), stands_alone: true })
}

/// Returns the latest day up to `until` that is the weekday `day`, counted from Monday as 0.
fn latest_weekday(day: usize, until: NaiveDate) -> Option<Period> {
    let ago = (until.weekday().num_days_from_monday() as usize + 7 - day) % 7;
    let start = subtract_units(until, ago as u32, Unit::Day)?;
    Some(Period { start, end: start.succ_opt(), stands_alone: true })
}

fn latest_month(name: &str, until: NaiveDate) -> Option<Period> {
    let this_year = month_of(name, until.year())?;
    if this_year.start <= until { Some(this_year) } else { month_of(name, until.year() - 1) }
}

fn month_of(name: &str, year: i32) -> Option<Period> {
    let month = MONTHS.iter().position(|it| *it == full_month(name))? as u32 + 1;
    let start = NaiveDate::from_ymd_opt(year, month, 1)?;
    Some(Period { start, end: start.checked_add_months(Months::new(1)), stands_alone: false })
}

/// Expands an abbreviated month: `sept` -> `september`. `mar` is not expanded, because it is also an English word.
fn full_month(name: &str) -> &str {
    match name {
        "jan" => "january",
        "feb" => "february",
        "apr" => "april",
        "jun" => "june",
        "jul" => "july",
        "aug" => "august",
        "sep" | "sept" => "september",
        "oct" => "october",
        "nov" => "november",
        "dec" => "december",
        other => other,
    }
}

fn parse_year(text: &str) -> Option<i32> {
    if text.len() != 4 { None } else { text.parse().ok().filter(|it| YEARS.contains(it)) }
}

fn parse_day(text: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|it| text.strip_suffix(it)).unwrap_or(text);
    digits.parse().ok().filter(|it| (1..=31).contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The date that these tests take as today: Wednesday, 18 March 2026.
    fn today() -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 3, 18).unwrap()
    }

    fn check(text: &str) -> Option<String> {
        let words: Vec<&str> = text.split(' ').collect();
        let (bounds, length) = parse_bounds(&words, today())?;
        let show = |it: Option<NaiveDate>| it.map_or(String::new(), |it| it.to_string());
        Some(format!("{}..{} {}", show(bounds.after), show(bounds.before), length))
    }

    #[test]
    fn date_phrase_gives_bounds() {
        for (text, expected) in [
            ("yesterday", "2026-03-17..2026-03-18 1"),
            ("today", "2026-03-18.. 1"),
            ("last week", "2026-03-09..2026-03-16 2"),
            ("in the last week", "2026-03-11.. 4"),
            ("this week", "2026-03-16.. 2"),
            ("last month", "2026-02-01..2026-03-01 2"),
            ("last quarter", "2025-10-01..2026-01-01 2"),
            ("last year", "2025-01-01..2026-01-01 2"),
            ("from the last 3 months", "2025-12-18.. 5"),
            ("since march 2024", "2024-03-01.. 3"),
            ("since monday", "2026-03-16.. 2"),
            ("last monday", "2026-03-16..2026-03-17 2"),
            ("last wednesday", "2026-03-11..2026-03-12 2"),
            ("last march", "2025-03-01..2025-04-01 2"),
            ("in april", "2025-04-01..2025-05-01 2"),
            ("before 2020", "..2020-01-01 2"),
            ("until 2020", "..2021-01-01 2"),
            ("in 2021", "2021-01-01..2022-01-01 2"),
            ("between may and july 2023", "2023-05-01..2023-08-01 5"),
            ("between november and february 2024", "2023-11-01..2024-03-01 5"),
            ("between 2019 and 2021", "2019-01-01..2022-01-01 4"),
            ("from march to may 2024", "2024-03-01..2024-06-01 5"),
            ("from 2021 on", "2021-01-01.. 3"),
            ("on 15 march 2024", "2024-03-15..2024-03-16 4"),
            ("on march 15th", "2026-03-15..2026-03-16 3"),
            ("on 2024-02-29", "2024-02-29..2024-03-01 2"),
            ("in q1 2024", "2024-01-01..2024-04-01 3"),
            ("older than two years", "..2024-03-18 4"),
            ("newer than 3 days", "2026-03-15.. 4"),
            ("3 days ago", "2026-03-15..2026-03-16 3"),
            ("since ago 3 days", "2026-03-15.. 4"),
            ("since 15.03.2024", "2024-03-15.. 2"),
            ("on 15/03/2024", "2024-03-15..2024-03-16 2"),
            ("on 03/15/2024", "2024-03-15..2024-03-16 2"),
            ("since two months ago", "2026-01-18.. 4"),
        ] {
            assert_eq!(check(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn non_date_phrase_is_ignored() {
        for text in [
            "2021",
            "may",
            "monday",
            "two months ago",
            "in 1066",
            "in 20",
            "on 2023-02-29",
            "since",
            "between 2021 and you",
            "between 2023 and 2021",
            "from here",
            "last year's",
            "the last straw",
            "in mar",
            "older than me",
            "in 0000-00",
            "on 03/04/2024",
            "on 1.2.3",
            "ago",
        ] {
            assert_eq!(check(text), None, "{text}");
        }
    }

    #[test]
    fn operand_is_exact_date_or_none() {
        for (text, expected) in [
            ("2024", Some("2024-01-01")),
            ("2024-03", Some("2024-03-01")),
            ("2024-03-15", Some("2024-03-15")),
            ("2024-03-15T10:00:00Z", Some("2024-03-15T10:00:00Z")),
            ("7d", Some("2026-03-11")),
            ("1y", Some("2025-03-18")),
            ("Yesterday", Some("2026-03-17")),
            ("2024-13", None),
            ("soon", None),
            ("", None),
            ("ü", None),
            ("4294967295y", None),
        ] {
            assert_eq!(parse_operand(text, today()).as_deref(), expected, "{text}");
        }
    }
}
