//! A typed client of the daemon that keeps its connection, for tests that send many requests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use vic::client::Client;
use vic::config::Config;
use vic::error::Result;
use vic::model::{
    AskRequest, FileFilter, FileRecord, GraphQuestion, GraphRequest, SearchHit, Status, SyncReport, SyncRequest,
};

use crate::support::harness::World;

/// The typed client with its own async runtime, so that tests can call it synchronously.
pub(crate) struct SyncClient {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl SyncClient {
    /// Connects to the running daemon of the test.
    pub(crate) fn new(world: &World) -> SyncClient {
        let data = world.data();
        let lookup = move |name: &str| (name == "VIC_DATA_DIR").then(|| data.clone().into_os_string());
        let config = Config::from_lookup(&lookup).unwrap();
        // The runtime has its own thread: the client must answer keepalive checks of the daemon between two calls.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(&config)).unwrap();
        SyncClient { client, runtime }
    }

    /// Returns the status of the daemon, after a check that the file counts add up.
    pub(crate) fn status(&self) -> Status {
        let status = self.runtime.block_on(self.client.status()).unwrap();
        let it = &status.coverage;
        assert_eq!(it.indexed + it.skipped + it.failed + it.pending, it.found, "{it:?}");
        assert_eq!(it.reasons.values().sum::<u64>(), it.skipped + it.failed, "{it:?}");
        status
    }

    /// Returns all files of the index, by their path relative to the root.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, FileRecord> {
        let mut known = BTreeMap::new();
        loop {
            let page = self.client.files(FileFilter::default(), 10_000, known.len() as u64);
            let list = self.runtime.block_on(page).unwrap();
            known.extend(list.files.into_iter().map(|it| (it.found.path.clone(), it)));
            if known.len() as u64 >= list.total {
                return known;
            }
        }
    }

    /// Returns at most 50 hits of a search.
    pub(crate) fn hits(&self, query: &str) -> Vec<SearchHit> {
        let request = AskRequest { query: query.into(), limit: Some(50), ..AskRequest::default() };
        self.runtime.block_on(self.client.search(request)).unwrap().hits
    }

    /// Returns the rows that an AxQL graph query finds.
    pub(crate) fn graph_rows(&self, axql: &str) -> Vec<Value> {
        let question = GraphQuestion { axql: Some(axql.into()), ..GraphQuestion::default() };
        let answer = self.runtime.block_on(self.client.graph(GraphRequest::Query(question))).unwrap();
        answer["rows"].as_array().unwrap().clone()
    }

    /// Waits until all changes of files so far are searchable; fails after 60 s.
    pub(crate) fn sync(&self) -> SyncReport {
        self.try_sync(60).unwrap()
    }

    pub(crate) fn try_sync(&self, seconds: u32) -> Result<SyncReport> {
        self.runtime.block_on(self.client.sync(SyncRequest { path: None, timeout_seconds: Some(seconds) }))
    }

    /// Polls every 20 ms until `holds` returns true. Returns false after `limit`.
    pub(crate) fn poll_until(&self, limit: Duration, mut holds: impl FnMut(&SyncClient) -> bool) -> bool {
        let begun = std::time::Instant::now();
        loop {
            if holds(self) {
                return true;
            }
            if begun.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
