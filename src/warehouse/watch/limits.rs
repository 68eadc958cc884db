//! What the kernel has no more of, in words, with the number that has to be raised.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::error::{Error, ErrorCode};

/// What a system is given that has too little: enough for a million folders.
const WATCHES: u64 = 1 << 20;
const INSTANCES: u64 = 512;

/// The name and the value of a limit of inotify: that of the user namespace may be lower than that of the machine.
fn limit_of(what: &str) -> (String, u64) {
    let read = |path: String| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let machine = read(format!("/proc/sys/fs/inotify/max_user_{what}"));
    let namespace = read(format!("/proc/sys/user/max_inotify_{what}"));
    match (machine, namespace) {
        (Some(machine), Some(namespace)) if namespace < machine => (format!("user.max_inotify_{what}"), namespace),
        (machine, _) => (format!("fs.inotify.max_user_{what}"), machine.unwrap_or(0)),
    }
}

/// Why only some folders of a root are watched.
pub(super) fn of_folders(root: &Path, watched: usize, needed: usize) -> String {
    let (name, limit) = limit_of("watches");
    format!(
        "only {watched} of {needed} folders of `{}` are watched: the watch limit {name} ({limit}) is reached; the others are \
         walked from time to time instead; raise it: sysctl {name}={}",
        root.display(),
        (2 * needed as u64).max(WATCHES)
    )
}

/// Why nothing is watched. The kernel says of watches that there is no space left, and of instances that too many files are
/// open, which may be true: neither names what is used up.
pub(super) fn refused(error: io::Error) -> Error {
    let (what, enough, or) = match Errno::from_io_error(&error) {
        Some(Errno::NOSPC) => ("watches", WATCHES, ""),
        Some(Errno::MFILE) => ("instances", INSTANCES, ", or `ulimit -n` where vicd itself has too many files open"),
        _ => return Error::new(ErrorCode::ResourceExhausted, format!("cannot watch files: {error}")),
    };
    let (name, limit) = limit_of(what);
    let message =
        format!("cannot watch files: the limit {name} ({limit}) is reached by all programs of this user together");
    Error::new(ErrorCode::ResourceExhausted, message).hint(format!("raise it: sysctl {name}={enough}{or}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_named_and_not_taken_for_the_disk() {
        for (errno, name) in [(Errno::NOSPC, "watches"), (Errno::MFILE, "instances")] {
            let error = refused(errno.into());
            assert!(error.message.contains(name) && !error.message.contains("space left"), "{error}");
            assert!(error.hint.unwrap().starts_with("raise it: sysctl "));
        }
        assert!(refused(Errno::NOMEM.into()).message.contains("memory"));
    }
}
