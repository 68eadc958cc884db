//! Paths of the data directory and its files.

use std::path::PathBuf;

use crate::config::sections::Config;

impl Config {
    /// The Unix socket on which the daemon serves gRPC.
    pub fn socket_path(&self) -> PathBuf {
        self.data_dir.join("vicd.sock")
    }

    /// The lock file of the data directory; the file's content names the process that holds the lock.
    pub fn lock_path(&self) -> PathBuf {
        self.data_dir.join("vicd.lock")
    }

    /// The file into which the daemon writes the TCP address that it listens on.
    pub fn address_path(&self) -> PathBuf {
        self.data_dir.join("listen")
    }

    /// The file with the format version of the data directory.
    pub fn format_path(&self) -> PathBuf {
        self.data_dir.join("format")
    }

    /// The file with the API key for the TCP port.
    pub fn key_path(&self) -> PathBuf {
        self.data_dir.join("key")
    }

    /// The file with additional API keys, each limited to some folders.
    pub fn keys_path(&self) -> PathBuf {
        self.data_dir.join("keys.json")
    }

    /// The SQLite file of the catalog.
    pub fn catalog_path(&self) -> PathBuf {
        self.data_dir.join("catalog.sqlite")
    }

    /// The SQLite cache of embedding vectors, by text.
    pub fn vector_cache_path(&self) -> PathBuf {
        self.data_dir.join("vectors.sqlite")
    }

    /// The SQLite cache of the results of L2 skills (OCR, layout, vision).
    pub fn evidence_path(&self) -> PathBuf {
        self.data_dir.join("evidence.sqlite")
    }

    /// The SQLite file with the views, sessions and results of the corpus API.
    pub fn corpus_path(&self) -> PathBuf {
        self.data_dir.join("corpus.sqlite")
    }

    /// The SQLite file of the knowledge graph.
    pub fn graph_path(&self) -> PathBuf {
        self.data_dir.join("graph.sqlite")
    }

    /// The folder of downloaded web pages: the only part of the data directory that may be indexed.
    pub fn pages_path(&self) -> PathBuf {
        self.data_dir.join("pages")
    }

    /// The SQLite log of outbound requests.
    pub fn audit_path(&self) -> PathBuf {
        self.data_dir.join("audit.sqlite")
    }

    /// The SQLite file with the remembered searches of the web page.
    pub fn searches_path(&self) -> PathBuf {
        self.data_dir.join("searches.sqlite")
    }

    /// The file with the language model backend that the user chose by a `vic llm` command.
    pub fn llm_choice_path(&self) -> PathBuf {
        self.data_dir.join("llm.json")
    }

    /// The SQLite file of agent transcripts.
    pub fn transcripts_path(&self) -> PathBuf {
        self.data_dir.join("transcripts.sqlite")
    }

    /// The daemon's log file.
    pub fn log_path(&self) -> PathBuf {
        self.data_dir.join("vicd.log")
    }
}
