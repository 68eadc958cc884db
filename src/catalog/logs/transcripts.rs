//! Log of agent runs: every question with the answer and the tool calls of the model.

use std::path::Path;

use rusqlite::params;

use crate::catalog::database::{APPEND_CACHE_KIB, Database, Durability, Format};
use crate::catalog::files::row::signed;
use crate::catalog::quarantine;
use crate::error::Result;
use crate::model::TranscriptRecord;

/// Maximum number of agent runs kept; beyond it, the oldest are deleted. Each takes about ten kilobytes.
const MAX_TRANSCRIPTS: i64 = 2_000;

const FORMAT: Format = Format {
    name: "log of agents",
    version: 1,
    upgrades: &[],
    durability: Durability::Full,
    cache_kib: APPEND_CACHE_KIB,
    hint: "move the file aside; only the records of agent runs are lost",
    schema: "
        CREATE TABLE transcripts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            time_ms INTEGER NOT NULL,
            model TEXT NOT NULL,
            question TEXT NOT NULL,
            report_json TEXT NOT NULL
        );
    ",
};

/// The log of agent runs.
pub struct TranscriptLog {
    database: Database,
}

impl TranscriptLog {
    /// Opens or creates the log at `path`. A corrupt file is renamed to `<path>.damaged` and replaced by an empty log.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], except for corruption.
    pub fn open(path: &Path) -> Result<TranscriptLog> {
        Ok(TranscriptLog { database: quarantine::open_or_replace(path, &FORMAT)? })
    }

    /// Returns the new path of the corrupt file that this database replaced when it was opened.
    pub fn quarantined(&self) -> Option<&Path> {
        self.database.quarantined.as_deref()
    }

    /// Adds the record of a run, syncs it to disk, and deletes the oldest records beyond the limit.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn add(&self, record: &TranscriptRecord) -> Result<()> {
        self.database.write(|db| {
            db.prepare_cached(
                "INSERT INTO transcripts (time_ms, model, question, report_json) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![record.time_ms, record.model, record.question, record.report.to_string()])?;
            let id = db.last_insert_rowid();
            db.prepare_cached("DELETE FROM transcripts WHERE id <= ?1")?.execute([id - MAX_TRANSCRIPTS])?;
            Ok(())
        })
    }

    /// Returns up to `limit` records, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn list(&self, limit: usize) -> Result<Vec<TranscriptRecord>> {
        self.database.read(|db| {
            let sql = "SELECT time_ms, model, question, report_json FROM transcripts ORDER BY id DESC LIMIT ?1";
            let mut statement = db.prepare_cached(sql)?;
            let records = statement.query_map([signed(limit as u64)], |row| {
                let report: String = row.get(3)?;
                Ok(TranscriptRecord {
                    time_ms: row.get(0)?,
                    model: row.get(1)?,
                    question: row.get(2)?,
                    report: serde_json::from_str(&report).unwrap_or_default(),
                })
            })?;
            Ok(records.collect::<rusqlite::Result<_>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn transcripts_survive_reopening_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("transcripts.sqlite");
        let record = |it: i64| TranscriptRecord {
            time_ms: it,
            model: "m".into(),
            question: format!("q{it}"),
            report: json!({ "answer": it }),
        };
        let log = TranscriptLog::open(&path).unwrap();
        for number in 0..3 {
            log.add(&record(number)).unwrap();
        }
        drop(log);
        assert_eq!(TranscriptLog::open(&path).unwrap().list(2).unwrap(), [record(2), record(1)]);
    }
}
