//! Records the system calls of a program and its children with `strace`, and finds the calls that write outside the allowed
//! folders or contact other machines.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::capabilities;

/// System calls that `strace` records: all network calls, and all calls that create, change or remove files by name.
const CALLS: &str = "trace=%network,open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,\
    link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,truncate";

/// The file that the name resolver reads before it contacts a name server. Opening this file counts as a network call.
const RESOLVER: &str = "/etc/resolv.conf";

const NULL_DEVICE: &str = "/dev/null";

/// Allowed for writing: this sets only the scheduling priority of the session of the writing process, and is not a file.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// What traced programs may access without a violation.
pub(crate) struct Allowed {
    /// Folders that may be written to.
    pub(crate) folders: Vec<PathBuf>,
}

/// The traces of one run, one file per thread.
pub(crate) struct SyscallTrace {
    prefix: PathBuf,
}

impl SyscallTrace {
    /// Prepares to write traces into `folder`, which must be empty.
    pub(crate) fn new(folder: &Path) -> SyscallTrace {
        SyscallTrace { prefix: folder.join("calls") }
    }

    /// Returns whether `strace` can trace programs on this machine.
    pub(crate) fn is_possible() -> bool {
        let tried = Command::new("strace").args(["-D", "-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|it| it.success())
    }

    /// Returns the command prefix that traces a program. If the machine permits it, the program runs in a network namespace
    /// with only loopback.
    pub(crate) fn launcher(&self) -> Vec<String> {
        let prefix = self.prefix.display().to_string();
        // `-D` makes the traced program the direct child of the test, instead of `strace`.
        let strace = ["strace", "-D", "-ff", "-q", "-y", "--seccomp-bpf", "-e", CALLS, "-o", &prefix];
        let alone = ["unshare", "-rn", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];
        let alone = if capabilities::can_unshare(&alone[1..]) { &alone[..] } else { &[] };
        alone.iter().chain(&strace).map(|it| (*it).to_owned()).collect()
    }

    /// Returns every line of the traces recorded so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let folder = self.prefix.parent().unwrap();
        let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let texts = files.map(|it| String::from_utf8_lossy(&std::fs::read(it).unwrap()).into_owned());
        texts.flat_map(|it| it.lines().map(String::from).collect::<Vec<_>>()).collect()
    }

    /// Waits until every traced program has ended, and returns every line of the traces.
    pub(crate) fn finished(&self) -> Vec<String> {
        let begun = Instant::now();
        let folder = self.prefix.parent().unwrap();
        let is_end = |line: &str| line.starts_with("+++ exited") || line.starts_with("+++ killed");
        let is_open = |path: PathBuf| !String::from_utf8_lossy(&std::fs::read(path).unwrap()).lines().any(is_end);
        while std::fs::read_dir(folder).unwrap().any(|it| is_open(it.unwrap().path())) {
            assert!(begun.elapsed() < Duration::from_secs(30), "a traced program has not ended within 30 s");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.lines()
    }
}

/// Returns the recorded calls that are violations.
pub(crate) fn violations(lines: &[String], allowed: &Allowed) -> Vec<String> {
    lines.iter().filter(|line| is_violation(line, allowed)).cloned().collect()
}

fn is_violation(line: &str, allowed: &Allowed) -> bool {
    let Some((call, arguments)) = line.split_once('(') else { return false };
    match call {
        "open" | "openat" | "openat2" => {
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"];
            let path = paths(arguments).pop().unwrap_or_default();
            // Looks for flags only between the path and the result, because a path can contain any text.
            let flags = arguments.rsplit_once('"').map_or(arguments, |(_, it)| it);
            let flags = flags.split(") = ").next().unwrap_or_default();
            path == Path::new(RESOLVER) || (writes.iter().any(|it| flags.contains(it)) && !allowed.permits(&path))
        }
        "creat" | "mkdir" | "mkdirat" | "mknod" | "mknodat" | "unlink" | "unlinkat" | "rmdir" | "truncate"
        | "rename" | "renameat" | "renameat2" => !paths(arguments).iter().all(|it| allowed.permits(it)),
        // Checks only the new name of a link, because creating a link does not change its target.
        "link" | "linkat" | "symlink" | "symlinkat" => !paths(arguments).last().is_some_and(|it| allowed.permits(it)),
        "socket" => !["AF_UNIX", "AF_INET", "AF_INET6"].contains(&arguments.split(',').next().unwrap_or_default()),
        _ => arguments.split("sa_family=").skip(1).any(|address| !is_local(address, allowed)),
    }
}

impl Allowed {
    fn permits(&self, path: &Path) -> bool {
        [NULL_DEVICE, AUTOGROUP].iter().any(|it| path == Path::new(it))
            || self.folders.iter().any(|it| path.starts_with(it))
    }
}

/// Returns the paths among the arguments of a traced call. A relative path is joined to the folder of its descriptor.
fn paths(arguments: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut parts = arguments.split('"');
    while let (Some(before), Some(path)) = (parts.next(), parts.next()) {
        let folder = before.rsplit_once('>').and_then(|(it, _)| it.rsplit_once('<')).map_or("", |(_, folder)| folder);
        let joined = Path::new(folder).join(path);
        // A path with `..` can lead anywhere: it is mapped to a path that no allowed folder contains.
        let goes_up = joined.components().any(|it| it == std::path::Component::ParentDir);
        found.push(if goes_up { PathBuf::from("/..") } else { joined });
    }
    found
}

/// Returns whether the address after `sa_family=` is local. A Unix socket must be in an allowed folder, because services
/// behind other sockets, such as container and session services, can forward data. Port 53 never counts as local, because
/// name servers listen there.
fn is_local(address: &str, allowed: &Allowed) -> bool {
    let within = |begin: &str| address.split_once(begin).and_then(|(_, rest)| rest.split('"').next());
    let asks_for_names = address.contains("port=htons(53)");
    let ip = match address.split([',', '}']).next() {
        // Allowed: an address without a path is that of a client, whose Unix socket has no name.
        Some("AF_UNIX") if !address.contains("sun_path") => return true,
        Some("AF_UNIX") => return within("sun_path=\"").is_some_and(|it| allowed.permits(Path::new(it))),
        Some("AF_UNSPEC") => return true,
        Some("AF_INET") => within("inet_addr(\""),
        Some("AF_INET6") => within("inet_pton(AF_INET6, \""),
        _ => None,
    };
    let ip: Option<std::net::IpAddr> = ip.and_then(|it| it.parse().ok());
    ip.is_some_and(|it| it.to_canonical().is_loopback()) && !asks_for_names
}

#[test]
fn trace_lines_are_classified_as_allowed_or_violation() {
    let allowed = Allowed { folders: vec!["/own".into()] };
    let check = |line: &str| is_violation(line, &allowed);
    for fine in [
        r#"openat(AT_FDCWD</x>, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>"#,
        r#"openat(AT_FDCWD</x>, "/own/O_WRONLY", O_RDWR|O_CREAT, 0600) = 3</own/O_WRONLY>"#,
        r#"openat(7</own/index>, "a b", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</own/index/a b>"#,
        r#"openat(AT_FDCWD</x>, "/dev/null", O_RDWR) = 3</dev/null>"#,
        r#"openat(AT_FDCWD</x>, "O_WRONLY", O_RDONLY) = 3</x/O_WRONLY>"#,
        r#"rename("/own/a", "/own/b") = 0"#,
        r#"symlinkat("/elsewhere", 7</own>, "link") = 0"#,
        r#"socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = 9<socket:[1]>"#,
        r#"bind(9<socket:[1]>, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr("127.0.0.1")}, 16) = 0"#,
        r#"connect(9<socket:[1]>, {sa_family=AF_UNIX, sun_path="/own/vicd.sock"}, 20) = 0"#,
        r#"connect(9, {sa_family=AF_INET6, sin6_port=htons(80), inet_pton(AF_INET6, "::1", &sin6_addr)}, 28) = 0"#,
        r#"accept4(9<socket:[1]>, {sa_family=AF_UNIX}, [110 => 2], SOCK_CLOEXEC|SOCK_NONBLOCK) = 5<socket:[2]>"#,
        "+++ exited with 0 +++",
    ] {
        assert!(!check(fine), "{fine}");
    }
    for wrong in [
        r#"openat(AT_FDCWD</x>, "/etc/resolv.conf", O_RDONLY|O_CLOEXEC) = 3</etc/resolv.conf>"#,
        r#"openat(AT_FDCWD</x>, "rel", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 4</x/rel>"#,
        r#"openat(AT_FDCWD</x>, "/own/../etc/cron.d/x", O_WRONLY|O_CREAT, 0666) = -1 EACCES (Permission denied)"#,
        r#"openat(AT_FDCWD</x>, "/tmp", O_RDWR|O_TMPFILE, 0600) = 4</tmp>"#,
        r#"mkdir("/home/me/.cache", 0777) = 0"#,
        r#"rename("/own/a", "/tmp/a") = 0"#,
        r#"rename("/tmp/a", "/own/a") = 0"#,
        r#"unlinkat(5</tmp>, "a", 0) = 0"#,
        r#"symlink("/own/a", "/tmp/a") = 0"#,
        r#"socket(AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, NETLINK_ROUTE) = 5<socket:[2]>"#,
        r#"bind(9<socket:[1]>, {sa_family=AF_INET, sin_port=htons(0), sin_addr=inet_addr("0.0.0.0")}, 16) = 0"#,
        r#"connect(3, {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("192.0.2.1")}, 16) = -1 ENETUNREACH"#,
        r#"sendto(3, "x", 1, 0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("127.0.0.1")}, 16) = 1"#,
        r#"connect(4, {sa_family=AF_INET6, sin6_port=htons(9), inet_pton(AF_INET6, "2001:db8::1", &sin6_addr)}, 28) = 0"#,
        r#"connect(5, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT"#,
        r#"connect(5, {sa_family=AF_UNIX, sun_path="/run/docker.sock"}, 110) = 0"#,
        r#"connect(5, {sa_family=AF_UNIX, sun_path=@"/tmp/.X11-unix/X0"}, 110) = 0"#,
    ] {
        assert!(check(wrong), "{wrong}");
    }
}
