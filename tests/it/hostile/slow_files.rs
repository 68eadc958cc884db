//! Tests that many files that exceed their time limit or kill their workers do not delay the other files for long.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use vic::model::{FileState, OcrMode, Reason};

use crate::index::skills::TestIndex;
use crate::support::long_tests::figure;

/// A fake worker that logs each job and answers at once, but hangs on content with `slow` and dies on content with `deadly`.
const WORKER: &str = r#"#!/bin/sh
frame() {
  set -- $(dd bs=1 count=4 2>/dev/null | od -An -tu1)
  [ -n "$1" ] || exit 0
  dd bs=1 count=$(($1 + 256 * $2)) 2>/dev/null
}
say() {
  printf "$(printf '\\%03o\\%03o' $((${#1} % 256)) $((${#1} / 256)))"'\000\000%s' "$1" >&0
}
frame > /dev/null
say '{"open":null}'
while job=$(frame) && [ -n "$job" ]; do
  case "$job" in
    *slow*) echo slow >> "$0.order"; sleep 99 ;;
    *deadly*) kill -9 $$ ;;
    *) echo good >> "$0.order"; say '{"Ok":{"title":null,"media_type":"text/plain","blocks":[{"kind":"Paragraph","text":"words","anchor":{}}],"problems":[],"truncated":false,"pages":null,"pages_without_text":[]}}' ;;
  esac
done
"#;

const SLOW: usize = 40;
const GOOD: usize = 20;

/// Number of files that kill their workers, number of good files after them, and maximum time for the good files.
const DEADLY: usize = 1_000;
const GOOD_AFTER_DEADLY: usize = 100;
const GOOD_LIMIT: Duration = Duration::from_secs(120);

/// Returns an index over `count` bad files followed by `good` good files, extracted by the fake worker.
async fn index_with_worker(folder: &Path, (bad, count): (&str, usize), good: usize) -> TestIndex {
    let program = folder.join("worker");
    std::fs::write(&program, WORKER).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let fill = |files: &Path| {
        for (folder, name, count) in [("a", bad, count), ("b", "good", good)] {
            std::fs::create_dir(files.join(folder)).unwrap();
            for number in 0..count {
                // Each file has its own content, because vic does not extract known content again.
                std::fs::write(files.join(format!("{folder}/{name}{number}.pdf")), format!("{name}{number}")).unwrap();
            }
        }
    };
    TestIndex::with_worker(&program, fill, true).await
}

// Case C13
#[tokio::test(flavor = "multi_thread")]
async fn hanging_files_do_not_block_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let house = index_with_worker(folder.path(), ("slow", SLOW), GOOD).await;
    house.job(OcrMode::Never, false).await;
    let order = std::fs::read_to_string(folder.path().join("worker.order")).unwrap();
    let order: Vec<&str> = order.lines().collect();
    let last_good = order.iter().rposition(|it| *it == "good").unwrap();
    let waited = order[last_good..].iter().filter(|it| **it == "slow").count();
    // If slow files blocked the two workers for 2 s each, they would take 40 s before the first good file.
    assert!(waited >= SLOW / 2, "only {waited} slow files came after the last good file: {order:?}");
    // Checks that every slow file was tried in the end and failed with a timeout as the reason.
    let coverage = house.catalog.coverage(None).unwrap();
    assert_eq!((coverage.pending, coverage.indexed, coverage.failed), (0, GOOD as u64, SLOW as u64));
    assert_eq!(coverage.reasons[Reason::Timeout.name()], SLOW as u64);
    assert_eq!(house.record("a/slow0.pdf").state, FileState::Failed);
}

// Case C13
#[tokio::test(flavor = "multi_thread")]
async fn deadly_files_do_not_block_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let house = index_with_worker(folder.path(), ("deadly", DEADLY), GOOD_AFTER_DEADLY).await;
    let (begun, catalog, good) = (Instant::now(), house.catalog.clone(), GOOD_AFTER_DEADLY as u64);
    let watch = tokio::task::spawn_blocking(move || {
        while catalog.coverage(None).unwrap().indexed < good && begun.elapsed() < GOOD_LIMIT {
            std::thread::sleep(Duration::from_millis(100));
        }
        begun.elapsed()
    });
    house.job(OcrMode::Never, false).await;
    let (done, all) = (watch.await.unwrap(), begun.elapsed());
    figure("good files after a thousand that kill their readers", format!("{done:.1?}, all files {all:.1?}"));
    assert!(done < GOOD_LIMIT, "{:?}", house.catalog.coverage(None).unwrap());
    let coverage = house.catalog.coverage(None).unwrap();
    assert_eq!((coverage.pending, coverage.indexed, coverage.failed), (0, good, DEADLY as u64));
    assert_eq!(coverage.reasons[Reason::WorkerCrash.name()], DEADLY as u64);
}
