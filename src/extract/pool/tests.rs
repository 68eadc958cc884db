use super::*;
use crate::extract::pool::scripted_worker::{HELLO, worker_script};

fn pool(program: &str) -> WorkerPool {
    let limits = ExtractLimits { seconds: 1, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    WorkerPool::new(program.into(), settings)
}

async fn assert_failures(program: &str, expected: Reason) -> WorkerPool {
    let file = tempfile::tempfile().unwrap();
    let pool = pool(program);
    // Runs the job twice: a failed job that kept its permit would block the second.
    for _ in 0..2 {
        let failed = pool.extract(file.try_clone().unwrap(), "a.txt").await.unwrap_err();
        assert_eq!(failed.reason, expected, "{}", failed.detail);
    }
    pool
}

#[tokio::test]
async fn worker_start_failure_is_io_and_names_program() {
    let folder = tempfile::tempdir().unwrap();
    let silent = worker_script(folder.path(), "sleep 99");
    for program in ["/bin/false", "/nonexistent/vicd", silent.to_str().unwrap()] {
        let pool = assert_failures(program, Reason::Io).await;
        assert!(pool.problems()[0].contains(program), "{:?}", pool.problems());
    }
}

#[tokio::test]
async fn worker_start_may_exceed_file_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let pool = scripted_pool(folder.path(), &format!("sleep 2\n{HELLO}\nread line"));
    pool.probe().await;
    assert_eq!(pool.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn start_failure_is_reported_until_worker_starts() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("fails");
    std::fs::write(&flag, "").unwrap();
    let pool = scripted_pool(folder.path(), &format!("[ -e {} ] && exit 1\n{HELLO}\nread line", flag.display()));
    pool.probe().await;
    assert_eq!(pool.problems().len(), 1, "{:?}", pool.problems());
    std::fs::remove_file(flag).unwrap();
    pool.probe().await;
    assert_eq!(pool.problems(), Vec::<String>::new());
}

fn scripted_pool(folder: &Path, script: &str) -> WorkerPool {
    pool(worker_script(folder, script).to_str().unwrap())
}

/// Checks that a file fails for the expected reason if its worker becomes ready and then runs `script`.
async fn assert_script_failure(script: &str, expected: Reason) -> WorkerPool {
    let folder = tempfile::tempdir().unwrap();
    let pool = scripted_pool(folder.path(), &format!("{HELLO}\n{script}"));
    let failed = pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    assert_eq!(failed.reason, expected, "{script}: {}", failed.detail);
    pool
}

// Case C9
#[tokio::test]
async fn worker_with_invalid_reply_is_a_crash() {
    for script in [
        r"printf '\377\377\377\377' >&0; sleep 9",
        r"printf '\005\000\000\000hello' >&0; sleep 9",
        r"printf '\002\000\000\000{}' >&0; sleep 9",
        r"printf '\005\000' >&0",
        "exit 0",
        "kill -SEGV $$",
    ] {
        assert_script_failure(script, Reason::WorkerCrash).await;
    }
}

// Case C9
#[tokio::test]
async fn hanging_or_flooding_worker_is_killed_at_time_limit() {
    for script in ["while :; do :; done", "yes", "yes >&2", "trap '' TERM INT; sleep 9; sleep 9"] {
        assert_script_failure(script, Reason::Timeout).await;
    }
}

// Case C9
#[tokio::test]
async fn child_processes_end_with_worker() {
    let sleeps = |seconds: &str| {
        let found = std::process::Command::new("pgrep").args(["-fx", &format!("sleep {seconds}")]).output().unwrap();
        !found.stdout.is_empty()
    };
    for (script, seconds, reason) in [
        ("sleep 73411 & wait", "73411", Reason::Timeout),
        ("sleep 73412 & kill -SEGV $$", "73412", Reason::WorkerCrash),
    ] {
        let pool = assert_script_failure(script, reason).await;
        drop(pool);
        let begun = Instant::now();
        while sleeps(seconds) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{script}");
        }
    }
}

// Case C10
#[tokio::test]
async fn worker_killed_by_jail_is_counted() {
    let pool = assert_script_failure("kill -SYS $$", Reason::WorkerCrash).await;
    assert!(pool.problems()[0].starts_with("1 times a file made its worker"), "{:?}", pool.problems());
}

#[tokio::test]
async fn hanging_skill_is_killed_at_job_time_limit() {
    let settings = PoolSettings { workers: 1, limits: ExtractLimits::default(), tools: Tools::default(), skills: true };
    let folder = tempfile::tempdir().unwrap();
    let pool = WorkerPool::new(worker_script(folder.path(), &format!("{HELLO}\nsleep 60")), settings);
    let job = SkillJob { skill: "any".to_string(), seconds: 1, ..SkillJob::default() };
    let begun = Instant::now();
    let failed = pool.run_skill(tempfile::tempfile().unwrap(), "a.pdf", job).await.unwrap_err();
    assert_eq!(failed.reason, Reason::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(10), "the limit of the pool is longer");
}

/// Shell command that replies that the file needs a password.
const ANSWER: &str = r#"printf '\064\000\000\000{"Err":{"reason":"encrypted","detail":"a password"}}' >&0; sleep 9"#;

/// Reads a file with a worker that runs the commands `what` on its first start and sends `ANSWER` on later starts; with
/// `always`, it runs `what` on each start. Checks the reason of the failure; returns its detail and the number of starts.
async fn assert_retry_failure(what: &str, always: bool, expected: Reason) -> (String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let first = if always { String::new() } else { format!("[ $(wc -l < {}) = 1 ] && ", starts.display()) };
    let script = format!("echo >> {}\n{HELLO}\n{first}{what}\n{ANSWER}", starts.display());
    let pool = scripted_pool(folder.path(), &script);
    let failed = pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    assert_eq!(failed.reason, expected, "{what}: {}", failed.detail);
    (failed.detail, std::fs::read_to_string(starts).unwrap().lines().count())
}

#[tokio::test]
async fn file_is_retried_once_after_outside_signal() {
    for signal in ["KILL", "TERM", "STOP"] {
        let (_, starts) = assert_retry_failure(&format!("kill -{signal} $$"), false, Reason::Encrypted).await;
        assert_eq!(starts, 2, "{signal}");
    }
}

// Case C12
#[tokio::test]
async fn second_outside_signal_fails_file_and_is_named() {
    for (signal, reason) in [("KILL", Reason::WorkerCrash), ("TERM", Reason::WorkerCrash), ("STOP", Reason::Timeout)] {
        let (detail, starts) = assert_retry_failure(&format!("kill -{signal} $$"), true, reason).await;
        assert!(detail.contains(&format!("SIG{signal}")), "{detail}");
        assert_eq!(starts, 2, "{signal}");
    }
}

// Case C9
#[tokio::test]
async fn file_that_crashes_worker_fails_without_retry() {
    for (signal, reason) in [
        ("SEGV", Reason::WorkerCrash),
        ("SYS", Reason::WorkerCrash),
        ("XCPU", Reason::WorkerCrash),
        ("ABRT", Reason::OutOfMemory),
    ] {
        let (detail, starts) = assert_retry_failure(&format!("kill -{signal} $$"), true, reason).await;
        assert_eq!(starts, 1, "{signal}: {detail}");
    }
}

/// Reads a file in a worker that allocates 400 MiB in another program and then runs `end`. Returns the recorded peak memory
/// in MiB and the failure's detail.
async fn peak_before_exit(end: &str, reason: Reason, memory_mib: u32) -> (u64, String) {
    let folder = tempfile::tempdir().unwrap();
    let grow = format!("import os, signal, time\nheld = bytearray(400 << 20)\ntime.sleep(0.3)\n{end}");
    let script = format!("{HELLO}\nexec python3 -c '{grow}'");
    let limits = ExtractLimits { seconds: 20, memory_mib, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    let pool = WorkerPool::new(worker_script(folder.path(), &script), settings);
    let failed = pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    assert_eq!(failed.reason, reason, "{end}: {}", failed.detail);
    (pool.peak_mib(), failed.detail)
}

#[tokio::test]
async fn peak_memory_of_dead_worker_is_recorded() {
    for end in ["os.kill(os.getpid(), signal.SIGSEGV)", "os._exit(3)"] {
        let (peak, _) = peak_before_exit(end, Reason::WorkerCrash, 2_048).await;
        assert!((400..2_000).contains(&peak), "{end}: {peak} MiB");
    }
}

#[tokio::test]
async fn final_peak_memory_of_worker_is_recorded() {
    // The worker exits too soon for the memory monitor to sample its memory.
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{HELLO}\nexec python3 -c 'import os\nheld = bytearray(1 << 30)\nos.abort()'");
    let limits = ExtractLimits { seconds: 60, memory_mib: 4 << 10, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    let pool = WorkerPool::new(worker_script(folder.path(), &script), settings);
    let begun = Instant::now();
    pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    let ours = process::memory_of(std::process::id()).unwrap().1 >> 20;
    assert!(pool.peak_mib() >= 1_024 || ours >= 1_024, "{} MiB after {:?}", pool.peak_mib(), begun.elapsed());
}

#[tokio::test]
async fn worker_over_memory_limit_is_killed_with_both_sizes() {
    let (peak, detail) = peak_before_exit("time.sleep(60)", Reason::OutOfMemory, 200).await;
    // The memory is still growing when the monitor reads it: any size over the limit is right.
    let used: u64 = detail.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(peak >= 200 && used > 200 && detail.ends_with("limit is 200 MiB"), "{peak} {detail}");
}

/// Observer that counts the attempts to read a file, and decides whether a retry is allowed.
struct AttemptCounter {
    attempts: std::sync::atomic::AtomicU32,
    may_again: bool,
}

impl AttemptCounter {
    fn new(may_again: bool) -> AttemptCounter {
        AttemptCounter { attempts: Default::default(), may_again }
    }

    fn attempts(&self) -> u32 {
        self.attempts.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl ReadObserver for AttemptCounter {
    fn attempt_started(&self) {
        self.attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    async fn may_retry(&self) -> bool {
        self.may_again
    }
}

// Case C12
#[tokio::test]
async fn file_without_attempts_left_is_not_retried() {
    for end in ["SEGV", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let answer = ANSWER.trim_end_matches("; sleep 9");
        // The first worker reads one file and crashes on the next; a second worker would reply.
        let script = format!(
            "frame() {{ dd bs=9999 count=1 <&0 >/dev/null 2>&1; }}\n\
             echo >> {starts}\nframe\n{HELLO}\nframe\n\
             if [ $(wc -l < {starts}) = 1 ]; then {answer}; frame; kill -{end} $$; else {ANSWER}; fi",
            starts = starts.display()
        );
        let limits = ExtractLimits { seconds: 5, ..ExtractLimits::default() };
        let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
        let pool = WorkerPool::new(worker_script(folder.path(), &script), settings);
        pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
        let count = AttemptCounter::new(false);
        let failed = pool.extract_observed(tempfile::tempfile().unwrap(), "b.txt", &count).await.unwrap_err();
        assert_eq!((failed.reason, count.attempts()), (Reason::WorkerCrash, 1), "{end}: {}", failed.detail);
        assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 1, "{end}");
    }
}

#[tokio::test]
async fn file_is_never_read_a_third_time() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let answer = ANSWER.trim_end_matches("; sleep 9");
    // The first worker reads one file and crashes on the next; the second is killed by SIGKILL; a third would reply.
    let script = format!(
        "frame() {{ dd bs=9999 count=1 <&0 >/dev/null 2>&1; }}\n\
         echo >> {starts}\nframe\n{HELLO}\nframe\n\
         case $(wc -l < {starts}) in\n\
         1) {answer}; frame; kill -SEGV $$ ;;\n\
         2) kill -KILL $$ ;;\n\
         *) {ANSWER} ;;\n\
         esac",
        starts = starts.display()
    );
    let limits = ExtractLimits { seconds: 5, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    let pool = WorkerPool::new(worker_script(folder.path(), &script), settings);
    let count = AttemptCounter::new(true);
    for (expected, tries) in [(Reason::Encrypted, 1), (Reason::WorkerCrash, 3)] {
        let failed = pool.extract_observed(tempfile::tempfile().unwrap(), "a.txt", &count).await.unwrap_err();
        assert_eq!(failed.reason, expected, "{}", failed.detail);
        assert_eq!(count.attempts(), tries, "{}", failed.detail);
    }
    assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn retry_runs_without_other_workers() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // Discards the first frame, which is the setup; the second frame holds the file name.
    let script = format!(
        "frame() {{ dd bs=9999 count=1 <&0 2>/dev/null | tr -d '\\000'; }}\n\
         frame > /dev/null\n{HELLO}\n\
         case \"$(frame)\" in *slow*) echo slow begins >> {log}; sleep 2; echo slow ends >> {log}; {ANSWER} ;; esac\n\
         echo small begins >> {log}\n\
         [ $(grep -c small {log}) = 1 ] && kill -KILL $$\n{ANSWER}",
        log = log.display()
    );
    let limits = ExtractLimits { seconds: 20, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 2, limits, tools: Tools::default(), skills: false };
    let pool = WorkerPool::new(worker_script(folder.path(), &script), settings);
    let read = |name: &'static str| pool.extract(tempfile::tempfile().unwrap(), name);
    let (slow, small) = tokio::join!(read("slow.txt"), async {
        while !log.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        read("small.txt").await
    });
    assert_eq!([slow, small].map(|it| it.unwrap_err().reason), [Reason::Encrypted; 2]);
    let lines = std::fs::read_to_string(log).unwrap();
    assert_eq!(lines.lines().collect::<Vec<_>>(), ["slow begins", "small begins", "slow ends", "small begins"]);
}

#[tokio::test]
async fn idle_worker_ends_after_max_idle() {
    let folder = tempfile::tempdir().unwrap();
    let pool = scripted_worker::scripted_pool(folder.path(), "", &Ok(Document::default()));
    pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap();
    pool.end_idle_workers();
    assert_eq!(pool.idle_count(), 1);
    let pool = pool.with_max_idle(Duration::ZERO);
    pool.end_idle_workers();
    assert_eq!(pool.idle_count(), 0);
}
