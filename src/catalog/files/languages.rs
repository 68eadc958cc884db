//! The languages of indexed files.

use rusqlite::{Row, params};
use vic_words::Language;

use crate::catalog::Catalog;
use crate::catalog::files::row::signed;
use crate::error::Result;
use crate::model::FileId;

impl Catalog {
    /// Returns the number of files in each language that their words tell, the most frequent first.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn languages(&self) -> Result<Vec<(Language, u64)>> {
        let sql = "SELECT language, count(*) FROM files INDEXED BY files_language \
                   WHERE deleted_ns IS NULL AND language IS NOT NULL GROUP BY language ORDER BY 2 DESC";
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let row = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
            let counts = statement.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(counts.into_iter().filter_map(|(code, files)| Some((Language::from_code(&code)?, files))).collect())
        })
    }

    /// Returns up to `limit` files that were indexed by a vic that did not record languages, above the id `after`, sorted.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn without_language(&self, after: FileId, limit: usize) -> Result<Vec<FileId>> {
        let sql = "SELECT id FROM files WHERE id > ?1 AND +deleted_ns IS NULL AND +state = 'indexed' AND language IS NULL \
                   ORDER BY id LIMIT ?2";
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let ids = statement.query_map(params![after, signed(limit as u64)], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Records the languages of files that have none recorded; `None` for a file whose words do not tell it.
    ///
    /// # Errors
    /// Errors of SQLite.
    pub fn set_languages(&self, languages: &[(FileId, Option<Language>)]) -> Result<()> {
        self.database.write(|db| {
            let sql = "UPDATE files SET language = ?2 WHERE id = ?1 AND language IS NULL AND state = 'indexed'";
            let mut statement = db.prepare_cached(sql)?;
            for (file, language) in languages {
                statement.execute(params![file, language.map_or("", Language::code)])?;
            }
            Ok(())
        })
    }
}
