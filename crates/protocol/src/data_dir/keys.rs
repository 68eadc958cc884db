//! API keys of the TCP port: the owner's key in its own file, and a table (`keys.json`) of keys limited to some folders.
//!
//! A key is 256 random bits. The key table stores only hashes; a key is shown once, when it is created. The server rereads
//! the key table when it changes, so adding and revoking take effect at once.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::model::{Principal, Scope};

/// Size of a key in bytes: 256 bits.
const KEY_BYTES: usize = 32;

/// Minimum length of the owner's key. Rejects truncated and empty files, and keys that others could guess.
pub const MIN_KEY_CHARS: usize = 32;

/// Maximum length of a key's name in the key table.
const MAX_KEY_NAME: usize = 64;

/// Maximum number of keys in the key table: every request is compared with each of them.
const MAX_KEYS: usize = 1_000;

/// What a caller may do. Each level includes the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Ask questions, list files and read them.
    Read,
    /// Start and cancel index jobs.
    Index,
    /// Everything else, such as changing roots and stopping the daemon. Never granted to keys in the key table.
    Own,
    /// Also run a program by name: only for the user on the Unix socket, who can run programs anyway; never for an API key.
    Local,
}

/// What a caller may access and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Files that the caller may access.
    pub scope: Scope,
    /// Highest level of calls that the caller may make.
    pub right: Right,
    /// Identity of the caller.
    pub holder: Principal,
}

impl Grant {
    /// Returns the grant of the owner's API key.
    pub fn owner() -> Grant {
        Grant { scope: Scope::All, right: Right::Own, holder: Principal::Owner }
    }

    /// Returns the grant of a program that connects to the Unix socket as the daemon's own user.
    pub fn local() -> Grant {
        Grant { scope: Scope::All, right: Right::Local, holder: Principal::Owner }
    }
}

/// One key in the key table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Name of the key.
    pub name: String,
    /// BLAKE3 hash of the key, in hex.
    pub hash: String,
    /// Absolute paths of the folders that the key gives access to.
    pub roots: Vec<PathBuf>,
    /// What the key's holder may do.
    pub right: Right,
    /// Creation time, milliseconds since the epoch.
    pub created_ms: i64,
}

impl KeyEntry {
    /// Returns what the key's holder may access and do.
    pub fn grant(&self) -> Grant {
        let scope = Scope::Folders(self.roots.clone().into());
        // Identify the holder by the key's hash: the name of a revoked key may be reused for another key.
        Grant { scope, right: self.right.min(Right::Index), holder: Principal::Key(self.hash.as_str().into()) }
    }
}

/// Returns the owner's key from its file, and first creates the file with a new key if it is missing.
///
/// # Errors
/// The file cannot be read or created, is a symbolic link, or holds no key.
pub fn load_or_create_owner_key(path: &Path) -> Result<String> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = random_secret()?;
            replace_private_file(path, format!("{key}\n").as_bytes())?;
            return Ok(key);
        }
        Err(error) => return Err(error).io_context("read", path),
    };
    if !found.is_file() {
        return Err(Error::new(ErrorCode::FailedPrecondition, format!("`{}` is not a regular file", path.display()))
            .hint("move it aside; a new key is created at the next start"));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).io_context("protect", path)?;
        tracing::warn!("the key file was readable by other users; its mode is fixed, but the key may be known to them");
    }
    read_owner_key(path)
}

/// Reads the owner's key from its file.
///
/// # Errors
/// The file cannot be read or holds no key.
pub fn read_owner_key(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).io_context("read", path)?;
    let key = String::from_utf8_lossy(&bytes).trim().to_string();
    if key.len() < MIN_KEY_CHARS || !key.chars().all(|it| it.is_ascii_graphic()) {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` does not contain an API key", path.display()),
        )
        .hint("move it aside; a new key is created at the next start"));
    }
    Ok(key)
}

/// Returns the keys in the key table.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn list(config: &Config) -> Result<Vec<KeyEntry>> {
    read_key_table(&config.keys_path())
}

/// Adds a key to the key table and returns it. Only its hash is stored, so the key cannot be shown again.
///
/// # Errors
/// The name is taken or invalid, a folder does not exist, or the file cannot be written.
pub fn add(config: &Config, name: &str, folders: &[PathBuf], right: Right) -> Result<String> {
    let fits = |it: char| it.is_alphanumeric() || "-_.@".contains(it);
    if name.is_empty() || name.len() > MAX_KEY_NAME || !name.chars().all(fits) {
        return Err(Error::invalid(format!("`{name}` is not a valid key name"))
            .field("name")
            .hint(format!("use at most {MAX_KEY_NAME} letters, digits and any of `-_.@`")));
    }
    if folders.is_empty() {
        return Err(Error::invalid("a key needs at least one folder that it gives access to").field("roots"));
    }
    let mut roots = Vec::new();
    for folder in folders {
        let path = folder.canonicalize().io_context("find", folder)?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("`{}` is not a folder", path.display())).field("roots"));
        }
        roots.push(path);
    }
    let key = random_secret()?;
    let hash = blake3::hash(key.as_bytes()).to_hex().to_string();
    let created_ms = chrono::Utc::now().timestamp_millis();
    update_key_table(config, |keys| {
        if keys.iter().any(|it| it.name == name) {
            return Err(Error::new(ErrorCode::FailedPrecondition, format!("there is a key `{name}` already"))
                .hint(format!("`vic keys revoke {name}` removes it")));
        }
        if keys.len() >= MAX_KEYS {
            return Err(Error::new(
                ErrorCode::ResourceExhausted,
                format!("there are {MAX_KEYS} keys already, the maximum"),
            ));
        }
        keys.push(KeyEntry { name: name.into(), hash, roots, right: right.min(Right::Index), created_ms });
        Ok(())
    })?;
    Ok(key)
}

/// Removes a key from the key table; from then on, requests with this key are rejected.
///
/// # Errors
/// There is no key with this name, or the file cannot be written.
pub fn revoke(config: &Config, name: &str) -> Result<()> {
    update_key_table(config, |keys| {
        let before = keys.len();
        keys.retain(|it| it.name != name);
        if keys.len() == before {
            return Err(Error::not_found(format!("there is no key `{name}`")).hint("`vic keys list` shows all keys"));
        }
        Ok(())
    })
}

/// Changes the key table while holding a file lock, so that concurrent changes are not lost.
fn update_key_table(config: &Config, change: impl FnOnce(&mut Vec<KeyEntry>) -> Result<()>) -> Result<()> {
    let path = config.keys_path();
    let lock_path = path.with_extension("lock");
    let lock =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_path).io_context("open", &lock_path)?;
    lock.lock().io_context("lock", &lock_path)?;
    let mut keys = read_key_table(&path)?;
    change(&mut keys)?;
    replace_private_file(&path, &serde_json::to_vec_pretty(&keys).map_err(Error::internal)?)
}

/// Reads the key table; returns no keys if the file does not exist.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn read_key_table(path: &Path) -> Result<Vec<KeyEntry>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).io_context("read", path),
    };
    let wrong = |what: String| {
        Error::new(ErrorCode::DataLoss, format!("cannot understand `{}`: {what}", path.display()))
            .hint("fix it, or move it aside and add the keys again")
    };
    let keys: Vec<KeyEntry> = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    // Reject a key without folders, because other code may take an empty list of folders to mean all files.
    match keys.iter().find(|it| it.roots.is_empty() || it.roots.iter().any(|root| !root.is_absolute())) {
        Some(key) => Err(wrong(format!("the key `{}` has no folder, or one with a relative path", key.name))),
        None => Ok(keys),
    }
}

/// Replaces a file, readable by its owner only. After a crash, the file has either its old or its new content.
fn replace_private_file(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".vic-key").tempfile_in(folder).io_context("write to", folder)?;
    file.write_all(content).io_context("write", path)?;
    file.as_file().sync_all().io_context("write", path)?;
    file.persist(path).map_err(|error| Error::io("write", path, &error.error))?;
    File::open(folder).and_then(|it| it.sync_all()).io_context("write to", folder)
}

/// Returns 256 random bits as text that fits into headers and addresses.
///
/// # Errors
/// The operating system gives no random numbers.
pub fn random_secret() -> Result<String> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("cannot get random numbers: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn config(dir: &Path) -> Config {
        let dir = dir.as_os_str().to_owned();
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.clone())).unwrap()
    }

    #[test]
    fn owner_key_is_created_once_with_private_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = load_or_create_owner_key(&path).unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(&key).unwrap().len(), 32);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(load_or_create_owner_key(&path).unwrap(), key);
        assert_ne!(load_or_create_owner_key(&dir.path().join("other")).unwrap(), key);
    }

    #[test]
    fn key_file_mode_is_restored_to_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        load_or_create_owner_key(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        load_or_create_owner_key(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn invalid_or_linked_key_file_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let [empty, garbage, link] = ["empty", "garbage", "link"].map(|it| dir.path().join(it));
        std::fs::write(&empty, "\n").unwrap();
        std::fs::write(&garbage, [0xff; 64]).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        for path in [empty, garbage, link] {
            let error = load_or_create_owner_key(&path).unwrap_err();
            assert!(error.message.contains(path.to_str().unwrap()) && error.hint.is_some(), "{error}");
        }
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn key_table_stores_only_hash() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let key = add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let text = std::fs::read_to_string(config.keys_path()).unwrap();
        assert!(!text.contains(&key));
        let [entry] = &list(&config).unwrap()[..] else { panic!("one key") };
        assert_eq!(entry.hash, blake3::hash(key.as_bytes()).to_hex().to_string());
        assert_eq!(entry.grant().scope, Scope::Folders([dir.path().canonicalize().unwrap()].into()));
        assert_eq!(config.keys_path().metadata().unwrap().mode() & 0o777, 0o600);
        revoke(&config, "ada").unwrap();
        assert!(list(&config).unwrap().is_empty());
    }

    #[test]
    fn invalid_key_changes_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let folder = [dir.path().to_path_buf()];
        add(&config, "ada", &folder, Right::Index).unwrap();
        let before = std::fs::read(config.keys_path()).unwrap();
        assert_eq!(add(&config, "ada", &folder, Right::Read).unwrap_err().code, ErrorCode::FailedPrecondition);
        assert_eq!(add(&config, "a b", &folder, Right::Read).unwrap_err().field.as_deref(), Some("name"));
        assert_eq!(add(&config, "bo", &[], Right::Read).unwrap_err().field.as_deref(), Some("roots"));
        assert_eq!(add(&config, "bo", &["/no/such".into()], Right::Read).unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(revoke(&config, "bo").unwrap_err().code, ErrorCode::NotFound);
        assert_eq!(std::fs::read(config.keys_path()).unwrap(), before);
    }

    #[test]
    fn key_without_folder_invalidates_key_table() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        add(&config, "ada", &[dir.path().into()], Right::Index).unwrap();
        let mut entry = list(&config).unwrap().remove(0);
        for roots in [vec![], vec!["".into()], vec!["/w".into(), "w".into()]] {
            entry.roots = roots;
            std::fs::write(config.keys_path(), serde_json::to_vec(&[&entry]).unwrap()).unwrap();
            let error = list(&config).unwrap_err();
            assert!(error.code == ErrorCode::DataLoss && error.message.contains("keys.json"), "{error}");
            assert!(error.message.contains("`ada`") && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn key_table_entry_never_gets_owner_right() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        add(&config, "ada", &[dir.path().into()], Right::Own).unwrap();
        let mut entry = list(&config).unwrap().remove(0);
        assert_eq!(entry.right, Right::Index);
        entry.right = Right::Own;
        assert_eq!(entry.grant().right, Right::Index);
    }
}
