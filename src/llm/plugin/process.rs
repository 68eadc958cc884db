//! The process of a plugin, and the end of it and of everything that it started.
//!
//! It leads a session and a process group of its own, has no file open but its three, and carries a mark in its
//! environment that whatever it starts inherits. At its end the group is killed, then every process that carries the mark
//! or descends from it, also one that made a session of its own; those that thereby become ours are reaped.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use tokio::process::{Child, Command};

/// Name of the mark.
pub(super) const MARK: &str = "VIC_PLUGIN_RUN";
/// The longest that the end takes: what starts new processes faster than they are killed is left to the system.
const LAST_ROUNDS: Duration = Duration::from_millis(800);

/// The plugins that somebody waits for. Whoever else dies in our hands is a stray of one.
static WAITED_FOR: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A plugin that runs; dropping it kills it with all that it started.
pub(super) struct Running {
    pub(super) child: Child,
    /// Its process, its group and its session.
    pid: i32,
    mark: String,
}

impl Running {
    /// Starts a command, which has its program, arguments, folder and environment already.
    pub(super) fn start(mut command: Command, mark: String) -> io::Result<Running> {
        adopt_orphans();
        command.env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        alone(&mut command);
        // Held until its number is known: until then it looks like a stray.
        let mut waited_for = waited_for();
        let child = command.spawn()?;
        let pid = child.id().and_then(|it| i32::try_from(it).ok()).unwrap_or_default();
        waited_for.insert(pid);
        drop(waited_for);
        Ok(Running { child, pid, mark })
    }

    /// Kills it and all that it started, and reaps what becomes ours.
    fn end(&self) {
        let begun = Instant::now();
        if let Some(group) = Pid::from_raw(self.pid) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        let mut is_over = false;
        loop {
            let table = processes();
            let living: Vec<Pid> =
                self.own(&table).filter(|it| !it.dead).filter_map(|it| Pid::from_raw(it.pid)).collect();
            for pid in &living {
                let _gone = kill_process(*pid, Signal::KILL);
            }
            reap(&table);
            // The table is not of one moment: what changes hands while it is read is in the next.
            let was_over = std::mem::replace(&mut is_over, living.is_empty() && !self.leaves(&table));
            if was_over && is_over {
                return;
            }
            if begun.elapsed() > LAST_ROUNDS {
                if !living.is_empty() {
                    tracing::warn!("{} processes of a plugin outlive it", living.len());
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Says whether something of it is just ending, and will be ours to reap in a moment: it is dead, and not handed to
    /// us yet, or it has let go of its memory, and the mark with it.
    fn leaves(&self, table: &BTreeMap<i32, Process>) -> bool {
        let us = i32::try_from(std::process::id()).unwrap_or_default();
        let is_bare = |pid: i32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|it| it.is_empty());
        self.own(table).any(|it| it.dead && it.parent != us)
            || strays(table).iter().any(|it| !it.dead && is_bare(it.pid))
    }

    /// Whatever is in its session, carries the mark, or descends from such a process.
    fn own<'a>(&self, table: &'a BTreeMap<i32, Process>) -> impl Iterator<Item = &'a Process> + use<'a> {
        let us = std::process::id();
        let is_own = |it: &&Process| it.session == self.pid || carries(it.pid, &self.mark);
        let mut own: BTreeSet<i32> = table.values().filter(is_own).map(|it| it.pid).collect();
        loop {
            let more = table.values().filter(|it| own.contains(&it.parent) && !own.contains(&it.pid));
            let more: Vec<i32> = more.map(|it| it.pid).collect();
            if more.is_empty() {
                break;
            }
            own.extend(more);
        }
        own.retain(|it| u32::try_from(*it) != Ok(us));
        table.values().filter(move |it| own.contains(&it.pid))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        waited_for().remove(&self.pid);
    }
}

fn waited_for() -> MutexGuard<'static, BTreeSet<i32>> {
    WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Children of ours in another session that nobody waits for: orphans of plugins.
fn strays(table: &BTreeMap<i32, Process>) -> Vec<&Process> {
    let us = i32::try_from(std::process::id()).unwrap_or_default();
    let our_session = rustix::process::getsid(None).map_or(0, |it| it.as_raw_nonzero().get());
    let waited_for = waited_for();
    let is_stray = |it: &&Process| it.parent == us && it.session != our_session && !waited_for.contains(&it.pid);
    table.values().filter(is_stray).collect()
}

/// Takes leave of the dead among them.
fn reap(table: &BTreeMap<i32, Process>) {
    for pid in strays(table).iter().filter(|it| it.dead).filter_map(|it| Pid::from_raw(it.pid)) {
        let _gone = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// What the system says of a process.
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    dead: bool,
}

/// Every process of the system, as far as it can be seen.
fn processes() -> BTreeMap<i32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

fn process(pid: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before stands in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, session, dead: matches!(state, "Z" | "X") })
}

fn carries(pid: i32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|it| *it == 0).any(|it| it == wanted.as_bytes())
}

/// Has the processes whose parents die handed to us instead of to the first process of the system, which may not care.
fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "orphans of plugins are left to the system");
        }
    });
}

/// Gives the command a session of its own, and none of our files.
#[expect(unsafe_code, reason = "the standard library has no safe way to start a session or to close files")]
fn alone(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. Both are plain system calls and allocate
    // nothing. Files are marked to be closed by exec rather than closed: the standard library still needs one of them.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid().map_err(io::Error::from)?;
            #[cfg(target_os = "linux")]
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
}
