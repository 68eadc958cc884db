//! Counts of files by kind, type, folder, date, size, language, author and owner, for the filters of the web page.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use chrono::{DateTime, Datelike, Local, NaiveDate};
use rusqlite::{Row, params_from_iter};

use crate::catalog::Catalog;
use crate::catalog::files::authors;
use crate::catalog::files::filter::Condition;
use crate::catalog::files::roots::load_roots;
use crate::catalog::files::row::path_from_bytes;
use crate::error::Result;
use crate::model::{CountGroup, CountedValue, Counts, FileFilter, FileId, FileKind, RootId, display_path};

/// Maximum number of values in a group.
const MAX_VALUES: usize = 40;

/// The value of files without an extension, as in the filter by extensions.
const NO_EXTENSION: &str = ".";

/// Number of latest months that are counted one by one.
const MONTHS: i32 = 6;

/// Bounds of the groups by size in bytes, with the label of the group below each.
const SIZES: [(u64, &str); 4] =
    [(10 << 10, "< 10 KB"), (1 << 20, "10 KB - 1 MB"), (10 << 20, "1 - 10 MB"), (100 << 20, "10 - 100 MB")];

/// The counts while files are added.
#[derive(Default)]
struct Tally {
    total: u64,
    types: HashMap<String, u64>,
    folders: HashMap<PathBuf, u64>,
    /// Files by year and month, the newest last.
    months: BTreeMap<(i32, u32), u64>,
    sizes: [u64; SIZES.len() + 1],
    languages: HashMap<String, u64>,
    /// Name and number of files of each person, by the folded words of the name.
    authors: HashMap<String, (String, u64)>,
    /// Whether a file counts for the month in which a mail in it was sent, not for that of its last change.
    mail_dates: bool,
    owners: HashMap<u32, u64>,
}

/// The columns that [`Tally::add`] reads.
const COLUMNS: &str = "root_id, path, extension, modified_ns, size, uid, language, authors, mail_last_ns";

/// The paths of the roots.
type Roots = HashMap<RootId, PathBuf>;

impl Catalog {
    /// Counts the files that match a filter.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::InvalidArgument`] naming a glob that cannot be parsed.
    pub fn counts(&self, filter: &FileFilter) -> Result<Counts> {
        let mut tally = Tally { mail_dates: filter.mail_dates, ..Tally::default() };
        self.database.read(|db| {
            let roots: Roots = load_roots(db)?.into_iter().map(|it| (it.id, it.path)).collect();
            let condition = Condition::new(db, filter, &self.owners)?;
            let sql = format!("SELECT {COLUMNS} FROM files WHERE {}", condition.sql);
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(&condition.values))?;
            while let Some(row) = rows.next()? {
                if condition.matches_glob(|| Ok((row.get(0)?, path_from_bytes(row.get(1)?))))? {
                    tally.add(row, &roots)?;
                }
            }
            Ok(())
        })?;
        Ok(tally.counts(|uid| self.owners.name(uid)))
    }

    /// Counts these files; unknown and removed ones are omitted. `mail_dates` tells whether the date of a mail is that on which
    /// it was sent.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn counts_of(&self, files: &HashSet<FileId>, mail_dates: bool) -> Result<Counts> {
        let mut tally = Tally { mail_dates, ..Tally::default() };
        self.database.read(|db| {
            let roots: Roots = load_roots(db)?.into_iter().map(|it| (it.id, it.path)).collect();
            let sql = format!("SELECT {COLUMNS} FROM files WHERE id = ?1 AND deleted_ns IS NULL");
            let mut statement = db.prepare_cached(&sql)?;
            for id in files {
                let mut rows = statement.query([id])?;
                if let Some(row) = rows.next()? {
                    tally.add(row, &roots)?;
                }
            }
            Ok(())
        })?;
        Ok(tally.counts(|uid| self.owners.name(uid)))
    }
}

impl Tally {
    /// Adds a row with [`COLUMNS`].
    fn add(&mut self, row: &Row<'_>, roots: &Roots) -> rusqlite::Result<()> {
        let path = path_from_bytes(row.get(1)?);
        let folder = roots.get(&row.get(0)?).map(|root| match path.components().next() {
            Some(first) if path.components().nth(1).is_some() => root.join(first),
            _ => root.clone(),
        });
        self.total += 1;
        folder.into_iter().for_each(|it| *self.folders.entry(it).or_default() += 1);
        *self.types.entry(row.get(2)?).or_default() += 1;
        let sent: Option<i64> = if self.mail_dates { row.get(8)? } else { None };
        let date = DateTime::from_timestamp_nanos(sent.map_or_else(|| row.get(3), Ok)?).with_timezone(&Local);
        *self.months.entry((date.year(), date.month())).or_default() += 1;
        let size = row.get::<_, i64>(4)?.unsigned_abs();
        self.sizes[SIZES.iter().position(|it| size < it.0).unwrap_or(SIZES.len())] += 1;
        *self.owners.entry(row.get(5)?).or_default() += 1;
        let language = row.get::<_, Option<String>>(6)?.filter(|it| !it.is_empty());
        language.into_iter().for_each(|it| *self.languages.entry(it).or_default() += 1);
        let authors = row.get::<_, Option<String>>(7)?.unwrap_or_default();
        // One person may write with several addresses, and be named without one as the author of a document.
        let names: HashMap<String, &str> =
            authors::split(&authors).map(authors::name_of).map(|it| (authors::needle(it), it)).collect();
        for (words, name) in names {
            self.authors.entry(words).or_insert_with(|| (name.to_string(), 0)).1 += 1;
        }
        Ok(())
    }

    fn counts(self, owner_name: impl Fn(u32) -> String) -> Counts {
        let kinds = by_kind(&self.types);
        let types = self.types.into_iter().map(|(extension, count)| {
            let value = if extension.is_empty() { NO_EXTENSION.to_string() } else { extension };
            CountedValue { label: value.clone(), value, count }
        });
        let folders = self.folders.into_iter().map(|(path, count)| CountedValue {
            label: path.file_name().map_or_else(|| "/".into(), |it| it.to_string_lossy().into_owned()),
            value: display_path(&path).into_owned(),
            count,
        });
        let plain = |(value, count): (String, u64)| CountedValue { label: value.clone(), value, count };
        let owners = self.owners.into_iter().map(|(uid, count)| (owner_name(uid), count)).map(plain);
        let group = |name: &str, values: Vec<CountedValue>| CountGroup { name: name.into(), values };
        Counts {
            total: self.total,
            complete: true,
            groups: vec![
                group("kind", most_frequent(kinds.into_iter())),
                group("type", most_frequent(types)),
                group("folder", most_frequent(folders)),
                group("date", by_date(&self.months)),
                group("size", by_size(&self.sizes)),
                group("language", most_frequent(self.languages.into_iter().map(plain))),
                group("person", most_frequent(self.authors.into_values().map(plain))),
                group("owner", most_frequent(owners)),
            ],
        }
    }
}

/// Returns the values with the most files, ordered by count and name.
fn most_frequent(values: impl Iterator<Item = CountedValue>) -> Vec<CountedValue> {
    let mut values: Vec<CountedValue> = values.collect();
    values.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
    values.truncate(MAX_VALUES);
    values
}

/// Returns the files of each kind, judged by the extension. The value has all extensions of the kind, so that it does not
/// depend on the counted files; that of the other kinds has the most frequent extensions.
fn by_kind(types: &HashMap<String, u64>) -> Vec<CountedValue> {
    let mut counts: BTreeMap<&str, (FileKind, u64)> = BTreeMap::new();
    for (extension, count) in types {
        let kind = FileKind::from_extension(extension);
        counts.entry(kind.name()).or_insert((kind, 0)).1 += count;
    }
    let value = |kind: FileKind| match kind {
        FileKind::Other => other_extensions(types),
        _ => kind.extensions().join(","),
    };
    counts
        .into_iter()
        .map(|(name, (kind, count))| CountedValue { label: name.into(), value: value(kind), count })
        .collect()
}

/// Returns the most frequent extensions that belong to no kind, joined by commas.
fn other_extensions(types: &HashMap<String, u64>) -> String {
    let is_plain = |it: &str| !it.contains(|it: char| it == ',' || it.is_whitespace() || it.is_control());
    let mut others: Vec<(&str, u64)> = types
        .iter()
        .map(|(extension, count)| (extension.as_str(), *count))
        .filter(|(extension, _)| FileKind::from_extension(extension) == FileKind::Other && is_plain(extension))
        .collect();
    others.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    others.truncate(MAX_VALUES);
    let names: Vec<&str> = others.iter().map(|it| if it.0.is_empty() { NO_EXTENSION } else { it.0 }).collect();
    names.join(",")
}

/// Returns the latest months one by one, then the years before them; the newest first.
fn by_date(months: &BTreeMap<(i32, u32), u64>) -> Vec<CountedValue> {
    let Some(((year, month), _)) = months.last_key_value() else { return Vec::new() };
    let index = |year: i32, month: u32| year * 12 + month as i32 - 1;
    let first_single = index(*year, *month) - MONTHS + 1;
    let mut values = Vec::new();
    let mut years: BTreeMap<i32, u64> = BTreeMap::new();
    for ((year, month), count) in months.iter().rev() {
        let at = index(*year, *month);
        if at < first_single {
            *years.entry(*year).or_default() += count;
            continue;
        }
        let value = format!("{}..{}", first_day(at), first_day(at + 1));
        values.push(CountedValue { label: format!("{year}-{month:02}"), value, count: *count });
    }
    for (year, count) in years.into_iter().rev() {
        let (start, next) = (index(year, 1), index(year + 1, 1));
        let end = first_single.min(next);
        let value = format!("{}..{}", first_day(start), first_day(end));
        // Without the months that are counted one by one, it is not the whole year.
        let label = if end < next { format!("{year}-01 \u{2013} {year}-{:02}", end - start) } else { year.to_string() };
        values.push(CountedValue { label, value, count });
    }
    values.truncate(MAX_VALUES);
    values
}

/// Returns the first day of a month, given as months since the year 0, as a date.
fn first_day(month: i32) -> String {
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) as u32 + 1);
    NaiveDate::from_ymd_opt(year, month, 1).map(|it| it.to_string()).unwrap_or_default()
}

fn by_size(sizes: &[u64; SIZES.len() + 1]) -> Vec<CountedValue> {
    let mut values = Vec::new();
    let mut least = 0;
    for (at, count) in sizes.iter().enumerate() {
        let (most, label) = match SIZES.get(at) {
            Some((bound, label)) => ((bound - 1).to_string(), label.to_string()),
            None => (String::new(), "> 100 MB".to_string()),
        };
        let from = if least == 0 { String::new() } else { least.to_string() };
        if *count > 0 {
            values.push(CountedValue { label, value: format!("{from}..{most}"), count: *count });
        }
        least = SIZES.get(at).map_or(0, |it| it.0);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_cover_each_byte_once() {
        let values: Vec<String> = by_size(&[1; 5]).into_iter().map(|it| it.value).collect();
        assert_eq!(values, ["..10239", "10240..1048575", "1048576..10485759", "10485760..104857599", "104857600.."]);
        assert!(by_size(&[0; 5]).is_empty());
    }

    #[test]
    fn kinds_have_all_their_extensions_and_others_the_most_frequent() {
        let types = [("xlsx", 1), ("ods", 3), ("pdf", 2), ("", 4), ("zzz", 5), (" smith letter", 6), ("a,b", 7)];
        let types = types.map(|(name, count)| (name.to_string(), count));
        let kinds = by_kind(&HashMap::from(types));
        let counts: Vec<(&str, u64)> = kinds.iter().map(|it| (it.label.as_str(), it.count)).collect();
        assert_eq!(counts, [("other", 22), ("pdf", 2), ("spreadsheet", 4)]);
        assert_eq!(kinds[0].value, "zzz,.");
        assert!(kinds[2].value.split(',').any(|it| it == "ods") && kinds[2].value.split(',').any(|it| it == "xls"));
    }

    #[test]
    fn months_are_single_and_earlier_years_together() {
        let months = BTreeMap::from([((2026, 2), 3), ((2025, 12), 2), ((2025, 8), 1), ((2025, 1), 4), ((2023, 5), 5)]);
        let values: Vec<(String, String, u64)> =
            by_date(&months).into_iter().map(|it| (it.label, it.value, it.count)).collect();
        let expected = [
            ("2026-02", "2026-02-01..2026-03-01", 3),
            ("2025-12", "2025-12-01..2026-01-01", 2),
            ("2025-01 \u{2013} 2025-08", "2025-01-01..2025-09-01", 5),
            ("2023", "2023-01-01..2024-01-01", 5),
        ];
        assert_eq!(values, expected.map(|(label, value, count)| (label.to_string(), value.to_string(), count)));
    }
}
