//! The list of the paths that a jailed worker may read. [`vic_system::jail`] blocks all others.

use std::path::{Path, PathBuf};

use crate::extract::Tools;

/// Paths that every worker may read, to load libraries and the fonts that a PDF does not embed. They hold no user files.
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

/// Returns the paths from which a worker reads libraries, models and fonts.
pub(super) fn readable_paths(tools: &Tools) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = READABLE_PATHS.iter().map(PathBuf::from).collect();
    paths.extend(tools.pdfium.as_deref().into_iter().flat_map(library_directories));
    if let Some(ocr) = &tools.ocr {
        paths.extend(library_directories(&ocr.runtime));
        // Adds the link targets of the models too, because the jail checks those: models may be links into a shared store.
        let files = std::fs::read_dir(&ocr.models).into_iter().flatten().flatten();
        paths.extend(files.filter_map(|it| it.path().canonicalize().ok()));
        paths.push(ocr.models.clone());
    }
    paths
}

/// Returns the directories of a library and of its link target, because the library may load other libraries from there.
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
