//! The process of a plugin, and the cleanup of all processes that the plugin started.
//!
//! The plugin leads its own session and process group, inherits only its three standard streams, and has a unique mark in
//! its environment, which its descendants inherit. When the run ends, vic kills the group, then every process that has the
//! mark or descends from the plugin, even in another session, and reaps those that are reparented to vic.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use tokio::process::{Child, Command};

/// Environment variable that holds the unique mark of a run, by which all processes of the run are recognized.
pub(super) const MARK_VARIABLE: &str = "VIC_PLUGIN_RUN";
/// Time limit of the cleanup; if processes are started faster than they are killed, the remaining ones keep running.
const CLEANUP_TIMEOUT: Duration = Duration::from_millis(800);

/// Process ids of the plugins that a `PluginProcess` waits for. Any other child of vic in another session is an orphan of a
/// plugin.
static OWNED_PLUGINS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A running plugin; dropping this kills the plugin with all its descendants.
pub(super) struct PluginProcess {
    pub(super) child: Child,
    /// Id of the plugin's process, which is also the id of its process group and session.
    pid: i32,
    mark: String,
}

impl PluginProcess {
    /// Starts a command, whose program, arguments, folder and environment are already set.
    pub(super) fn start(mut command: Command, mark: String) -> io::Result<PluginProcess> {
        adopt_orphans();
        command.env(MARK_VARIABLE, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        vic_system::process::isolate(command.as_std_mut());
        // Holds the lock until the process id is registered, because until then the child looks like an orphan.
        let mut waited_for = owned_plugins();
        let child = command.spawn()?;
        let pid = child.id().and_then(|it| i32::try_from(it).ok()).unwrap_or_default();
        waited_for.insert(pid);
        drop(waited_for);
        Ok(PluginProcess { child, pid, mark })
    }

    /// Kills the plugin and its descendants, and reaps those that are reparented to vic.
    fn kill_and_reap(&self) {
        let begun = Instant::now();
        if let Some(group) = Pid::from_raw(self.pid) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        let mut is_over = false;
        loop {
            let table = processes();
            let living: Vec<Pid> =
                self.descendants(&table).filter(|it| !it.dead).filter_map(|it| Pid::from_raw(it.pid)).collect();
            for pid in &living {
                let _gone = kill_process(*pid, Signal::KILL);
            }
            reap_orphans(&table);
            // Ends the cleanup only after two scans that find no process, because the process table may change during a
            // scan.
            let was_over = std::mem::replace(&mut is_over, living.is_empty() && !self.is_ending(&table));
            if was_over && is_over {
                return;
            }
            if begun.elapsed() > CLEANUP_TIMEOUT {
                if !living.is_empty() {
                    tracing::warn!("{} processes of a plugin still run after the cleanup", living.len());
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns whether a process of the plugin is about to be reparented to vic: it is dead but not reparented yet, or it
    /// is exiting and has already released its memory, which holds the mark.
    fn is_ending(&self, table: &BTreeMap<i32, Process>) -> bool {
        let us = i32::try_from(std::process::id()).unwrap_or_default();
        let is_bare = |pid: i32| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|it| it.is_empty());
        self.descendants(table).any(|it| it.dead && it.parent != us)
            || orphans(table).iter().any(|it| !it.dead && is_bare(it.pid))
    }

    /// Returns all processes in the plugin's session or with its mark, and their descendants.
    fn descendants<'a>(&self, table: &'a BTreeMap<i32, Process>) -> impl Iterator<Item = &'a Process> + use<'a> {
        let us = std::process::id();
        let is_own = |it: &&Process| it.session == self.pid || has_mark(it.pid, &self.mark);
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

impl Drop for PluginProcess {
    fn drop(&mut self) {
        self.kill_and_reap();
        owned_plugins().remove(&self.pid);
    }
}

fn owned_plugins() -> MutexGuard<'static, BTreeSet<i32>> {
    OWNED_PLUGINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the orphans of plugins: children of vic in another session for which no `PluginProcess` waits.
fn orphans(table: &BTreeMap<i32, Process>) -> Vec<&Process> {
    let us = i32::try_from(std::process::id()).unwrap_or_default();
    let our_session = rustix::process::getsid(None).map_or(0, |it| it.as_raw_nonzero().get());
    let waited_for = owned_plugins();
    let is_stray = |it: &&Process| it.parent == us && it.session != our_session && !waited_for.contains(&it.pid);
    table.values().filter(is_stray).collect()
}

/// Collects the exit statuses of dead orphans, so that they do not stay zombies.
fn reap_orphans(table: &BTreeMap<i32, Process>) {
    for pid in orphans(table).iter().filter(|it| it.dead).filter_map(|it| Pid::from_raw(it.pid)) {
        let _gone = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// A process listed in `/proc`.
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    dead: bool,
}

/// Returns all processes in `/proc`, by process id.
fn processes() -> BTreeMap<i32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|pid| Some((pid, read_process(pid)?))).collect()
}

fn read_process(pid: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Splits after the last parenthesis, because the program name before it is in parentheses and may contain any
    // character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let _group = fields.next()?;
    let session = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, session, dead: matches!(state, "Z" | "X") })
}

fn has_mark(pid: i32, mark: &str) -> bool {
    let wanted = format!("{MARK_VARIABLE}={mark}");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|it| *it == 0).any(|it| it == wanted.as_bytes())
}

/// Makes vic a subreaper, so that orphaned descendants are reparented to vic instead of to init, which may not reap them.
fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "cannot become a subreaper; processes that plugins leave behind may keep running");
        }
    });
}
