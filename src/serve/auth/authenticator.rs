//! Authenticates requests on the TCP port by their key, and detects when a key is revoked.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::data_dir::keys::{self, Grant};
use crate::error::{Error, ErrorCode};
use crate::model::{Principal, Scope};

/// How often the key of a running request is checked, so that a revocation takes effect within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long the key table may be missing or unparsable before its keys are treated as revoked: an editor may replace a
/// file in two steps, and a user needs time to correct a reported typing error.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// BLAKE3 hash of a key.
type Hash = [u8; 32];

/// Identifies a version of the key table file: ctime (seconds, nanoseconds), length, inode.
type FileVersion = (i64, i64, u64, u64);

/// Result of checking the key of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The request has no key.
    Missing,
    /// The request has a key that is not valid.
    Invalid,
    /// The request has a valid key, which gives the caller this grant.
    Key(Grant),
}

/// Hashes of the keys in the key table, each with its grant.
type TableKeys = Arc<[(Hash, Grant)]>;

/// Verifies keys of the TCP port. Stores only hashes of the keys, and compares with all of them in constant time, so that
/// the timing reveals neither a part of a key nor which key matched.
pub(crate) struct Authenticator {
    owner_hash: Hash,
    path: PathBuf,
    table_cache: Mutex<KeyTable>,
}

/// Contents of the key table file when it was last read.
#[derive(Default)]
struct KeyTable {
    /// `None` if the file must be read again; `Some(None)` if the file does not exist.
    version: Option<Option<FileVersion>>,
    /// Since when the file has been missing or unparsable without a break; `None` if it is valid.
    unclear_since: Option<Instant>,
    others: TableKeys,
    /// Why the file could not be read, with the fix.
    problem: Option<String>,
}

impl Authenticator {
    /// Creates an authenticator from the owner's key and the path of the key table, which may be missing.
    pub(crate) fn new(own: &str, path: PathBuf) -> Authenticator {
        Authenticator { owner_hash: *blake3::hash(own.as_bytes()).as_bytes(), path, table_cache: Mutex::default() }
    }

    /// Returns the current problem of the key table, with the fix; `None` if there is none.
    pub(crate) fn problem(&self) -> Option<String> {
        self.current_table().problem.clone()
    }

    /// Checks the key in `Authorization: Bearer KEY`. A request with several such headers is rejected.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Credential {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Credential::Missing,
            (Some(value), None) => value,
            (Some(_), Some(_)) => return Credential::Invalid,
        };
        let Some((scheme, key)) = value.as_bytes().split_at_checked(7) else { return Credential::Invalid };
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return Credential::Invalid;
        }
        self.check_hash(key)
    }

    /// Checks a key that the web page sent.
    pub(crate) fn check_key(&self, key: &str) -> Credential {
        self.check_hash(key.as_bytes())
    }

    fn check_hash(&self, key: &[u8]) -> Credential {
        let hash = *blake3::hash(key.trim_ascii()).as_bytes();
        let mut found = if bool::from(hash.ct_eq(&self.owner_hash)) {
            Credential::Key(Grant::owner())
        } else {
            Credential::Invalid
        };
        let others = self.current_table().others.clone();
        for (known, grant) in others.iter() {
            if bool::from(hash.ct_eq(known)) {
                found = Credential::Key(grant.clone());
            }
        }
        found
    }

    /// Waits until the key no longer grants the access it had, because it was revoked or its rights were reduced. Never
    /// returns for the owner's key.
    pub(crate) async fn revoked(&self, grant: &Grant) {
        while self.still_grants(grant) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns whether work that runs for this grant may go on: the key still grants the access, or the key table is unreadable
    /// for the moment.
    pub(crate) fn still_grants(&self, grant: &Grant) -> bool {
        self.grants(grant) || self.current_table().is_unknown()
    }

    /// Returns whether the key grants this access to a new request.
    pub(crate) fn grants(&self, grant: &Grant) -> bool {
        grant.holder == Principal::Owner
            || self.current_table().others.iter().any(|(_, now)| grants_at_least(now, grant))
    }

    /// Returns the contents of the key table, which is read again if the file changed. An unreadable table grants
    /// nothing.
    fn current_table(&self) -> MutexGuard<'_, KeyTable> {
        let version = Some(self.version());
        let mut read = self.table_cache.lock().unwrap_or_else(PoisonError::into_inner);
        if read.version != version {
            let table = match keys::read_key_table(&self.path) {
                Ok(keys) => {
                    let known = keys
                        .iter()
                        .filter_map(|it| Some((*blake3::Hash::from_hex(&it.hash).ok()?.as_bytes(), it.grant())));
                    // If the file changed while it was read, discards the version, so that the next call reads it again;
                    // the file may have been replaced and restored.
                    let version = version.filter(|it| *it == self.version());
                    let unclear_since =
                        (version == Some(None)).then(|| read.unclear_since.unwrap_or_else(Instant::now));
                    KeyTable { version, unclear_since, others: known.collect(), problem: None }
                }
                Err(error) => {
                    let problem = Some(describe_problem(&error));
                    if read.problem != problem {
                        tracing::error!(%error, "only the owner's key is accepted on the TCP port");
                    }
                    // If the contents are invalid, the file is not read again until it changes. After a transient error,
                    // such as a lack of file descriptors, drops the version, so that the next call reads the file again.
                    let is_passing = error.code != ErrorCode::DataLoss;
                    let unclear_since = Some(read.unclear_since.unwrap_or_else(Instant::now));
                    KeyTable { version: version.filter(|_| !is_passing), unclear_since, problem, ..KeyTable::default() }
                }
            };
            *read = table;
        }
        read
    }

    /// Returns the version of the key table file; `None` if it does not exist.
    fn version(&self) -> Option<FileVersion> {
        self.path.metadata().ok().map(|it| (it.ctime(), it.ctime_nsec(), it.len(), it.ino()))
    }
}

impl KeyTable {
    /// Returns whether the current keys are unknown, because of a transient read error or an edit in progress. In that
    /// state no key of the table is accepted, and no running request is ended.
    fn is_unknown(&self) -> bool {
        self.version.is_none() || self.unclear_since.is_some_and(|it| it.elapsed() < GRACE_PERIOD)
    }
}

/// Returns whether a key now grants at least what it granted before; it may grant more, or have its folders reordered.
fn grants_at_least(now: &Grant, before: &Grant) -> bool {
    let has_folders = match (&now.scope, &before.scope) {
        (Scope::All, _) => true,
        (Scope::Folders(_), Scope::All) => false,
        // Compares the folders literally first, because `covers` is false for a folder written with `..`, even for itself.
        (Scope::Folders(all), Scope::Folders(old)) => old.iter().all(|it| all.contains(it) || now.scope.covers(it)),
    };
    now.holder == before.holder && now.right >= before.right && has_folders
}

fn describe_problem(error: &Error) -> String {
    let cure = error.hint.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("only the owner's key is accepted on the TCP port: {}{cure}", error.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::data_dir::keys::{KeyEntry, Right};

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, header::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn check(values: &[&str]) -> Credential {
        Authenticator::new("s3cret", "/no/such/table".into()).authenticate(&headers(values))
    }

    #[test]
    fn only_exact_bearer_key_is_accepted() {
        assert_eq!(check(&["Bearer s3cret"]), Credential::Key(Grant::owner()));
        assert_eq!(check(&["bearer  s3cret"]), Credential::Key(Grant::owner()));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "s3cret",
            "Basic s3cret",
            "Bearer s3cre",
            "Bearer s3cret2",
            "Bearer S3CRET",
            "Bearer ключ",
        ] {
            assert_eq!(check(&[wrong]), Credential::Invalid, "{wrong}");
        }
        assert_eq!(check(&[]), Credential::Missing);
        assert_eq!(check(&["Bearer s3cret", "Bearer s3cret"]), Credential::Invalid, "two headers");
    }

    // Case E14
    #[test]
    fn added_key_is_accepted_until_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = Authenticator::new("own", config.keys_path());
        let key = keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let other = keys::add(&config, "bo", &[dir.path().into()], Right::Index).unwrap();
        let shown = |key: &str| ring.authenticate(&headers(&[&format!("Bearer {key}")]));
        let right = |shown: Credential| match shown {
            Credential::Key(grant) => Some(grant.right),
            Credential::Missing | Credential::Invalid => None,
        };
        assert_eq!(
            [shown(&key), shown(&other), shown("own")].map(right),
            [Some(Right::Read), Some(Right::Index), Some(Right::Own)]
        );
        keys::revoke(&config, "ada").unwrap();
        assert_eq!([shown(&key), shown(&other)].map(right), [None, Some(Right::Index)]);
        assert_eq!(ring.problem(), None);
        std::fs::write(config.keys_path(), "[{").unwrap();
        assert_eq!([shown(&other), shown("own")].map(right), [None, Some(Right::Own)]);
        let problem = ring.problem().unwrap();
        assert!(problem.contains("keys.json") && problem.contains("fix it"), "{problem}");
        std::fs::remove_file(config.keys_path()).unwrap();
        assert_eq!(ring.problem(), None, "a removed file is no problem");
    }

    #[tokio::test]
    async fn revoked_returns_when_key_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = Authenticator::new("own", config.keys_path());
        let [ada, bo] = ["ada", "bo"].map(|it| keys::add(&config, it, &[dir.path().into()], Right::Read).unwrap());
        let [ada, bo] = [ada, bo].map(|it| match ring.authenticate(&headers(&[&format!("Bearer {it}")])) {
            Credential::Key(grant) => grant,
            other => panic!("{other:?}"),
        });
        assert_ne!(ada, bo, "different keys with equal folders and rights");
        let told = async |grant: &Grant| tokio::time::timeout(2 * POLL_INTERVAL, ring.revoked(grant)).await.is_ok();
        assert!(!told(&ada).await && !told(&Grant::owner()).await);
        keys::revoke(&config, "ada").unwrap();
        // Adds a new key with the name of the old one, which must not revive the old key.
        keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        assert!(told(&ada).await && !told(&bo).await && !told(&Grant::owner()).await);
    }

    /// Changes a key in the key table; returns whether its earlier grant is still valid.
    fn check_changed(change: impl FnOnce(&mut KeyEntry)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("keys.json");
        let ring = Authenticator::new("own", table.clone());
        let hash = blake3::hash(b"ada's").to_hex().to_string();
        let roots = vec!["/w/a".into(), "/v".into()];
        let mut key = KeyEntry { name: "ada".into(), hash, roots, right: Right::Index, created_ms: 0 };
        std::fs::write(&table, serde_json::to_vec(&[&key]).unwrap()).unwrap();
        let grant = key.grant();
        assert!(ring.still_grants(&grant));
        change(&mut key);
        // Pretty printing changes the length of the file, so that the change is detected even within one clock tick.
        std::fs::write(&table, serde_json::to_vec_pretty(&[&key]).unwrap()).unwrap();
        ring.still_grants(&grant)
    }

    #[test]
    fn reduced_rights_revoke_grant_and_wider_do_not() {
        assert!(check_changed(|it| it.roots.push("/u".into())));
        assert!(check_changed(|it| it.roots.reverse()));
        assert!(check_changed(|it| it.roots[0] = "/w".into()), "a parent folder is wider");
        assert!(check_changed(|it| it.name = "ada.l".into()), "a key is identified by its hash");
        assert!(!check_changed(|it| it.roots[0] = "/w/a/b".into()));
        assert!(!check_changed(|it| drop(it.roots.pop())));
        assert!(!check_changed(|it| it.right = Right::Read));
        assert!(!check_changed(|it| it.hash = blake3::hash(b"bo's").to_hex().to_string()));
        let grant = |right| Grant { scope: Scope::Folders(["/w/a".into()].into()), right, holder: Principal::Owner };
        assert!(grants_at_least(&grant(Right::Index), &grant(Right::Read)), "the index right includes reading");
    }

    #[test]
    fn narrower_grant_is_covered_by_wider_key() {
        let grant = |folder: &str| {
            let scope = Scope::Folders([folder.into()].into());
            Grant { scope, right: Right::Read, holder: Principal::Key("ada".into()) }
        };
        assert!(grants_at_least(&grant("/w"), &grant("/w/a")) && !grants_at_least(&grant("/w/b"), &grant("/w/a")));
        let odd = grant("/w/a/../b");
        assert!(grants_at_least(&odd, &odd), "an equal grant is never less");
    }

    #[tokio::test]
    async fn broken_key_table_revokes_after_grace_period() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = Authenticator::new("own", config.keys_path());
        keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let grant = keys::list(&config).unwrap()[0].grant();
        assert!(ring.still_grants(&grant));
        let (table, kept) = (std::fs::read(config.keys_path()).unwrap(), dir.path().join("keys.json~"));
        std::fs::write(config.keys_path(), &table[..table.len() - 3]).unwrap();
        assert!(ring.problem().is_some() && ring.still_grants(&grant), "within the grace period");
        assert!(!ring.grants(&grant), "a new request");
        ring.current_table().unclear_since = Instant::now().checked_sub(GRACE_PERIOD);
        std::fs::write(config.keys_path(), &table[..table.len() - 4]).unwrap();
        assert!(!ring.still_grants(&grant), "another broken version does not restart the grace period");
        std::fs::write(config.keys_path(), &table).unwrap();
        assert!(ring.still_grants(&grant));
        std::fs::rename(config.keys_path(), &kept).unwrap();
        assert!(
            ring.problem().is_none() && ring.current_table().others.is_empty() && ring.still_grants(&grant),
            "missing within the grace period"
        );
        std::fs::write(config.keys_path(), &table).unwrap();
        assert!(ring.still_grants(&grant) && ring.current_table().unclear_since.is_none());
        std::fs::remove_file(config.keys_path()).unwrap();
        assert!(ring.still_grants(&grant));
        ring.current_table().unclear_since = Instant::now().checked_sub(GRACE_PERIOD);
        assert!(!ring.still_grants(&grant), "a file missing for longer revokes its keys");
    }

    #[tokio::test]
    async fn keys_work_again_after_transient_read_error() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let key = keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let ring = Authenticator::new("own", config.keys_path());
        let opens = || matches!(ring.authenticate(&headers(&[&format!("Bearer {key}")])), Credential::Key(_));
        let Credential::Key(grant) = ring.authenticate(&headers(&[&format!("Bearer {key}")])) else {
            panic!("key rejected")
        };
        // Replaces the table by a folder, to simulate a transient error such as a lack of file descriptors.
        let kept = dir.path().join("kept");
        std::fs::rename(config.keys_path(), &kept).unwrap();
        std::fs::create_dir(config.keys_path()).unwrap();
        assert!(!opens() && ring.problem().is_some());
        assert_eq!(ring.table_cache.lock().unwrap().version, None, "the next call tries again");
        let waits = tokio::time::timeout(2 * POLL_INTERVAL, ring.revoked(&grant));
        assert!(waits.await.is_err(), "running requests continue");
        std::fs::remove_dir(config.keys_path()).unwrap();
        std::fs::rename(&kept, config.keys_path()).unwrap();
        assert!(opens() && ring.problem().is_none());
    }
}
