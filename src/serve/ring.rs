//! Authenticates the key of a request, and detects revoked keys.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::data_dir::keys::{self, Grant};
use crate::error::{Error, ErrorCode};
use crate::model::{Holder, Scope};

/// Poll interval for the key of a running request: a revoked key takes effect within a second.
const LOOK: Duration = Duration::from_millis(500);

/// Grace period for a missing or unparsable key table; only after it are its keys treated as revoked. Editors replace files
/// in two steps, and a typing error is fixed once it is reported.
const UNCLEAR: Duration = Duration::from_secs(30);

/// BLAKE3 of a key.
type Hash = [u8; 32];

/// Version of the key table: ctime (seconds, nanoseconds), length, inode.
type Version = (i64, i64, u64, u64);

/// Credential of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No key.
    Nothing,
    /// Not a valid key.
    Wrong,
    /// A valid key with its grant.
    Key(Grant),
}

/// Hashes of the keys in the key table, each with its grant.
type Others = Arc<[(Hash, Grant)]>;

/// Verifies keys of the TCP port. It stores hashes only, and compares all of them in constant time, so that timing reveals
/// neither a part of a key nor which key matched.
pub(crate) struct KeyRing {
    own: Hash,
    table: PathBuf,
    read: Mutex<Table>,
}

/// Contents of the key table at the last read.
#[derive(Default)]
struct Table {
    /// `None` if the file must be read (again); `Some(None)` if there is no file.
    version: Option<Option<Version>>,
    /// Time since which the file is missing or unparsable, across retries.
    unclear_since: Option<Instant>,
    others: Others,
    /// Why the file could not be read, with the fix.
    problem: Option<String>,
}

impl KeyRing {
    /// Creates a verifier with the owner's key and a key table, which may be missing.
    pub(crate) fn new(own: &str, table: PathBuf) -> KeyRing {
        KeyRing { own: *blake3::hash(own.as_bytes()).as_bytes(), table, read: Mutex::default() }
    }

    /// Returns the current problem of the key table, with the fix.
    pub(crate) fn problem(&self) -> Option<String> {
        self.table().problem.clone()
    }

    /// Parses `Authorization: Bearer KEY`. More than one header is rejected.
    pub(crate) fn shown(&self, headers: &HeaderMap) -> Shown {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Shown::Nothing,
            (Some(value), None) => value,
            (Some(_), Some(_)) => return Shown::Wrong,
        };
        let Some((scheme, key)) = value.as_bytes().split_at_checked(7) else { return Shown::Wrong };
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return Shown::Wrong;
        }
        let hash = *blake3::hash(key.trim_ascii()).as_bytes();
        let mut found = if bool::from(hash.ct_eq(&self.own)) { Shown::Key(Grant::owner()) } else { Shown::Wrong };
        let others = self.table().others.clone();
        for (known, grant) in others.iter() {
            if bool::from(hash.ct_eq(known)) {
                found = Shown::Key(grant.clone());
            }
        }
        found
    }

    /// Returns when the key no longer grants the access it had: it was revoked or its rights were reduced. Never returns
    /// for the owner.
    pub(crate) async fn revoked(&self, grant: &Grant) {
        while self.may_open(grant) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns whether the key still grants this access, as far as is known.
    pub(crate) fn may_open(&self, grant: &Grant) -> bool {
        if grant.holder == Holder::Owner {
            return true;
        }
        let table = self.table();
        table.is_unknown() || table.others.iter().any(|(_, now)| opens_all_of(now, grant))
    }

    /// Returns the current contents of the key table. An unreadable file grants nothing.
    fn table(&self) -> MutexGuard<'_, Table> {
        let version = Some(self.version());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.version != version {
            let table = match keys::read(&self.table) {
                Ok(keys) => {
                    let known = keys
                        .iter()
                        .filter_map(|it| Some((*blake3::Hash::from_hex(&it.hash).ok()?.as_bytes(), it.grant())));
                    // Discard the version if the file changed during the read: it may have been replaced and put back.
                    let version = version.filter(|it| *it == self.version());
                    let unclear_since =
                        (version == Some(None)).then(|| read.unclear_since.unwrap_or_else(Instant::now));
                    Table { version, unclear_since, others: known.collect(), problem: None }
                }
                Err(error) => {
                    let problem = Some(told(&error));
                    if read.problem != problem {
                        tracing::error!(%error, "only the owner's key is accepted on the TCP port");
                    }
                    // Invalid contents stay invalid until the file changes. After a transient error, such as lack of
                    // descriptors, each call tries again.
                    let is_passing = error.code != ErrorCode::DataLoss;
                    let unclear_since = Some(read.unclear_since.unwrap_or_else(Instant::now));
                    Table { version: version.filter(|_| !is_passing), unclear_since, problem, ..Table::default() }
                }
            };
            *read = table;
        }
        read
    }

    /// Returns the version of the key table, if it exists.
    fn version(&self) -> Option<Version> {
        self.table.metadata().ok().map(|it| (it.ctime(), it.ctime_nsec(), it.len(), it.ino()))
    }
}

impl Table {
    /// Returns whether the current keys are unknown: a transient read error, or an edit in progress. Then no new key is
    /// accepted and no running request ends.
    fn is_unknown(&self) -> bool {
        self.version.is_none() || self.unclear_since.is_some_and(|it| it.elapsed() < UNCLEAR)
    }
}

/// Returns whether a key grants at least what it granted before. More rights and reordered folders are fine.
fn opens_all_of(now: &Grant, before: &Grant) -> bool {
    let has_folders = match (&now.scope, &before.scope) {
        (Scope::All, _) => true,
        (Scope::Folders(_), Scope::All) => false,
        // A folder written with `..` does not even cover itself.
        (Scope::Folders(all), Scope::Folders(old)) => old.iter().all(|it| all.contains(it) || now.scope.covers(it)),
    };
    now.holder == before.holder && now.right >= before.right && has_folders
}

fn told(error: &Error) -> String {
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

    fn check(values: &[&str]) -> Shown {
        KeyRing::new("s3cret", "/no/such/table".into()).shown(&headers(values))
    }

    #[test]
    fn only_exact_bearer_key_is_accepted() {
        assert_eq!(check(&["Bearer s3cret"]), Shown::Key(Grant::owner()));
        assert_eq!(check(&["bearer  s3cret"]), Shown::Key(Grant::owner()));
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
            assert_eq!(check(&[wrong]), Shown::Wrong, "{wrong}");
        }
        assert_eq!(check(&[]), Shown::Nothing);
        assert_eq!(check(&["Bearer s3cret", "Bearer s3cret"]), Shown::Wrong, "two headers");
    }

    #[test]
    fn added_key_is_accepted_until_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = KeyRing::new("own", config.keys_path());
        let key = keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let other = keys::add(&config, "bo", &[dir.path().into()], Right::Index).unwrap();
        let shown = |key: &str| ring.shown(&headers(&[&format!("Bearer {key}")]));
        let right = |shown: Shown| match shown {
            Shown::Key(grant) => Some(grant.right),
            Shown::Nothing | Shown::Wrong => None,
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
        let ring = KeyRing::new("own", config.keys_path());
        let [ada, bo] = ["ada", "bo"].map(|it| keys::add(&config, it, &[dir.path().into()], Right::Read).unwrap());
        let [ada, bo] = [ada, bo].map(|it| match ring.shown(&headers(&[&format!("Bearer {it}")])) {
            Shown::Key(grant) => grant,
            other => panic!("{other:?}"),
        });
        assert_ne!(ada, bo, "different keys with equal folders and rights");
        let told = async |grant: &Grant| tokio::time::timeout(2 * LOOK, ring.revoked(grant)).await.is_ok();
        assert!(!told(&ada).await && !told(&Grant::owner()).await);
        keys::revoke(&config, "ada").unwrap();
        // A new key with the old name is a different key.
        keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        assert!(told(&ada).await && !told(&bo).await && !told(&Grant::owner()).await);
    }

    /// Changes a key in the key table; returns whether its earlier grant is still valid.
    fn check_changed(change: impl FnOnce(&mut KeyEntry)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("keys.json");
        let ring = KeyRing::new("own", table.clone());
        let hash = blake3::hash(b"ada's").to_hex().to_string();
        let roots = vec!["/w/a".into(), "/v".into()];
        let mut key = KeyEntry { name: "ada".into(), hash, roots, right: Right::Index, created_ms: 0 };
        std::fs::write(&table, serde_json::to_vec(&[&key]).unwrap()).unwrap();
        let grant = key.grant();
        assert!(ring.may_open(&grant));
        change(&mut key);
        // Pretty printing changes the length, so the change is detected even within one clock tick.
        std::fs::write(&table, serde_json::to_vec_pretty(&[&key]).unwrap()).unwrap();
        ring.may_open(&grant)
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
        let grant = |right| Grant { scope: Scope::Folders(["/w/a".into()].into()), right, holder: Holder::Owner };
        assert!(opens_all_of(&grant(Right::Index), &grant(Right::Read)), "the index right includes reading");
    }

    #[test]
    fn narrower_grant_is_covered_by_wider_key() {
        let grant = |folder: &str| {
            let scope = Scope::Folders([folder.into()].into());
            Grant { scope, right: Right::Read, holder: Holder::Key("ada".into()) }
        };
        assert!(opens_all_of(&grant("/w"), &grant("/w/a")) && !opens_all_of(&grant("/w/b"), &grant("/w/a")));
        let odd = grant("/w/a/../b");
        assert!(opens_all_of(&odd, &odd), "an equal grant is never less");
    }

    #[tokio::test]
    async fn broken_key_table_revokes_after_grace_period() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = KeyRing::new("own", config.keys_path());
        keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let grant = keys::list(&config).unwrap()[0].grant();
        assert!(ring.may_open(&grant));
        let (table, kept) = (std::fs::read(config.keys_path()).unwrap(), dir.path().join("keys.json~"));
        std::fs::write(config.keys_path(), &table[..table.len() - 3]).unwrap();
        assert!(ring.problem().is_some() && ring.may_open(&grant), "within the grace period");
        ring.table().unclear_since = Instant::now().checked_sub(UNCLEAR);
        std::fs::write(config.keys_path(), &table[..table.len() - 4]).unwrap();
        assert!(!ring.may_open(&grant), "another broken version does not restart the grace period");
        std::fs::write(config.keys_path(), &table).unwrap();
        assert!(ring.may_open(&grant));
        std::fs::rename(config.keys_path(), &kept).unwrap();
        assert!(
            ring.problem().is_none() && ring.table().others.is_empty() && ring.may_open(&grant),
            "missing within the grace period"
        );
        std::fs::write(config.keys_path(), &table).unwrap();
        assert!(ring.may_open(&grant) && ring.table().unclear_since.is_none());
        std::fs::remove_file(config.keys_path()).unwrap();
        assert!(ring.may_open(&grant));
        ring.table().unclear_since = Instant::now().checked_sub(UNCLEAR);
        assert!(!ring.may_open(&grant), "a file missing for longer revokes its keys");
    }

    #[tokio::test]
    async fn keys_work_again_after_transient_read_error() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let key = keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let ring = KeyRing::new("own", config.keys_path());
        let opens = || matches!(ring.shown(&headers(&[&format!("Bearer {key}")])), Shown::Key(_));
        let Shown::Key(grant) = ring.shown(&headers(&[&format!("Bearer {key}")])) else { panic!("key rejected") };
        // Simulates a transient error, such as lack of descriptors.
        let kept = dir.path().join("kept");
        std::fs::rename(config.keys_path(), &kept).unwrap();
        std::fs::create_dir(config.keys_path()).unwrap();
        assert!(!opens() && ring.problem().is_some());
        assert_eq!(ring.read.lock().unwrap().version, None, "the next call tries again");
        let waits = tokio::time::timeout(2 * LOOK, ring.revoked(&grant));
        assert!(waits.await.is_err(), "running requests continue");
        std::fs::remove_dir(config.keys_path()).unwrap();
        std::fs::rename(&kept, config.keys_path()).unwrap();
        assert!(opens() && ring.problem().is_none());
    }
}
