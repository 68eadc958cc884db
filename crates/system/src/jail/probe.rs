//! Attempts to escape from the jail, made inside a worker, to show that the jail works on this machine.
//!
//! An attempt that ends the process counts as refused; the worker pool detects the end.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// One attempt to escape from the jail.
pub struct EscapeProbe {
    /// Description of the attempt, which also identifies it.
    pub name: &'static str,
    /// Makes the attempt, given the path of a file of the user. Returns `Ok` if the escape succeeded.
    attempt: fn(&Path) -> io::Result<()>,
}

/// All attempts to escape from the jail.
pub const ESCAPE_PROBES: &[EscapeProbe] = &[
    EscapeProbe { name: "open a file", attempt: |path| File::open(path).map(drop) },
    EscapeProbe { name: "open a system file", attempt: |_| File::open("/etc/passwd").map(drop) },
    EscapeProbe { name: "list a folder", attempt: |path| path.parent().unwrap_or(path).read_dir().map(drop) },
    EscapeProbe { name: "write a file", attempt: |path| OpenOptions::new().append(true).open(path).map(drop) },
    EscapeProbe { name: "create a file", attempt: |path| File::create(path.with_extension("escaped")).map(drop) },
    EscapeProbe { name: "delete a file", attempt: |path| std::fs::remove_file(path) },
    EscapeProbe { name: "rename a file", attempt: |path| std::fs::rename(path, path.with_extension("escaped")) },
    EscapeProbe { name: "link a file", attempt: |path| std::fs::hard_link(path, path.with_extension("escaped")) },
    EscapeProbe { name: "make a folder", attempt: |path| std::fs::create_dir(path.with_extension("escaped")) },
    EscapeProbe {
        name: "connect by TCP",
        attempt: |_| TcpStream::connect("127.0.0.1:1").map(drop).or_else(accept_refused_connection),
    },
    EscapeProbe { name: "listen on TCP", attempt: |_| TcpListener::bind("127.0.0.1:0").map(drop) },
    EscapeProbe { name: "send by UDP", attempt: |_| UdpSocket::bind("127.0.0.1:0").map(drop) },
    EscapeProbe {
        name: "connect to a local socket",
        attempt: |_| UnixStream::connect("/run/no-such-socket").map(drop).or_else(accept_refused_connection),
    },
    EscapeProbe { name: "make a pair of sockets", attempt: |_| UnixStream::pair().map(drop) },
    EscapeProbe { name: "start a process", attempt: |_| Command::new("/bin/true").spawn().map(drop) },
    EscapeProbe { name: "become another program", attempt: |_| Err(Command::new("/bin/true").exec()) },
    EscapeProbe { name: "fork", attempt: |_| system_call(libc::SYS_clone, [INVALID_CLONE_FLAGS, 0, 0, 0]) },
    EscapeProbe { name: "signal the daemon", attempt: |_| system_call(libc::SYS_kill, [parent_pid(), 0, 0, 0]) },
    EscapeProbe {
        name: "trace the daemon",
        attempt: |_| system_call(libc::SYS_ptrace, [PTRACE_SEIZE, parent_pid(), 1, 0]),
    },
    EscapeProbe {
        name: "read the daemon's memory",
        attempt: |_| system_call(libc::SYS_process_vm_readv, [parent_pid(), 0, 0, 0]),
    },
    EscapeProbe { name: "limit the daemon", attempt: |_| system_call(libc::SYS_prlimit64, [parent_pid(), 0, 0, 0]) },
    EscapeProbe { name: "set up io_uring", attempt: |_| system_call(libc::SYS_io_uring_setup, [1, 0, 0, 0]) },
    EscapeProbe { name: "map new machine code", attempt: |_| map_code() },
    EscapeProbe {
        name: "make a file in memory",
        attempt: |_| system_call(libc::SYS_memfd_create, [c"x".as_ptr() as libc::c_long, 0, 0, 0]),
    },
    EscapeProbe { name: "raise its limits", attempt: |_| raise_limits() },
    EscapeProbe { name: "make a namespace", attempt: |_| system_call(libc::SYS_unshare, [0x1000_0000, 0, 0, 0]) },
];

/// Request to trace a process. It has an invalid non-zero address, so that it fails even where tracing is allowed: the
/// test never traces a process.
const PTRACE_SEIZE: libc::c_long = 0x4206;

/// `CLONE_SIGHAND` without the flags that it requires: if no filter refuses this call, the kernel itself does.
const INVALID_CLONE_FLAGS: libc::c_long = libc::CLONE_SIGHAND as libc::c_long;

/// Makes the attempt of this name and returns its result: `Ok` if the escape succeeded. `None` if there is no such
/// attempt.
pub fn run_attempt(name: &str, path: &Path) -> Option<io::Result<()>> {
    let escape = ESCAPE_PROBES.iter().find(|it| it.name == name)?;
    Some((escape.attempt)(path))
}

/// Treats a refused connection or a missing socket as a successful escape, because the attempt got out of the jail.
fn accept_refused_connection(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

fn parent_pid() -> libc::c_long {
    libc::c_long::from(rustix::process::getppid().map_or(1, |it| it.as_raw_nonzero().get()))
}

fn raise_limits() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Tries to raise the maximum file size, which is 0 in a worker: this needs privileges, which a worker must not have.
    let most = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    setrlimit(Resource::Fsize, most).map_err(io::Error::from)
}

fn map_code() -> io::Result<()> {
    system_call(libc::SYS_mprotect, [page_address(), 1, libc::c_long::from(libc::PROT_READ | libc::PROT_EXEC), 0])
}

/// Returns the address of a memory page of this program.
fn page_address() -> libc::c_long {
    (ESCAPE_PROBES.as_ptr() as libc::c_long) & !0xFFFF
}

fn system_call(number: libc::c_long, arguments: [libc::c_long; 4]) -> io::Result<()> {
    let [first, second, third, fourth] = arguments;
    // SAFETY: none of the calls made here writes to memory of this process: they are given no buffer, an empty one, or
    // one that they only read.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, 0, 0) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
