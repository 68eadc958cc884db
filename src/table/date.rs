//! Parses table cells as dates: `2025-03-06`, `6.3.2025`, `06/03/2025`, `6 March 2025`, `März 2025`, `2025-03`, `March`.
//!
//! The whole cell must be a date. In `03/06/2025` the other cells of the column decide which number is the month; if they do
//! not show it, the cell is not a date.

use chrono::{Datelike, NaiveDate};

use crate::model::TablePeriod;

/// Month names in English, German and French, without dots. Any prefix of three or four letters is an abbreviation.
const MONTHS: [&[&str]; 12] = [
    &["january", "januar", "jänner", "janvier"],
    &["february", "februar", "feber", "février"],
    &["march", "märz", "maerz", "mars", "mrz"],
    &["april", "avril"],
    &["may", "mai"],
    &["june", "juni", "juin"],
    &["july", "juli", "juillet"],
    &["august", "août"],
    &["september", "septembre", "sept"],
    &["october", "oktober", "octobre"],
    &["november", "novembre"],
    &["december", "dezember", "décembre"],
];
/// Minimum letters of the abbreviation of a month.
const MIN_MONTH_LETTERS: usize = 3;
/// A cell with more bytes than this is not a date.
const MAX_DATE_CHARS: usize = 40;

/// A date as precise as the cell gives it: a year, a month with or without a year, a day, or a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellDate {
    /// Year; `None` for a month alone.
    pub(crate) year: Option<i32>,
    /// Month from 1; `None` for a year alone.
    pub(crate) month: Option<u32>,
    /// Day of the month; `None` for a month or a year.
    pub(crate) day: Option<u32>,
    /// Time of day in seconds since midnight; 0 if the cell has no time.
    seconds: u32,
}

impl CellDate {
    /// Returns the first second of the date, in seconds since the Unix epoch, in UTC; `None` for a month alone.
    pub(crate) fn start(self) -> Option<i64> {
        let day = NaiveDate::from_ymd_opt(self.year?, self.month.unwrap_or(1), self.day.unwrap_or(1))?;
        Some(day.and_hms_opt(0, 0, 0)?.and_utc().timestamp() + i64::from(self.seconds))
    }

    /// Returns the exclusive end of the date: the start of the next year, month, day or second.
    pub(crate) fn end(self) -> Option<i64> {
        if self.seconds > 0 {
            return Some(self.start()? + 1);
        }
        let (year, month) = (self.year?, self.month);
        let next = match (month, self.day) {
            (None, _) => NaiveDate::from_ymd_opt(year.checked_add(1)?, 1, 1)?,
            (Some(12), None) => NaiveDate::from_ymd_opt(year.checked_add(1)?, 1, 1)?,
            (Some(month), None) => NaiveDate::from_ymd_opt(year, month + 1, 1)?,
            (Some(month), Some(day)) => NaiveDate::from_ymd_opt(year, month, day)?.succ_opt()?,
        };
        Some(next.and_hms_opt(0, 0, 0)?.and_utc().timestamp())
    }

    /// Returns the name of the period that contains the date: `2025`, `2025-Q1`, `2025-03`, `2025-03-06`; `None` if the date
    /// is not precise enough for this kind of period.
    pub(crate) fn period_name(self, period: TablePeriod) -> Option<String> {
        let (year, month) = (self.year, self.month);
        Some(match period {
            TablePeriod::Year => format!("{:04}", year?),
            TablePeriod::Quarter => format!("{:04}-Q{}", year?, (month? - 1) / 3 + 1),
            TablePeriod::Month => match year {
                Some(year) => format!("{year:04}-{:02}", month?),
                None => format!("--{:02}", month?),
            },
            TablePeriod::Day => format!("{:04}-{:02}-{:02}", year?, month?, self.day?),
        })
    }
}

/// The order of day and month in dates with slashes, as far as the cells of a column show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DayMonthOrder {
    day_first: bool,
    month_first: bool,
}

impl DayMonthOrder {
    /// Notes the order that a cell shows: in `13/01/2025` the day must come first.
    pub(crate) fn learn(&mut self, text: &str) {
        if let Some([first, second, _]) = parse_slashes(text) {
            self.day_first |= first > 12 && second <= 12;
            self.month_first |= second > 12 && first <= 12;
        }
    }

    /// Parses a cell of the column as a date.
    pub(crate) fn parse(self, text: &str) -> Option<CellDate> {
        let text = text.trim();
        if text.len() > MAX_DATE_CHARS || text.len() < MIN_MONTH_LETTERS {
            return None;
        }
        if let Some([first, second, year]) = parse_slashes(text) {
            let is_day_first = match (first == second, self.day_first, self.month_first) {
                (true, ..) | (_, true, false) => true,
                (_, false, true) => false,
                _ => return None,
            };
            let (day, month) = if is_day_first { (first, second) } else { (second, first) };
            return new_date(i32::try_from(year).ok()?, month, Some(day));
        }
        parse_iso(text).or_else(|| parse_dotted(text)).or_else(|| parse_worded(text))
    }
}

/// Whether a text is a date in any format.
pub(crate) fn is_date(text: &str) -> bool {
    DayMonthOrder { day_first: true, month_first: false }.parse(text).is_some() || parse_slashes(text).is_some()
}

/// Returns the number of the month that a word names in English, German or French, also if abbreviated, as in `mar`.
pub(crate) fn parse_month(word: &str) -> Option<u32> {
    let word = word.trim_end_matches('.').to_lowercase();
    if word.chars().count() < MIN_MONTH_LETTERS {
        return None;
    }
    let is_short = word.chars().count() <= MIN_MONTH_LETTERS + 1;
    let names = |names: &&[&str]| names.iter().any(|it| *it == word || is_short && it.starts_with(&word));
    let found = MONTHS.iter().position(names)?;
    u32::try_from(found + 1).ok()
}

fn new_date(year: i32, month: u32, day: Option<u32>) -> Option<CellDate> {
    NaiveDate::from_ymd_opt(year, month, day.unwrap_or(1)).filter(|it| (1000..=9999).contains(&it.year()))?;
    Some(CellDate { year: Some(year), month: Some(month), day, seconds: 0 })
}

/// Parses exactly `N` numbers of at most four digits, separated by `sign`.
fn parse_numbers<const N: usize>(text: &str, sign: char) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(sign);
    for number in &mut numbers {
        let part = parts.next()?.trim();
        let digits = (1..=4).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit());
        *number = if digits { part.parse().ok()? } else { return None };
    }
    parts.next().is_none().then_some(numbers)
}

/// Parses a date with slashes, `a/b/year`, in which `a` and `b` are day and month in any order.
fn parse_slashes(text: &str) -> Option<[u32; 3]> {
    let found: [u32; 3] = parse_numbers(text.trim(), '/')?;
    (found[2] >= 1000 && (1..=31).contains(&found[0]) && (1..=31).contains(&found[1])).then_some(found)
}

/// Parses `2025-03-06` or `2025/03/06` with an optional time, or `2025-03`. `2025-Q1` is not a date.
fn parse_iso(text: &str) -> Option<CellDate> {
    let (day, time) = match text.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time.trim())),
        None => (text, None),
    };
    let found = parse_numbers::<3>(day, '-').or_else(|| parse_numbers::<3>(day, '/')).filter(|it| it[0] >= 1000);
    if let Some([year, month, day]) = found {
        let date = new_date(i32::try_from(year).ok()?, month, Some(day))?;
        return Some(CellDate { seconds: time.map_or(Some(0), parse_time)?, ..date });
    }
    let [year, month] = parse_numbers::<2>(day, '-').filter(|it| it[0] >= 1000 && time.is_none())?;
    new_date(i32::try_from(year).ok()?, month, None)
}

/// Parses a time such as `08:30` or `08:30:59.5Z` to seconds since midnight; ignores the time zone.
fn parse_time(time: &str) -> Option<u32> {
    let time = time.trim_end_matches('Z');
    let time = time.find(['+', '-']).map_or(time, |at| &time[..at]);
    let time = time.split('.').next()?;
    let [hour, minute, second] =
        parse_numbers::<3>(time, ':').or_else(|| parse_numbers::<2>(time, ':').map(|[a, b]| [a, b, 0]))?;
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Parses a date with dots: `6.3.2025`, `06.03.25`.
fn parse_dotted(text: &str) -> Option<CellDate> {
    let (day, time) =
        text.split_once(' ').filter(|it| it.1.contains(':')).map_or((text, None), |it| (it.0, Some(it.1)));
    let [day, month, year] = parse_numbers::<3>(day, '.')?;
    let year = if year < 100 && text.len() >= "1.1.25".len() { year + 2000 } else { year };
    let found = new_date(i32::try_from(year).ok()?, month, Some(day))?;
    Some(CellDate { seconds: time.map_or(Some(0), parse_time)?, ..found })
}

/// Parses a date with the name of a month: `6 March 2025`, `March 6, 2025`, `6. März 2025`, `Mar 2025`, `March`.
fn parse_worded(text: &str) -> Option<CellDate> {
    let mut words = text.split(|it: char| it.is_whitespace() || it == ',').filter(|it| !it.is_empty());
    let parts = [words.next(), words.next(), words.next()];
    if words.next().is_some() {
        return None;
    }
    let number = |it: &str| it.trim_end_matches(['.', 't', 'h', 's', 'n', 'd', 'r']).parse::<u32>().ok();
    let year = |it: &str| it.parse::<i32>().ok().filter(|it| (1000..=9999).contains(it));
    match parts {
        [Some(name), None, None] => {
            Some(CellDate { year: None, month: Some(parse_month(name)?), day: None, seconds: 0 })
        }
        [Some(name), Some(last), None] => new_date(year(last)?, parse_month(name)?, None),
        [Some(first), Some(second), Some(last)] => match parse_month(first) {
            Some(month) => new_date(year(last)?, month, Some(number(second)?)),
            None => new_date(year(last)?, parse_month(second)?, Some(number(first)?)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(column: &[&str], text: &str) -> Option<String> {
        let mut order = DayMonthOrder::default();
        column.iter().chain([&text]).for_each(|it| order.learn(it));
        let date = order.parse(text)?;
        let part = |it: Option<u32>| it.map(|it| format!("-{it:02}")).unwrap_or_default();
        let time = if date.seconds > 0 { format!(" {}", date.seconds) } else { String::new() };
        Some(format!("{}{}{}{time}", date.year.unwrap_or(0), part(date.month), part(date.day)))
    }

    #[test]
    fn dates_parse_in_all_formats() {
        for (text, expected) in [
            ("2025-03-06", "2025-03-06"),
            ("2025/03/06", "2025-03-06"),
            ("2025-11-08T00:15:00Z", "2025-11-08 900"),
            ("2025-11-08 00:15:00+01:00", "2025-11-08 900"),
            ("2025-03", "2025-03"),
            ("6.3.2025", "2025-03-06"),
            ("06.03.25", "2025-03-06"),
            ("13/01/2025", "2025-01-13"),
            ("01/13/2025", "2025-01-13"),
            ("6 March 2025", "2025-03-06"),
            ("6. März 2025", "2025-03-06"),
            ("March 6, 2025", "2025-03-06"),
            ("6th Sept. 2025", "2025-09-06"),
            ("Dez 2025", "2025-12"),
            ("January", "0-01"),
            ("juin", "0-06"),
        ] {
            assert_eq!(read(&[], text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn non_date_gives_none() {
        for text in [
            "",
            "2025",
            "2025-13-01",
            "2025-02-30",
            "31.02.2025",
            "12.5",
            "1.2.3.4",
            "03/06/2025",
            "Marchand",
            "the March",
            "2024-25",
            "O-118",
            "1/2",
            "é\u{301}é",
            "mayor",
            "2025-1-1x",
            &"1".repeat(100),
        ] {
            assert_eq!(read(&[], text), None, "{text}");
        }
    }

    #[test]
    fn column_decides_day_or_month_first() {
        assert_eq!(read(&["13/01/2025"], "03/06/2025").as_deref(), Some("2025-06-03"));
        assert_eq!(read(&["01/13/2025"], "03/06/2025").as_deref(), Some("2025-03-06"));
        assert_eq!(read(&["01/13/2025", "13/01/2025"], "03/06/2025"), None);
        assert_eq!(read(&[], "05/05/2025").as_deref(), Some("2025-05-05"));
    }

    #[test]
    fn date_range_matches_its_precision() {
        let spans = |text: &str| {
            let date = DayMonthOrder::default().parse(text).unwrap();
            date.end().unwrap() - date.start().unwrap()
        };
        assert_eq!(spans("2024-02"), 29 * 86_400);
        assert_eq!(spans("2024-12"), 31 * 86_400);
        assert_eq!(spans("2024-12-31"), 86_400);
        assert_eq!(spans("2024-12-31T10:00"), 1);
        assert_eq!(DayMonthOrder::default().parse("May").unwrap().start(), None);
    }

    #[test]
    fn date_names_its_periods() {
        let date = DayMonthOrder::default().parse("2025-05-19").unwrap();
        let named = TablePeriod::ALL.map(|it| date.period_name(it).unwrap());
        assert_eq!(named, ["2025", "2025-Q2", "2025-05", "2025-05-19"]);
        assert_eq!(DayMonthOrder::default().parse("2025-05").unwrap().period_name(TablePeriod::Day), None);
        assert_eq!(
            DayMonthOrder::default().parse("May").unwrap().period_name(TablePeriod::Month).as_deref(),
            Some("--05")
        );
    }
}
