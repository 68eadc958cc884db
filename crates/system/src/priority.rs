//! CPU and I/O priority of a thread.
//!
//! On Linux, priorities belong to a thread, not to the process, and an ordinary user cannot raise them again. Threads that
//! answer questions must never call these functions.

/// Niceness of indexing threads: they get a tenth of a core while threads with niceness 0 are busy. Not higher, because
/// files that the user has just saved are indexed by these threads too.
const INDEXING_NICENESS: i32 = 10;

/// Niceness of threads with long computations: they get a hundredth of a core while other threads are busy, but never
/// nothing.
const COMPUTING_NICENESS: i32 = 19;

/// I/O scheduling class of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Lowest priority of the best-effort class. It is used instead of the idle class for threads that hold locks: on a
    /// busy disk, an idle thread that holds a lock could block others forever.
    LowestBestEffort,
    /// The idle class: served only while no other process uses the disk.
    Idle,
}

/// Lowers the priority of the calling thread; for threads and processes that index. If the system refuses, the thread
/// continues at its current priority.
pub fn lower_priority(disk: IoClass) {
    set_niceness(INDEXING_NICENESS);
    set_io_class(disk);
}

/// Lowers the priority of this thread to the minimum, for long computations that hold no locks.
pub fn minimize_priority() {
    set_niceness(COMPUTING_NICENESS);
    set_io_class(IoClass::LowestBestEffort);
}

fn set_niceness(niceness: i32) {
    // Ignores an error, which means that the niceness is already higher, because an ordinary user cannot lower the
    // niceness.
    let _nicer = rustix::process::setpriority_process(None, niceness);
    set_scheduler(libc::SCHED_BATCH);
}

#[cfg(target_os = "linux")]
fn set_scheduler(policy: libc::c_int) {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameter` outlives the call, and 0 is the calling thread.
    let _refused = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
}

#[cfg(target_os = "linux")]
fn set_io_class(disk: IoClass) {
    const CLASS_SHIFT: libc::c_int = 13;
    const WHO_PROCESS: libc::c_int = 1;
    let class = match disk {
        IoClass::LowestBestEffort => (2 << CLASS_SHIFT) | 7,
        IoClass::Idle => 3 << CLASS_SHIFT,
    };
    // SAFETY: the call takes three integers; 0 is the calling thread.
    let _refused = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, class) };
}

#[cfg(not(target_os = "linux"))]
fn set_scheduler(_policy: libc::c_int) {}

#[cfg(not(target_os = "linux"))]
fn set_io_class(_disk: IoClass) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns niceness and scheduling policy of a thread after `work`, from the fields after the name in its `stat` file.
    fn priority_after(work: fn()) -> (i32, i32) {
        let stat = move || {
            work();
            std::fs::read_to_string("/proc/thread-self/stat").unwrap()
        };
        let stat = std::thread::spawn(stat).join().unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        (fields[16].parse().unwrap(), fields[38].parse().unwrap())
    }

    #[test]
    fn lowered_priority_applies_to_one_thread() {
        assert_eq!(priority_after(|| lower_priority(IoClass::LowestBestEffort)), (10, libc::SCHED_BATCH));
        assert_eq!(priority_after(|| lower_priority(IoClass::Idle)), (10, libc::SCHED_BATCH));
        assert_eq!(priority_after(minimize_priority), (19, libc::SCHED_BATCH));
        assert_eq!(priority_after(|| ()).1, libc::SCHED_OTHER);
    }
}
