//! Paths of the data directory and its files.

use std::path::PathBuf;

use crate::config::sections::Config;

impl Config {
    /// The daemon's Unix socket.
    pub fn socket_path(&self) -> PathBuf {
        self.data_dir.join("vicd.sock")
    }

    /// The lock of the data directory; its content names the process that holds it.
    pub fn lock_path(&self) -> PathBuf {
        self.data_dir.join("vicd.lock")
    }

    /// The file with the bound TCP address.
    pub fn address_path(&self) -> PathBuf {
        self.data_dir.join("listen")
    }

    /// The file with the format version of the data directory.
    pub fn format_path(&self) -> PathBuf {
        self.data_dir.join("format")
    }

    /// The file with the key for the TCP port.
    pub fn key_path(&self) -> PathBuf {
        self.data_dir.join("key")
    }

    /// The table of additional keys, each limited to some folders.
    pub fn keys_path(&self) -> PathBuf {
        self.data_dir.join("keys.json")
    }

    /// The SQLite file of the catalog.
    pub fn catalog_path(&self) -> PathBuf {
        self.data_dir.join("catalog.sqlite")
    }

    /// The SQLite cache of vectors by text.
    pub fn vector_cache_path(&self) -> PathBuf {
        self.data_dir.join("vectors.sqlite")
    }

    /// The SQLite cache of skill results.
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

    /// The folder of fetched pages: the only indexable part of the data directory.
    pub fn pages_path(&self) -> PathBuf {
        self.data_dir.join("pages")
    }

    /// The SQLite log of outbound requests.
    pub fn audit_path(&self) -> PathBuf {
        self.data_dir.join("audit.sqlite")
    }

    /// The stored backend choice of the `llm` commands.
    pub fn llm_choice_path(&self) -> PathBuf {
        self.data_dir.join("llm.json")
    }

    /// The SQLite file of agent transcripts.
    pub fn transcripts_path(&self) -> PathBuf {
        self.data_dir.join("transcripts.sqlite")
    }

    /// The daemon's log.
    pub fn log_path(&self) -> PathBuf {
        self.data_dir.join("vicd.log")
    }
}
