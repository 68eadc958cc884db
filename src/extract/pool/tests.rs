use super::scripted::{HELLO, program};
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

/// What a script answers: that the file needs a password.
const ANSWER: &str = r#"printf '\064\000\000\000{"Err":{"reason":"encrypted","detail":"a password"}}' >&0; sleep 9"#;

/// Checks what becomes of a file whose reader does this when it is started for the first time, and answers from then on;
/// or does it every time.
async fn check_twice(what: &str, always: bool, expected: Reason) -> (String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let first = if always { String::new() } else { format!("[ $(wc -l < {}) = 1 ] && ", starts.display()) };
    let script = format!("echo >> {}\n{HELLO}\n{first}{what}\n{ANSWER}", starts.display());
    let pool = scripted(folder.path(), &script);
    let failed = pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    assert_eq!(failed.reason, expected, "{what}: {}", failed.detail);
    (failed.detail, std::fs::read_to_string(starts).unwrap().lines().count())
}

#[tokio::test]
async fn a_file_whose_reader_somebody_ends_or_stops_is_read_once_more() {
    for signal in ["KILL", "TERM", "STOP"] {
        let (_, starts) = check_twice(&format!("kill -{signal} $$"), false, Reason::Encrypted).await;
        assert_eq!(starts, 2, "{signal}");
    }
}

#[tokio::test]
async fn a_file_whose_reader_is_ended_or_stopped_again_fails_and_the_signal_is_named() {
    for (signal, reason) in [("KILL", Reason::WorkerCrash), ("TERM", Reason::WorkerCrash), ("STOP", Reason::Timeout)] {
        let (detail, starts) = check_twice(&format!("kill -{signal} $$"), true, reason).await;
        assert!(detail.contains(&format!("SIG{signal}")), "{detail}");
        assert_eq!(starts, 2, "{signal}");
    }
}

#[tokio::test]
async fn a_file_that_ends_its_own_reader_fails_at_once() {
    for (signal, reason) in [
        ("SEGV", Reason::WorkerCrash),
        ("SYS", Reason::WorkerCrash),
        ("XCPU", Reason::WorkerCrash),
        ("ABRT", Reason::OutOfMemory),
    ] {
        let (detail, starts) = check_twice(&format!("kill -{signal} $$"), true, reason).await;
        assert_eq!(starts, 1, "{signal}: {detail}");
    }
}

/// Has a reader take memory in its own program, then do that.
async fn peak_of(end: &str, reason: Reason, memory_mib: u32) -> (u64, String) {
    let folder = tempfile::tempdir().unwrap();
    let grow = format!("import os, signal, time\nheld = bytearray(400 << 20)\ntime.sleep(0.3)\n{end}");
    let script = format!("{HELLO}\nexec python3 -c '{grow}'");
    let limits = ExtractLimits { seconds: 20, memory_mib, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    let pool = WorkerPool::new(program(folder.path(), &script), settings);
    let failed = pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    assert_eq!(failed.reason, reason, "{end}: {}", failed.detail);
    (pool.peak_mib(), failed.detail)
}

#[tokio::test]
async fn the_memory_of_a_reader_that_dies_is_known_as_well() {
    for end in ["os.kill(os.getpid(), signal.SIGSEGV)", "os._exit(3)"] {
        let (peak, _) = peak_of(end, Reason::WorkerCrash, 2_048).await;
        assert!((400..2_000).contains(&peak), "{end}: {peak} MiB");
    }
}

#[tokio::test]
async fn what_a_reader_holds_in_its_last_moment_is_known_when_it_is_more_than_this_process_ever_held() {
    // Too short for a look while it works.
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{HELLO}\nexec python3 -c 'import os\nheld = bytearray(1 << 30)\nos.abort()'");
    let limits = ExtractLimits { seconds: 60, memory_mib: 4 << 10, ..ExtractLimits::default() };
    let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
    let pool = WorkerPool::new(program(folder.path(), &script), settings);
    let begun = Instant::now();
    pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
    let ours = process::resident(std::process::id()).unwrap().1 >> 20;
    assert!(pool.peak_mib() >= 1_024 || ours >= 1_024, "{} MiB after {:?}", pool.peak_mib(), begun.elapsed());
}

#[tokio::test]
async fn a_reader_that_holds_more_than_it_may_is_ended_and_the_reason_names_both() {
    let (peak, detail) = peak_of("time.sleep(60)", Reason::OutOfMemory, 200).await;
    assert!(peak > 200 && detail.contains("may hold 200"), "{peak} {detail}");
}

/// Counts the readers of a file, and says whether there may be more than one.
struct Count {
    begun: std::sync::atomic::AtomicU32,
    may_again: bool,
}

impl Count {
    fn new(may_again: bool) -> Count {
        Count { begun: Default::default(), may_again }
    }

    fn begun(&self) -> u32 {
        self.begun.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Witness for Count {
    fn begins(&self) {
        self.begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    async fn may_again(&self) -> bool {
        self.may_again
    }
}

#[tokio::test]
async fn a_file_that_has_used_up_its_tries_is_given_to_no_other_reader() {
    for end in ["SEGV", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let answer = ANSWER.trim_end_matches("; sleep 9");
        // The first reader reads a file, then ends over the next one; a second one would answer.
        let script = format!(
            "frame() {{ dd bs=9999 count=1 <&0 >/dev/null 2>&1; }}\n\
             echo >> {starts}\nframe\n{HELLO}\nframe\n\
             if [ $(wc -l < {starts}) = 1 ]; then {answer}; frame; kill -{end} $$; else {ANSWER}; fi",
            starts = starts.display()
        );
        let limits = ExtractLimits { seconds: 5, ..ExtractLimits::default() };
        let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
        let pool = WorkerPool::new(program(folder.path(), &script), settings);
        pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap_err();
        let count = Count::new(false);
        let failed = pool.extract_told(tempfile::tempfile().unwrap(), "b.txt", &count).await.unwrap_err();
        assert_eq!((failed.reason, count.begun()), (Reason::WorkerCrash, 1), "{end}: {}", failed.detail);
        assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 1, "{end}");
    }
}

#[tokio::test]
async fn no_file_is_read_a_third_time_whoever_ended_its_readers() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let answer = ANSWER.trim_end_matches("; sleep 9");
    // The first reader reads a file, then dies of the next one; somebody ends the second; a third one would answer.
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
    let pool = WorkerPool::new(program(folder.path(), &script), settings);
    let count = Count::new(true);
    for (expected, tries) in [(Reason::Encrypted, 1), (Reason::WorkerCrash, 3)] {
        let failed = pool.extract_told(tempfile::tempfile().unwrap(), "a.txt", &count).await.unwrap_err();
        assert_eq!(failed.reason, expected, "{}", failed.detail);
        assert_eq!(count.begun(), tries, "{}", failed.detail);
    }
    assert_eq!(std::fs::read_to_string(starts).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn what_is_read_once_more_is_read_alone() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // The name of the file comes in the second frame; the first is about the reader.
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
    let pool = WorkerPool::new(program(folder.path(), &script), settings);
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
async fn a_worker_at_rest_goes_when_it_has_rested_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let pool = scripted::pool(folder.path(), "", &Ok(Document::default()));
    pool.extract(tempfile::tempfile().unwrap(), "a.txt").await.unwrap();
    pool.dismiss_rested();
    assert_eq!(pool.at_rest(), 1);
    let pool = pool.resting(Duration::ZERO);
    pool.dismiss_rested();
    assert_eq!(pool.at_rest(), 0);
}
