//! Checks the capabilities of the machine that a test needs: tracing programs, tracing running programs, private namespaces,
//! other user ids, downloaded libraries.
//!
//! A test cannot check anything without its capability. A capability that a package installs is required: the test fails
//! with `cannot prove`. A capability that only the owner of the machine can grant (namespaces and attaching are kernel
//! settings, other users need root), or that needs a download, is optional: the test passes and prints `NOT PROVEN` on
//! standard error, bypassing the test harness, which hides the output of passing tests. With `VIC_TESTS_MUST_PROVE=1`, which
//! `make torture` sets, the test fails instead.
//!
//! `VIC_TESTS_WITHOUT=strace,attach,userns,users,autogroup,clients,browser` lets tests without these capabilities pass.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::syscall_trace::SyscallTrace;

/// A capability of the machine that some tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capability {
    /// `strace` is installed and may trace its children.
    Strace,
    /// A running program that is not a child of the tracer may be traced.
    Attaching,
    /// Unprivileged user namespaces can be created, with mounts inside.
    Namespaces,
    /// Programs can be started under another user id.
    OtherUsers,
    /// The kernel schedules processes by session (autogroup).
    Sessions,
    /// The libraries of the example clients in `tests/clients` are downloaded.
    Clients,
    /// Chromium and its driver are installed.
    Browser,
}

const ALL: [Capability; 7] = [
    Capability::Strace,
    Capability::Attaching,
    Capability::Namespaces,
    Capability::OtherUsers,
    Capability::Sessions,
    Capability::Clients,
    Capability::Browser,
];

impl Capability {
    /// Returns the name of the capability in `VIC_TESTS_WITHOUT`.
    fn name(self) -> &'static str {
        match self {
            Capability::Strace => "strace",
            Capability::Attaching => "attach",
            Capability::Namespaces => "userns",
            Capability::OtherUsers => "users",
            Capability::Sessions => "autogroup",
            Capability::Clients => "clients",
            Capability::Browser => "browser",
        }
    }

    fn missing_hint(self) -> &'static str {
        match self {
            Capability::Strace => "strace is missing, or may not trace here; `models/tools.sh --tests` installs it",
            Capability::Attaching => "running programs cannot be traced here; see kernel.yama.ptrace_scope",
            Capability::Namespaces => "user namespaces are not permitted here; see kernel.unprivileged_userns_clone",
            Capability::OtherUsers => "no other user id is available here; run as root, with setpriv",
            Capability::Sessions => "this kernel does not schedule by session; see CONFIG_SCHED_AUTOGROUP",
            Capability::Clients => "libraries of a client are missing; `models/clients.sh` fetches them",
            Capability::Browser => "chromium or chromedriver is missing; `models/browser.sh` installs them",
        }
    }
}

/// What a test does, depending on whether the machine has the capability that the test needs: it runs, it passes without
/// checking anything, or it fails.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Proves,
    Passes,
    Fails,
}

fn decide(means: Capability, is_there: bool, without: &str, must_prove: bool) -> Decision {
    let mut names = without.split(',').map(str::trim).filter(|it| !it.is_empty());
    let known = |name: &str| ALL.iter().any(|it| it.name() == name);
    assert!(
        names.clone().all(known),
        "VIC_TESTS_WITHOUT=`{without}`: the known names are {}",
        ALL.map(Capability::name).join(", ")
    );
    match is_there {
        true => Decision::Proves,
        false if names.any(|it| it == means.name()) => Decision::Passes,
        false if means == Capability::Strace || must_prove => Decision::Fails,
        false => Decision::Passes,
    }
}

/// Returns whether a test that needs this capability may run. Fails the test if the capability is required and missing.
fn can_prove(means: Capability, is_there: bool) -> bool {
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    match decide(means, is_there, &set("VIC_TESTS_WITHOUT"), !set("VIC_TESTS_MUST_PROVE").is_empty()) {
        Decision::Proves => true,
        Decision::Fails => panic!("cannot prove: {} (VIC_TESTS_WITHOUT={})", means.missing_hint(), means.name()),
        Decision::Passes => {
            report_not_proven(means.missing_hint());
            false
        }
    }
}

/// Reports on standard error that this test checked nothing.
pub(crate) fn report_not_proven(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    // `write_all` instead of `eprintln!`, because the harness captures the output of macros.
    std::io::stderr().write_all(format!("\nNOT PROVEN: {test}: {why}\n").as_bytes()).unwrap();
}

/// Returns whether a test that traces programs may run.
pub(crate) fn can_trace() -> bool {
    can_prove(Capability::Strace, SyscallTrace::is_possible())
}

/// Returns whether a test that attaches to running programs may run; `is_possible` is the result of its own attempt.
pub(crate) fn can_attach(is_possible: bool) -> bool {
    can_prove(Capability::Attaching, is_possible)
}

/// Returns whether a test that runs programs under `unshare` with these arguments may run. Tries it with `true`.
pub(crate) fn can_unshare(words: &[&str]) -> bool {
    let tried = Command::new("unshare").args(words).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    can_prove(Capability::Namespaces, tried.is_ok_and(|it| it.success()))
}

/// Returns whether a test that acts as another user may run; `is_possible` is the result of its own attempt.
pub(crate) fn can_switch_user(is_possible: bool) -> bool {
    can_prove(Capability::OtherUsers, is_possible)
}

/// Returns whether a test of CPU shares between sessions may run; `are_there` says whether the kernel has autogroups.
pub(crate) fn can_check_autogroup(are_there: bool) -> bool {
    can_prove(Capability::Sessions, are_there)
}

/// Returns whether a test of the web page may run; `is_there` says whether a browser and its driver were found.
pub(crate) fn can_browse(is_there: bool) -> bool {
    can_prove(Capability::Browser, is_there)
}

/// Returns whether a test of an example client may run; `are_there` says whether the libraries of the client exist.
pub(crate) fn can_run_clients(are_there: bool) -> bool {
    can_prove(Capability::Clients, are_there)
}

#[test]
fn missing_package_fails_and_missing_permission_fails_only_if_required() {
    use Decision::{Fails, Passes, Proves};
    for (means, without, must_prove, expected) in [
        (Capability::Strace, "", false, Fails),
        (Capability::Strace, "userns, users", true, Fails),
        (Capability::Strace, "strace", false, Passes),
        (Capability::Strace, "userns,strace", true, Passes),
        (Capability::Attaching, "", false, Passes),
        (Capability::Attaching, "", true, Fails),
        (Capability::Namespaces, "", false, Passes),
        (Capability::Namespaces, "", true, Fails),
        (Capability::Namespaces, "userns", true, Passes),
        (Capability::OtherUsers, "", true, Fails),
        (Capability::OtherUsers, "strace", false, Passes),
        (Capability::Clients, "", false, Passes),
    ] {
        assert_eq!(decide(means, false, without, must_prove), expected, "{means:?} without `{without}`");
        assert_eq!(decide(means, true, without, must_prove), Proves);
    }
    assert!(std::panic::catch_unwind(|| decide(Capability::Strace, true, "stracy", false)).is_err(), "unknown name");
}
