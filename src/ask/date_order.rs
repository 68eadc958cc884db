//! Orders files by date where the question asks for it: `current mooring fee`, `oldest agreement`. Of files that are about
//! equally relevant, the newest or the oldest comes first. Pure functions.
//!
//! The date of a file is the one that it states: in a phrase such as `in force from`, in its name, in its title or headings,
//! or in its first line. Files that state no date are ordered by the time of their last change. Files that differ only in
//! the number of their version (`agreement-v2.txt`) are ordered by that number.

use std::collections::HashMap;
use std::sync::LazyLock;

use chrono::{DateTime, Local, NaiveDate};
use regex::Regex;
use serde_json::json;

use crate::model::{DateOrder, SearchHit};
use crate::text::month_names;

/// Share of the best score that a file must reach to count as equally relevant.
const MIN_SHARE_OF_BEST: f32 = 0.75;
/// Maximum number of files that are compared by date. Beyond the first page of hits, the date tells less than the words.
const MAX_COMPARED: usize = 20;
/// Number of bytes at the start of a text in which a date or a version is that of the whole text.
const TITLE_BYTES: usize = 160;
/// Years of dates that files state. Other numbers of four digits are something else.
const YEARS: std::ops::RangeInclusive<i32> = 1900..=2100;

/// Where the date of a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DateSource {
    /// The text, its title or its headings.
    Text,
    /// The file name.
    Name,
    /// The time of the last change.
    Modified,
    /// The time of the last change; but the number of the version decides.
    Version,
}

/// A file with what its order by date depends on.
#[derive(Clone, Debug)]
pub(super) struct DatedFile {
    /// Score from search and wording, best file first.
    pub(super) score: f32,
    /// Number of the question's words that the file has.
    pub(super) words: usize,
    stated: Option<(NaiveDate, DateSource)>,
    modified_ns: i64,
    /// What the file is a version of, and the number of the version.
    version: Option<(String, Vec<u32>)>,
}

/// The new order of files, and the dates that it follows.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// Indices of the files in their new order.
    pub(super) order: Vec<usize>,
    /// The dates of the files that were compared, by index.
    pub(super) dates: HashMap<usize, (NaiveDate, DateSource)>,
}

impl DatedFile {
    /// Collects the dates of a file. `passages` are texts with the length of their title and headings, best first.
    pub(super) fn new(score: f32, words: usize, name: &str, modified_ns: i64, passages: &[(&str, usize)]) -> DatedFile {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let text = || passages.iter().find_map(|(text, _)| effective_date(text));
        let title = || passages.iter().find_map(|(text, head)| find_date(&text[..*head]));
        let first_line = || passages.iter().find_map(|(text, head)| find_date(first_bytes(&text[*head..])));
        let stated = text()
            .map(|it| (it, DateSource::Text))
            .or_else(|| find_date(stem).map(|it| (it, DateSource::Name)))
            .or_else(|| title().or_else(first_line).map(|it| (it, DateSource::Text)));
        let version = find_version(stem)
            .or_else(|| passages.iter().find_map(|(text, head)| find_version(first_bytes(&text[*head..]))));
        DatedFile { score, words, stated, modified_ns, version }
    }

    fn modified(&self) -> NaiveDate {
        DateTime::from_timestamp_nanos(self.modified_ns).with_timezone(&Local).date_naive()
    }
}

/// Orders files, best first, by date. Files that are less relevant keep their places.
pub(super) fn order_by_date(files: &[DatedFile], wanted: DateOrder) -> Ordered {
    let mut ordered = Ordered { order: (0..files.len()).collect(), dates: HashMap::new() };
    let Some(best) = files.first() else { return ordered };
    let is_equal = |it: &&usize| {
        let file = &files[**it];
        file.score >= best.score * MIN_SHARE_OF_BEST && file.words >= best.words
    };
    let compared: Vec<usize> = ordered.order.iter().take(MAX_COMPARED).filter(is_equal).copied().collect();
    // A stated date and the time of a copy do not compare, so dates decide among the files that state one.
    let dated: Vec<usize> = compared.iter().filter(|it| files[**it].stated.is_some()).copied().collect();
    if dated.len() > 1 {
        permute(&mut ordered.order, &dated, wanted, |it| files[it].stated.map(|(date, _)| date));
    } else {
        permute(&mut ordered.order, &compared, wanted, |it| files[it].modified_ns);
    }
    let versions = order_versions(&mut ordered.order, files, &compared, wanted);
    let by_change = dated.len() < 2;
    for index in compared {
        let file = &files[index];
        let date = match file.stated.filter(|_| !by_change) {
            Some(stated) => stated,
            None if versions.contains(&index) => (file.modified(), DateSource::Version),
            None => (file.modified(), DateSource::Modified),
        };
        ordered.dates.insert(index, date);
    }
    ordered
}

/// Orders the versions of each document by number, among the places that they have. Returns their indices.
fn order_versions(order: &mut [usize], files: &[DatedFile], compared: &[usize], wanted: DateOrder) -> Vec<usize> {
    let mut families: HashMap<&str, Vec<usize>> = HashMap::new();
    for index in compared {
        if let Some((name, _)) = &files[*index].version {
            families.entry(name).or_default().push(*index);
        }
    }
    families.retain(|_, members| members.len() > 1);
    for members in families.values() {
        permute(order, members, wanted, |it| files[it].version.as_ref().map(|(_, number)| number.clone()));
    }
    families.into_values().flatten().collect()
}

/// Sorts these files by a key, among the places that they have. Files with equal keys keep their order.
fn permute<K: Ord>(order: &mut [usize], members: &[usize], wanted: DateOrder, key: impl Fn(usize) -> K) {
    let places: Vec<usize> = (0..order.len()).filter(|it| members.contains(&order[*it])).collect();
    let mut sorted: Vec<usize> = places.iter().map(|it| order[*it]).collect();
    sorted.sort_by(|one, other| match wanted {
        DateOrder::Newest => key(*other).cmp(&key(*one)),
        DateOrder::Oldest => key(*one).cmp(&key(*other)),
    });
    places.into_iter().zip(sorted).for_each(|(place, index)| order[place] = index);
}

/// Adds the date to the reasons and the metadata of a hit.
pub(super) fn describe(hit: &mut SearchHit, wanted: DateOrder, (date, source): (NaiveDate, DateSource), explain: bool) {
    let from = match source {
        DateSource::Text => "stated in the text",
        DateSource::Name => "stated in the name",
        DateSource::Modified => "last change",
        DateSource::Version => "last change; ordered by version",
    };
    let separator = if hit.reasoning.is_empty() { "" } else { "; " };
    hit.reasoning.push_str(&format!("{separator}{} first: {date} ({from})", wanted.name()));
    if explain && let Some(explained) = hit.metadata.get_mut("explain").and_then(|it| it.as_object_mut()) {
        explained
            .insert("date_order".into(), json!({ "order": wanted.name(), "date": date.to_string(), "from": from }));
    }
}

/// A date with the year first or last, or with the name of the month, in the languages of [`month_names`].
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = [
        r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?|_(?P<month2>[0-9]{2})_(?P<day2>[0-9]{2})|\.(?P<month3>[0-9]{2})\.(?P<day3>[0-9]{2}))",
        r"(?P<compact>(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))",
        r"(?P<dotday>[0-9]{1,2})[.](?P<dotmonth>[0-9]{1,2})[.](?P<dotyear>[0-9]{4})",
        r"(?P<one>[0-9]{1,2})/(?P<two>[0-9]{1,2})/(?P<slashyear>[0-9]{4})",
        r"(?P<named>[0-9]{1,2})(?:st|nd|rd|th|er|º|\.)?[ _-]+(?:of |de )?(?P<name>{MONTHS})\.?,?[ _-]+(?:de |del )?(?P<namedyear>[0-9]{4})",
        r"(?P<first>{MONTHS})\.?[ _-]+(?:(?P<firstday>[0-9]{1,2})(?:st|nd|rd|th)?,?[ _-]+)?(?:of |de |del )?(?P<firstyear>[0-9]{4})",
    ]
    .join("|");
    // `mar` is a month beside a year only.
    let months = month_names::MONTHS.join(" ").replace(' ', "|") + "|mar";
    Regex::new(&format!("(?i){}", pattern.replace("{MONTHS}", &format!(r"\b(?:{months})\b"))))
        .expect("the pattern is a constant")
});
/// Words before the date from which a document holds.
static EFFECTIVE: LazyLock<Regex> = LazyLock::new(|| {
    let words = "in force (?:from|since|as of)|into force on|effective(?: date)?(?: from| as of| on)?|valid (?:from|since|as of)|applies from|\
                 as of|gültig (?:ab|seit)|in kraft (?:ab|seit)|stand(?: vom)?|en vigueur (?:le|depuis le|à partir du|à compter du)|\
                 à compter du|vigente (?:desde|a partir del)|en vigor (?:desde|a partir del)|válid[oa] (?:desde|a partir del)";
    Regex::new(&format!(r"(?i)\b(?:{words})(?: the| el| le| dem)?[: ]+")).expect("the pattern is a constant")
});
/// A version: `v3`, `version 2.1`, `Fassung 4`.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    let words = "version|versión|fassung|revision|révision|revisión|edition|draft|rev|ver|v";
    Regex::new(&format!(
        r"(?i)(?:^|[^\p{{L}}])(?:{words})[ ._-]?(?P<number>[0-9]{{1,4}}(?:\.[0-9]{{1,4}}){{0,3}})(?:[^\p{{L}}0-9]|$)"
    ))
    .expect("the pattern is a constant")
});

/// Returns the first date of a text; the day is the first one if only the month is written.
fn find_date(text: &str) -> Option<NaiveDate> {
    DATE.captures_iter(text).filter(|it| !is_within_number(text, it.get(0))).find_map(|it| read_date(&it))
}

/// Whether a match is part of a longer number.
fn is_within_number(text: &str, found: Option<regex::Match<'_>>) -> bool {
    let Some(found) = found else { return true };
    let is_digit = |it: Option<char>| it.is_some_and(|it| it.is_ascii_digit());
    is_digit(text[..found.start()].chars().next_back()) || is_digit(text[found.end()..].chars().next())
}

fn read_date(found: &regex::Captures<'_>) -> Option<NaiveDate> {
    let number = |name: &str| found.name(name)?.as_str().parse::<u32>().ok();
    let any = |names: [&str; 3]| names.into_iter().find_map(number);
    let month = |name: &str| month_of(&found.name(name)?.as_str().to_lowercase());
    if let Some(year) = number("year") {
        let (month, day) = (any(["month", "month2", "month3"])?, any(["day", "day2", "day3"]));
        return date(year, month, day.unwrap_or(1));
    }
    if let Some(digits) = number("compact") {
        return date(digits / 10_000, digits / 100 % 100, digits % 100);
    }
    if let Some(year) = number("dotyear") {
        return date(year, number("dotmonth")?, number("dotday")?);
    }
    if let Some(year) = number("slashyear") {
        let (one, two) = (number("one")?, number("two")?);
        // `3/4/2024` may be either of two days, so it is none.
        return match (one > 12, two > 12) {
            (true, false) => date(year, two, one),
            (false, true) => date(year, one, two),
            _ if one == two => date(year, one, two),
            _ => None,
        };
    }
    if let Some(year) = number("namedyear") {
        return date(year, month("name")?, number("named")?);
    }
    date(number("firstyear")?, month("first")?, number("firstday").unwrap_or(1))
}

fn month_of(name: &str) -> Option<u32> {
    month_names::month_number(name).or_else(|| (name == "mar").then_some(3))
}

fn date(year: u32, month: u32, day: u32) -> Option<NaiveDate> {
    let year = i32::try_from(year).ok().filter(|it| YEARS.contains(it))?;
    NaiveDate::from_ymd_opt(year, month, day)
}

/// Returns the date from which a text says that it holds.
fn effective_date(text: &str) -> Option<NaiveDate> {
    EFFECTIVE.find_iter(text).find_map(|label| {
        let rest = &text[label.end()..];
        let found = DATE.captures(rest).filter(|it| it.get(0).is_some_and(|it| it.start() == 0))?;
        read_date(&found)
    })
}

/// Returns what a text is a version of, and the number of the version: `agreement-v2` is version 2 of `agreement`.
fn find_version(text: &str) -> Option<(String, Vec<u32>)> {
    let found = VERSION.captures_iter(text).last()?;
    let number = found.name("number")?;
    let parts = number.as_str().split('.').map(|it| it.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let letters =
        |it: &str| it.chars().filter(|it| it.is_alphabetic()).flat_map(char::to_lowercase).collect::<String>();
    let name = letters(&text[..found.get(0)?.start()]);
    Some((name, parts))
}

/// Returns the start of a text, up to the end of its first line.
fn first_bytes(text: &str) -> &str {
    let text = text.trim_start();
    let line = text.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(TITLE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this name, text and time of change in days, as relevant as all others.
    fn file(name: &str, text: &str, day: i64) -> DatedFile {
        DatedFile::new(0.8, 2, name, day * 86_400_000_000_000, &[(text, 0)])
    }

    fn newest(files: &[DatedFile]) -> Vec<usize> {
        order_by_date(files, DateOrder::Newest).order
    }

    fn day(text: &str) -> Option<NaiveDate> {
        text.parse().ok()
    }

    #[test]
    fn dates_are_found_in_several_notations() {
        for (text, expected) in [
            ("Agreement of 12 March 2024", "2024-03-12"),
            ("Agreement of March 12, 2024", "2024-03-12"),
            ("Vertrag vom 12. März 2024", "2024-03-12"),
            ("Vertrag vom 12.3.2024", "2024-03-12"),
            ("Accord du 1er mars 2024", "2024-03-01"),
            ("Contrato de 12 de marzo de 2024", "2024-03-12"),
            ("minutes-2023-05-01", "2023-05-01"),
            ("minutes_20230501", "2023-05-01"),
            ("fees 2023-05", "2023-05-01"),
            ("fees May 2023", "2023-05-01"),
            ("25/12/2023", "2023-12-25"),
            ("Date: Tue, 12 Mar 2024 10:00:00", "2024-03-12"),
        ] {
            assert_eq!(find_date(text), day(expected), "{text}");
        }
        for text in
            ["version 3", "3/4/2024", "page 2024", "31 February 2024", "12345678901234", "in 2024", "1234-56-78", ""]
        {
            assert_eq!(find_date(text), None, "{text}");
        }
    }

    #[test]
    fn date_of_force_comes_before_other_dates() {
        let text = "Adopted on 3 May 2023. In force from 1 January 2025, the fee is 300 EUR.";
        assert_eq!(effective_date(text), day("2025-01-01"));
        assert_eq!(effective_date("Die Gebühr ist gültig ab 1. Januar 2025."), day("2025-01-01"));
        assert_eq!(effective_date("en vigueur à partir du 1er janvier 2025"), day("2025-01-01"));
        assert_eq!(effective_date("vigente desde el 1 de enero de 2025"), day("2025-01-01"));
        assert_eq!(effective_date("in force of habit, 1 January 2025"), None);
        let dated = file("fees-2020-01-01.txt", text, 1);
        assert_eq!(dated.stated, Some((day("2025-01-01").unwrap(), DateSource::Text)));
    }

    #[test]
    fn newest_or_oldest_stated_date_comes_first() {
        let files = [
            file("a.txt", "Agreement of 12 March 2023.\nThe fee is 100 EUR.", 9),
            file("b.txt", "Agreement of 1 June 2024.\nThe fee is 200 EUR.", 1),
            file("c-2022-01-01.txt", "The fee is 50 EUR.", 5),
        ];
        assert_eq!(newest(&files), [1, 0, 2]);
        assert_eq!(order_by_date(&files, DateOrder::Oldest).order, [2, 0, 1]);
    }

    #[test]
    fn files_without_stated_dates_are_ordered_by_change() {
        let files = [file("a.txt", "fee 1", 3), file("b.txt", "fee 2", 9), file("c.txt", "fee 3 of 1 May 2020", 6)];
        let ordered = order_by_date(&files, DateOrder::Newest);
        assert_eq!(ordered.order, [1, 2, 0]);
        assert!(ordered.dates.values().all(|it| it.1 == DateSource::Modified), "{ordered:?}");
    }

    #[test]
    fn versions_of_one_document_are_ordered_by_number() {
        let files = [
            file("agreement-v2.txt", "x", 5),
            file("agreement-v10.txt", "x", 5),
            file("agreement-v9.txt", "x", 5),
            file("other.txt", "x", 5),
        ];
        assert_eq!(newest(&files), [1, 2, 0, 3]);
        let dates = order_by_date(&files, DateOrder::Newest).dates;
        assert_eq!((dates[&0].1, dates[&3].1), (DateSource::Version, DateSource::Modified));
        let texts =
            ["Mooring agreement, version 2.1.", "Mooring agreement, version 2.", "Mooring agreement, version 3."];
        let files: Vec<DatedFile> = texts.iter().map(|it| file("x.txt", it, 5)).collect();
        assert_eq!(newest(&files), [2, 0, 1]);
    }

    #[test]
    fn less_relevant_file_keeps_its_place() {
        let mut files = [file("a.txt", "x", 1), file("b.txt", "x", 2), file("c.txt", "x", 9), file("d.txt", "x", 8)];
        files[2].score = 0.5;
        files[3].words = 1;
        assert_eq!(newest(&files), [1, 0, 2, 3]);
        assert_eq!(newest(&[]), Vec::<usize>::new());
    }
}
