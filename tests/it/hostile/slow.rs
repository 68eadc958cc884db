//! Files that use up all their time, many and first in order: the others are read all the same, and soon.

use std::os::unix::fs::PermissionsExt;

use vic::model::{FileState, OcrMode, Reason};

use crate::skills::House;

/// A worker that writes down what it is given, and answers at once, save for files that are called slow.
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
    *) echo good >> "$0.order"; say '{"Ok":{"title":null,"media_type":"text/plain","blocks":[{"kind":"Paragraph","text":"words","anchor":{}}],"problems":[],"truncated":false,"pages":null,"pages_without_text":[]}}' ;;
  esac
done
"#;

const SLOW: usize = 40;
const GOOD: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn files_that_hang_do_not_keep_the_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("worker");
    std::fs::write(&program, WORKER).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let fill = |files: &std::path::Path| {
        for (folder, name, count) in [("a", "slow", SLOW), ("b", "good", GOOD)] {
            std::fs::create_dir(files.join(folder)).unwrap();
            for number in 0..count {
                // Not one content twice: what is known is not read again.
                std::fs::write(files.join(format!("{folder}/{name}{number}.pdf")), format!("{name}{number}")).unwrap();
            }
        }
    };
    let house = House::of(&program, fill, true).await;
    house.job(OcrMode::Never, false).await;
    let order = std::fs::read_to_string(folder.path().join("worker.order")).unwrap();
    let order: Vec<&str> = order.lines().collect();
    let last_good = order.iter().rposition(|it| *it == "good").unwrap();
    let waited = order[last_good..].iter().filter(|it| **it == "slow").count();
    // With two readers and 2 s for each, the slow ones would else take 40 s before the first good one.
    assert!(waited >= SLOW / 2, "{waited} were still waiting when the last good one was read: {order:?}");
    // Their turn came in the end, each with its reason.
    let coverage = house.catalog.coverage(None).unwrap();
    assert_eq!((coverage.pending, coverage.indexed, coverage.failed), (0, GOOD as u64, SLOW as u64));
    assert_eq!(coverage.reasons[Reason::Timeout.name()], SLOW as u64);
    assert_eq!(house.record("a/slow0.pdf").state, FileState::Failed);
}
