//! Verifies the checksum of a model file, and moves a downloaded file into place.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Makes a temporary file readable for all users, syncs it to disk and moves it to `target`.
pub(super) fn persist_readable(temporary: NamedTempFile, target: &Path) -> Result<()> {
    make_readable(temporary.as_file()).io_context("set permissions of", temporary.path())?;
    temporary.as_file().sync_all().io_context("write", temporary.path())?;
    temporary.persist(target).map_err(|error| error.error).io_context("create", target)?;
    Ok(())
}

/// Makes a file readable for all users, because temporary files are private, but models are shared.
fn make_readable(file: &File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Verifies the checksum of an installed model file, if one is known.
pub(super) fn check_file(path: &Path, expected: Option<&str>) -> Result<()> {
    match expected {
        Some(expected) => compare_checksum(&path.display().to_string(), expected, &sha256(path)?),
        None => Ok(()),
    }
}

/// Compares the checksum `got` of a file, shown as `shown`, with the expected one.
pub(super) fn compare_checksum(shown: &str, expected: &str, got: &str) -> Result<()> {
    if expected.eq_ignore_ascii_case(got) {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::DataLoss,
        format!("`{shown}` has the wrong checksum: expected sha256 {expected}, got {got}"),
    )
    .hint("fetch it again with `vic models pull`; if that does not help, the source was changed or tampered with"))
}

/// Returns the SHA-256 of a file in hexadecimal; the file is read in pieces.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).io_context("open", path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer).io_context("read", path)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
