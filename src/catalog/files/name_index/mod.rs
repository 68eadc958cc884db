//! Full-text index of file names: folders, the file itself, attachments, members of archives, sheets.
//!
//! SQLite (FTS5) keeps one row for each file, under the id of the file. Every change of a name updates the row in the same
//! transaction. Two cases are indexed in the background, see [`Catalog::fill_names`]: a catalog of an older vic, and a
//! large root that becomes part of an outer root.
//!
//! A search looks up the rare words of a question, and only checks whether the files found also contain the common ones. A
//! word in the names of half a million files therefore takes no longer than a word in a few thousand.

mod words;

use std::collections::{HashMap, HashSet};

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::Catalog;
use crate::catalog::database::DbError;
use crate::catalog::files::authors;
use crate::catalog::files::row::{path_from_bytes, search_name};
use crate::error::Result;
use crate::model::{Contents, FileId};

pub use crate::catalog::files::name_index::words::{NameWord, name_words};

/// Key in the table `meta` whose value is the id of the last file whose names the background fill has indexed; it exists
/// only until the fill ends.
const FILLED_UP_TO: &str = "names_filled_to";
/// Number of files whose names are indexed in one background transaction; other writers wait for its end.
const FILL_BATCH: i64 = 2_000;

/// Maximum total bytes of the names inside a file (attachments, archive members, sheets); further names are not stored.
const MAX_NAMES_BYTES: usize = 64 << 10;
/// Separates the names inside a file in the database; names with this character get a blank instead.
const SEPARATOR: char = '\n';

/// Words of a question beyond this number are ignored.
const MAX_WORDS: usize = 32;
/// A word in the names of more files than this is common: it contributes no candidates unless no rarer word matches.
const COMMON_MATCHES: usize = 1_000;
/// The files that match a word are counted up to this number, to compute the weight of the word.
const MAX_COUNTED: usize = 5_000;
/// The search for a word stops after this many matching files, because most of them may be outside the allowed files.
const MAX_SKIPPED: usize = 200_000;
/// If a query allows at most this many files, their names are compared one by one, without searching the index.
const MAX_COMPARED: usize = 2_000;

/// Weight of a word in a name inside the file, such as an attachment; a word in the file's own name has weight 1.
const INNER_WEIGHT: f32 = 0.9;
const FOLDER_WEIGHT: f32 = 0.5;
/// Weight of the fraction of the file's own name that the question contains; it orders files that match the same words.
const OWN_NAME_WEIGHT: f32 = 0.1;

/// A file whose names match words of a question.
#[derive(Clone, Debug, PartialEq)]
pub struct NameMatch {
    /// Id of the file in the catalog.
    pub file_id: FileId,
    /// How much of the question the names of the file match, 0 to 1: rare words and the file's own name weigh more.
    pub share: f32,
    /// Indices of the words of the question that match.
    pub matched_words: Vec<usize>,
}

impl Catalog {
    /// Returns up to `limit` files whose names match `words`, best first, among the files `among` (sorted) or all files.
    /// If many thousands match the same common words, only the newest are considered.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn find_by_name(&self, words: &[NameWord], among: Option<&[FileId]>, limit: usize) -> Result<Vec<NameMatch>> {
        let words = &words[..words.len().min(MAX_WORDS)];
        if words.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        self.database.read(|db| {
            let few = among.filter(|it| it.len() <= MAX_COMPARED);
            let (weights, files) = match few {
                Some(few) => (None, few.to_vec()),
                None => find_candidates(db, words, among).map(|(weights, files)| (Some(weights), files))?,
            };
            let mut compared = Vec::new();
            for file in &files {
                compared.extend(compare_names(db, *file, words)?);
            }
            let weights = weights.unwrap_or_else(|| weights_among(&compared, words.len(), files.len()));
            let mut named: Vec<NameMatch> = compared.into_iter().map(|it| it.into_match(&weights)).collect();
            named.sort_unstable_by(|a, b| b.share.total_cmp(&a.share).then(b.file_id.cmp(&a.file_id)));
            named.truncate(limit);
            Ok(named)
        })
    }

    /// Returns the words of all names that begin with the character `first` and differ in length from `word` by at most two
    /// characters, folded.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn name_words_like(&self, word: &str) -> Result<Vec<String>> {
        let Some(first) = word.chars().next() else { return Ok(Vec::new()) };
        let length = word.chars().count() as i64;
        self.database.read(|db| {
            db.execute_batch("CREATE VIRTUAL TABLE IF NOT EXISTS temp.name_terms USING fts5vocab (main, names, row)")?;
            let mut statement = db.prepare_cached(
                "SELECT term FROM temp.name_terms WHERE term >= ?1 AND term < ?2 AND length(term) BETWEEN ?3 AND ?4",
            )?;
            let end = char::from_u32(u32::from(first) + 1).unwrap_or(char::MAX);
            let bounds = params![first.to_string(), end.to_string(), length - 2, length + 2];
            Ok(statement.query_map(bounds, |row| row.get(0))?.collect::<Result<_, _>>()?)
        })
    }

    /// Returns the files with these words in sequence in one of their names, sorted by id.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn with_name_phrase(&self, run: &[String]) -> Result<Vec<FileId>> {
        let run: Vec<String> =
            run.iter().map(|it| vic_words::fold(it).into_owned()).filter(|it| !it.is_empty()).collect();
        if run.is_empty() {
            return Ok(Vec::new());
        }
        let query = run.iter().map(|it| quote_word(it)).collect::<Vec<_>>().join(" AND ");
        self.database.read(|db| {
            let mut files = Vec::new();
            // A single word that the tokenizer does not split is a term of the index: every match is exact, so no name is
            // read.
            let is_exact = run.len() == 1 && query.len() == run[0].len() + 2;
            for file in collect_matches(db, &query, None, |it| it.count >= MAX_SKIPPED)?.allowed {
                if is_exact || raw_names(db, file)?.iter().any(|it| contains_phrase(it, &run)) {
                    files.push(file);
                }
            }
            files.sort_unstable();
            Ok(files)
        })
    }

    /// Returns the names inside these files (such as attachments) and their mail dates; files without any are omitted.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn inner_contents(&self, files: &[FileId]) -> Result<HashMap<FileId, Contents>> {
        self.database.read(|db| {
            let mut found = HashMap::new();
            for file in files {
                let contents = load_contents(db, *file)?.unwrap_or_default();
                if contents != Contents::default() {
                    found.insert(*file, contents);
                }
            }
            Ok(found)
        })
    }

    /// Indexes the names of files whose rows in the index are missing or outdated: files recorded by an older vic, which may
    /// also have folded the names differently, and
    /// files of a large root that became part of an outer root. Calls `goes_on` before each batch and stops if it
    /// returns false.
    ///
    /// # Errors
    /// Errors of SQLite; the batches that were committed are kept.
    pub fn fill_names(&self, goes_on: &dyn Fn() -> bool) -> Result<()> {
        while let Some(after) = self.meta_get(FILLED_UP_TO)?
            && goes_on()
        {
            let after: FileId = after.parse().unwrap_or_default();
            self.database.write(|db| fill_batch(db, after))?;
        }
        Ok(())
    }

    /// Merges the segments of the name index, which erases the remains of deleted names.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn compact_names(&self) -> Result<()> {
        self.database.write(|db| {
            db.execute("INSERT INTO names (names) VALUES ('optimize')", [])?;
            Ok(())
        })
    }
}

/// Indexes the names of the next batch of files and records the progress in `meta`.
fn fill_batch(db: &Transaction<'_>, after: FileId) -> Result<(), DbError> {
    let mut statement = db.prepare_cached(
        "SELECT id, path, inner_names FROM files WHERE id > ?1 AND +deleted_ns IS NULL ORDER BY id LIMIT ?2",
    )?;
    let row =
        |row: &Row<'_>| Ok((row.get::<_, FileId>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Option<String>>(2)?));
    let files: Vec<_> = statement.query_map(params![after, FILL_BATCH], row)?.collect::<rusqlite::Result<_>>()?;
    for (file, path, inner) in &files {
        write_names(db, *file, path, inner.as_deref().unwrap_or_default(), true)?;
        let name = search_name(&path_from_bytes(path.clone()));
        db.prepare_cached("UPDATE files SET name = ?2 WHERE id = ?1 AND name <> ?2")?.execute(params![file, name])?;
    }
    match files.last() {
        Some(last) => db
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
            .execute(params![FILLED_UP_TO, last.0.to_string()])?,
        None => db.execute("DELETE FROM meta WHERE key = ?1", [FILLED_UP_TO])?,
    };
    Ok(())
}

/// Adds the names of a new file to the index.
pub(in crate::catalog) fn add_names(db: &Transaction<'_>, file: FileId, path: &[u8]) -> rusqlite::Result<()> {
    write_names(db, file, path, "", false)
}

/// Updates the index after a file, or a name inside it, was renamed.
pub(in crate::catalog) fn update_names(db: &Transaction<'_>, file: FileId) -> rusqlite::Result<()> {
    let sql = "SELECT path, inner_names FROM files WHERE id = ?1";
    let (path, inner): (Vec<u8>, Option<String>) =
        db.prepare_cached(sql)?.query_row([file], |row| Ok((row.get(0)?, row.get(1)?)))?;
    write_names(db, file, &path, inner.as_deref().unwrap_or_default(), true)
}

/// Updates the index for these files (sorted). A large batch would block other writers: its files keep their old names in
/// the index until [`Catalog::fill_names`] reaches them.
pub(in crate::catalog) fn update_names_of(db: &Transaction<'_>, files: &[FileId]) -> rusqlite::Result<()> {
    let Some(first) = files.first().filter(|_| files.len() > FILL_BATCH as usize) else {
        return files.iter().try_for_each(|it| update_names(db, *it));
    };
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE \
               SET value = min(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))";
    db.prepare_cached(sql)?.execute(params![FILLED_UP_TO, (first - 1).to_string()])?;
    Ok(())
}

/// Removes the names of a deleted file from the index.
pub(in crate::catalog) fn remove_names(db: &Transaction<'_>, file: FileId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE files SET inner_names = NULL WHERE id = ?1 AND inner_names IS NOT NULL")?
        .execute([file])?;
    db.prepare_cached("DELETE FROM names WHERE rowid = ?1")?.execute([file])?;
    Ok(())
}

/// Joins the names inside a file to the text that the catalog stores; `None` when there are none.
pub(in crate::catalog) fn join_names(names: &[String]) -> Option<String> {
    let mut text = String::new();
    for name in names.iter().map(|it| it.replace(SEPARATOR, " ")) {
        if text.len() + name.len() >= MAX_NAMES_BYTES {
            break;
        }
        text.push_str(&name);
        text.push(SEPARATOR);
    }
    text.pop();
    (!text.is_empty()).then_some(text)
}

fn write_names(db: &Transaction<'_>, file: FileId, path: &[u8], inner: &str, is_known: bool) -> rusqlite::Result<()> {
    if is_known {
        db.prepare_cached("DELETE FROM names WHERE rowid = ?1")?.execute([file])?;
    }
    let path = String::from_utf8_lossy(path);
    let (folders, own) = path.rsplit_once('/').unwrap_or(("", &path));
    db.prepare_cached("INSERT INTO names (rowid, own, folders, inside) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        file,
        index_text(own),
        index_text(folders),
        index_text(inner)
    ])?;
    Ok(())
}

/// Returns the words of `names` separated by blanks: each whole word, followed by its parts.
fn index_text(names: &str) -> String {
    let mut text = String::with_capacity(names.len() * 2);
    for word in name_words(names) {
        for it in std::iter::once(&word.whole).chain(&word.parts) {
            text.push_str(it);
            text.push(' ');
        }
    }
    text
}

/// Quotes a word for FTS5. A word that the tokenizer splits (`1⁄2`) becomes several strings joined by AND, because the
/// index does not support phrases.
fn quote_word(word: &str) -> String {
    // Splits at letters in squares and circles too, which the tokenizer treats as symbols.
    let is_apart = |it: char| !it.is_alphanumeric() || matches!(it, '\u{1f130}'..='\u{1f189}');
    let parts: Vec<String> = word.split(is_apart).filter(|it| !it.is_empty()).map(|it| format!("\"{it}\"")).collect();
    match parts.as_slice() {
        [] => "\"\"".to_string(),
        [only] => only.clone(),
        _ => format!("({})", parts.join(" AND ")),
    }
}

/// Returns the FTS5 query of a word, which matches the word itself, the word with other endings, or all of its parts.
fn word_query(word: &NameWord) -> String {
    let mut ways = vec![quote_word(&word.whole)];
    ways.extend(words::without_ending(&word.whole).map(quote_word));
    ways.extend(words::with_endings(&word.whole).map(|it| quote_word(&it)));
    if word.parts.len() > 1 {
        let parts: Vec<String> = word.parts.iter().map(|it| quote_word(it)).collect();
        ways.push(format!("({})", parts.join(" AND ")));
    }
    format!("({})", ways.join(" OR "))
}

/// Files that match a query of the name index.
struct Matches {
    /// The matches among the allowed files, newest first, up to the limit of the search.
    allowed: Vec<FileId>,
    /// Number of all matches seen, allowed or not.
    count: usize,
}

/// Collects the files that match a query, newest first, until `is_enough` returns true.
fn collect_matches(
    db: &Transaction<'_>,
    query: &str,
    among: Option<&[FileId]>,
    is_enough: impl Fn(&Matches) -> bool,
) -> rusqlite::Result<Matches> {
    let mut statement = db.prepare_cached("SELECT rowid FROM names WHERE names MATCH ?1 ORDER BY rowid DESC")?;
    let mut rows = statement.query([query])?;
    let mut found = Matches { allowed: Vec::new(), count: 0 };
    while let Some(row) = rows.next()? {
        found.count += 1;
        let file = row.get(0)?;
        if among.is_none_or(|it| it.binary_search(&file).is_ok()) {
            found.allowed.push(file);
        }
        if is_enough(&found) {
            break;
        }
    }
    Ok(found)
}

/// Returns the weight of each word, and the candidates to compare with the question. Files outside `among` do not count.
fn find_candidates(
    db: &Transaction<'_>,
    words: &[NameWord],
    among: Option<&[FileId]>,
) -> rusqlite::Result<(Vec<f32>, Vec<FileId>)> {
    let last: Option<FileId> = db.prepare_cached("SELECT max(id) FROM files")?.query_row([], |row| row.get(0))?;
    let all = among.map_or(last.unwrap_or_default() as usize, <[FileId]>::len);
    let (mut weights, mut rare, mut common) = (Vec::new(), HashSet::new(), Vec::new());
    let is_known = |it: &Matches| it.allowed.len() >= MAX_COUNTED || it.count >= MAX_SKIPPED;
    for word in words {
        let mut matching = collect_matches(db, &word_query(word), among, is_known)?;
        // Searches by prefix only if nothing else matches, because FTS5 collects all matches of a prefix before it returns
        // the first.
        let whole = quote_word(&word.whole);
        if matching.allowed.is_empty() && words::allows_prefix(&word.whole) && whole.ends_with('"') {
            matching = collect_matches(db, &format!("{whole}*"), among, is_known)?;
        }
        weights.push(word_weight(matching.allowed.len(), all));
        match matching.allowed.len() {
            0..=COMMON_MATCHES => rare.extend(matching.allowed),
            _ => common.push((word, matching.allowed)),
        }
    }
    if common.len() > 1 {
        let all = common.iter().map(|it| word_query(it.0)).collect::<Vec<_>>().join(" AND ");
        rare.extend(
            collect_matches(db, &all, among, |it| it.allowed.len() >= COMMON_MATCHES || it.count >= MAX_SKIPPED)?
                .allowed,
        );
    }
    if rare.is_empty() {
        rare.extend(common.into_iter().flat_map(|it| it.1.into_iter().take(COMMON_MATCHES)));
    }
    Ok((weights, rare.into_iter().collect()))
}

/// Returns the inverse document frequency of a word that occurs in `files` of `all` files.
fn word_weight(files: usize, all: usize) -> f32 {
    (all.max(1) as f32 / (files as f32).max(0.5)).ln_1p()
}

/// Returns the weight of each word, computed from the files that were compared.
fn weights_among(compared: &[Comparison], words: usize, all: usize) -> Vec<f32> {
    let files = |at: usize| compared.iter().filter(|it| it.similarity[at] > 0.0).count();
    (0..words).map(|at| word_weight(files(at), all)).collect()
}

/// How similar the names of a file are to the words of a question.
struct Comparison {
    file_id: FileId,
    /// Similarity to each word of the question, 0 to 1.
    similarity: Vec<f32>,
    /// Fraction of the words in the file's own name that the question contains.
    own_name_fraction: f32,
}

impl Comparison {
    fn into_match(self, weights: &[f32]) -> NameMatch {
        let share: f32 = self.similarity.iter().zip(weights).map(|(likeness, weight)| likeness * weight).sum();
        let whole = 1.0 - OWN_NAME_WEIGHT + OWN_NAME_WEIGHT * self.own_name_fraction;
        let held = (0..weights.len()).filter(|at| self.similarity[*at] > 0.0).collect();
        NameMatch { file_id: self.file_id, share: whole * share / weights.iter().sum::<f32>(), matched_words: held }
    }
}

/// Compares the names of a file with the words; returns `None` when no word matches.
fn compare_names(db: &Transaction<'_>, file_id: FileId, words: &[NameWord]) -> rusqlite::Result<Option<Comparison>> {
    let sql = "SELECT own, folders, inside FROM names WHERE rowid = ?1";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([file_id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let places =
        [(sorted_words(row, 0)?, 1.0), (sorted_words(row, 2)?, INNER_WEIGHT), (sorted_words(row, 1)?, FOLDER_WEIGHT)];
    let best = |word: &NameWord| {
        places.iter().map(|(names, worth)| worth * words::similarity(word, names)).fold(0.0, f32::max)
    };
    let likeness: Vec<f32> = words.iter().map(best).collect();
    let own = &places[0].0;
    let asked = own.iter().filter(|it| words.iter().any(|word| words::similarity(word, &[it]) > 0.0)).count();
    let asked = asked as f32 / own.len().max(1) as f32;
    Ok(likeness.iter().any(|it| *it > 0.0).then_some(Comparison {
        file_id,
        similarity: likeness,
        own_name_fraction: asked,
    }))
}

fn sorted_words<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Vec<&'r str>> {
    let mut words: Vec<&str> = row.get_ref(column)?.as_str()?.split(' ').filter(|it| !it.is_empty()).collect();
    words.sort_unstable();
    Ok(words)
}

/// Returns the names of a file as they are spelt on disk, not folded: its folders, its own name, and the names inside the
/// file (attachments, archive members, sheets).
fn raw_names(db: &Transaction<'_>, file: FileId) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT path, inner_names FROM files WHERE id = ?1 AND deleted_ns IS NULL";
    let row = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<String>>(1)?));
    let Some((path, inner)) = db.prepare_cached(sql)?.query_row([file], row).optional()? else {
        return Ok(Vec::new());
    };
    let path = path_from_bytes(path).to_string_lossy().into_owned();
    Ok(path.split('/').chain(inner.unwrap_or_default().split(SEPARATOR)).map(String::from).collect())
}

/// Returns whether a name contains these words in sequence, as whole words or as parts of words.
fn contains_phrase(name: &str, run: &[String]) -> bool {
    let words = name_words(name);
    let whole: Vec<&str> = words.iter().map(|it| it.whole.as_str()).collect();
    let parts = |it: &'_ NameWord| if it.parts.is_empty() { vec![it.whole.clone()] } else { it.parts.clone() };
    let parts: Vec<String> = words.iter().flat_map(parts).collect();
    whole.windows(run.len()).any(|it| it == run) || parts.windows(run.len()).any(|it| it == run)
}

fn load_contents(db: &Transaction<'_>, file: FileId) -> rusqlite::Result<Option<Contents>> {
    let sql = "SELECT inner_names, mail_first_ns, mail_last_ns, authors, subject FROM files WHERE id = ?1 AND deleted_ns IS NULL";
    let row = |row: &Row<'_>| {
        let names: Option<String> = row.get(0)?;
        let sent_ns = row.get::<_, Option<i64>>(1)?.zip(row.get(2)?);
        let names = names.unwrap_or_default();
        let names = names.split(SEPARATOR).filter(|it| !it.is_empty()).map(String::from).collect();
        let authors = authors::split(&row.get::<_, Option<String>>(3)?.unwrap_or_default()).map(String::from).collect();
        Ok(Contents { names, sent_ns, authors, subject: row.get(4)? })
    };
    db.prepare_cached(sql)?.query_row([file], row).optional()
}
