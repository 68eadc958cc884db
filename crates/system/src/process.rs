//! Child processes: their sessions, inherited descriptors and peak memory; and an exit of this process that runs no
//! destructors.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the command start in a new session, so that it survives the end of its parent's terminal.
pub fn start_new_session(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. setsid is one, and it allocates nothing.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(io::Error::from));
    }
}

/// Makes the command start in a new session, without file descriptors inherited from the parent.
pub fn isolate(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. Both are plain system calls and allocate
    // nothing. Descriptors are marked close-on-exec instead of closed: the standard library still needs one of them.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid().map_err(io::Error::from)?;
            #[cfg(target_os = "linux")]
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
}

/// Makes the kernel ask the command to end when the thread that starts it ends, also if this process is killed. Call
/// `spawn` from a thread that lives as long as the command may. Has an effect on Linux only.
pub fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. prctl is one, and it allocates nothing.
    unsafe {
        command.pre_exec(move || {
            #[cfg(target_os = "linux")]
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            // The parent may have ended before the call.
            match rustix::process::getppid() {
                Some(it) if it.as_raw_nonzero().get().cast_unsigned() == parent => Ok(()),
                _ => Err(io::ErrorKind::NotConnected.into()),
            }
        });
    }
}

/// Closes all file descriptors except standard input, output and error: libraries of the parent process may have left some
/// open. Call it first in the process.
#[cfg(target_os = "linux")]
pub fn close_inherited_descriptors() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: called first in the process, when it owns no descriptor beyond the standard ones.
    unsafe {
        // An error is ignored: kernels before 5.9 lack the call, and descriptors opened by Rust are not inherited anyway.
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0);
    }
}

/// Returns the peak memory in bytes of a child that has exited and is not reaped yet; `None` while the child runs. Asks
/// the kernel, because `/proc` no longer reports the peak memory of an exited process.
///
/// # Errors
/// When there is no such child, or it was reaped.
#[cfg(target_os = "linux")]
pub fn exited_peak_memory(child: rustix::process::Pid) -> io::Result<Option<u64>> {
    // SAFETY: both types are plain data, for which zeros are valid.
    let (mut information, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes only to `information` and `usage`, which live until it returns.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PID,
            child.as_raw_nonzero().get(),
            &raw mut information,
            libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
            &raw mut usage,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // If the child has not exited, the kernel leaves the fields 0.
    let has_ended = information.si_signo == libc::SIGCHLD;
    Ok(has_ended.then(|| u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10))
}

/// Ends the process at once, with success. No destructor runs, because one could wait for busy threads.
pub fn exit_now() -> ! {
    // SAFETY: `_exit` does not return and touches no memory.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolated_command_leads_its_session() {
        let mut command = Command::new("sh");
        // The shell prints fields 1 and 6 of its `stat` file: the ids of the process and of its session.
        command.args(["-c", "read -r stat < /proc/self/stat; set -- $stat; echo $1 $6"]);
        isolate(&mut command);
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (process, session) = output.trim().split_once(' ').unwrap();
        assert_eq!(process, session);
    }

    #[test]
    fn peak_memory_is_known_only_after_exit() {
        let mut child =
            Command::new("sh").args(["-c", "read -r line"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        assert_eq!(exited_peak_memory(pid).unwrap(), None);
        drop(child.stdin.take());
        let peak = loop {
            match exited_peak_memory(pid).unwrap() {
                Some(peak) => break peak,
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        };
        assert!(peak > 100 << 10, "{peak}");
        child.wait().unwrap();
        assert!(exited_peak_memory(pid).is_err());
    }
}
