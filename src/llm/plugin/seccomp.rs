//! Isolates plugins from the network in mode `local_only`: a system call filter (seccomp), installed in the child process
//! before exec and inherited by its descendants.
//!
//! The filter denies sockets of every kind, also to programs on this machine, which could forward data. Pairs of connected
//! stream sockets remain allowed: many language runtimes use one to wake themselves up, and they have no outside peer.
//! Other ways to a socket are denied too: `io_uring`, and the memory or descriptors of another process. Nothing else is
//! restricted: a plugin can read and write the user's files.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use tokio::process::Command;

use crate::error::{Error, ErrorCode, Result};

/// System calls that create or redirect a socket, or obtain one by other means.
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

/// The second set of system call numbers of some x86-64 kernels (x32), and the calls that exist only there: `ptrace`,
/// `process_vm_readv`, `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const X32_CALLS: (c_long, [c_long; 3]) = (0x4000_0000, [521, 539, 540]);

/// Error of the child if the filter cannot be installed. Neither chdir nor exec returns it.
const FILTER_ERRNO: i32 = libc::EDOM;

/// Denies network access to a command before it is started.
///
/// # Errors
/// `FailedPrecondition`: there is no filter for this platform.
pub(super) fn confine(command: &mut Command) -> Result<()> {
    let filter = build_filter().map_err(|error| cannot_confine(&error.to_string()))?;
    #[expect(unsafe_code, reason = "the standard library has no safe way to filter the calls of a child")]
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are two plain system calls that
    // allocate nothing; the filter was built before.
    unsafe {
        command.pre_exec(move || {
            seccompiler::apply_filter(&filter).map_err(|_| io::Error::from_raw_os_error(FILTER_ERRNO))
        });
    }
    Ok(())
}

/// Returns the error for a confined command that did not start, if the filter was the cause.
pub(super) fn filter_error(error: &io::Error) -> Option<Error> {
    (error.raw_os_error() == Some(FILTER_ERRNO)).then(|| cannot_confine("the system refuses the filter"))
}

/// Checks that commands can be confined on this machine, without starting one.
///
/// # Errors
/// `FailedPrecondition` with a hint.
pub(super) fn check_supported() -> Result<()> {
    build_filter().map_err(|error| cannot_confine(&error.to_string()))?;
    let action = libc::SECCOMP_RET_ERRNO;
    #[expect(unsafe_code, reason = "no library in use offers this call")]
    // SAFETY: the kernel reads four bytes at the address, which is valid for them.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    match answer {
        0 => Ok(()),
        _ => Err(cannot_confine(&io::Error::last_os_error().to_string())),
    }
}

fn cannot_confine(cause: &str) -> Error {
    let text = format!("in mode local_only a plugin runs without a network, which this system cannot enforce: {cause}");
    Error::new(ErrorCode::FailedPrecondition, text).hint(
        "use Linux 4.14 or later with CONFIG_SECCOMP_FILTER, and a container that allows seccomp; or let plugins use the \
         network with VIC_PRIVACY_MODE=cloud_reasoning_ok",
    )
}

fn build_filter() -> std::result::Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED_CALLS.map(|it| (it, Vec::new())).into();
    rules.insert(libc::SYS_socketpair, denied_socket_pairs()?);
    #[cfg(target_arch = "x86_64")]
    {
        let (other, own) = X32_CALLS;
        let again: Vec<_> = rules.iter().map(|(call, rules)| (call | other, rules.clone())).collect();
        rules.extend(again);
        rules.extend(own.map(|it| (it | other, Vec::new())));
    }
    // System calls of another architecture, as in 32-bit programs, kill the process.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Denies socket pairs that can reach other peers: datagram and raw sockets, and all families except Unix.
fn denied_socket_pairs() -> std::result::Result<Vec<SeccompRule>, BackendError> {
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

#[cfg(test)]
mod tests;
