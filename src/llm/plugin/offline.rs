//! What keeps a plugin off the network in mode `local_only`: a filter of system calls (seccomp) that its process is given
//! before it becomes the plugin, and that whatever it starts inherits.
//!
//! Nobody behind the filter gets a socket of any kind, not even to a program of this machine, which may pass on what it is
//! told. Pairs of connected stream sockets stay: many a language runtime wakes itself up by one, and they lead nowhere.
//! The other ways to a socket are closed too: `io_uring`, and another process's memory or files. Nothing else is taken
//! away: a plugin still reads and writes files as the user may.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use tokio::process::Command;

use crate::error::{Error, ErrorCode, Result};

/// A socket, and everything by which one could be had or led elsewhere without the call of that name.
const REFUSED: [c_long; 13] = [
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

/// The second set of numbers that some x86-64 kernels know their calls by (x32), and those that only it has: `ptrace`,
/// `process_vm_readv`, `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: (c_long, [c_long; 3]) = (0x4000_0000, [521, 539, 540]);

/// What the child says when the filter cannot be set: an error that neither entering a folder nor starting a program has.
const NO_FILTER: i32 = libc::EDOM;

/// Takes the network away from a command that is about to be started.
///
/// # Errors
/// `FailedPrecondition`: there is no filter for this machine.
pub(super) fn confine(command: &mut Command) -> Result<()> {
    let filter = filter().map_err(|error| refusal(&error.to_string()))?;
    #[expect(unsafe_code, reason = "the standard library has no safe way to filter the calls of a child")]
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. These are two plain system calls, which
    // allocate nothing; the filter was made before.
    unsafe {
        command
            .pre_exec(move || seccompiler::apply_filter(&filter).map_err(|_| io::Error::from_raw_os_error(NO_FILTER)));
    }
    Ok(())
}

/// Says what it means when a confined command did not start, if it is the filter that was refused.
pub(super) fn refused(error: &io::Error) -> Option<Error> {
    (error.raw_os_error() == Some(NO_FILTER)).then(|| refusal("the system refuses the filter"))
}

/// Looks whether commands can be confined here, without starting one.
///
/// # Errors
/// `FailedPrecondition`, with the cure.
pub(super) fn check() -> Result<()> {
    filter().map_err(|error| refusal(&error.to_string()))?;
    let action = libc::SECCOMP_RET_ERRNO;
    #[expect(unsafe_code, reason = "no library in use offers this call")]
    // SAFETY: the kernel reads four bytes at the address, which are there.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    match answer {
        0 => Ok(()),
        _ => Err(refusal(&io::Error::last_os_error().to_string())),
    }
}

fn refusal(cause: &str) -> Error {
    let text = format!("in mode local_only a plugin runs without a network, and that cannot be had here: {cause}");
    Error::new(ErrorCode::FailedPrecondition, text).hint(
        "it takes Linux 4.14 with CONFIG_SECCOMP_FILTER, and a container that allows seccomp; or let plugins reach the \
         network with VIC_PRIVACY_MODE=cloud_reasoning_ok",
    )
}

fn filter() -> std::result::Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.map(|it| (it, Vec::new())).into();
    rules.insert(libc::SYS_socketpair, pairs_that_lead_elsewhere()?);
    #[cfg(target_arch = "x86_64")]
    {
        let (other, own) = OTHER_NUMBERS;
        let again: Vec<_> = rules.iter().map(|(call, rules)| (call | other, rules.clone())).collect();
        rules.extend(again);
        rules.extend(own.map(|it| (it | other, Vec::new())));
    }
    // Calls by the conventions of another processor, as 32-bit programs make them, end the process.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// A pair of datagram sockets can be sent from to anybody; other families than that of this machine know other ways.
fn pairs_that_lead_elsewhere() -> std::result::Result<Vec<SeccompRule>, BackendError> {
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
