//! Measures the walk of a folder in files per second, next to the crate `walkdir` (one `lstat` per file) and, if installed,
//! `fd`.
//!
//! Corpus: `--folder DIR`, else 20,000 new empty files in 400 folders.
//!
//! ```text
//! cargo bench --profile release --bench walk -- --folder ~/Documents
//! ```

mod measure;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use vic::config::WalkConfig;
use vic::files::{Rules, WalkToken, walk};

use measure::{Outcome, argument, make_tree, measure, number_argument};

fn main() -> Outcome {
    let runs = number_argument("runs", 7)?;
    let temporary = tempfile::tempdir()?;
    let folder = match argument("folder") {
        Some(folder) => PathBuf::from(folder),
        None => make_tree(temporary.path(), 20_000)?,
    };
    let config = WalkConfig {
        ignore: Vec::new(),
        include_hidden: true,
        max_file_bytes: u64::MAX,
        watch: false,
        rescan_seconds: 0,
    };
    let rules = Rules::new(&config)?;
    let leash = WalkToken::default();
    let files = walk(&folder, &rules, None, &leash, |_| ())?.entries as f64;
    measure("vic walk", runs, files, "files", || Ok(walk(&folder, &rules, None, &leash, |_| ()).map(|_| ())?))?;
    measure("walkdir, one thread", runs, files, "files", || {
        for entry in walkdir::WalkDir::new(&folder) {
            entry?.metadata()?;
        }
        Ok(())
    })?;
    for program in ["fd", "fdfind"] {
        let run = || Command::new(program).args(["-u", "."]).arg(&folder).stdout(Stdio::null()).status();
        if run().is_ok_and(|it| it.success()) {
            measure("fd, names only", runs, files, "files", || Ok(run().map(|_| ())?))?;
        }
    }
    Ok(())
}
