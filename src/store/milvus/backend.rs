//! The collections of vic on a Milvus server: connects, creates, opens and drops them, and keeps the alias.
//!
//! A model has the collection `<alias>_<installation>_<fingerprint>`, and the alias (`VIC_MILVUS_COLLECTION`) names the one
//! that answers queries. The installation, 8 random digits in a file below `VIC_DB_PATH`, tells the collections of several
//! vics on one server apart: a vic changes and drops only its own.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vic_milvus::{Client, Collection, ErrorKind, IndexParams, Metric, OnConnect, Schema, Settings, Token};

use crate::catalog::{StoreLedger, quarantine_database};
use crate::config::{Config, VectorConfig};
use crate::egress;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::store::backend::{Backend, Inspection, Store};
use crate::store::lance::LanceStore;
use crate::store::lance_backend::LanceBackend;
use crate::store::milvus::errors::from_client;
use crate::store::milvus::lite::{self, LiteServer};
use crate::store::milvus::rows::{self, VECTOR, WORDS};
use crate::store::milvus::table::{MilvusStore, READ_TIMEOUT};

/// Directory below `VIC_DB_PATH` with the ledgers and the local keyword index.
const DIRECTORY: &str = "milvus";
/// Number of hex digits of the model's fingerprint in the name of a collection.
const FINGERPRINT_DIGITS: usize = 12;
/// Property of a collection that names its ledger.
const IDENTITY_PROPERTY: &str = "vic.ledger";
/// Maximum time until Milvus Lite answers after its start: some seconds, or minutes on a machine that is very busy.
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// Interval between attempts to connect to Milvus Lite while it starts, which takes some seconds.
const START_INTERVAL: Duration = Duration::from_millis(200);
/// Milvus Lite that ended this often while it starts cannot start. The first attempts may fail, while the server of a
/// daemon that was killed ends.
const MAX_STARTS: u64 = 8;
/// Maximum time that `vic doctor` waits for the Milvus Lite of a daemon that runs.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to build an index or to load a collection.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of a write with its retries; long, because the server may restart meanwhile.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);

/// Why a backend is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Use {
    /// The daemon serves the index: it starts Milvus Lite.
    Serve,
    /// `vic doctor` reads the index: it uses the Milvus Lite of a daemon that runs, and starts one if none runs.
    Inspect {
        /// Whether a daemon runs.
        has_daemon: bool,
    },
}

/// A Milvus server with the collections of this vic.
pub(in crate::store) struct MilvusBackend {
    client: Client,
    alias: String,
    installation: String,
    dir: PathBuf,
    lite: Option<Arc<LiteServer>>,
}

impl MilvusBackend {
    /// Connects to the server of the settings, or starts Milvus Lite.
    ///
    /// # Errors
    /// The privacy mode forbids the server, it cannot be reached, does not accept the token or is too old; or Milvus Lite is
    /// not installed or does not start.
    pub(in crate::store) async fn connect(config: &Config, purpose: Use) -> Result<MilvusBackend> {
        let vectors = &config.vectors;
        let dir = config.db_path.join(DIRECTORY);
        std::fs::create_dir_all(&dir).io_context("create", &dir)?;
        let installation = installation(&dir)?;
        let (client, lite) = match is_address(&vectors.milvus_uri) {
            true => {
                let address = egress::announce_database(&vectors.milvus_uri, config.privacy_mode).await?;
                let settings = settings(address, vectors, config.servers_ca.as_deref())?;
                (Client::connect(settings).await.map_err(from_client)?, None)
            }
            false => start_lite(Path::new(&vectors.milvus_uri), purpose).await?,
        };
        check_version(&client)?;
        Ok(MilvusBackend { client, alias: vectors.milvus_collection.clone(), installation, dir, lite })
    }

    fn collection_of(&self, fingerprint: &str) -> String {
        let is_hex = fingerprint.len() >= FINGERPRINT_DIGITS && fingerprint.bytes().all(|it| it.is_ascii_hexdigit());
        let digits =
            if is_hex { fingerprint.to_ascii_lowercase() } else { blake3::hash(fingerprint.as_bytes()).to_string() };
        format!("{}_{}_{}", self.alias, self.installation, &digits[..FINGERPRINT_DIGITS])
    }

    fn ledger_path(&self, collection: &str) -> PathBuf {
        self.dir.join(format!("{collection}.sqlite"))
    }

    fn local_keywords_dir(&self) -> PathBuf {
        self.dir.join("keywords")
    }

    /// Opens the ledger. A corrupt one is renamed and replaced by an empty one.
    fn open_ledger(&self, collection: &str) -> Result<StoreLedger> {
        let path = self.ledger_path(collection);
        match StoreLedger::open(&path) {
            Err(error) if error.code == ErrorCode::DataLoss => {
                quarantine_database(&path)?;
                tracing::warn!("{error}; it is kept beside the new one, and all files are indexed again");
                StoreLedger::open(&path)
            }
            opened => opened,
        }
    }

    async fn open_store(&self, fingerprint: &str, dimension: usize) -> Result<MilvusStore> {
        let collection = self.collection_of(fingerprint);
        let ledger = self.open_ledger(&collection)?;
        let has_lost_rows = self.prepare_collection(&collection, dimension, &ledger).await?;
        self.index_and_load(&collection).await?;
        let local_keywords = match self.client.features().has_sparse {
            true => None,
            false => Some(LanceStore::open(&self.local_keywords_dir(), fingerprint, dimension).await?),
        };
        let mut store = MilvusStore::new(self.client.clone(), collection, dimension, ledger, local_keywords)?;
        store.lite = self.lite.clone();
        if let Some(lite) = &self.lite {
            lite.running().allow_others();
        }
        store.has_lost_rows.store(has_lost_rows, Ordering::Relaxed);
        store.repair().await?;
        Ok(store)
    }

    /// Creates the collection, or checks that it is the one of the ledger. Returns whether rows were lost: a collection
    /// without its ledger has no row that is known to be valid, and a ledger without its collection has no rows.
    async fn prepare_collection(&self, collection: &str, dimension: usize, ledger: &StoreLedger) -> Result<bool> {
        let identity = ledger.identity()?.to_string();
        let mut has_lost_rows = !ledger.runs()?.is_empty();
        if self.client.has_collection(collection).await.map_err(from_client)? {
            let found = self.check_fields(collection, dimension).await?;
            if found.properties.iter().any(|it| it.0 == IDENTITY_PROPERTY && it.1 == identity) {
                return Ok(false);
            }
            self.drop_on_server(collection).await?;
            has_lost_rows = true;
        }
        if has_lost_rows {
            tracing::warn!(collection, "Milvus has lost the collection of this ledger; all files are indexed again");
            ledger.clear()?;
        }
        self.create(collection, dimension, identity).await?;
        Ok(has_lost_rows)
    }

    /// Checks that a collection has the fields of vic.
    async fn check_fields(&self, collection: &str, dimension: usize) -> Result<Collection> {
        let found = self.client.describe_collection(collection, LOAD_TIMEOUT).await.map_err(from_client)?;
        let wanted = rows::fields(dimension, self.client.features().has_sparse);
        let names = |fields: &[vic_milvus::Field]| fields.iter().map(|it| it.name.clone()).collect::<BTreeSet<_>>();
        let problem = match found.dim(VECTOR) {
            Some(other) if other != dimension => format!("has vectors of {other} numbers, not {dimension}"),
            _ if names(&found.fields) != names(&wanted) => "has other fields than those of vic".to_owned(),
            _ => return Ok(found),
        };
        let text = format!("the collection `{collection}` {problem}, so that vic did not create it");
        let hint = "set VIC_MILVUS_COLLECTION to another name, or drop the collection";
        Err(Error::new(ErrorCode::FailedPrecondition, text).hint(hint))
    }

    async fn create(&self, collection: &str, dimension: usize, identity: String) -> Result<()> {
        let schema = Schema {
            name: collection.to_owned(),
            description: "chunks of files, written by vic".into(),
            fields: rows::fields(dimension, self.client.features().has_sparse),
            properties: vec![(IDENTITY_PROPERTY.into(), identity)],
        };
        match self.client.create_collection(&schema).await {
            Ok(()) => Ok(()),
            // A repeated attempt after a lost reply finds the collection.
            Err(_) if self.client.has_collection(collection).await.map_err(from_client)? => Ok(()),
            Err(error) => Err(from_client(error)),
        }
    }

    /// Creates missing indexes, and loads the collection, which Milvus Lite releases when it ends.
    async fn index_and_load(&self, collection: &str) -> Result<()> {
        let features = self.client.features();
        let dense = match features.has_hnsw {
            true => IndexParams::new("HNSW", Some(Metric::Cosine)).with("M", 16).with("efConstruction", 128),
            false => IndexParams::new("AUTOINDEX", Some(Metric::Cosine)),
        };
        let sparse = IndexParams::new("SPARSE_INVERTED_INDEX", Some(Metric::Ip));
        for (field, index) in [(VECTOR, Some(dense)), (WORDS, features.has_sparse.then_some(sparse))] {
            let Some(index) = index else { continue };
            if !self.client.has_index(collection, field).await.map_err(from_client)? {
                self.client.create_index(collection, field, &index, LOAD_TIMEOUT).await.map_err(from_client)?;
            }
        }
        self.client.load_collection(collection, LOAD_TIMEOUT).await.map_err(from_client)
    }

    async fn drop_on_server(&self, collection: &str) -> Result<()> {
        // A server may refuse to drop a collection that the alias names.
        if self.alias_target().await?.as_deref() == Some(collection) {
            self.client.drop_alias(&self.alias).await.map_err(from_client)?;
        }
        self.client.drop_collection(collection).await.map_err(from_client)
    }

    async fn drop_collection(&self, collection: &str) -> Result<()> {
        tracing::info!(collection, "removing the index of an unused model");
        self.drop_on_server(collection).await?;
        let path = self.ledger_path(collection);
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            match std::fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", Path::new(&name), &error));
                }
                _ => (),
            }
        }
        Ok(())
    }

    /// Returns the collection that the alias names, if there is one.
    async fn alias_target(&self) -> Result<Option<String>> {
        match self.client.describe_alias(&self.alias).await {
            Ok(collection) => Ok(Some(collection)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound(_)) => Ok(None),
            Err(error) => Err(from_client(error)),
        }
    }
}

#[async_trait::async_trait]
impl Backend for MilvusBackend {
    async fn open(&self, fingerprint: &str, dimension: usize) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.open_store(fingerprint, dimension).await?))
    }

    /// Moves the alias to the collection of this model.
    async fn set_serving(&self, fingerprint: &str) -> Result<()> {
        let collection = self.collection_of(fingerprint);
        let own = format!("{}_{}_", self.alias, self.installation);
        match self.alias_target().await? {
            Some(target) if target == collection => Ok(()),
            Some(target) if target.starts_with(&own) => {
                self.client.alter_alias(&self.alias, &collection).await.map_err(from_client)
            }
            Some(target) => Err(self.taken(&format!("is an alias of the collection `{target}`"))),
            None if self.client.has_collection(&self.alias).await.map_err(from_client)? => {
                Err(self.taken("is a collection"))
            }
            None => self.client.create_alias(&self.alias, &collection).await.map_err(from_client),
        }
    }

    async fn drop_tables_except(&self, kept: &[&str]) -> Result<()> {
        let kept_names: Vec<String> = kept.iter().map(|it| self.collection_of(it)).collect();
        let own = format!("{}_{}_", self.alias, self.installation);
        let collections = self.client.list_collections().await.map_err(from_client)?;
        for collection in collections.iter().filter(|it| it.starts_with(&own) && !kept_names.contains(it)) {
            self.drop_collection(collection).await?;
        }
        if self.local_keywords_dir().exists() {
            LanceBackend::new(self.local_keywords_dir()).drop_tables_except(kept).await?;
        }
        Ok(())
    }

    fn place(&self) -> String {
        format!("milvus {} {}", self.alias, self.installation)
    }

    async fn inspect(&self, fingerprint: &str, dimension: usize) -> Result<Option<Inspection>> {
        let collection = self.collection_of(fingerprint);
        let path = self.ledger_path(&collection);
        if !path.exists() || !self.client.has_collection(&collection).await.map_err(from_client)? {
            return Ok(None);
        }
        self.client.load_collection(&collection, LOAD_TIMEOUT).await.map_err(from_client)?;
        let ledger = StoreLedger::open_read_only(&path)?;
        let store = MilvusStore::new(self.client.clone(), collection, dimension, ledger, None)?;
        let mut inspection = Inspection { versions: 1, ..Inspection::default() };
        store.check_rows(&mut inspection).await?;
        Ok(Some(inspection))
    }
}

impl MilvusBackend {
    fn taken(&self, what: &str) -> Error {
        Error::new(ErrorCode::FailedPrecondition, format!("`{}` {what} that is not of this vic", self.alias))
            .hint("set VIC_MILVUS_COLLECTION to another name")
    }
}

/// Returns whether a setting is the address of a server, not a path.
fn is_address(uri: &str) -> bool {
    uri.contains("://")
}

fn settings(address: String, vectors: &VectorConfig, ca: Option<&Path>) -> Result<Settings> {
    let ca_pem = ca.map(|it| std::fs::read(it).io_context("read", it)).transpose()?;
    Ok(Settings {
        token: vectors.milvus_token.clone().map(Token::new),
        ca_pem,
        read_timeout: READ_TIMEOUT,
        write_timeout: WRITE_TIMEOUT,
        ..Settings::new(address)
    })
}

async fn start_lite(dir: &Path, purpose: Use) -> Result<(Client, Option<Arc<LiteServer>>)> {
    let lite_settings =
        |address: &str| Settings { read_timeout: READ_TIMEOUT, write_timeout: WRITE_TIMEOUT, ..Settings::new(address) };
    if let Use::Inspect { has_daemon } = purpose {
        let since = Instant::now();
        // The server of the daemon may be starting.
        while has_daemon && lite::running_address(dir).is_none() && since.elapsed() < INSPECT_TIMEOUT {
            tokio::time::sleep(START_INTERVAL).await;
        }
        if let Some(address) = lite::running_address(dir) {
            return Ok((Client::connect(lite_settings(&address)).await.map_err(from_client)?, None));
        }
        if has_daemon {
            return Err(Error::new(ErrorCode::Unavailable, "the milvus-lite of the running daemon was not found")
                .hint("wait until the daemon has opened the index, or stop it; then run `vic doctor` again"));
        }
    }
    let owned = dir.to_owned();
    let server = tokio::task::spawn_blocking(move || LiteServer::start(&owned)).await.map_err(Error::internal)??;
    let since = Instant::now();
    let running = server.running().clone();
    let settings = Settings {
        connected: Some(OnConnect::new(move || running.note_connection())),
        ..lite_settings(server.address())
    };
    loop {
        match Client::connect(settings.clone()).await {
            Ok(client) => return Ok((client, Some(Arc::new(server)))),
            Err(error) if since.elapsed() > START_TIMEOUT || server.starts() > MAX_STARTS => {
                let text =
                    format!("milvus-lite does not answer: {error}; its log ends with: {}", server.last_log_line());
                let hint = "end the other program that uses this directory, or set VIC_MILVUS_URI to another path";
                return Err(Error::new(ErrorCode::Unavailable, text).hint(hint));
            }
            Err(_) => tokio::time::sleep(START_INTERVAL).await,
        }
    }
}

/// Returns the digits of this vic, and creates them at the first start.
fn installation(dir: &Path) -> Result<String> {
    let path = dir.join("installation");
    match std::fs::read_to_string(&path) {
        Ok(text) if text.len() == 8 && text.bytes().all(|it| it.is_ascii_hexdigit()) => return Ok(text),
        Ok(_) => {
            let text = format!("`{}` holds no installation of vic", path.display());
            return Err(Error::new(ErrorCode::DataLoss, text)
                .hint("delete the file, and drop the old collections and the alias of this vic on the server"));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (),
        Err(error) => return Err(Error::io("read", &path, &error)),
    }
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(Error::internal)?;
    let digits = format!("{:08x}", u32::from_le_bytes(random));
    let unfinished = dir.join("installation.tmp");
    let mut file = std::fs::File::create(&unfinished).io_context("create", &unfinished)?;
    file.write_all(digits.as_bytes()).and_then(|()| file.sync_all()).io_context("write", &unfinished)?;
    std::fs::rename(&unfinished, &path).io_context("write", &path)?;
    Ok(digits)
}

fn check_version(client: &Client) -> Result<()> {
    let version = client.version();
    let is_old = version.numbers().is_some_and(|it| it < if version.is_lite() { (3, 0, 0) } else { (2, 3, 0) });
    if !is_old {
        return Ok(());
    }
    Err(Error::new(ErrorCode::FailedPrecondition, format!("Milvus {version} is too old for vic"))
        .hint("use Milvus 2.3 or newer, or milvus-lite 3"))
}
