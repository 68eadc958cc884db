//! The names of all files, in memory, for finding those that hold a word.
//!
//! Where nothing that was read speaks of a question, names are all there is, and SQLite takes half a microsecond for each:
//! beside 200,000 files that nobody reads a question took 101 ms at the median, and takes 4 with this.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem::Finder;
use rusqlite::Transaction;

use crate::model::FileId;

/// Ends a name; no name holds it.
const END: u8 = 0;

/// Names that may have been added, of what was new or renamed, before all are read again: what is gone leaves only then.
const ADDED: usize = 20_000;

/// The names. Empty until they are needed first.
#[derive(Default)]
pub(super) struct Names(Mutex<List>);

#[derive(Default)]
struct List {
    /// One after the other, each with its [`END`].
    text: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
    files: Vec<FileId>,
    /// The last file that was read: numbers grow, so all others are new.
    last: Option<FileId>,
    /// How many were there when all were read.
    read: usize,
}

impl List {
    fn add(&mut self, file: FileId, name: &str) {
        self.text.extend_from_slice(name.as_bytes());
        self.text.push(END);
        self.ends.push(self.text.len() as u32);
        self.files.push(file);
    }

    fn is_worn(&self) -> bool {
        self.files.len() - self.read > self.read.max(ADDED)
    }

    /// Reads what is new, or everything when that is due.
    fn catch_up(&mut self, db: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.is_worn() {
            *self = List::default();
        }
        // They do not come by number at first: the last may be known when others are not.
        self.read(db).inspect_err(|_| *self = List::default())
    }

    fn read(&mut self, db: &Transaction<'_>) -> rusqlite::Result<()> {
        let sql = match self.last {
            // The small index holds all that is asked for.
            None => "SELECT id, name FROM files INDEXED BY files_name WHERE deleted_ns IS NULL AND id > ?1",
            Some(_) => "SELECT id, name FROM files WHERE id > ?1 AND +deleted_ns IS NULL",
        };
        let mut statement = db.prepare_cached(sql)?;
        let (first, after) = (self.last.is_none(), self.last.unwrap_or_default());
        let mut rows = statement.query([after])?;
        while let Some(row) = rows.next()? {
            let file = row.get(0)?;
            self.add(file, row.get_ref(1)?.as_str()?);
            self.last = self.last.max(Some(file));
        }
        if first {
            self.read = self.files.len();
        }
        Ok(())
    }

    /// How many of these words each name holds, of those that hold at least half.
    fn held(&self, words: &[String]) -> HashMap<FileId, usize> {
        let mut held = vec![0_u8; self.files.len()];
        for word in words {
            let finder = Finder::new(word);
            let (mut at, mut name) = (0, 0);
            while let Some(found) = finder.find(&self.text[at..]) {
                while self.ends[name] as usize <= at + found {
                    name += 1;
                }
                held[name] += 1;
                at = self.ends[name] as usize;
            }
        }
        let mut best = HashMap::new();
        let held = held.into_iter().map(usize::from);
        // A word may stand in nearly all names: only those that count are sorted out.
        for (file, held) in self.files.iter().zip(held).filter(|it| it.1 > 0 && it.1 * 2 >= words.len()) {
            let most = best.entry(*file).or_insert(0);
            *most = held.max(*most);
        }
        best
    }
}

impl Names {
    /// Returns up to `limit` files whose names hold at least half of these words, those with most words first and then the
    /// newest. Some may have had their names before, or be gone. Call it first thing in the transaction: what it reads is then
    /// no older than what it was told by [`Names::renamed`].
    pub(super) fn holding(
        &self,
        db: &Transaction<'_>,
        words: &[String],
        limit: usize,
    ) -> rusqlite::Result<Vec<FileId>> {
        let mut list = self.list();
        list.catch_up(db)?;
        let held = list.held(words);
        drop(list);
        let mut files: Vec<_> = held.into_iter().collect();
        files.sort_unstable_by_key(|(file, held)| std::cmp::Reverse((*held, *file)));
        files.truncate(limit);
        Ok(files.into_iter().map(|it| it.0).collect())
    }

    /// Learns new names of files. Call it when they are committed.
    pub(super) fn renamed(&self, files: impl IntoIterator<Item = (FileId, String)>) {
        let mut list = self.list();
        if list.last.is_some() {
            files.into_iter().for_each(|(file, name)| list.add(file, &name));
        }
    }

    /// Has all read again: any may have changed.
    pub(super) fn forget(&self) {
        *self.list() = List::default();
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(names: &[(FileId, &str)], words: &[&str]) -> Vec<(FileId, usize)> {
        let mut list = List::default();
        names.iter().for_each(|(file, name)| list.add(*file, name));
        let mut held: Vec<_> =
            list.held(&words.iter().map(|it| (*it).into()).collect::<Vec<_>>()).into_iter().collect();
        held.sort_unstable();
        held
    }

    #[test]
    fn a_word_counts_once_for_each_name_that_holds_it() {
        let names = [(3, "tern tern.md"), (5, ""), (7, "heron.md"), (9, "tern and heron.md")];
        assert_eq!(held(&names, &["tern", "heron"]), [(3, 1), (7, 1), (9, 2)]);
        assert_eq!(held(&names, &["md"]), [(3, 1), (7, 1), (9, 1)]);
        assert_eq!(held(&names, &["dheron", "mdtern"]), []);
        assert_eq!(held(&[], &["tern"]), []);
        assert_eq!(held(&[(3, "tern.md"), (3, "tern, the heron.md")], &["tern", "heron"]), [(3, 2)], "renamed");
    }
}
