//! The jail of a worker process: before it reads the first untrusted byte, it gives up nearly all rights except computing
//! and answering.
//!
//! The jail uses two kernel mechanisms; neither needs privileges. Landlock ([`restrict_files`]) allows read-only access to
//! some paths. It is installed before libraries are loaded, because it binds only the calling thread and threads started
//! later, and libraries start threads. Seccomp ([`restrict_system_calls`]) allows only the system calls of a computing
//! program. It is installed after loading, which needs more calls than reading a file. `seccomp_rules` holds the rules,
//! [`probe`] tests them. The worker itself limits memory and time.

pub mod probe;
mod seccomp_rules;

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// The newest Landlock version to request. An older kernel applies the rules that it supports, always including those for
/// files.
const LANDLOCK_ABI: ABI = ABI::V6;

/// Drops the capabilities of a daemon that runs as root, such as raising limits or reading the files of all users.
pub fn drop_privileges() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Ignores the result, because a process can always drop capabilities.
    set_capabilities(None, sets).ok();
}

/// Allows this thread, and the threads that it starts, to read only these files and the files below these folders. An
/// error names the missing kernel feature and how to get it.
pub fn restrict_files(readable: Vec<PathBuf>) -> Result<(), String> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))
        .and_then(|it| it.handle_access(AccessNet::from_all(LANDLOCK_ABI)))
        .and_then(|it| it.scope(Scope::from_all(LANDLOCK_ABI)))
        .and_then(Ruleset::create)
        .and_then(|it| it.add_rules(path_beneath_rules(readable, AccessFs::ReadFile | AccessFs::ReadDir)))
        .and_then(|it| it.restrict_self())
        .map_err(|error| format!("Landlock rejected the rules: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => {
            Err("this kernel has no Landlock: it needs Linux 5.13 with `landlock` among the security modules (lsm=)"
                .to_string())
        }
    }
}

/// Restricts all threads of this process to the system calls that `seccomp_rules` allows.
pub fn restrict_system_calls() -> Result<(), String> {
    for program in seccomp_rules::filters().map_err(|error| format!("cannot make the seccomp filter: {error}"))? {
        seccompiler::apply_filter_all_threads(&program).map_err(|error| {
            format!("seccomp rejected the filter: {error}; use Linux 4.14 or newer with CONFIG_SECCOMP_FILTER")
        })?;
    }
    Ok(())
}
