//! The worker process: handles jobs that arrive over the socket on its standard input, until the pool closes that socket.
//!
//! The worker opens no user file and no socket. It uses only the socket it was started with and the file descriptors that
//! arrive over it. Before the first file arrives, `jail` removes all other rights.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::extract::limits::{MEMORY_PER_BYTE, MIN_MEMORY_BYTES, SMALL_FILE_BYTES};
use crate::extract::protocol::{self, Hello, Job, MAX_REQUEST_BYTES, PREFIX_BYTES, Reply, Setup, SkillJob, Task};
use vic_system::{fd_passing, jail, process};

use crate::extract::jail_paths::readable_paths;
use crate::extract::{Tools, dispatch, extract_bytes, new_failure, panic_location, pdf};
use crate::machine::{self, IoClass};
use crate::model::{Block, BlockKind, Document, ExtractFailure, ExtractLimits, JailMode, MAX_FILE_BYTES, Reason};

/// Stack size of the thread that runs the readers: large, because native readers recurse into nested data.
const STACK_BYTES: usize = 64 << 20;
/// Niceness of a skill worker: higher priority than extraction, because a user's question waits for the skill.
const QUESTION_NICENESS: i32 = 5;
/// Maximum number of open descriptors: the socket, the standard streams, one file, and some that libraries open
/// temporarily.
const MAX_DESCRIPTORS: u64 = 32;
/// Memory in bytes reserved for pages of the program and its libraries that become resident only when a reader uses them.
const PROGRAM_RESIDENT_BYTES: u64 = 48 << 20;
/// Memory in bytes added to the limit of skill workers: neural networks allocate this much more than they use.
const NETWORK_RESERVE_BYTES: u64 = 256 << 20;
/// CPU time limit of the process, as a multiple of the time limit of one job. A backstop if the pool fails to end a long
/// job.
const CPU_LIMIT_FACTOR: u64 = 200;
/// Seconds of CPU time between the signals SIGXCPU and SIGKILL, after the CPU time limit is reached.
const CPU_GRACE_SECONDS: u64 = 5;

/// A skill (e.g. OCR) that workers can run: its name, and the functions that prepare and run it.
#[derive(Clone, Copy, Debug)]
pub struct SkillHandler {
    /// Name that jobs use to select the skill.
    pub name: &'static str,
    /// Opens libraries and models before the limits of the worker apply. Ignores missing files: they may be installed
    /// before the first job.
    pub prepare: fn(&Tools),
    /// Runs the skill. A panic becomes a failure of the file.
    pub run: fn(&SkillInput<'_>) -> Result<Document, ExtractFailure>,
}

/// The input of a skill run.
#[derive(Clone, Copy, Debug)]
pub struct SkillInput<'a> {
    /// Complete content of the file.
    pub bytes: &'a [u8],
    /// File name, for its extension.
    pub name: &'a str,
    /// Parameters of the skill run.
    pub job: &'a SkillJob,
    /// Limits on the size of the extracted document.
    pub limits: &'a ExtractLimits,
}

/// Runs a worker until its standard input, which must be a Unix socket, is closed. Call this first in `main`, because the
/// limits of the worker apply to the whole process. Jobs select one of `skills` by name.
pub fn run_worker(skills: &'static [SkillHandler]) -> io::Result<()> {
    process::close_inherited_descriptors();
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let setup: Setup = {
        let mut prefix = [0; PREFIX_BYTES];
        (&socket).read_exact(&mut prefix)?;
        read_content(&socket, prefix)?
    };
    // Silences panic messages, because they may reveal file content. Panics are caught and reported to the pool.
    panic_location::install_hook();
    let mut status = File::open("/proc/self/status")?;
    jail::drop_privileges();
    let files_locked = jail::restrict_files(readable_paths(&setup.tools));
    // Loads the libraries now, before the limits on descriptors, system calls and memory forbid it.
    pdf::preload(&setup.tools);
    skills.iter().for_each(|skill| (skill.prepare)(&setup.tools));
    let memory = apply_limits(&setup, &mut status)?;
    drop(status);
    let open = files_locked.and_then(|()| jail::restrict_system_calls()).err();
    let station = WorkerState { setup, skills, memory: Some(memory), jailed: open.is_none() };
    let jobs = move || {
        // Sends the first message only after all preparations, because after it the pool attributes every failure to a
        // file.
        (&socket).write_all(&protocol::encode_frame(&Hello { open })?)?;
        serve_jobs(&socket, &station)
    };
    let thread = std::thread::Builder::new().name("extract".to_string()).stack_size(STACK_BYTES).spawn(jobs)?;
    thread.join().map_err(|_| io::Error::other("the worker thread panicked"))?
}

/// State of the worker process that all its jobs share.
struct WorkerState {
    setup: Setup,
    skills: &'static [SkillHandler],
    /// Memory budget of the worker; `None` (in tests) sets no memory limit per job.
    memory: Option<MemoryBudget>,
    jailed: bool,
}

/// Limits on the writable memory of a worker, in bytes.
#[derive(Clone, Copy, Debug)]
struct MemoryBudget {
    /// Writable memory mapped before the first file, which does not count against the memory limit of a file.
    data: u64,
    /// Maximum bytes that files may add to `data`: the limit on resident memory minus what the program itself uses.
    most: u64,
}

/// Sets the limits of this process: memory, descriptors, CPU time, no file writes, no core dumps, and death with its
/// parent. Returns its memory budget.
fn apply_limits(setup: &Setup, status: &mut File) -> io::Result<MemoryBudget> {
    let limits = &setup.limits;
    let limit = |resource, most: u64| set_limit(resource, most, most);
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut text = String::new();
    status.rewind()?;
    status.read_to_string(&mut text)?;
    let size = |key| status_bytes(&text, key).unwrap_or(0);
    let memory = u64::from(limits.memory_mib) << 20;
    // Limits the address space to the existing mappings plus twice the memory limit, because the program, the PDF library
    // and the allocators reserve more addresses than they use memory.
    limit(Resource::As, size("VmSize:") + 2 * memory + STACK_BYTES as u64)?;
    // Counts all memory mapped now as used when it sets `RLIMIT_DATA` below, because all of it may become resident.
    let data = size("VmData:") + STACK_BYTES as u64;
    let most = match setup.for_questions {
        true => memory + NETWORK_RESERVE_BYTES,
        false => memory.saturating_sub(size("VmRSS:") + PROGRAM_RESIDENT_BYTES),
    };
    limit(Resource::Data, data + most)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, MAX_DESCRIPTORS)?;
    limit(Resource::Fsize, 0)?;
    let processor = u64::from(limits.seconds) * CPU_LIMIT_FACTOR;
    // Sets a hard limit above the soft limit: at the soft limit the kernel sends SIGXCPU, at the hard limit SIGKILL, which
    // the pool would attribute to another process.
    set_limit(Resource::Cpu, processor, processor + CPU_GRACE_SECONDS)?;
    if setup.for_questions {
        // Ignores an error, because a worker with a lower priority works too.
        rustix::process::nice(QUESTION_NICENESS).ok();
    } else {
        machine::lower_priority(IoClass::Idle);
    }
    Ok(MemoryBudget { data, most })
}

/// Sets the memory limit of a job by the size of its file, within the limit of the worker. A skill gets the worker's whole
/// limit, because the memory of models does not depend on the file.
fn set_job_memory_limit(size: u64, task: &Task, station: &WorkerState) -> io::Result<()> {
    let Some(MemoryBudget { data, most }) = station.memory else { return Ok(()) };
    let granted = match task {
        Task::Skill(_) => most,
        Task::Extract | Task::Escape { .. } => {
            let beyond = size.saturating_sub(SMALL_FILE_BYTES).saturating_mul(MEMORY_PER_BYTE);
            beyond.saturating_add(MIN_MEMORY_BYTES).min(most)
        }
    };
    set_limit(Resource::Data, data + granted, data + most)
}

/// Sets a resource limit to `now` (soft) and `most` (hard), both at most the current hard limit of this process.
fn set_limit(resource: Resource, now: u64, most: u64) -> io::Result<()> {
    let given = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    setrlimit(resource, Rlimit { current: Some(now.min(given)), maximum: Some(most.min(given)) })?;
    Ok(())
}

/// Returns the size of a field (e.g. `VmRSS:`) in bytes from the text of `/proc/PID/status`.
pub(crate) fn status_bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

fn serve_jobs(socket: &UnixStream, station: &WorkerState) -> io::Result<()> {
    loop {
        let mut prefix = [0; PREFIX_BYTES];
        let (received, file) = fd_passing::receive(socket.as_fd(), &mut prefix)?;
        if received == 0 {
            return Ok(());
        }
        let mut reader = socket;
        reader.read_exact(&mut prefix[received..])?;
        let job: Job = read_content(socket, prefix)?;
        let file = file.ok_or_else(|| io::Error::other("a job arrived without the descriptor of its file"))?;
        let frame = protocol::encode_frame(&run_job(&file, &job, station))?;
        let mut writer = socket;
        writer.write_all(&frame)?;
    }
}

fn read_content<T: serde::de::DeserializeOwned>(mut socket: &UnixStream, prefix: [u8; PREFIX_BYTES]) -> io::Result<T> {
    let mut content = vec![0; protocol::parse_length(prefix, MAX_REQUEST_BYTES)?];
    socket.read_exact(&mut content)?;
    protocol::decode_frame(&content)
}

fn run_job(file: &File, job: &Job, station: &WorkerState) -> Reply {
    let WorkerState { setup, skills, .. } = station;
    if let Task::Escape { name, path } = &job.task {
        return try_escape(name, path);
    }
    let bytes = match read_file(file, &job.task, station) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(new_failure(Reason::TooLarge, format!("more than {} MiB", MAX_FILE_BYTES >> 20))),
        Err(error) => return Err(new_failure(Reason::Io, error.to_string())),
    };
    let trusted = matches!(job.task, Task::Extract) && dispatch::is_plain_text(&bytes, &job.name);
    if !station.jailed && setup.limits.jail == JailMode::Required && !trusted {
        return Err(new_failure(Reason::NoJail, "the worker cannot be jailed here; `vic status` shows the reason"));
    }
    match &job.task {
        Task::Skill(skill) => {
            let input = SkillInput { bytes: &bytes, name: &job.name, job: skill, limits: &setup.limits };
            run_skill(&input, skills)
        }
        Task::Extract | Task::Escape { .. } => extract_bytes(&bytes, &job.name, &setup.limits, &setup.tools),
    }
}

/// Tries one way to escape the jail. Returns an empty document if it succeeded, and the error as text if it was blocked.
fn try_escape(name: &str, path: &std::path::Path) -> Reply {
    let text = match jail::probe::run_attempt(name, path) {
        None => return Err(new_failure(Reason::UnsupportedType, format!("unknown escape attempt `{name}`"))),
        Some(Ok(())) => return Ok(Document::default()),
        Some(Err(error)) => error.to_string(),
    };
    let barred = Block { kind: BlockKind::Paragraph, text, anchor: Default::default(), rows: Vec::new() };
    Ok(Document { blocks: vec![barred], ..Document::default() })
}

fn run_skill(input: &SkillInput<'_>, skills: &[SkillHandler]) -> Reply {
    let unknown = || new_failure(Reason::UnsupportedType, format!("unknown skill `{}`", input.job.skill));
    let handler = skills.iter().find(|it| it.name == input.job.skill).ok_or_else(unknown)?;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (handler.run)(input)));
    outcome.unwrap_or_else(|_| Err(new_failure(Reason::Damaged, "the skill panicked")))
}

/// Reads a whole file from offset 0, regardless of the position of the descriptor, which is shared with the sending process.
/// Returns `None` if the file exceeds `MAX_FILE_BYTES`.
fn read_file(file: &File, task: &Task, station: &WorkerState) -> io::Result<Option<Vec<u8>>> {
    let size = file.metadata()?.len();
    if size > MAX_FILE_BYTES {
        return Ok(None);
    }
    set_job_memory_limit(size, task, station)?;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            // The file was truncated while it was read. The bytes read so far are kept: the file watcher will report the
            // change.
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::SeekFrom;

    /// Makes the state of a worker in the test process: without memory limits, and treated as jailed.
    fn test_state(skills: &'static [SkillHandler]) -> WorkerState {
        let setup = Setup { limits: ExtractLimits::default(), tools: Tools::default(), for_questions: false };
        WorkerState { setup, skills, memory: None, jailed: true }
    }

    #[test]
    fn file_is_read_from_start_at_any_position() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        assert_eq!(read_file(&file, &Task::Extract, &test_state(&[])).unwrap().unwrap(), b"content");
    }

    #[test]
    fn file_over_size_limit_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MAX_FILE_BYTES + 1).unwrap();
        assert_eq!(read_file(&file, &Task::Extract, &test_state(&[])).unwrap(), None);
    }

    #[test]
    fn jobs_are_answered_in_order_until_socket_closes() {
        let (here, there) = UnixStream::pair().unwrap();
        let worker = std::thread::spawn(move || serve_jobs(&there, &test_state(&[])));
        for text in ["one", "two"] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let frame = protocol::encode_frame(&Job { name: "a.txt".to_string(), task: Task::Extract }).unwrap();
            assert_eq!(fd_passing::send(here.as_fd(), &frame, &file).unwrap(), frame.len());
            let mut prefix = [0; PREFIX_BYTES];
            (&here).read_exact(&mut prefix).unwrap();
            let mut content = vec![0; protocol::parse_length(prefix, 1 << 20).unwrap()];
            (&here).read_exact(&mut content).unwrap();
            assert_eq!(protocol::decode_frame::<Reply>(&content).unwrap().unwrap().text(), text);
        }
        drop(here);
        worker.join().unwrap().unwrap();
    }

    const SKILLS: &[SkillHandler] = &[
        SkillHandler {
            name: "shout",
            prepare: |_| {},
            run: |input| {
                let title = String::from_utf8_lossy(input.bytes).to_uppercase();
                Ok(Document { title: Some(title), ..Document::default() })
            },
        },
        SkillHandler { name: "panic", prepare: |_| {}, run: |_| panic!("on purpose") },
    ];

    fn run_test_skill(name: &str) -> Reply {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let task = Task::Skill(SkillJob { skill: name.to_string(), ..SkillJob::default() });
        run_job(&file, &Job { name: "a.txt".to_string(), task }, &test_state(SKILLS))
    }

    fn read_without_jail(name: &str, content: &[u8], jail: JailMode) -> Reply {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut station = WorkerState { jailed: false, ..test_state(&[]) };
        station.setup.limits.jail = jail;
        run_job(&file, &Job { name: name.to_string(), task: Task::Extract }, &station)
    }

    #[test]
    fn without_jail_only_plain_text_is_read() {
        for (name, content) in [("a.txt", "text"), ("a.md", "# text"), ("a.csv", "a,b\n1,2"), ("a.json", "{}")] {
            assert!(read_without_jail(name, content.as_bytes(), JailMode::Required).is_ok(), "{name}");
        }
        for (name, content) in
            [("a.html", "<html><p>x"), ("a.pdf", "%PDF-1.4"), ("a.rs", "fn a() {}"), ("a.txt", "%PDF-1.4")]
        {
            let failed = read_without_jail(name, content.as_bytes(), JailMode::Required).unwrap_err();
            assert_eq!(failed.reason, Reason::NoJail, "{name}");
        }
    }

    #[test]
    fn optional_jail_reads_all_files_without_jail() {
        assert!(read_without_jail("a.html", b"<html><p>x", JailMode::Optional).is_ok());
    }

    #[test]
    fn skill_is_selected_by_name() {
        assert_eq!(run_test_skill("shout").unwrap().title.as_deref(), Some("CONTENT"));
        assert_eq!(run_test_skill("whisper").unwrap_err().reason, Reason::UnsupportedType);
    }

    #[test]
    fn panicking_skill_fails_only_the_file() {
        assert_eq!(run_test_skill("panic").unwrap_err().reason, Reason::Damaged);
    }
}
