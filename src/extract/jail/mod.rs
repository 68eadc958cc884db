//! The jail of a worker: from the moment it reads the first byte of unknown origin it can compute and answer, and
//! little else.
//!
//! Two locks of the kernel, neither of which needs privileges. Landlock ([`lock_files`]) leaves it the libraries, the
//! models and the fonts, read-only; it comes before anything is loaded, because it binds the calling thread and the
//! threads that this one starts later, and libraries start threads. Seccomp ([`lock_calls`]) leaves it the system
//! calls of a program that computes; it comes after, because loading takes more calls than reading. `calls` is the
//! table, `escape` tries every way out. Limits on memory and time are the worker's own business.

mod calls;
pub(crate) mod escape;

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::extract::Tools;

/// The newest rules that are asked for; an older kernel gives what it knows, which is always the rules on files.
const LANDLOCK: ABI = ABI::V6;

/// What loading a library takes, and the fonts that stand in for those a PDF does not bring along. No user's file lies
/// below any of these.
const READABLE: [&str; 14] = [
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

/// Closes every descriptor but the standard ones: what a library of the parent left open to its children is none of
/// the worker's business.
pub(crate) fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "no library in use offers this call")]
    // SAFETY: called first thing in the process, when nothing in it owns a descriptor beyond the standard ones.
    unsafe {
        // Kernels before 5.9 lack it; descriptors that Rust opens are not inherited anyway.
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0);
    }
}

/// Gives up what a daemon of root's could do beyond other users: raise limits, read what is forbidden to all others.
pub(crate) fn drop_privileges() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Whoever has none can always give up none.
    set_capabilities(None, sets).ok();
}

/// Takes every file away from this thread and those it starts, but for reading libraries, models and fonts. Fails with
/// a sentence on what is missing and how to get it.
pub(crate) fn lock_files(tools: &Tools) -> Result<(), String> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|it| it.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|it| it.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(|it| it.add_rules(path_beneath_rules(readable(tools), AccessFs::ReadFile | AccessFs::ReadDir)))
        .and_then(|it| it.restrict_self())
        .map_err(|error| format!("Landlock refuses its rules: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => {
            Err("this kernel has no Landlock: it takes Linux 5.13 with `landlock` among the security modules (lsm=)"
                .to_string())
        }
    }
}

/// Takes every system call away from all threads of this process but those of [`calls`].
pub(crate) fn lock_calls() -> Result<(), String> {
    for program in calls::programs().map_err(|error| format!("cannot make the seccomp filter: {error}"))? {
        seccompiler::apply_filter_all_threads(&program).map_err(|error| {
            format!("seccomp refuses its filter: {error}; it takes Linux 4.14 with CONFIG_SECCOMP_FILTER")
        })?;
    }
    Ok(())
}

fn readable(tools: &Tools) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = READABLE.iter().map(PathBuf::from).collect();
    paths.extend(tools.pdfium.as_deref().into_iter().flat_map(library));
    if let Some(ocr) = &tools.ocr {
        paths.extend(library(&ocr.runtime));
        // Models may be links into a store that programs share; the rules hold for what a link leads to.
        let files = std::fs::read_dir(&ocr.models).into_iter().flatten().flatten();
        paths.extend(files.filter_map(|it| it.path().canonicalize().ok()));
        paths.push(ocr.models.clone());
    }
    paths
}

/// A library may have others beside it, which it asks for when it is loaded: where it is named, and where it lies.
fn library(file: &Path) -> Vec<PathBuf> {
    let places = [Some(file.to_owned()), file.canonicalize().ok()];
    places.into_iter().flatten().filter_map(|it| it.parent().map(Path::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::OcrTools;

    #[test]
    fn what_a_link_leads_to_may_be_read() {
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
        let paths = readable(&Tools { pdfium: None, ocr: Some(ocr) });
        for path in ["lib", "store", "models", "store/m.onnx"] {
            assert!(paths.contains(&at(path)), "{path}: {paths:?}");
        }
    }
}
