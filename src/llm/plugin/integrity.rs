//! Detects changes to the files of a plugin command. The program, its script and the files named by absolute path in its
//! arguments are hashed when the user chooses the command. A command is not run if one of these files has changed, is
//! writable by other users, or is a symbolic link, which may change its target. Only the program may be a link, because
//! systems use links for versions.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Mode bits that let users other than the owner change a file.
const OTHERS_WRITE_MODE: u32 = 0o022;

/// Larger files (in bytes), such as models, are identified by inode, size and times, because hashing them would add seconds
/// to every run. Every write changes those values.
const MAX_HASHED_BYTES: u64 = 64 << 20;

/// Names of interpreters whose script file is hashed too.
const INTERPRETERS: [&str; 13] =
    ["python", "pypy", "bash", "sh", "dash", "zsh", "perl", "ruby", "Rscript", "lua", "node", "nodejs", "php"];

/// A file of a plugin command, with its hash when the command was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashedFile {
    /// Absolute path of the file.
    path: PathBuf,
    /// BLAKE3 hash of its content, in hexadecimal.
    seal: String,
}

impl HashedFile {
    /// Hashes every file that a command names in its arguments: its script, and files named by absolute path. `folder` is
    /// the command's working directory.
    ///
    /// # Errors
    /// `NotFound`; `PermissionDenied`: a path is a link or not a regular file, or other users may change the file.
    pub(super) fn hash_all(program: &Path, args: &[String], folder: &Path) -> Result<Vec<HashedFile>> {
        let named = args.iter().map(|it| Path::new(option_value(it))).filter(|it| it.is_absolute()).map(Path::to_owned);
        let script = interpreter_script(program, args, folder).map(|it| folder.join(it));
        let mut paths: Vec<PathBuf> = named.chain(script).filter(|it| it.is_file()).collect();
        paths.sort();
        paths.dedup();
        let sealed = |path: PathBuf| hash_argument_file(&path).map(|seal| HashedFile { path, seal });
        paths.into_iter().map(sealed).collect()
    }

    pub(super) fn has_path(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Checks that the file has not changed since the command was chosen.
    ///
    /// # Errors
    /// The same errors as [`hash_argument_file`]; `PermissionDenied` if it has changed.
    pub(super) fn check(&self) -> Result<()> {
        require_same_hash(&self.path, "file", &self.seal, hash_argument_file(&self.path))
    }
}

/// Checks that the current hash `found` of a file is the recorded one, `sealed`.
pub(super) fn require_same_hash(path: &Path, kind: &str, sealed: &str, found: Result<String>) -> Result<()> {
    let cure = "choose the command again: vic llm use command ...";
    let found = found.map_err(|error| match error.code {
        ErrorCode::NotFound => error.hint(cure),
        _ => error,
    })?;
    if found == sealed {
        return Ok(());
    }
    let text = format!("`{}` has changed: it is not the {kind} that was chosen", path.display());
    Err(Error::new(ErrorCode::PermissionDenied, text).hint(cure))
}

/// Returns the value of an argument: `VALUE` for `--option=VALUE`, otherwise the whole argument.
fn option_value(argument: &str) -> &str {
    match argument.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => argument,
    }
}

/// Returns the script that a known interpreter runs: its first argument, or if that is an option, the first argument that
/// is a file. Returns `None` for other programs.
pub(super) fn interpreter_script<'a>(program: &Path, args: &'a [String], folder: &Path) -> Option<&'a str> {
    let name = program.file_name()?.to_str()?;
    // Removes the version: `python3.12` counts as `python`.
    let bare = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    if !INTERPRETERS.contains(&bare) {
        return None;
    }
    let is_option = |it: &str| it.is_empty() || it.starts_with('-');
    let first = args.first().map(String::as_str)?;
    if !is_option(first) {
        return Some(first);
    }
    args.iter().map(String::as_str).filter(|it| !is_option(it)).find(|it| folder.join(it).is_file())
}

/// Returns whether this is the metadata of an executable file.
pub(super) fn is_program(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.mode() & 0o111 != 0
}

/// Checks that a program belongs to this user or root, and that no other user can change it; returns its hash.
///
/// # Errors
/// `NotFound`; `PermissionDenied`: the file is not executable, or other users may change it.
pub(super) fn hash_program(program: &Path) -> Result<String> {
    let metadata = std::fs::metadata(program).io_context("run", program)?;
    if !is_program(&metadata) {
        return Err(Error::new(ErrorCode::PermissionDenied, format!("`{}` is not executable", program.display())));
    }
    hash_owned_file(program, &metadata)
}

/// Like [`hash_program`], for a file named in the arguments.
///
/// # Errors
/// `NotFound`; `PermissionDenied`: the path is a link or not a regular file, or other users may change the file.
fn hash_argument_file(path: &Path) -> Result<String> {
    let metadata = std::fs::symlink_metadata(path).io_context("look at", path)?;
    if metadata.is_symlink() {
        let leads = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let text = format!("`{}` is not run, because it is a symbolic link, whose target may change", path.display());
        return Err(Error::new(ErrorCode::PermissionDenied, text).hint(format!("name the file: {}", leads.display())));
    }
    if !metadata.is_file() {
        return Err(Error::new(ErrorCode::PermissionDenied, format!("`{}` is not a file", path.display())));
    }
    hash_owned_file(path, &metadata)
}

fn hash_owned_file(path: &Path, metadata: &Metadata) -> Result<String> {
    let us = rustix::process::geteuid().as_raw();
    let owned = metadata.uid() == us || metadata.uid() == 0;
    if !owned || metadata.mode() & OTHERS_WRITE_MODE != 0 {
        let text = format!("`{}` is not run, because other users may change it", path.display());
        return Err(Error::new(ErrorCode::PermissionDenied, text).hint(format!("chmod go-w {}", path.display())));
    }
    let mut hasher = blake3::Hasher::new();
    if metadata.len() > MAX_HASHED_BYTES {
        let (changed, moved) = (metadata.mtime_nsec(), metadata.ctime_nsec());
        let stamp = [metadata.mtime(), changed, metadata.ctime(), moved].map(i64::to_le_bytes);
        let place = [metadata.dev(), metadata.ino(), metadata.len()].map(u64::to_le_bytes);
        hasher.update(place.as_flattened()).update(stamp.as_flattened());
    } else {
        let mut file = File::open(path).io_context("read", path)?;
        std::io::copy(&mut file, &mut hasher).io_context("read", path)?;
    }
    Ok(hasher.finalize().to_hex().to_string())
}
