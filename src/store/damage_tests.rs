//! Tests of a table after crashes, power loss and disk damage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tests::{DIMENSION, FINGERPRINT, file, keyword, many, nearest, open, vector};
use super::*;
use crate::error::{Error, ErrorCode};
use crate::machine::test_needs::can_prove;
use crate::model::FileChunks;

fn table_dir(dir: &Path) -> PathBuf {
    dir.join(format!("{}.lance", LanceStore::table_of(FINGERPRINT)))
}

/// Returns the paths of the table's manifests, oldest first.
fn manifests(dir: &Path) -> Vec<PathBuf> {
    super::manifests::list(&table_dir(dir)).unwrap().into_iter().map(|it| it.path).collect()
}

fn synced(dir: &Path) -> crate::store::durable_version::DurableVersion {
    crate::store::durable_version::DurableVersion::new(&table_dir(dir))
}

/// Returns the content of every file, without names, because quarantined files are renamed.
fn contents(dir: &Path) -> Vec<Vec<u8>> {
    let files = walkdir::WalkDir::new(dir).into_iter().flatten().filter(|it| it.file_type().is_file());
    let mut contents: Vec<Vec<u8>> = files.map(|it| std::fs::read(it.path()).unwrap()).collect();
    contents.sort();
    contents
}

/// Returns whether every file content of `before` is also in `after`, except the file in which the library records the
/// newest version.
fn is_kept(before: &[Vec<u8>], after: &[Vec<u8>]) -> bool {
    before.iter().filter(|it| !it.starts_with(b"{\"version\"")).all(|it| after.contains(it))
}

/// Returns the files in a folder of the table, newest last.
fn files_in(dir: &Path, folder: &str) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(table_dir(dir).join(folder)).into_iter().flatten();
    let mut files: Vec<PathBuf> =
        files.filter(|it| it.file_type().is_file()).map(|it| it.path().to_path_buf()).collect();
    files.sort_by_key(|it| std::fs::metadata(it).unwrap().modified().unwrap());
    files
}

/// Creates a table with two commits: the first adds files 1 to 3, the second file 4.
async fn two_commits(dir: &Path) {
    let store = open(dir).await;
    store.replace(many(3)).await.unwrap();
    store.replace(vec![file(4, &["the fourth"])]).await.unwrap();
}

// Case B3
#[tokio::test]
async fn damaged_newest_version_is_quarantined_and_previous_one_answers() {
    for damage in ["", "12345678", "this is no manifest of any table at all, but it is long enough to look like one"] {
        let dir = tempfile::tempdir().unwrap();
        two_commits(dir.path()).await;
        let newest = manifests(dir.path()).pop().unwrap();
        std::fs::write(&newest, damage).unwrap();
        let before = contents(dir.path());
        let store = open(dir.path()).await;
        assert_eq!(store.file_ids(), [1, 2, 3], "{damage}");
        assert!(store.recovery().has_lost_commits && store.recovery().quarantined.len() == 1, "{damage}");
        assert!(is_kept(&before, &contents(dir.path())), "{damage}");
        drop(store);
        // If the daemon dies before it accepts the loss, the next start finds the loss again.
        let store = open(dir.path()).await;
        assert!(store.recovery().has_lost_commits);
        store.accept_loss().await.unwrap();
        store.replace(vec![file(4, &["the fourth"])]).await.unwrap();
        drop(store);
        let store = open(dir.path()).await;
        assert!(!store.recovery().has_lost_commits);
        assert_eq!(store.file_ids(), [1, 2, 3, 4]);
        assert_eq!(keyword(&store, "fourth", &FileSet::All).await, [4]);
    }
}

// Case B12
#[tokio::test]
async fn unsynced_commits_are_undone_completely() {
    let dir = tempfile::tempdir().unwrap();
    two_commits(dir.path()).await;
    let last = synced(dir.path()).read().unwrap().unwrap();
    let store = open(dir.path()).await;
    store.replace(vec![file(4, &["the fourth, changed", "and longer"]), file(5, &["new"])]).await.unwrap();
    drop(store);
    // Restores the old number, as if the process was killed before it wrote the new durable version.
    assert!(synced(dir.path()).read().unwrap().unwrap() > last + 1, "a replacement is a delete and an add");
    synced(dir.path()).write(last).unwrap();
    let store = open(dir.path()).await;
    assert_eq!(store.rows_by_file(), BTreeMap::from([(1, 1), (2, 1), (3, 1), (4, 1)]));
    assert!(!store.recovery().has_lost_commits, "nothing that was acknowledged is gone");
    assert_eq!(keyword(&store, "fourth", &FileSet::All).await, [4]);
    assert_eq!(keyword(&store, "changed new longer", &FileSet::All).await, [0; 0]);
    store.replace(vec![file(4, &["the fourth, changed"])]).await.unwrap();
    assert_eq!(keyword(&store, "changed", &FileSet::All).await, [4]);
}

// Case B4
#[tokio::test]
async fn missing_or_empty_data_file_recreates_table_and_keeps_old() {
    for is_removed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        two_commits(dir.path()).await;
        let oldest = files_in(dir.path(), "data").remove(0);
        if is_removed {
            std::fs::remove_file(oldest).unwrap();
        } else {
            std::fs::write(oldest, "").unwrap();
        }
        // Damages the first, empty version too, so that no version is left to roll back to.
        std::fs::write(manifests(dir.path()).remove(0), "").unwrap();
        let before = contents(&table_dir(dir.path()));
        let store = open(dir.path()).await;
        assert!(store.recovery().has_lost_commits && store.file_ids().is_empty());
        let kept = contents(&store.recovery().quarantined[0]);
        assert!(is_kept(&before, &kept), "part of the old table is lost");
        store.accept_loss().await.unwrap();
        store.replace(many(2)).await.unwrap();
        drop(store);
        let store = open(dir.path()).await;
        assert_eq!((store.recovery().has_lost_commits, store.file_ids()), (false, vec![1, 2]));
    }
}

#[tokio::test]
async fn damaged_newest_data_file_costs_only_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    two_commits(dir.path()).await;
    let newest = files_in(dir.path(), "data").pop().unwrap();
    let length = std::fs::metadata(&newest).unwrap().len();
    // Overwrites with zeros of the same length, as if the length reached the disk and the content did not.
    std::fs::write(&newest, vec![0; length as usize]).unwrap();
    let store = open(dir.path()).await;
    assert_eq!(store.file_ids(), [1, 2, 3]);
    assert!(store.recovery().has_lost_commits);
}

#[tokio::test]
async fn damaged_keyword_index_is_rebuilt_without_row_loss() {
    for damage in ["", "garbage garbage garbage garbage"] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(many(50)).await.unwrap();
        store.maintain(Maintenance::Full).await.unwrap();
        drop(store);
        let index = files_in(dir.path(), "_indices");
        assert!(!index.is_empty());
        index.iter().for_each(|it| std::fs::write(it, damage).unwrap());
        let store = open(dir.path()).await;
        assert_eq!(store.file_ids().len(), 50);
        assert!(!store.recovery().has_lost_commits);
        assert_eq!(keyword(&store, "number7", &FileSet::All).await, [7]);
        store.maintain(Maintenance::Full).await.unwrap();
        assert_eq!(keyword(&store, "number7", &FileSet::All).await, [7]);
    }
}

// Case B5
#[tokio::test]
async fn leftovers_of_crash_are_harmless() {
    let dir = tempfile::tempdir().unwrap();
    two_commits(dir.path()).await;
    let table = table_dir(dir.path());
    for name in ["_versions/.tmp_1234", "_versions/7.manifest#1", "data/half.lance", "_versions/.atomicwriteX"] {
        std::fs::write(table.join(name), "half").unwrap();
    }
    let store = open(dir.path()).await;
    assert_eq!(store.file_ids(), [1, 2, 3, 4]);
    store.maintain(Maintenance::Full).await.unwrap();
}

#[tokio::test]
async fn lost_or_damaged_durable_version_costs_nothing() {
    for damage in [None, Some(""), Some("999 of what")] {
        let dir = tempfile::tempdir().unwrap();
        two_commits(dir.path()).await;
        let path = table_dir(dir.path()).with_extension("synced");
        match damage {
            None => std::fs::remove_file(path).unwrap(),
            Some(text) => std::fs::write(path, text).unwrap(),
        }
        let store = open(dir.path()).await;
        assert_eq!((store.recovery().has_lost_commits, store.file_ids()), (false, vec![1, 2, 3, 4]));
        assert!(synced(dir.path()).read().unwrap().is_some());
    }
}

#[tokio::test]
async fn old_versions_are_pruned_after_newest_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for id in 1..=40 {
        store.replace(vec![file(id, &["one of many"])]).await.unwrap();
    }
    store.maintain(Maintenance::Full).await.unwrap();
    let version = store.table.version().await.unwrap();
    assert_eq!(synced(dir.path()).read().unwrap(), Some(version));
    assert_eq!(nearest(&store, &vector(7, 0.0), &FileSet::All, 50).await.len(), 40);
}

#[tokio::test]
async fn interrupted_write_is_checked_before_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(3)).await.unwrap();
    // Commits rows through a second store. The first store does not count these rows, as after an error that follows a
    // commit.
    let other = open(dir.path()).await;
    other.replace(vec![file(9, &["the ninth"])]).await.unwrap();
    drop(other);
    let wrong = FileChunks { file_id: 9, ..file(9, &["otter"]) };
    store.mark_interrupted();
    store.replace(vec![wrong]).await.unwrap();
    assert_eq!(store.rows_by_file().get(&9), Some(&1));
    assert_eq!(store.table.count_rows(None).await.unwrap(), 4, "the ninth is there once");
    assert_eq!(keyword(&store, "ninth otter", &FileSet::All).await, [9]);
}

// Case B9
#[tokio::test]
async fn interrupted_change_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(3)).await.unwrap();
    let before = nearest(&store, &vector(7, 0.0), &FileSet::All, 50).await;
    // Makes the first of two commits of a change and then imitates a full disk: pruning has to run before the change is
    // repeated.
    store.table.delete("file_id = 1").await.unwrap();
    store.mark_interrupted();
    store.maintain(Maintenance::Prune).await.unwrap();
    assert_eq!(store.table.count_rows(None).await.unwrap(), 3);
    assert_eq!(nearest(&store, &vector(7, 0.0), &FileSet::All, 50).await, before);
    drop(store);
    let store = open(dir.path()).await;
    assert_eq!((store.recovery().has_lost_commits, store.file_ids()), (false, vec![1, 2, 3]));
    // Checks the same if the change itself reports the failure.
    let failed = store.run_change(async {
        store.table.delete("file_id = 2").await.unwrap();
        Err::<(), _>(Error::internal("no room"))
    });
    assert_eq!(failed.await.unwrap_err().message, "no room");
    assert_eq!(store.table.count_rows(None).await.unwrap(), 3, "at once");
    store.replace(vec![file(4, &["the fourth"])]).await.unwrap();
    assert_eq!(store.file_ids(), [1, 2, 3, 4]);
}

// Case B11
#[tokio::test]
async fn files_of_undone_changes_are_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.replace(many(3)).await.unwrap();
    let left = || files_in(dir.path(), "data").len();
    let before = left();
    let reading = store.version_pins.pin();
    let failed = store.run_change(async {
        let batch = schema::batch(&[file(9, &["the ninth"])], DIMENSION).unwrap();
        store.table.add(batch).execute().await.unwrap();
        Err::<(), _>(Error::internal("no room"))
    });
    failed.await.unwrap_err();
    assert_eq!(left(), before + 1, "the test could not fail");
    // Prunes the file although a read runs, because no read sees a change that is not durable.
    store.maintain(Maintenance::Prune).await.unwrap();
    drop(reading);
    assert_eq!((left(), store.table.count_rows(None).await.unwrap()), (before, 3));
    store.replace(vec![file(4, &["the fourth"])]).await.unwrap();
    store.maintain(Maintenance::Prune).await.unwrap();
    assert_eq!((left(), store.file_ids()), (before + 1, vec![1, 2, 3, 4]), "what is in use stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_while_changes_are_undone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()).await);
    store.replace(many(30)).await.unwrap();
    let (asked, over) = (store.clone(), Arc::new(AtomicBool::new(false)));
    let is_over = over.clone();
    let asking = tokio::spawn(async move {
        let words = KeywordQuery { terms: vec!["common".into()] };
        let mut answers = 0;
        while !is_over.load(Ordering::Relaxed) {
            let hits = asked.keyword_leg(&words, &FileSet::All, 50).await.unwrap().len();
            let nearest = asked.vector_leg(&vector(7, 0.0), &FileSet::All, 50).await.unwrap().len();
            assert_eq!((hits, nearest), (30, 30));
            answers += 1;
        }
        answers
    });
    for round in 0..100 {
        let broken = store.run_change(async {
            store.table.delete(&format!("file_id = {}", 1 + round % 30)).await.unwrap();
            Err::<(), _>(Error::internal("no room"))
        });
        broken.await.unwrap_err();
    }
    over.store(true, Ordering::Relaxed);
    assert!(asking.await.unwrap() > 10);
}

// Case B9
#[tokio::test]
async fn commit_with_truncated_files_does_not_count() {
    for folder in ["_deletions", "_versions"] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(many(3)).await.unwrap();
        let before = nearest(&store, &vector(7, 0.0), &FileSet::All, 50).await;
        // Runs twice, because the next version reuses the number, and thus the file name, of an undone version.
        for _ in 0..2 {
            let change = store.run_change(async {
                store.table.delete("file_id = 1").await.unwrap();
                // Truncates the files, to imitate a full disk, which the library does not notice.
                let files = files_in(dir.path(), folder).into_iter();
                let files = files.filter(|it| it.extension().is_some_and(|it| it != "json"));
                let torn = files.max_by_key(|it| it.metadata().unwrap().modified().unwrap()).unwrap();
                std::fs::File::options().write(true).open(&torn).unwrap().set_len(3).unwrap();
                store.commit_durable().await
            });
            let error = change.await.unwrap_err();
            assert!(error.message.contains(folder) && error.hint.is_some(), "{error}");
        }
        assert_eq!(store.table.count_rows(None).await.unwrap(), 3, "{folder}");
        assert_eq!(nearest(&store, &vector(7, 0.0), &FileSet::All, 50).await, before, "{folder}");
        store.replace(vec![file(4, &["the fourth"])]).await.unwrap();
        store.maintain(Maintenance::Full).await.unwrap();
        drop(store);
        let store = open(dir.path()).await;
        assert_eq!((store.recovery().has_lost_commits, store.file_ids()), (false, vec![1, 2, 3, 4]), "{folder}");
    }
}

// Case B7
#[test]
fn forbidden_folder_is_same_error_twice_and_nothing_moves() {
    use std::os::unix::fs::PermissionsExt;
    // Skipped for root; `tests/it/crash/damaged_data.rs` runs the same check as another user.
    if !can_prove(!rustix::process::geteuid().is_root(), "permissions do not stop root") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        two_commits(dir.path()).await;
        let versions = table_dir(dir.path()).join("_versions");
        std::fs::set_permissions(&versions, std::fs::Permissions::from_mode(0o000)).unwrap();
        for _ in 0..2 {
            let error = LanceStore::open(dir.path(), FINGERPRINT, DIMENSION).await.err().unwrap();
            assert_eq!(error.code, ErrorCode::PermissionDenied, "{error}");
        }
        std::fs::set_permissions(&versions, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(open(dir.path()).await.file_ids(), [1, 2, 3, 4]);
    });
}
