//! A thread's place in the queues of the machine.
//!
//! On Linux all of it belongs to a thread, not to the process, and an ordinary user cannot take any of it back: threads
//! that serve questions must never call this.

/// Behind everybody at the usual 0: a tenth of a core where others want all of them. Not less, because what a user has just
/// saved goes this way too.
const BACK: i32 = 10;

/// Behind everybody else: a hundredth of a core where others want all of them, and never nothing.
const ASIDE: i32 = 19;

/// Which queue of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// The last of the usual one: whoever waits for our locks must not wait for a disk that is never at rest.
    Last,
    /// Only when nobody else reads or writes.
    Idle,
}

/// Steps back: for threads and processes that index. Does nothing where it is not allowed; to be impolite is no reason not
/// to work.
pub fn step_back(disk: Disk) {
    behind(BACK);
    queue(disk);
}

/// Stands aside: for threads that compute for long and hold nothing that others need.
pub fn stand_aside() {
    behind(ASIDE);
    queue(Disk::Last);
}

fn behind(niceness: i32) {
    // It fails when the thread is nicer already.
    let _nicer = rustix::process::setpriority_process(None, niceness);
    schedule(libc::SCHED_BATCH);
}

#[cfg(target_os = "linux")]
fn schedule(policy: libc::c_int) {
    let parameter = libc::sched_param { sched_priority: 0 };
    #[expect(unsafe_code, reason = "scheduling has no safe interface")]
    // SAFETY: the parameter lives through the call, and 0 is the calling thread.
    let _refused = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
}

#[cfg(target_os = "linux")]
fn queue(disk: Disk) {
    const CLASS_SHIFT: libc::c_int = 13;
    const WHO_PROCESS: libc::c_int = 1;
    let class = match disk {
        Disk::Last => (2 << CLASS_SHIFT) | 7,
        Disk::Idle => 3 << CLASS_SHIFT,
    };
    #[expect(unsafe_code, reason = "the call has no wrapper")]
    // SAFETY: three numbers; 0 is the calling thread.
    let _refused = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, class) };
}

#[cfg(not(target_os = "linux"))]
fn schedule(_policy: libc::c_int) {}

#[cfg(not(target_os = "linux"))]
fn queue(_disk: Disk) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Niceness and scheduling policy of a thread after `work`, out of the fields of its `stat` after the name.
    fn after(work: fn()) -> (i32, i32) {
        let stat = move || {
            work();
            std::fs::read_to_string("/proc/thread-self/stat").unwrap()
        };
        let stat = std::thread::spawn(stat).join().unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        (fields[16].parse().unwrap(), fields[38].parse().unwrap())
    }

    #[test]
    fn a_thread_that_steps_back_or_aside_takes_no_other_with_it() {
        assert_eq!(after(|| step_back(Disk::Last)), (10, libc::SCHED_BATCH));
        assert_eq!(after(|| step_back(Disk::Idle)), (10, libc::SCHED_BATCH));
        assert_eq!(after(stand_aside), (19, libc::SCHED_BATCH));
        assert_eq!(after(|| ()).1, libc::SCHED_OTHER);
    }
}
