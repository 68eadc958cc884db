//! The jail of a worker: before it reads the first untrusted byte, it loses nearly all rights except computing and
//! answering.
//!
//! Two kernel mechanisms; neither needs privileges. Landlock ([`restrict_files`]) allows read-only access to
//! libraries, models and fonts. It is set before anything is loaded, because it binds only the calling thread and threads
//! started later, and libraries start threads. Seccomp ([`restrict_system_calls`]) allows only the system calls of a computing
//! program. It is set afterwards, because loading needs more calls than reading. `calls` holds the rules, `escape` tests
//! them. The worker limits memory and time itself.

mod seccomp_rules;
pub(crate) mod probe;

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::extract::Tools;

/// The newest Landlock version to request. An older kernel applies the rules it supports, which always include files.
const LANDLOCK_ABI: ABI = ABI::V6;

/// Paths needed to load libraries, and fonts to replace those that a PDF does not embed. No user file is below them.
const READABLE_PATHS: [&str; 14] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/nix/store",
    "/etc/ld.so.cache",
    "/usr/share/fonts",
    "/usr/share/X11/fonts",
    "/usr/local/share/fonts",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/urandom",
];

/// Closes all descriptors except the standard ones: the worker must not inherit descriptors that a library of the parent
/// left open.
pub(crate) fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "no library in use offers this call")]
    // SAFETY: called first in the process, when it owns no descriptor beyond the standard ones.
    unsafe {
        // Kernels before 5.9 lack the call; descriptors opened by Rust are not inherited anyway.
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0);
    }
}

/// Drops the capabilities of a root daemon, such as raising limits or reading files of all users.
pub(crate) fn drop_privileges() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // A process without capabilities can always drop them.
    set_capabilities(None, sets).ok();
}

/// Restricts this thread and the threads it starts to reading libraries, models and fonts. Fails with a sentence that names
/// the missing feature and how to get it.
pub(crate) fn restrict_files(tools: &Tools) -> Result<(), String> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))
        .and_then(|it| it.handle_access(AccessNet::from_all(LANDLOCK_ABI)))
        .and_then(|it| it.scope(Scope::from_all(LANDLOCK_ABI)))
        .and_then(Ruleset::create)
        .and_then(|it| it.add_rules(path_beneath_rules(readable_paths(tools), AccessFs::ReadFile | AccessFs::ReadDir)))
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

/// Restricts all threads of this process to the system calls in `calls`.
pub(crate) fn restrict_system_calls() -> Result<(), String> {
    for program in seccomp_rules::filters().map_err(|error| format!("cannot make the seccomp filter: {error}"))? {
        seccompiler::apply_filter_all_threads(&program).map_err(|error| {
            format!("seccomp rejected its filter: {error}; use Linux 4.14 or newer with CONFIG_SECCOMP_FILTER")
        })?;
    }
    Ok(())
}

fn readable_paths(tools: &Tools) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = READABLE_PATHS.iter().map(PathBuf::from).collect();
    paths.extend(tools.pdfium.as_deref().into_iter().flat_map(library_directories));
    if let Some(ocr) = &tools.ocr {
        paths.extend(library_directories(&ocr.runtime));
        // Models may be links into a shared store; the rules apply to link targets.
        let files = std::fs::read_dir(&ocr.models).into_iter().flatten().flatten();
        paths.extend(files.filter_map(|it| it.path().canonicalize().ok()));
        paths.push(ocr.models.clone());
    }
    paths
}

/// Returns the directories of a library and of its link target: it may load other libraries from there.
fn library_directories(file: &Path) -> Vec<PathBuf> {
    let places = [Some(file.to_owned()), file.canonicalize().ok()];
    places.into_iter().flatten().filter_map(|it| it.parent().map(Path::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::OcrTools;

    #[test]
    fn link_targets_are_readable() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().canonicalize().unwrap().join(path);
        for path in ["store", "lib", "models"] {
            std::fs::create_dir(at(path)).unwrap();
        }
        for (file, link) in [("store/a.so", "lib/a.so"), ("store/m.onnx", "models/m.onnx")] {
            std::fs::write(at(file), "").unwrap();
            std::os::unix::fs::symlink(at(file), at(link)).unwrap();
        }
        let ocr = OcrTools { runtime: at("lib/a.so"), models: at("models"), threads: 1 };
        let paths = readable_paths(&Tools { pdfium: None, ocr: Some(ocr) });
        for path in ["lib", "store", "models", "store/m.onnx"] {
            assert!(paths.contains(&at(path)), "{path}: {paths:?}");
        }
    }
}
