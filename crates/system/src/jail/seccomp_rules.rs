//! The seccomp rules of a jailed worker.
//!
//! Three filters; the strictest result applies. Calls that only an attacker makes kill the process. Calls that a library
//! may try but can do without fail with `EPERM`. Calls in no table, including new ones of newer kernels, fail with
//! `ENOSYS`, and the C library uses its fallback.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type SeccompResult<T> = Result<T, seccompiler::BackendError>;

/// Running another program, accessing another process, changing the kernel: a reader of files never needs these.
const KILLED: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_personality,
];

/// Sockets, signals to other processes, changes to files: refused.
const REFUSED: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_openat2,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_setxattr,
    libc::SYS_fsetxattr,
    libc::SYS_memfd_create,
    libc::SYS_inotify_init1,
    libc::SYS_fanotify_init,
    libc::SYS_ioctl,
    libc::SYS_shmget,
    libc::SYS_mq_open,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_capset,
    libc::SYS_syslog,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_LEGACY: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_inotify_init,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OLD: &[c_long] = &[];

/// Calls needed to compute, to answer and to find fonts.
const ALLOWED: &[c_long] = &[
    // Memory.
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // The socket, the received file, fonts.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_fadvise64,
    libc::SYS_openat,
    libc::SYS_getdents64,
    libc::SYS_ppoll,
    // Threads and time.
    libc::SYS_clone,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getcpu,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    // The process itself.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_prctl,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

#[cfg(target_arch = "x86_64")]
const ALLOWED_LEGACY: &[c_long] =
    &[libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_poll, libc::SYS_time, libc::SYS_getrlimit];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// Returns the filters in the order in which they must be installed: the last one forbids installing another.
pub(super) fn filters() -> SeccompResult<[BpfProgram; 3]> {
    let all = |calls: &[&[c_long]]| -> Rules { calls.iter().copied().flatten().map(|it| (*it, Vec::new())).collect() };
    let mut refused = all(&[REFUSED, REFUSED_LEGACY]);
    refused.extend(refused_by_argument()?);
    Ok([
        filter(all(&[KILLED]), SeccompAction::Allow, SeccompAction::KillProcess)?,
        filter(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?,
        // Includes the calls that the other filters refuse, so that their result applies.
        filter(
            all(&[ALLOWED, ALLOWED_LEGACY, REFUSED, REFUSED_LEGACY, KILLED]),
            SeccompAction::Errno(libc::ENOSYS as u32),
            SeccompAction::Allow,
        )?,
    ])
}

fn filter(rules: Rules, otherwise: SeccompAction, action: SeccompAction) -> SeccompResult<BpfProgram> {
    SeccompFilter::new(rules, otherwise, action, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Returns rules for calls that are allowed only with some arguments.
fn refused_by_argument() -> SeccompResult<Rules> {
    use SeccompCmpOp::{MaskedEq, Ne};
    let mut rules = Rules::new();
    let mut refuse = |call: c_long, conditions: Vec<(u8, SeccompCmpOp, u64)>| -> SeccompResult<()> {
        // Integers fill half of a register and leave the other half undefined; an address fills all of it.
        let length = || match call == libc::SYS_sendto {
            true => SeccompCmpArgLen::Qword,
            false => SeccompCmpArgLen::Dword,
        };
        let conditions = conditions
            .into_iter()
            .map(|(argument, operation, value)| SeccompCondition::new(argument, length(), operation, value));
        rules.entry(call).or_default().push(SeccompRule::new(conditions.collect::<SeccompResult<Vec<_>>>()?)?);
        Ok(())
    };
    let bits = |value: libc::c_int| u64::from(value.cast_unsigned());
    // Files may be opened only for reading.
    for flag in [
        libc::O_WRONLY,
        libc::O_RDWR,
        libc::O_CREAT,
        libc::O_TRUNC,
        libc::O_APPEND,
        libc::O_TMPFILE & !libc::O_DIRECTORY,
    ] {
        refuse(libc::SYS_openat, vec![(2, MaskedEq(bits(flag)), bits(flag))])?;
        #[cfg(target_arch = "x86_64")]
        refuse(libc::SYS_open, vec![(1, MaskedEq(bits(flag)), bits(flag))])?;
    }
    // Threads, but no processes.
    refuse(libc::SYS_clone, vec![(0, MaskedEq(bits(libc::CLONE_THREAD)), 0)])?;
    // No new machine code: executable mappings are made before.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        refuse(call, vec![(2, MaskedEq(bits(libc::PROT_EXEC)), bits(libc::PROT_EXEC))])?;
    }
    // Signals only to the process itself, which is how it aborts.
    refuse(libc::SYS_tgkill, vec![(0, Ne, u64::from(std::process::id()))])?;
    // Only the process's own limits, which can only be lowered.
    refuse(libc::SYS_prlimit64, vec![(0, Ne, 0)])?;
    // Only answers on the connected socket.
    refuse(libc::SYS_sendto, vec![(4, Ne, 0)])?;
    // Names of threads and of memory, and `PR_SET_NO_NEW_PRIVS`, which installing the last filter requires.
    let harmless = [libc::PR_SET_NAME, libc::PR_SET_VMA, libc::PR_SET_NO_NEW_PRIVS];
    refuse(libc::SYS_prctl, harmless.map(|it| (0, Ne, bits(it))).to_vec())?;
    // No signals through the owner of a descriptor.
    let commands = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];
    refuse(libc::SYS_fcntl, commands.map(|it| (1, Ne, bits(it))).to_vec())?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_call_is_in_one_table_only() {
        let all: Vec<c_long> = [KILLED, REFUSED, REFUSED_LEGACY, ALLOWED, ALLOWED_LEGACY].concat();
        let mut once = all.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), all.len());
    }

    #[test]
    fn filters_fit_kernel_instruction_limit() {
        // BPF_MAXINSNS
        assert!(filters().unwrap().iter().all(|it| it.len() < 4096));
    }

    #[test]
    fn argument_rules_apply_to_allowed_calls() {
        for call in refused_by_argument().unwrap().keys() {
            assert!([ALLOWED, ALLOWED_LEGACY].concat().contains(call), "{call}");
        }
    }
}
