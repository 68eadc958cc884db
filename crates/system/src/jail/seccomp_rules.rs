//! The seccomp rules of a jailed worker.
//!
//! There are three filters; the strictest result applies. A call that only an attacker makes kills the process. A call
//! that a library may try but does not need fails with `EPERM`. A call in no table, such as a new call of a newer kernel,
//! fails with `ENOSYS`, so that the C library uses its fallback.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type SeccompResult<T> = Result<T, seccompiler::BackendError>;

/// Calls that kill the process: running another program, accessing another process, changing the kernel. Parsing never
/// needs them.
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

/// Calls that fail with `EPERM`: sockets, signals to other processes, changes of files.
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

/// Calls that are allowed: needed to compute, to answer and to find fonts.
const ALLOWED: &[c_long] = &[
    // Calls for memory.
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Calls for the socket, the received file and fonts.
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
    // Calls for threads and time.
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
    // Calls about the process itself.
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
        // Allows the calls of the other two filters too, so that only those filters decide about them.
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

/// Returns rules that refuse otherwise allowed calls if they have certain arguments.
fn refused_by_argument() -> SeccompResult<Rules> {
    use SeccompCmpOp::{MaskedEq, Ne};
    let mut rules = Rules::new();
    let mut refuse = |call: c_long, conditions: Vec<(u8, SeccompCmpOp, u64)>| -> SeccompResult<()> {
        // Compares only 32 bits of an integer, because the upper half of its register is undefined, and all 64 bits of
        // an address.
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
    // Refuses to open files other than for reading.
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
    // Refuses to start processes; threads are allowed.
    refuse(libc::SYS_clone, vec![(0, MaskedEq(bits(libc::CLONE_THREAD)), 0)])?;
    // Refuses new executable memory; the code of the process was mapped before the filter was installed.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        refuse(call, vec![(2, MaskedEq(bits(libc::PROT_EXEC)), bits(libc::PROT_EXEC))])?;
    }
    // Refuses signals to other processes. A signal to the own process stays allowed, because abort needs it.
    refuse(libc::SYS_tgkill, vec![(0, Ne, u64::from(std::process::id()))])?;
    // Refuses to read or set the limits of other processes; the process can only lower its own.
    refuse(libc::SYS_prlimit64, vec![(0, Ne, 0)])?;
    // Refuses to send to an address; only answers on the connected socket are allowed.
    refuse(libc::SYS_sendto, vec![(4, Ne, 0)])?;
    // Allows only names of threads and of memory, and `PR_SET_NO_NEW_PRIVS`, which installing the last filter requires.
    let harmless = [libc::PR_SET_NAME, libc::PR_SET_VMA, libc::PR_SET_NO_NEW_PRIVS];
    refuse(libc::SYS_prctl, harmless.map(|it| (0, Ne, bits(it))).to_vec())?;
    // Allows only harmless `fcntl` commands: another command could make the kernel send signals to the owner of a
    // descriptor.
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
        // BPF_MAXINSNS, the maximum number of instructions that the kernel accepts.
        assert!(filters().unwrap().iter().all(|it| it.len() < 4096));
    }

    #[test]
    fn argument_rules_apply_to_allowed_calls() {
        for call in refused_by_argument().unwrap().keys() {
            assert!([ALLOWED, ALLOWED_LEGACY].concat().contains(call), "{call}");
        }
    }
}
