//! What a proof needs of the machine and not of vic: to trace programs, also such as run already, to have namespaces of its
//! own, to be another user, libraries that are fetched.
//!
//! Where that is missing nothing is shown, and a test that passed would say something else. What a package mends has to be
//! there: the test fails with `cannot prove`. What only the owner of the machine can allow (namespaces, and to trace what
//! runs, are settings of the kernel, other users are root's), or the network brings, may be missing: the test passes and
//! says so on standard error, past the harness, which keeps to itself what a passing test prints. With
//! `VIC_TESTS_MUST_PROVE=1`, as `make torture` sets it, that fails too.
//! `VIC_TESTS_WITHOUT=strace,attach,userns,users,autogroup,clients` lets the tests do without the named ones in any case.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::trace::Trace;

/// What may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// `strace`, and the right to trace.
    Strace,
    /// The right to trace a program that runs already and is no child of the tracer.
    Attaching,
    /// User namespaces for everybody, and mounts inside them.
    Namespaces,
    /// The right to run programs as somebody else.
    OtherUsers,
    /// A kernel that shares the processors out by session.
    Sessions,
    /// What the example clients of `tests/clients` are made of.
    Clients,
}

const ALL: [Means; 6] =
    [Means::Strace, Means::Attaching, Means::Namespaces, Means::OtherUsers, Means::Sessions, Means::Clients];

impl Means {
    /// Its name in `VIC_TESTS_WITHOUT`.
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
            Means::Attaching => "what runs already cannot be traced here; see kernel.yama.ptrace_scope",
            Means::Namespaces => "no user namespace can be made here; see kernel.unprivileged_userns_clone",
            Means::OtherUsers => "nobody else can be asked here; run as root, with setpriv",
            Means::Sessions => "this kernel does not share the processors out by session; see CONFIG_SCHED_AUTOGROUP",
            Means::Clients => "libraries of a client are missing; `models/clients.sh` fetches them",
        }
    }
}

/// What a test does.
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

/// Says whether a test that needs this goes on; fails it where it has to be there and is not.
fn can_prove(means: Means, is_there: bool) -> bool {
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    match course(means, is_there, &set("VIC_TESTS_WITHOUT"), !set("VIC_TESTS_MUST_PROVE").is_empty()) {
        Course::Proves => true,
        Course::Fails => panic!("cannot prove: {} (VIC_TESTS_WITHOUT={})", means.missing(), means.name()),
        Course::Passes => {
            let test = std::thread::current().name().unwrap_or("a test").to_string();
            // Not by a macro: what those print is kept back.
            let said = format!("\nNOT PROVEN: {test}: {}\n", means.missing());
            std::io::stderr().write_all(said.as_bytes()).unwrap();
            false
        }
    }
}

/// Says whether a test that traces programs goes on.
pub(crate) fn can_trace() -> bool {
    can_prove(Means::Strace, Trace::is_possible())
}

/// Says whether a test goes on that traces what runs already, which it has tried.
pub(crate) fn can_attach(is_possible: bool) -> bool {
    can_prove(Means::Attaching, is_possible)
}

/// Says whether a test that starts programs behind `unshare` with these words goes on; `true` is tried behind them.
pub(crate) fn can_unshare(words: &[&str]) -> bool {
    let tried = Command::new("unshare").args(words).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    can_prove(Means::Namespaces, tried.is_ok_and(|it| it.success()))
}

/// Says whether a test goes on that is another user for a while, which it has tried.
pub(crate) fn can_be_another(is_possible: bool) -> bool {
    can_prove(Means::OtherUsers, is_possible)
}

/// Says whether a test goes on that looks at how processors are shared out among sessions.
pub(crate) fn can_look_at_sessions(are_there: bool) -> bool {
    can_prove(Means::Sessions, are_there)
}

/// Says whether a test goes on that runs an example client, whose libraries lie there or do not.
pub(crate) fn can_run_clients(are_there: bool) -> bool {
    can_prove(Means::Clients, are_there)
}

#[test]
fn what_a_package_mends_fails_and_what_the_owner_has_to_allow_fails_only_where_it_must_be_proven() {
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
    assert!(std::panic::catch_unwind(|| course(Means::Strace, true, "stracy", false)).is_err(), "a slip is told");
}
