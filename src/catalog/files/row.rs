//! Conversion between rows of the table `files` and the types of `model`.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Row;

use crate::catalog::files::authors;
use crate::catalog::files::owners::Owners;
use crate::model::{ContentHash, FileKind, FileRecord, FileState, FoundFile, MailFacts, Reason};

/// Stored as the status-change time of a renamed file, because the rename has changed the real time; the next scan
/// stores the new time.
pub(in crate::catalog) const UNKNOWN_CHANGED_NS: i64 = 0;

/// The columns that [`read_record`] reads, from `files f JOIN roots r ON r.id = f.root_id`.
pub(in crate::catalog) const RECORD_COLUMNS: &str = "f.id, f.root_id, r.path, f.path, f.size, f.modified_ns, f.changed_ns, f.created_ns, \
     f.inode, f.device, f.mode, f.uid, f.skip, f.extension, f.kind, f.media_type, f.hash, f.state, f.reason, f.detail, \
     f.chunks, f.tries, f.mail_first_ns, f.mail_last_ns, f.subject, f.authors";

/// Converts a row with the columns [`RECORD_COLUMNS`] into a record.
pub(in crate::catalog) fn read_record(row: &Row<'_>, owners: &Owners) -> rusqlite::Result<FileRecord> {
    let (uid, kind) = (row.get(11)?, FileKind::from_name(row.get_ref(14)?.as_str()?));
    Ok(FileRecord {
        id: row.get(0)?,
        root_id: row.get(1)?,
        root: path_from_bytes(row.get(2)?),
        found: FoundFile {
            path: path_from_bytes(row.get(3)?),
            size: unsigned(row.get(4)?),
            modified_ns: row.get(5)?,
            changed_ns: row.get(6)?,
            created_ns: row.get(7)?,
            inode: unsigned(row.get(8)?),
            device: unsigned(row.get(9)?),
            mode: row.get(10)?,
            uid,
            skip: read_reason(row, 12)?,
        },
        extension: row.get(13)?,
        kind,
        media_type: row.get(15)?,
        owner: owners.name(uid),
        hash: row.get::<_, Option<[u8; 32]>>(16)?.map(ContentHash),
        state: parse_state(row.get_ref(17)?.as_str()?),
        reason: read_reason(row, 18)?,
        detail: row.get(19)?,
        chunks: row.get(20)?,
        tries: row.get(21)?,
        mail: if kind == FileKind::Mail { Some(read_mail(row)?) } else { None },
    })
}

fn read_mail(row: &Row<'_>) -> rusqlite::Result<MailFacts> {
    let sent_ns = row.get::<_, Option<i64>>(22)?.zip(row.get(23)?);
    let senders = authors::split(row.get_ref(25)?.as_str_or_null()?.unwrap_or_default());
    let senders = senders.take(MailFacts::MAX_SENDERS).map(String::from).collect();
    Ok(MailFacts { subject: row.get(24)?, senders, sent_ns })
}

/// Returns the reason stored in a column; a name that only a newer vic knows becomes [`Reason::Io`].
pub(in crate::catalog) fn read_reason(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Reason>> {
    let name = row.get_ref(column)?.as_str_or_null()?;
    Ok(name.map(|it| Reason::from_name(it).unwrap_or(Reason::Io)))
}

/// Parses the name of a state; a name that only a newer vic knows becomes [`FileState::Pending`].
pub(in crate::catalog) fn parse_state(name: &str) -> FileState {
    FileState::from_name(name).unwrap_or(FileState::Pending)
}

/// Returns the bytes of a path, as the catalog stores them.
pub(in crate::catalog) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns the path that these bytes encode.
pub(in crate::catalog) fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Returns the half-open range of bytes that holds the paths below a folder; all paths for "".
pub(in crate::catalog) fn range_below(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    if folder.as_os_str().is_empty() {
        // An upper bound of all paths: 0xff never occurs in UTF-8, and a longer blob sorts after a shorter one.
        return (Vec::new(), vec![0xff; 8]);
    }
    let with = |end| [path_bytes(folder), &[end]].concat();
    (with(b'/'), with(b'/' + 1))
}

/// Returns the last component of a path as it is stored for searching: folded, lossy UTF-8.
pub(in crate::catalog) fn search_name(path: &Path) -> String {
    vic_words::fold(&path.file_name().unwrap_or(OsStr::new("")).to_string_lossy()).into_owned()
}

/// Returns the lowercase extension without the dot; empty when there is none.
pub(in crate::catalog) fn extension(path: &Path) -> String {
    path.extension().map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Converts to the signed integers of SQLite; inode numbers and sizes keep their bits.
pub(in crate::catalog) fn signed(value: u64) -> i64 {
    value.cast_signed()
}

fn unsigned(value: i64) -> u64 {
    value.cast_unsigned()
}

/// Returns the current time in nanoseconds since the epoch.
pub(in crate::catalog) fn now_ns() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}
