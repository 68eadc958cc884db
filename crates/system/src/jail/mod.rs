//! The jail of a worker: before it reads the first untrusted byte, it loses nearly all rights except computing and
//! answering.
//!
//! Two kernel mechanisms; neither needs privileges. Landlock ([`restrict_files`]) allows read-only access to
//! some paths. It is set before anything is loaded, because it binds only the calling thread and threads
//! started later, and libraries start threads. Seccomp ([`restrict_system_calls`]) allows only the system calls of a computing
//! program. It is set afterwards, because loading needs more calls than reading. `seccomp_rules` holds the rules,
//! [`probe`] tests them. The worker limits memory and time itself.

pub mod probe;
mod seccomp_rules;

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// The newest Landlock version to request. An older kernel applies the rules it supports, which always include files.
const LANDLOCK_ABI: ABI = ABI::V6;

/// Drops the capabilities of a root daemon, such as raising limits or reading files of all users.
pub fn drop_privileges() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // A process without capabilities can always drop them.
    set_capabilities(None, sets).ok();
}

/// Restricts this thread and the threads it starts to reading these files and the files below these folders. Fails with a sentence that names
/// the missing feature and how to get it.
pub fn restrict_files(readable: Vec<PathBuf>) -> Result<(), String> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))
        .and_then(|it| it.handle_access(AccessNet::from_all(LANDLOCK_ABI)))
        .and_then(|it| it.scope(Scope::from_all(LANDLOCK_ABI)))
        .and_then(Ruleset::create)
        .and_then(|it| it.add_rules(path_beneath_rules(readable, AccessFs::ReadFile | AccessFs::ReadDir)))
        .and_then(|it| it.restrict_self())
        .map_err(|error| format!("Landlock rejected its rules: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => {
            Err("this kernel has no Landlock: it needs Linux 5.13 with `landlock` among the security modules (lsm=)"
                .to_string())
        }
    }
}

/// Restricts all threads of this process to the system calls in `seccomp_rules`.
pub fn restrict_system_calls() -> Result<(), String> {
    for program in seccomp_rules::filters().map_err(|error| format!("cannot make the seccomp filter: {error}"))? {
        seccompiler::apply_filter_all_threads(&program).map_err(|error| {
            format!("seccomp rejected its filter: {error}; use Linux 4.14 or newer with CONFIG_SECCOMP_FILTER")
        })?;
    }
    Ok(())
}
