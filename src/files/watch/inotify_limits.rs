//! Error messages about exhausted inotify limits, with the `sysctl` setting to raise.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::error::{Error, ErrorCode};

/// Limits that the error messages suggest: enough watches for a million folders, and enough inotify instances.
const SUGGESTED_WATCHES: u64 = 1 << 20;
const SUGGESTED_INSTANCES: u64 = 512;

/// Returns name and value of an inotify limit: the limit of the user namespace if it is lower than that of the whole
/// machine.
fn read_limit(what: &str) -> (String, u64) {
    let read = |path: String| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let machine = read(format!("/proc/sys/fs/inotify/max_user_{what}"));
    let namespace = read(format!("/proc/sys/user/max_inotify_{what}"));
    match (machine, namespace) {
        (Some(machine), Some(namespace)) if namespace < machine => (format!("user.max_inotify_{what}"), namespace),
        (machine, _) => (format!("fs.inotify.max_user_{what}"), machine.unwrap_or(0)),
    }
}

/// Explains why only some folders of a root are watched.
pub(super) fn explain_watch_limit(root: &Path, watched: usize, needed: usize) -> String {
    let (name, limit) = read_limit("watches");
    format!(
        "only {watched} of {needed} folders of `{}` are watched: the watch limit {name} ({limit}) is reached; the others are \
         scanned periodically instead; raise it: sysctl {name}={}",
        root.display(),
        (2 * needed as u64).max(SUGGESTED_WATCHES)
    )
}

/// Explains why no folder is watched. The kernel reports "no space left" for too many watches and "too many open files"
/// for too many instances; neither error names the limit.
pub(super) fn explain_refusal(error: io::Error) -> Error {
    let (what, enough, or) = match Errno::from_io_error(&error) {
        Some(Errno::NOSPC) => ("watches", SUGGESTED_WATCHES, ""),
        Some(Errno::MFILE) => {
            ("instances", SUGGESTED_INSTANCES, ", or raise `ulimit -n` if vicd itself has too many files open")
        }
        _ => return Error::new(ErrorCode::ResourceExhausted, format!("cannot watch files: {error}")),
    };
    let (name, limit) = read_limit(what);
    let message =
        format!("cannot watch files: the limit {name} ({limit}) is reached by all programs of this user together");
    Error::new(ErrorCode::ResourceExhausted, message).hint(format!("raise it: sysctl {name}={enough}{or}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case A2
    #[test]
    fn exhausted_limit_is_named_not_disk_space() {
        for (errno, name) in [(Errno::NOSPC, "watches"), (Errno::MFILE, "instances")] {
            let error = explain_refusal(errno.into());
            assert!(error.message.contains(name) && !error.message.contains("space left"), "{error}");
            assert!(error.hint.unwrap().starts_with("raise it: sysctl "));
        }
        assert!(explain_refusal(Errno::NOMEM.into()).message.contains("memory"));
    }
}
