use super::*;

fn pool(program: &str) -> WorkerPool {
    let limits = ExtractLimits { seconds: 1, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    WorkerPool::new(program.into(), settings)
}

async fn check(program: &str, expected: Reason) -> WorkerPool {
    let file = tempfile::tempfile().unwrap();
    let pool = pool(program);
    // Twice: a fault must not use up a permit.
    for _ in 0..2 {
        let failed = pool.extract(file.try_clone().unwrap(), "a.txt").await.unwrap_err();
        assert_eq!(failed.reason, expected, "{}", failed.detail);
    }
    pool
}

#[tokio::test]
async fn a_worker_that_never_gets_ready_is_no_fault_of_the_file_and_is_told_with_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let silent = program(folder.path(), "sleep 99");
    for program in ["/bin/false", "/nonexistent/vicd", silent.to_str().unwrap()] {
        let pool = check(program, Reason::Io).await;
        assert!(pool.problems()[0].contains(program), "{:?}", pool.problems());
    }
}

#[tokio::test]
async fn a_worker_may_take_longer_to_be_ready_than_a_file_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let pool = scripted(folder.path(), &format!("sleep 2\n{HELLO}\nread line"));
    pool.probe().await;
    assert_eq!(pool.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn that_workers_do_not_start_is_said_until_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("fails");
    std::fs::write(&flag, "").unwrap();
    let pool = scripted(folder.path(), &format!("[ -e {} ] && exit 1\n{HELLO}\nread line", flag.display()));
    pool.probe().await;
    assert_eq!(pool.problems().len(), 1, "{:?}", pool.problems());
    std::fs::remove_file(flag).unwrap();
    pool.probe().await;
    assert_eq!(pool.problems(), Vec::<String>::new());
}

/// What a script says that is ready to be given a file.
const HELLO: &str = r"printf '\002\000\000\000{}' >&0";

/// A worker that is a script with the socket as its descriptor 0.
fn program(folder: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = folder.join("worker");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn scripted(folder: &Path, script: &str) -> WorkerPool {
    pool(program(folder, script).to_str().unwrap())
}

/// Checks what becomes of a file whose reader says that it is ready and then does this.
async fn check_script(script: &str, expected: Reason) -> WorkerPool {
    let folder = tempfile::tempdir().unwrap();
    let pool = scripted(folder.path(), &format!("{HELLO}\n{script}"));
    let failed = pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    assert_eq!(failed.reason, expected, "{script}: {}", failed.detail);
    pool
}

#[tokio::test]
async fn a_worker_that_talks_nonsense_is_a_crash() {
    for script in [
        r"printf '\377\377\377\377' >&0; sleep 9",
        r"printf '\005\000\000\000hello' >&0; sleep 9",
        r"printf '\002\000\000\000{}' >&0; sleep 9",
        r"printf '\005\000' >&0",
        "exit 0",
        "kill -SEGV $$",
    ] {
        check_script(script, Reason::WorkerCrash).await;
    }
}

#[tokio::test]
async fn a_worker_that_never_ends_or_floods_its_outputs_is_killed_at_the_time_limit() {
    for script in ["while :; do :; done", "yes", "yes >&2", "trap '' TERM INT; sleep 9; sleep 9"] {
        check_script(script, Reason::Timeout).await;
    }
}

#[tokio::test]
async fn what_a_worker_started_ends_with_it() {
    let sleeps = |seconds: &str| {
        let found = std::process::Command::new("pgrep").args(["-fx", &format!("sleep {seconds}")]).output().unwrap();
        !found.stdout.is_empty()
    };
    for (script, seconds, reason) in [
        ("sleep 73411 & wait", "73411", Reason::Timeout),
        ("sleep 73412 & kill -SEGV $$", "73412", Reason::WorkerCrash),
    ] {
        let pool = check_script(script, reason).await;
        drop(pool);
        let begun = Instant::now();
        while sleeps(seconds) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{script}");
        }
    }
}

#[tokio::test]
async fn a_worker_that_its_jail_killed_is_counted() {
    let pool = check_script("kill -SYS $$", Reason::WorkerCrash).await;
    assert!(pool.problems()[0].starts_with("1 times a file made its reader"), "{:?}", pool.problems());
}

#[tokio::test]
async fn a_skill_that_hangs_is_killed_at_the_time_limit_of_its_job() {
    let settings = PoolSettings { workers: 1, limits: ExtractLimits::default(), tools: Tools::default(), skills: true };
    let folder = tempfile::tempdir().unwrap();
    let pool = WorkerPool::new(program(folder.path(), &format!("{HELLO}\nsleep 60")), settings);
    let job = SkillJob { skill: "any".to_string(), seconds: 1, ..SkillJob::default() };
    let begun = Instant::now();
    let failed = pool.run_skill(tempfile::tempfile().unwrap(), "a.pdf", job).await.unwrap_err();
    assert_eq!(failed.reason, Reason::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(10), "the pool's own limit is longer");
}
