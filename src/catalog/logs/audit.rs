//! Log of outbound requests, sent or refused. It has its own database, so that it outlives a rebuilt catalog.

use std::path::Path;

use rusqlite::params;

use crate::catalog::database::{APPEND_CACHE_KIB, Database, Durability, Format};
use crate::catalog::files::row::signed;
use crate::catalog::quarantine;
use crate::error::Result;
use crate::model::{AuditRecord, PrivacyMode};

/// Maximum number of records, about 10 MiB: the requests of several years. Beyond it, the oldest are deleted.
const MAX_RECORDS: i64 = 100_000;

const FORMAT: Format = Format {
    name: "audit log",
    version: 1,
    upgrades: &[],
    // Syncs every record, because a log that a power loss could change would prove nothing.
    durability: Durability::Full,
    cache_kib: APPEND_CACHE_KIB,
    hint: "move the file aside; only the log of past outbound requests is lost",
    schema: "
        CREATE TABLE requests (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            time_ms INTEGER NOT NULL,
            destination TEXT NOT NULL,
            bytes INTEGER NOT NULL,
            purpose TEXT NOT NULL,
            privacy_mode TEXT NOT NULL,
            allowed INTEGER NOT NULL
        );
    ",
};

/// The audit log: a record of every outbound request.
pub struct AuditLog {
    database: Database,
}

impl AuditLog {
    /// Opens or creates the log at `path`. A corrupt file is renamed to `<path>.damaged` and replaced by an empty log.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], except for corruption.
    pub fn open(path: &Path) -> Result<AuditLog> {
        Ok(AuditLog { database: quarantine::open_or_replace(path, &FORMAT)? })
    }

    /// Returns the new path of the corrupt file that this database replaced when it was opened.
    pub fn quarantined(&self) -> Option<&Path> {
        self.database.quarantined.as_deref()
    }

    /// Adds a record, syncs it to disk, and deletes the oldest records beyond the limit.
    pub fn add(&self, record: &AuditRecord) -> Result<()> {
        self.database.write(|db| {
            db.prepare_cached(
                "INSERT INTO requests (time_ms, destination, bytes, purpose, privacy_mode, allowed) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                record.time_ms,
                record.destination,
                signed(record.bytes),
                record.purpose,
                record.privacy_mode.name(),
                record.allowed,
            ])?;
            let id = db.last_insert_rowid();
            db.prepare_cached("DELETE FROM requests WHERE id <= ?1")?.execute([id - MAX_RECORDS])?;
            Ok(())
        })
    }

    /// Returns up to `limit` records, newest first.
    pub fn list(&self, limit: usize) -> Result<Vec<AuditRecord>> {
        self.database.read(|db| {
            let sql = "SELECT time_ms, destination, bytes, purpose, privacy_mode, allowed FROM requests \
                       ORDER BY id DESC LIMIT ?1";
            let mut statement = db.prepare_cached(sql)?;
            let records = statement.query_map([signed(limit as u64)], |row| {
                let mode: String = row.get(4)?;
                Ok(AuditRecord {
                    time_ms: row.get(0)?,
                    destination: row.get(1)?,
                    bytes: row.get::<_, i64>(2)?.unsigned_abs(),
                    purpose: row.get(3)?,
                    privacy_mode: PrivacyMode::from_name(&mode).unwrap_or_default(),
                    allowed: row.get(5)?,
                })
            })?;
            Ok(records.collect::<rusqlite::Result<_>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(bytes: u64) -> AuditRecord {
        AuditRecord {
            time_ms: 1,
            destination: "https://example.com:443".into(),
            bytes,
            purpose: "reasoning".into(),
            privacy_mode: PrivacyMode::CloudReasoningOk,
            allowed: bytes > 0,
        }
    }

    #[test]
    fn audit_records_survive_reopening_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.sqlite");
        let log = AuditLog::open(&path).unwrap();
        for bytes in 0..3 {
            log.add(&record(bytes)).unwrap();
        }
        drop(log);
        assert_eq!(AuditLog::open(&path).unwrap().list(2).unwrap(), [record(2), record(1)]);
    }
}
