//! Tests that code inside a jailed extraction worker cannot escape: real workers try to open files, connect and so on.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vic::extract::{EscapeAttempt, WorkerPool};
use vic::model::{ExtractLimits, JailMode, Reason};

use crate::hostile::extract_with;
use crate::hostile::model_store;
use crate::hostile::one_worker_pool;
use crate::hostile::worker_program;
use crate::support::capabilities;
use crate::support::harness::World;

/// Creates a file that a jailed worker must not open or change.
fn victim_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.txt");
    std::fs::write(&path, "untouched").unwrap();
    (folder, path)
}

async fn try_escapes(pool: &WorkerPool, path: &Path) -> (Vec<EscapeAttempt>, Vec<EscapeAttempt>) {
    let attempts = pool.try_escapes(path).await.unwrap();
    let barred = |it: &EscapeAttempt| match &it.failure {
        Some(why) => ["not permitted", "ermission denied", "left its jail", "leave its jail", "not implemented"]
            .iter()
            .any(|sign| why.contains(sign)),
        None => false,
    };
    attempts.into_iter().partition(|it| !barred(it))
}

// Cases C10, C16
#[tokio::test]
async fn jail_blocks_all_escape_attempts() {
    let (folder, path) = victim_file();
    let pool = one_worker_pool(worker_program(), ExtractLimits::default());
    let (open, barred) = try_escapes(&pool, &path).await;
    assert!(open.is_empty(), "{open:#?}");
    assert!(barred.len() > 20);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "untouched");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    assert_eq!(pool.is_jailed(), Some(true));
    // Attempts that killed their worker are reported, and the next file is extracted nevertheless.
    let said = pool.problems().join(" ");
    assert!(said.contains("tried to leave its jail") || said.contains("try to leave its jail"), "{said}");
    assert_eq!(extract_with(&pool, "a.txt", b"words").await.unwrap().text(), "words");
}

// Case C10
#[tokio::test]
async fn jail_of_ocr_worker_blocks_all_escape_attempts() {
    let (_folder, path) = victim_file();
    let settings = vic::skills::pool_settings(&model_store(), &ExtractLimits::default());
    assert!(settings.tools.ocr.is_some(), "`make models` fetches the OCR models");
    let (open, _) = try_escapes(&WorkerPool::new(worker_program().into(), settings), &path).await;
    assert!(open.is_empty(), "{open:#?}");
}

/// Writes a script that runs `vicd` under `strace`, so that one system call fails as not implemented.
fn program_without_syscall(folder: &Path, call: &str) -> PathBuf {
    let script = folder.join("vicd");
    let strace = "/usr/bin/strace -D -f -qq -o /dev/null";
    let text = format!(
        "#!/bin/sh\nexec {strace} -e trace={call} -e inject={call}:error=ENOSYS {} \"$@\"\n",
        worker_program().display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

// Case C10
#[tokio::test]
async fn missing_landlock_or_seccomp_limits_to_plain_text() {
    if !capabilities::can_trace() {
        return;
    }
    for (call, named) in [("landlock_create_ruleset", "Landlock"), ("seccomp", "seccomp")] {
        let folder = tempfile::tempdir().unwrap();
        let program = program_without_syscall(folder.path(), call);
        let strict = one_worker_pool(&program, ExtractLimits::default());
        let failed = extract_with(&strict, "a.html", b"<html><p>words").await.unwrap_err();
        assert_eq!(failed.reason, Reason::NoJail, "{}", failed.detail);
        assert_eq!(extract_with(&strict, "a.txt", b"words").await.unwrap().text(), "words");
        let said = strict.problems().join(" ");
        assert!(said.contains(named) && said.contains("VIC_JAIL=optional"), "{said}");
        let lenient = one_worker_pool(&program, ExtractLimits { jail: JailMode::Optional, ..ExtractLimits::default() });
        assert_eq!(extract_with(&lenient, "a.html", b"<html><p>words").await.unwrap().text(), "words");
        assert!(lenient.problems().join(" ").contains("without a jail"), "a missing jail must be reported");
    }
}

// Case C10
#[tokio::test]
async fn escape_attempts_succeed_without_jail() {
    if !capabilities::can_trace() {
        return;
    }
    let (folder, path) = victim_file();
    let program = program_without_syscall(folder.path(), "landlock_create_ruleset");
    let (open, _) = try_escapes(&one_worker_pool(&program, ExtractLimits::default()), &path).await;
    // Control: the attempts succeed without a jail. If they did not, the tests above would check nothing.
    for name in ["open a file", "create a file", "connect by TCP", "signal the daemon", "make a file in memory"] {
        assert!(open.iter().any(|it| it.name == name), "`{name}` fails even without a jail: {open:#?}");
    }
}

// Case C10
#[test]
fn missing_jail_is_reported_in_status_with_remedy() {
    if !capabilities::can_trace() {
        return;
    }
    let call = "landlock_create_ruleset";
    let launcher = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=landlock_create_ruleset", "-e"];
    let mut launcher: Vec<String> = launcher.map(String::from).to_vec();
    launcher.push(format!("inject={call}:error=ENOSYS"));
    let mut world = World::new().under(launcher).start();
    world.write("a.md", "The heron stands.");
    world.write("b.html", "<html><p>The otter dives.");
    world.index();
    let status = world.json(&["status"]);
    assert_eq!(status["coverage"]["reasons"]["no_jail"], 1, "{status:#}");
    let said = status["degraded"].to_string();
    assert!(said.contains("cannot be jailed") && said.contains("VIC_JAIL"), "{said}");
    assert_eq!(world.paths(&["heron"])[0], "a.md");
    // The next daemon has a jail and extracts the file that was postponed.
    assert!(world.terminate());
    let mut world = world.under(Vec::new());
    world.spawn_and_wait();
    world.wait_until("the postponed file is indexed", Duration::from_secs(30), |it| {
        it.json(&["status"])["coverage"]["indexed"] == 2
    });
    assert_eq!(world.json(&["status"])["degraded"].as_array().map_or(0, Vec::len), 0);
}
