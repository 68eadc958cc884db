//! Whose key a request shows.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::data_dir::keys::{self, Grant};
use crate::error::{Error, ErrorCode};
use crate::model::{Holder, Scope};

/// How often it is looked whether the key of an answer under way still opens: one that was revoked is gone within a second.
const LOOK: Duration = Duration::from_millis(500);

/// A table that is away or makes no sense for so long is meant so: what it does not name any more ends. An editor that keeps
/// the old one under another name writes the new one a moment later, and a slip of the hand is mended when it is told.
const UNCLEAR: Duration = Duration::from_secs(30);

/// BLAKE3 of a key.
type Hash = [u8; 32];

/// Which version of the table was read: time of change, of rights too, length, inode.
type Version = (i64, i64, u64, u64);

/// What a request shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// No key at all.
    Nothing,
    /// Something that is no key of ours.
    Wrong,
    /// A key.
    Key(Grant),
}

/// The keys of the table, as hashes, with what each opens.
type Others = Arc<[(Hash, Grant)]>;

/// Every key that opens the TCP port. Only hashes are kept, and all of them are compared in constant time, so that neither
/// the length nor the beginning of a key can be found out by measuring, nor which one it was.
pub(crate) struct KeyRing {
    own: Hash,
    table: PathBuf,
    read: Mutex<Table>,
}

/// The table as it was read last.
#[derive(Default)]
struct Table {
    /// None before it was read; of a table that is not there, there is none.
    version: Option<Option<Version>>,
    /// Since when it is not there or cannot be understood, however often that was looked at.
    unclear_since: Option<Instant>,
    others: Others,
    /// Why it could not be read, with the cure.
    problem: Option<String>,
}

impl KeyRing {
    /// A ring with the owner's key, and those of the table at that path, which need not exist.
    pub(crate) fn new(own: &str, table: PathBuf) -> KeyRing {
        KeyRing { own: *blake3::hash(own.as_bytes()).as_bytes(), table, read: Mutex::default() }
    }

    /// What is wrong with the table now, and the cure.
    pub(crate) fn problem(&self) -> Option<String> {
        self.table().problem.clone()
    }

    /// Looks at `Authorization: Bearer KEY`, of which there must be one and no second.
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

    /// Returns when a key that opened this does so no more: it was revoked, or what it opens became less. The owner's never
    /// is.
    pub(crate) async fn revoked(&self, grant: &Grant) {
        while self.may_open(grant) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether a key that opened this still does, as far as anybody knows.
    pub(crate) fn may_open(&self, grant: &Grant) -> bool {
        if grant.holder == Holder::Owner {
            return true;
        }
        let table = self.table();
        table.is_unknown() || table.others.iter().any(|(_, now)| opens_all_of(now, grant))
    }

    /// The table as it is now. One that cannot be read opens nothing.
    fn table(&self) -> MutexGuard<'_, Table> {
        let version = Some(self.version());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.version != version {
            let table = match keys::read(&self.table) {
                Ok(keys) => {
                    let known = keys
                        .iter()
                        .filter_map(|it| Some((*blake3::Hash::from_hex(&it.hash).ok()?.as_bytes(), it.grant())));
                    // What is changed while it is read is looked at once more: it may have gone in between, and come back.
                    let version = version.filter(|it| *it == self.version());
                    let unclear_since =
                        (version == Some(None)).then(|| read.unclear_since.unwrap_or_else(Instant::now));
                    Table { version, unclear_since, others: known.collect(), problem: None }
                }
                Err(error) => {
                    let problem = Some(told(&error));
                    if read.problem != problem {
                        tracing::error!(%error, "no key but the owner's opens the TCP port");
                    }
                    // What cannot be understood stays so until it is another. Where the system was short of something, it
                    // is tried again each time.
                    let is_passing = error.code != ErrorCode::DataLoss;
                    let unclear_since = Some(read.unclear_since.unwrap_or_else(Instant::now));
                    Table { version: version.filter(|_| !is_passing), unclear_since, problem, ..Table::default() }
                }
            };
            *read = table;
        }
        read
    }

    /// Which table is there now, if any.
    fn version(&self) -> Option<Version> {
        self.table.metadata().ok().map(|it| (it.ctime(), it.ctime_nsec(), it.len(), it.ino()))
    }
}

impl Table {
    /// Whether nobody knows for the moment what opens: the system does not let it be read, or a hand may be changing it.
    /// Nothing new is opened then, and nothing ends.
    fn is_unknown(&self) -> bool {
        self.version.is_none() || self.unclear_since.is_some_and(|it| it.elapsed() < UNCLEAR)
    }
}

/// Whether a key opens all that it opened before. That it opens more, or names its folders in another order, ends nothing.
fn opens_all_of(now: &Grant, before: &Grant) -> bool {
    let has_folders = match (&now.scope, &before.scope) {
        (Scope::All, _) => true,
        (Scope::Folders(_), Scope::All) => false,
        // A folder that is written in a way that opens nothing covers not even itself.
        (Scope::Folders(all), Scope::Folders(old)) => old.iter().all(|it| all.contains(it) || now.scope.covers(it)),
    };
    now.holder == before.holder && now.right >= before.right && has_folders
}

fn told(error: &Error) -> String {
    let cure = error.hint.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("no key but the owner's opens the TCP port: {}{cure}", error.message)
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
    fn only_the_key_itself_opens() {
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
        assert_eq!(check(&["Bearer s3cret", "Bearer s3cret"]), Shown::Wrong, "two of them");
    }

    #[test]
    fn a_key_of_the_table_opens_from_its_addition_to_its_end() {
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
        assert!(problem.contains("keys.json") && problem.contains("mend it"), "{problem}");
        std::fs::remove_file(config.keys_path()).unwrap();
        assert_eq!(ring.problem(), None, "whoever moves it aside begins anew");
    }

    #[tokio::test]
    async fn that_a_key_opens_no_more_is_told_to_whoever_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = KeyRing::new("own", config.keys_path());
        let [ada, bo] = ["ada", "bo"].map(|it| keys::add(&config, it, &[dir.path().into()], Right::Read).unwrap());
        let [ada, bo] = [ada, bo].map(|it| match ring.shown(&headers(&[&format!("Bearer {it}")])) {
            Shown::Key(grant) => grant,
            other => panic!("{other:?}"),
        });
        assert_ne!(ada, bo, "the same folders and the same right are not the same key");
        let told = async |grant: &Grant| tokio::time::timeout(2 * LOOK, ring.revoked(grant)).await.is_ok();
        assert!(!told(&ada).await && !told(&Grant::owner()).await);
        keys::revoke(&config, "ada").unwrap();
        // Another key of the same name is another key.
        keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        assert!(told(&ada).await && !told(&bo).await && !told(&Grant::owner()).await);
    }

    /// A table with this key, and whether what it opened still is.
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
        // Of another length, however soon it comes.
        std::fs::write(&table, serde_json::to_vec_pretty(&[&key]).unwrap()).unwrap();
        ring.may_open(&grant)
    }

    #[test]
    fn what_is_under_way_ends_when_its_key_opens_less_and_not_when_it_opens_more() {
        assert!(check_changed(|it| it.roots.push("/u".into())));
        assert!(check_changed(|it| it.roots.reverse()));
        assert!(check_changed(|it| it.roots[0] = "/w".into()), "a folder above is more");
        assert!(check_changed(|it| it.name = "ada.l".into()), "a key is who it is by its hash");
        assert!(!check_changed(|it| it.roots[0] = "/w/a/b".into()));
        assert!(!check_changed(|it| drop(it.roots.pop())));
        assert!(!check_changed(|it| it.right = Right::Read));
        assert!(!check_changed(|it| it.hash = blake3::hash(b"bo's").to_hex().to_string()));
        let grant = |right| Grant { scope: Scope::Folders(["/w/a".into()].into()), right, holder: Holder::Owner };
        assert!(opens_all_of(&grant(Right::Index), &grant(Right::Read)), "to index is more than to read");
    }

    #[test]
    fn a_part_of_what_a_key_opens_is_open_as_long_as_the_key_opens_it() {
        let grant = |folder: &str| {
            let scope = Scope::Folders([folder.into()].into());
            Grant { scope, right: Right::Read, holder: Holder::Key("ada".into()) }
        };
        assert!(opens_all_of(&grant("/w"), &grant("/w/a")) && !opens_all_of(&grant("/w/b"), &grant("/w/a")));
        let odd = grant("/w/a/../b");
        assert!(opens_all_of(&odd, &odd), "the same is never less");
    }

    #[tokio::test]
    async fn a_table_that_a_hand_changes_ends_nothing_until_it_is_there_and_understood() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let ring = KeyRing::new("own", config.keys_path());
        keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let grant = keys::list(&config).unwrap()[0].grant();
        assert!(ring.may_open(&grant));
        let (table, kept) = (std::fs::read(config.keys_path()).unwrap(), dir.path().join("keys.json~"));
        std::fs::write(config.keys_path(), &table[..table.len() - 3]).unwrap();
        assert!(ring.problem().is_some() && ring.may_open(&grant), "a slip of the hand");
        ring.table().unclear_since = Instant::now().checked_sub(UNCLEAR);
        std::fs::write(config.keys_path(), &table[..table.len() - 4]).unwrap();
        assert!(!ring.may_open(&grant), "whatever is slipped on the way, it is not mended");
        std::fs::write(config.keys_path(), &table).unwrap();
        assert!(ring.may_open(&grant));
        std::fs::rename(config.keys_path(), &kept).unwrap();
        assert!(
            ring.problem().is_none() && ring.table().others.is_empty() && ring.may_open(&grant),
            "away for a moment"
        );
        std::fs::write(config.keys_path(), &table).unwrap();
        assert!(ring.may_open(&grant) && ring.table().unclear_since.is_none());
        std::fs::remove_file(config.keys_path()).unwrap();
        assert!(ring.may_open(&grant));
        ring.table().unclear_since = Instant::now().checked_sub(UNCLEAR);
        assert!(!ring.may_open(&grant), "whoever takes the table away revokes what is in it");
    }

    #[tokio::test]
    async fn keys_that_could_not_be_read_for_a_moment_open_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().as_os_str().to_owned();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.clone())).unwrap();
        let key = keys::add(&config, "ada", &[dir.path().into()], Right::Read).unwrap();
        let ring = KeyRing::new("own", config.keys_path());
        let opens = || matches!(ring.shown(&headers(&[&format!("Bearer {key}")])), Shown::Key(_));
        let Shown::Key(grant) = ring.shown(&headers(&[&format!("Bearer {key}")])) else { panic!("it opens nothing") };
        // As where there are no descriptors left: whatever the table is, it is not read.
        let kept = dir.path().join("kept");
        std::fs::rename(config.keys_path(), &kept).unwrap();
        std::fs::create_dir(config.keys_path()).unwrap();
        assert!(!opens() && ring.problem().is_some());
        assert_eq!(ring.read.lock().unwrap().version, None, "it is tried again");
        let waits = tokio::time::timeout(2 * LOOK, ring.revoked(&grant));
        assert!(waits.await.is_err(), "what is under way goes on");
        std::fs::remove_dir(config.keys_path()).unwrap();
        std::fs::rename(&kept, config.keys_path()).unwrap();
        assert!(opens() && ring.problem().is_none());
    }
}
