//! Capabilities of the machine that a test needs: tracing programs, also running ones, private namespaces, other user ids,
//! libraries that are fetched.
//!
//! Without its capability a test shows nothing. Capabilities that a package installs are required: the test fails with
//! `cannot prove`. Capabilities that only the machine's owner can grant (namespaces and attaching are kernel settings, other
//! users need root), or that come from the network, are optional: the test passes and reports that on standard error, past
//! the harness, which hides the output of passing tests. `VIC_TESTS_MUST_PROVE=1`, set by `make torture`, makes it fail.
//!
//! `VIC_TESTS_WITHOUT=strace,attach,userns,users,autogroup,clients` lets tests pass without the named capabilities.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::trace::Trace;

/// A capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// `strace` and the permission to trace.
    Strace,
    /// The permission to trace a running program that is not a child of the tracer.
    Attaching,
    /// Unprivileged user namespaces with mounts inside.
    Namespaces,
    /// The permission to run programs under another user id.
    OtherUsers,
    /// A kernel that groups processor scheduling by session (autogroup).
    Sessions,
    /// The libraries of the example clients in `tests/clients`.
    Clients,
}

const ALL: [Means; 6] =
    [Means::Strace, Means::Attaching, Means::Namespaces, Means::OtherUsers, Means::Sessions, Means::Clients];

impl Means {
    /// Returns the name in `VIC_TESTS_WITHOUT`.
    fn name(self) -> &'static str {
        match self {
            Means::Strace => "strace",
            Means::Attaching => "attach",
            Means::Namespaces => "userns",
            Means::OtherUsers => "users",
            Means::Sessions => "autogroup",
            Means::Clients => "clients",
        }
    }

    fn missing(self) -> &'static str {
        match self {
            Means::Strace => "strace is missing, or may not trace here; `models/tools.sh --tests` installs it",
            Means::Attaching => "running programs cannot be traced here; see kernel.yama.ptrace_scope",
            Means::Namespaces => "user namespaces are not permitted here; see kernel.unprivileged_userns_clone",
            Means::OtherUsers => "no other user id is available here; run as root, with setpriv",
            Means::Sessions => "this kernel does not schedule by session; see CONFIG_SCHED_AUTOGROUP",
            Means::Clients => "libraries of a client are missing; `models/clients.sh` fetches them",
        }
    }
}

/// The behavior of a test.
#[derive(Debug, PartialEq, Eq)]
enum Course {
    Proves,
    Passes,
    Fails,
}

fn course(means: Means, is_there: bool, without: &str, must_prove: bool) -> Course {
    let mut names = without.split(',').map(str::trim).filter(|it| !it.is_empty());
    let known = |name: &str| ALL.iter().any(|it| it.name() == name);
    assert!(names.clone().all(known), "VIC_TESTS_WITHOUT=`{without}`: known are {}", ALL.map(Means::name).join(", "));
    match is_there {
        true => Course::Proves,
        false if names.any(|it| it == means.name()) => Course::Passes,
        false if means == Means::Strace || must_prove => Course::Fails,
        false => Course::Passes,
    }
}

/// Returns whether a test with this need proceeds. Fails the test if a required capability is missing.
fn can_prove(means: Means, is_there: bool) -> bool {
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    match course(means, is_there, &set("VIC_TESTS_WITHOUT"), !set("VIC_TESTS_MUST_PROVE").is_empty()) {
        Course::Proves => true,
        Course::Fails => panic!("cannot prove: {} (VIC_TESTS_WITHOUT={})", means.missing(), means.name()),
        Course::Passes => {
            let test = std::thread::current().name().unwrap_or("a test").to_string();
            // Not with a macro: the harness captures the output of macros.
            let said = format!("\nNOT PROVEN: {test}: {}\n", means.missing());
            std::io::stderr().write_all(said.as_bytes()).unwrap();
            false
        }
    }
}

/// Returns whether a test that traces programs proceeds.
pub(crate) fn can_trace() -> bool {
    can_prove(Means::Strace, Trace::is_possible())
}

/// Returns whether a test that attaches to running programs proceeds, given its own attempt.
pub(crate) fn can_attach(is_possible: bool) -> bool {
    can_prove(Means::Attaching, is_possible)
}

/// Returns whether a test that runs programs under `unshare` with these arguments proceeds. Tries it with `true`.
pub(crate) fn can_unshare(words: &[&str]) -> bool {
    let tried = Command::new("unshare").args(words).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    can_prove(Means::Namespaces, tried.is_ok_and(|it| it.success()))
}

/// Returns whether a test that acts as another user proceeds, given its own attempt.
pub(crate) fn can_be_another(is_possible: bool) -> bool {
    can_prove(Means::OtherUsers, is_possible)
}

/// Returns whether a test of processor shares between sessions proceeds.
pub(crate) fn can_look_at_sessions(are_there: bool) -> bool {
    can_prove(Means::Sessions, are_there)
}

/// Returns whether a test of an example client proceeds, given that its libraries exist or not.
pub(crate) fn can_run_clients(are_there: bool) -> bool {
    can_prove(Means::Clients, are_there)
}

#[test]
fn missing_package_fails_and_missing_permission_fails_only_if_required() {
    use Course::{Fails, Passes, Proves};
    for (means, without, must_prove, expected) in [
        (Means::Strace, "", false, Fails),
        (Means::Strace, "userns, users", true, Fails),
        (Means::Strace, "strace", false, Passes),
        (Means::Strace, "userns,strace", true, Passes),
        (Means::Attaching, "", false, Passes),
        (Means::Attaching, "", true, Fails),
        (Means::Namespaces, "", false, Passes),
        (Means::Namespaces, "", true, Fails),
        (Means::Namespaces, "userns", true, Passes),
        (Means::OtherUsers, "", true, Fails),
        (Means::OtherUsers, "strace", false, Passes),
        (Means::Clients, "", false, Passes),
    ] {
        assert_eq!(course(means, false, without, must_prove), expected, "{means:?} without `{without}`");
        assert_eq!(course(means, true, without, must_prove), Proves);
    }
    assert!(std::panic::catch_unwind(|| course(Means::Strace, true, "stracy", false)).is_err(), "unknown name");
}
