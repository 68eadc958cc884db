//! Whose key a request shows.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::error::{Error, ErrorCode};
use crate::model::Holder;
use crate::serve::keys::{self, Grant};

/// How often it is looked whether the key of an answer under way still opens: one that was revoked is gone within a second.
const LOOK: Duration = Duration::from_millis(500);

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

    /// Returns when a key that opened this does so no more: it was revoked, or given other folders. The owner's never is.
    pub(crate) async fn revoked(&self, grant: &Grant) {
        if grant.holder == Holder::Owner {
            return std::future::pending().await;
        }
        // Of a table that cannot be read for the moment nobody knows: nothing new is opened, and nothing ends.
        let opens = |it: &Table| it.version.is_none() || it.others.iter().any(|(_, own)| own == grant);
        while opens(&self.table()) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The table as it is now. One that cannot be read opens nothing.
    fn table(&self) -> MutexGuard<'_, Table> {
        let found = self.table.metadata().ok();
        let version = Some(found.map(|it| (it.ctime(), it.ctime_nsec(), it.len(), it.ino())));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.version != version {
            let table = match keys::read(&self.table) {
                Ok(keys) => {
                    let known = keys
                        .iter()
                        .filter_map(|it| Some((*blake3::Hash::from_hex(&it.hash).ok()?.as_bytes(), it.grant())));
                    Table { version, others: known.collect(), problem: None }
                }
                Err(error) => {
                    let problem = Some(told(&error));
                    if read.problem != problem {
                        tracing::error!(%error, "no key but the owner's opens the TCP port");
                    }
                    // What cannot be understood stays so until it is another. Where the system was short of something, it
                    // is tried again each time.
                    let is_passing = error.code != ErrorCode::DataLoss;
                    Table { version: version.filter(|_| !is_passing), others: Others::default(), problem }
                }
            };
            *read = table;
        }
        read
    }
}

fn told(error: &Error) -> String {
    let cure = error.hint.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("no key but the owner's opens the TCP port: {}{cure}", error.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::serve::keys::Right;

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
