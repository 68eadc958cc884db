//! Tests that a confined plugin cannot reach a network. The plugin is a Python script that tries one way of many per run.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::time::Duration;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::llm::plugin::seccomp::*;
use crate::llm::plugin::{PluginCommand, PluginLimits, PluginRequest, PluginTask, SchemaHints};
use crate::model::PrivacyMode;

/// The script: makes the attempt named by its first argument, with the other arguments, and answers with the outcome.
const SCRIPT: &str = r#"
import asyncio, ctypes, json, os, platform, socket, subprocess, sys
json.load(sys.stdin)

def call(name, *arguments):
    x86 = {"io_uring_setup": 425, "ptrace": 101, "pidfd_getfd": 438, "process_vm_readv": 310,
           "x32 socket": 0x40000029}
    arm = {"io_uring_setup": 425, "ptrace": 117, "pidfd_getfd": 438, "process_vm_readv": 270}
    number = (x86 if platform.machine() == "x86_64" else arm)[name]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

def attempt(kind, place=""):
    if kind == "tcp":
        socket.create_connection(("127.0.0.1", int(place)), 2)
    elif kind == "tcp6":
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    elif kind == "udp":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(place)))
    elif kind == "name":
        socket.getaddrinfo("vic.example", 80)
    elif kind == "listen":
        socket.create_server(("127.0.0.1", 0))
    elif kind == "local":
        socket.socket(socket.AF_UNIX).connect(place)
    elif kind == "abstract":
        socket.socket(socket.AF_UNIX).connect("\0" + place)
    elif kind == "pair":
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", place)
    elif kind == "raw pair":
        socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", place)
    elif kind == "child":
        subprocess.run([sys.executable, sys.argv[0], "tcp", place], check=True, input=b"{}", stdout=2)
    elif kind == "io_uring":
        call("io_uring_setup", 1, ctypes.create_string_buffer(256))
    elif kind == "second numbers":
        call("x32 socket", socket.AF_INET, socket.SOCK_STREAM, 0)
    elif kind == "parent":
        call("ptrace", 0x4206, os.getppid(), 0, 0)
    elif kind == "memory":
        call("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0)
    elif kind == "descriptor":
        call("pidfd_getfd", os.pidfd_open(os.getpid()), 0, 0)
    elif kind == "work":
        async def nap():
            await asyncio.sleep(0.01)
        asyncio.run(nap())
        with open("written", "w") as file:
            file.write("x")
        assert subprocess.run(["echo", "x"], capture_output=True, check=True).stdout == b"x\n"

try:
    attempt(*sys.argv[1:])
    print(json.dumps({"axql": "got out"}))
except OSError as error:
    print(json.dumps({"axql": f"{type(error).__name__} {error.errno}"}))
"#;

/// The targets of the attempts: a local listener of each kind of socket.
struct World {
    folder: tempfile::TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    _local: UnixListener,
    _datagrams: UnixDatagram,
    _abstract: UnixListener,
    abstract_name: String,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plugin.py"), SCRIPT).unwrap();
        let abstract_name = format!("vic-test-{}", folder.path().file_name().unwrap().to_str().unwrap());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        World {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            _local: UnixListener::bind(folder.path().join("local")).unwrap(),
            _datagrams: UnixDatagram::bind(folder.path().join("datagrams")).unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            folder,
        }
    }

    /// Returns the name of each way to reach a socket, with its target.
    fn ways(&self) -> Vec<(&'static str, String)> {
        let port = |address: std::net::SocketAddr| address.port().to_string();
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_string();
        vec![
            ("tcp", port(self.tcp.local_addr().unwrap())),
            ("udp", port(self.udp.local_addr().unwrap())),
            ("listen", String::new()),
            ("local", path("local")),
            ("abstract", self.abstract_name.clone()),
            ("pair", path("datagrams")),
            ("raw pair", path("datagrams")),
        ]
    }

    /// Runs the plugin with one attempt, and returns the outcome.
    async fn tries(&self, kind: &str, place: &str, mode: PrivacyMode) -> Result<String> {
        tries(self.folder.path(), kind, place, mode).await
    }
}

async fn tries(folder: &Path, kind: &str, place: &str, mode: PrivacyMode) -> Result<String> {
    let mut args = vec!["plugin.py".to_string(), kind.to_string()];
    args.extend((!place.is_empty()).then(|| place.to_string()));
    let command = PluginCommand::find("python3", args, folder)?;
    let request =
        PluginRequest::new(None, PluginTask::ToQuery { question: "find b".into(), schema: SchemaHints::default() });
    let limits = PluginLimits { time: Duration::from_secs(20), ..PluginLimits::for_task(&request.task) };
    Ok(command.ask(&request, mode, limits).await?.axql.unwrap())
}

const DENIED: &str = "PermissionError 1";

// Case E5
#[tokio::test]
async fn sockets_are_denied_only_in_local_only() {
    let world = World::new();
    for (kind, place) in world.ways() {
        assert_eq!(world.tries(kind, &place, PrivacyMode::LocalOnly).await.unwrap(), DENIED, "{kind}");
        assert_eq!(world.tries(kind, &place, PrivacyMode::CloudReasoningOk).await.unwrap(), "got out", "{kind}");
    }
    let tcp6 = world.tries("tcp6", "", PrivacyMode::LocalOnly).await.unwrap();
    assert_eq!(tcp6, DENIED);
}

// Case E5
#[tokio::test]
async fn seccomp_bypasses_are_denied() {
    let world = World::new();
    for kind in ["io_uring", "parent", "memory", "descriptor"] {
        assert_eq!(world.tries(kind, "", PrivacyMode::LocalOnly).await.unwrap(), DENIED, "{kind}");
    }
    // A kernel without x32 system calls reports an unknown call; a kernel with them must deny it.
    #[cfg(target_arch = "x86_64")]
    assert_eq!(world.tries("second numbers", "", PrivacyMode::LocalOnly).await.unwrap(), DENIED);
}

// Case E5
#[tokio::test]
async fn local_only_denies_dns_lookups() {
    let world = World::new();
    let said = world.tries("name", "", PrivacyMode::LocalOnly).await.unwrap();
    assert!(said.starts_with("gaierror"), "{said}");
}

// Case E5
#[tokio::test]
async fn child_processes_have_no_network() {
    let world = World::new();
    let port = world.tcp.local_addr().unwrap().port().to_string();
    assert_eq!(world.tries("child", &port, PrivacyMode::CloudReasoningOk).await.unwrap(), "got out");
    // Accepts the connections made so far, so that the last check would detect a connection of the confined plugin.
    world.tcp.set_nonblocking(true).unwrap();
    while world.tcp.accept().is_ok() {}
    world.tries("child", &port, PrivacyMode::LocalOnly).await.unwrap();
    assert_eq!(world.tcp.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn plugin_works_without_network() {
    let world = World::new();
    assert_eq!(world.tries("work", "", PrivacyMode::LocalOnly).await.unwrap(), "got out");
    assert_eq!(std::fs::read_to_string(world.folder.path().join("written")).unwrap(), "x");
}

#[tokio::test]
async fn network_failure_hint_names_local_only() {
    let folder = tempfile::tempdir().unwrap();
    let text = "import socket\nsocket.create_connection(('127.0.0.1', 9))";
    std::fs::write(folder.path().join("plugin.py"), text).unwrap();
    let error = tries(folder.path(), "", "", PrivacyMode::LocalOnly).await.unwrap_err();
    assert!(error.hint.as_ref().is_some_and(|it| it.contains("local_only")), "{error:?}");
    let error = tries(folder.path(), "", "", PrivacyMode::CloudReasoningOk).await.unwrap_err();
    assert!(error.hint.is_none(), "{error:?}");
}

// Case E5
#[test]
fn missing_seccomp_refuses_plugin_with_hint() {
    let world = World::new();
    // Starts a thread that may not install filters, as in a container that forbids it; child processes inherit this.
    let thread = std::thread::spawn(move || {
        let rules = BTreeMap::from([(libc::SYS_seccomp, Vec::new())]);
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let refuse = SeccompAction::Errno(libc::EINVAL as u32);
        let filter: BpfProgram =
            SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap().try_into().unwrap();
        seccompiler::apply_filter(&filter).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let refused = runtime.block_on(world.tries("work", "", PrivacyMode::LocalOnly)).unwrap_err();
        let runs = runtime.block_on(world.tries("work", "", PrivacyMode::CloudReasoningOk)).unwrap();
        (refused, check_supported().unwrap_err(), runs)
    });
    let (refused, looked, runs) = thread.join().unwrap();
    for error in [refused, looked] {
        assert_eq!(error.code, ErrorCode::FailedPrecondition);
        assert!(error.message.contains("without a network") && error.hint.unwrap().contains("seccomp"));
    }
    assert_eq!(runs, "got out");
    check_supported().unwrap();
}
