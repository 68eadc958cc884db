//! Samples open files and sockets of processes from `/proc`. Misses short-lived ones, but needs no permission to trace.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples processes every few milliseconds until [`Sampler::stop_and_collect`] is called.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<String>>,
}

impl Sampler {
    /// Samples every process whose environment contains `sign`, and all descendants of these processes.
    pub(crate) fn start(sign: String) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !stopped.load(Ordering::Relaxed) {
                for pid in processes(&sign) {
                    sample_process(&pid, &mut seen);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            seen
        });
        Sampler { stop, thread }
    }

    /// Stops sampling and returns the observations: `writes PATH` for each file open for writing, `tcp LOCAL -> REMOTE` and
    /// similar lines for each socket.
    pub(crate) fn stop_and_collect(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Returns the observations that are violations: writes outside `folders`, and network sockets that are not on loopback.
/// Memory-only files are allowed, although `/proc` lists them.
pub(crate) fn violations(seen: &BTreeSet<String>, folders: &[PathBuf]) -> Vec<String> {
    let is_own = |path: &str| folders.iter().any(|it| Path::new(path).starts_with(it));
    // Sets only the scheduling priority of the session of the writing process, and is not a file.
    let is_autogroup = |path: &str| path.starts_with("/proc/") && path.ends_with("/autogroup");
    let is_fine = |it: &String| match it.strip_prefix("writes ") {
        Some(path) => is_own(path) || is_autogroup(path) || path == "/dev/null" || path.starts_with("/memfd:"),
        None => it.split(' ').skip(1).filter(|it| *it != "->").all(is_local),
    };
    seen.iter().filter(|it| !is_fine(it)).cloned().collect()
}

fn is_local(address: &str) -> bool {
    let Some((ip, port)) = address.rsplit_once(':') else { return false };
    let ip: IpAddr = ip.parse().unwrap();
    let is_nobody = ip.is_unspecified() && port == "0";
    is_nobody || (ip.to_canonical().is_loopback() && port != "53")
}

fn processes(sign: &str) -> HashSet<String> {
    let names = fs::read_dir("/proc").unwrap().flatten().map(|it| it.file_name().to_string_lossy().into_owned());
    let all: Vec<String> = names.filter(|it| it.bytes().all(|it| it.is_ascii_digit())).collect();
    let has_sign = |pid: &&String| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|it| String::from_utf8_lossy(&it).contains(sign))
    };
    let mut watched: HashSet<String> = all.iter().filter(has_sign).cloned().collect();
    loop {
        let before = watched.len();
        let children = all.iter().filter(|pid| parent(pid).is_some_and(|it| watched.contains(&it))).cloned();
        let children: Vec<String> = children.collect();
        watched.extend(children);
        if watched.len() == before {
            return watched;
        }
    }
}

fn parent(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1).map(String::from)
}

/// Adds the open files and sockets of one process. The process may end at any time, so errors are ignored.
fn sample_process(pid: &str, seen: &mut BTreeSet<String>) {
    let mut inodes = HashSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        // The first three descriptors are not checked, because they come from the parent process.
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        if let Some(inode) = target.strip_prefix("socket:[") {
            inodes.insert(inode.trim_end_matches(']').to_owned());
        } else if target.starts_with('/') && !["0", "1", "2"].contains(&name.as_str()) {
            let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{name}")).unwrap_or_default();
            let flags = info.lines().find_map(|it| it.strip_prefix("flags:")).unwrap_or("0");
            if i64::from_str_radix(flags.trim(), 8).unwrap() & 3 != 0 {
                seen.insert(format!("writes {target}"));
            }
        }
    }
    for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for fields in text.lines().skip(1).map(|it| it.split_whitespace().collect::<Vec<_>>()) {
            if inodes.contains(fields[9]) {
                seen.insert(format!("{table} {} -> {}", address(fields[1]), address(fields[2])));
            }
        }
    }
    for table in ["netlink", "packet"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let is_held = |it: &&str| it.split_whitespace().last().is_some_and(|inode| inodes.contains(inode));
        seen.extend(text.lines().skip(1).filter(is_held).map(|_| format!("{table} socket")));
    }
}

/// Decodes an address of `/proc/PID/net`: `0100007F:1F90` -> `127.0.0.1:8080`. Each group of four bytes is byte-swapped.
fn address(field: &str) -> String {
    let (ip, port) = field.split_once(':').unwrap();
    let words = (0..ip.len()).step_by(8).map(|at| u32::from_str_radix(&ip[at..at + 8], 16).unwrap().swap_bytes());
    let ip: IpAddr = match words.collect::<Vec<_>>()[..] {
        [word] => word.to_be_bytes().into(),
        ref words => words.iter().fold(0, |all: u128, word| all << 32 | u128::from(*word)).to_be_bytes().into(),
    };
    format!("{ip}:{}", u16::from_str_radix(port, 16).unwrap())
}

#[test]
fn proc_addresses_are_parsed_and_classified() {
    assert_eq!(address("0100007F:1F90"), "127.0.0.1:8080");
    assert_eq!(address("00000000000000000000000001000000:0035"), "::1:53");
    let seen = |text: &str| violations(&BTreeSet::from([text.to_owned()]), &["/own".into()]).is_empty();
    assert!(seen("writes /own/a") && seen("tcp 127.0.0.1:8080 -> 0.0.0.0:0") && seen("tcp6 ::1:8 -> ::1:9"));
    assert!(!seen("writes /tmp/a") && !seen("udp 127.0.0.1:5 -> 127.0.0.1:53") && !seen("netlink socket"));
    assert!(!seen("tcp 0.0.0.0:80 -> 0.0.0.0:0") && !seen("tcp 10.0.0.2:5 -> 192.0.2.1:443"));
}
