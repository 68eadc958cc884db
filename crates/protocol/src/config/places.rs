//! Where what lies: the data directory, and what vic keeps in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::{IoContext, Result};

impl Config {
    /// The daemon's Unix socket.
    pub fn socket_path(&self) -> PathBuf {
        self.data_dir.join("vicd.sock")
    }

    /// The lock whose holder owns the data directory; its text names the owner.
    pub fn lock_path(&self) -> PathBuf {
        self.data_dir.join("vicd.lock")
    }

    /// The file that holds the TCP address as bound.
    pub fn address_path(&self) -> PathBuf {
        self.data_dir.join("listen")
    }

    /// The file that says which format the data directory has.
    pub fn format_path(&self) -> PathBuf {
        self.data_dir.join("format")
    }

    /// The file with the key that programs on the TCP port must show.
    pub fn key_path(&self) -> PathBuf {
        self.data_dir.join("key")
    }

    /// The table of further keys, each for some folders only.
    pub fn keys_path(&self) -> PathBuf {
        self.data_dir.join("keys.json")
    }

    /// The SQLite file of the catalog.
    pub fn catalog_path(&self) -> PathBuf {
        self.data_dir.join("catalog.sqlite")
    }

    /// The SQLite file of vectors by text.
    pub fn vector_cache_path(&self) -> PathBuf {
        self.data_dir.join("vectors.sqlite")
    }

    /// The SQLite file of what skills found.
    pub fn evidence_path(&self) -> PathBuf {
        self.data_dir.join("evidence.sqlite")
    }

    /// Views, sessions and results of the contract.
    pub fn corpus_path(&self) -> PathBuf {
        self.data_dir.join("corpus.sqlite")
    }

    /// The SQLite file of the graph.
    pub fn graph_path(&self) -> PathBuf {
        self.data_dir.join("graph.sqlite")
    }

    /// The folder of pages that were fetched: the only one of the data directory that may be indexed.
    pub fn pages_path(&self) -> PathBuf {
        self.data_dir.join("pages")
    }

    /// The SQLite file of outbound requests.
    pub fn audit_path(&self) -> PathBuf {
        self.data_dir.join("audit.sqlite")
    }

    /// The choice of a backend for the `llm` commands.
    pub fn llm_choice_path(&self) -> PathBuf {
        self.data_dir.join("llm.json")
    }

    /// The SQLite file of what agents did.
    pub fn transcripts_path(&self) -> PathBuf {
        self.data_dir.join("transcripts.sqlite")
    }

    /// The daemon's log.
    pub fn log_path(&self) -> PathBuf {
        self.data_dir.join("vicd.log")
    }
}

/// None when the environment does not say where a user keeps data. Relative paths say nothing.
pub(super) fn platform_data_dir(lookup: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| lookup(name).map(PathBuf::from).filter(|it| it.is_absolute());
    if let Some(dir) = folder("XDG_DATA_HOME") {
        return Some(dir.join("vic"));
    }
    let below = if cfg!(target_os = "macos") { "Library/Application Support/vic" } else { ".local/share/vic" };
    Some(folder("HOME")?.join(below))
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).at("resolve", path)
}
