//! A seccomp filter that denies a child process, and its descendants, all network access.
//!
//! It denies sockets of every kind, even local ones, because a local program could forward data. Pairs of connected stream
//! sockets remain allowed: many language runtimes use one to wake themselves up, and they have no outside peer. Other ways
//! to obtain a socket are denied too: `io_uring`, and the memory or descriptors of another process. Nothing else is
//! restricted: the child can read and write the files of the user.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// System calls that create or redirect a socket, or obtain one in another way.
const DENIED_CALLS: [c_long; 13] = [
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
];

/// Offset of the second set of system call numbers of some x86-64 kernels (x32), and the calls that exist only in that
/// set: `ptrace`, `process_vm_readv`, `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const X32_CALLS: (c_long, [c_long; 3]) = (0x4000_0000, [521, 539, 540]);

/// Error number that starting the child returns if the filter cannot be installed. Neither chdir nor exec returns this
/// number.
const FILTER_ERRNO: i32 = libc::EDOM;

/// Denies network access to a command that has not been started yet.
///
/// # Errors
/// When there is no filter for this platform.
pub fn install(command: &mut Command) -> io::Result<()> {
    let filter = build_filter().map_err(io::Error::other)?;
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The filter, built before, is applied by two plain
    // system calls that allocate nothing.
    unsafe {
        command.pre_exec(move || {
            seccompiler::apply_filter(&filter).map_err(|_| io::Error::from_raw_os_error(FILTER_ERRNO))
        });
    }
    Ok(())
}

/// Returns whether a command failed to start because the kernel refused the filter.
pub fn was_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(FILTER_ERRNO)
}

/// Checks that this machine supports the filter, without starting a command.
///
/// # Errors
/// When there is no filter for this platform, or the kernel does not support such filters.
pub fn check_supported() -> io::Result<()> {
    build_filter().map_err(io::Error::other)?;
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads four bytes at the address, which is valid for them.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn build_filter() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED_CALLS.map(|it| (it, Vec::new())).into();
    rules.insert(libc::SYS_socketpair, denied_socket_pairs()?);
    #[cfg(target_arch = "x86_64")]
    {
        let (other, own) = X32_CALLS;
        let again: Vec<_> = rules.iter().map(|(call, rules)| (call | other, rules.clone())).collect();
        rules.extend(again);
        rules.extend(own.map(|it| (it | other, Vec::new())));
    }
    // The filter library itself kills a process that makes system calls of another architecture, as 32-bit programs do.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Returns rules that deny socket pairs that can reach other peers: datagram and raw sockets, and all socket families
/// except Unix.
fn denied_socket_pairs() -> Result<Vec<SeccompRule>, BackendError> {
    use SeccompCmpOp::{MaskedEq, Ne};
    const KIND: u64 = 0xF;
    let one = |argument, operation, value: libc::c_int| {
        let value = u64::from(value.cast_unsigned());
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)?;
        SeccompRule::new(vec![condition])
    };
    Ok(vec![
        one(0, Ne, libc::AF_UNIX)?,
        one(1, MaskedEq(KIND), libc::SOCK_DGRAM)?,
        one(1, MaskedEq(KIND), libc::SOCK_RAW)?,
    ])
}
