//! `vic bench walk`: measures the walk of a folder alone, and a first scan and a rescan that also write the catalog.

use std::path::Path;
use std::time::Instant;

use crate::bench::durations::Durations;
use crate::bench::figures::{FILES, FILES_PER_SECOND, SECONDS_COLD, SECONDS_RESCAN};
use crate::bench::input_files::problem_sentences;
use crate::bench::report::Row;
use crate::bench::resource_usage::ResourceUsage;
use crate::catalog::{Catalog, DeletionPolicy};
use crate::config::Config;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::files::{self, Rules, WalkReport, WalkToken};

/// Walks a folder `runs` times after a warm-up. Then `runs` times scans the folder into a new temporary catalog and rescans
/// it. Speed and times are those of the walk alone; the seconds of first scan and rescan include the catalog. Returns the
/// row of figures, and warnings that name unreadable entries.
///
/// # Errors
/// The folder does not exist, is empty or cannot be read; or the catalog cannot be written.
pub fn measure(config: &Config, path: &Path, runs: usize) -> Result<(Row, Vec<String>)> {
    let root = path.canonicalize().io_context("read", path).map_err(|it| it.hint("name an existing folder"))?;
    if !root.is_dir() {
        return Err(Error::invalid(format!("`{}` is not a folder", path.display())).hint("name a folder"));
    }
    let (rules, runs) = (Rules::new(&config.walk)?, runs.max(1));
    let first = walk(&root, &rules)?;
    let files = first.entries;
    if files == 0 {
        return Err(Error::new(ErrorCode::FailedPrecondition, format!("there are no files in `{}`", path.display()))
            .hint("name a folder that contains files; hidden and ignored files are left out, as in `vic index`"));
    }
    let (mut row, usage) = (Row::new("walk"), ResourceUsage::start());
    let alone = time_runs(runs, || walk(&root, &rules).map(|_| ()))?;
    usage.write_to(&mut row);
    row.set(FILES, files as f64);
    row.rate(FILES_PER_SECOND, files as f64, alone.percentile(50) / 1_000.0);
    alone.write_to(&mut row);
    let (cold, again) = measure_catalog_scans(&root, &rules, runs)?;
    row.set(SECONDS_COLD, cold);
    row.set(SECONDS_RESCAN, again);
    row.setting("path", root.to_string_lossy());
    row.setting("runs", runs);
    Ok((row, problem_sentences(first)))
}

/// Returns the median seconds of a scan into an empty catalog, and of a rescan without changes.
fn measure_catalog_scans(root: &Path, rules: &Rules, runs: usize) -> Result<(f64, f64)> {
    let (mut cold, mut again) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let dir = tempfile::Builder::new().prefix("vic-bench-").tempdir().map_err(Error::internal)?;
        let catalog = Catalog::open(&dir.path().join("catalog.sqlite"))?;
        let id = catalog.add_root(root)?.id;
        let scan = || {
            let mut found = Vec::new();
            let report = files::walk(root, rules, None, &WalkToken::default(), |file| found.push(file))?;
            catalog.apply_scan(id, None, found, &report.unreadable, report.complete, DeletionPolicy::All).map(|_| ())
        };
        cold.push(time_runs(1, scan)?.percentile(50) / 1_000.0);
        again.push(time_runs(1, scan)?.percentile(50) / 1_000.0);
    }
    let median = |seconds: Vec<f64>| Durations::new(seconds).percentile(50);
    Ok((median(cold), median(again)))
}

fn time_runs(runs: usize, work: impl Fn() -> Result<()>) -> Result<Durations> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(Durations::new(times))
}

fn walk(root: &Path, rules: &Rules) -> Result<WalkReport> {
    files::walk(root, rules, None, &WalkToken::default(), |_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::input_files::tests::config;

    #[test]
    fn walk_counts_files_and_times_cold_scan_and_rescan() {
        let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..20 {
            std::fs::write(dir.path().join(format!("{number}.txt")), "x").unwrap();
        }
        let (row, warnings) = measure(&config(data.path()), dir.path(), 2).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(row.get(FILES), Some(20.0));
        for figure in [FILES_PER_SECOND, SECONDS_COLD, SECONDS_RESCAN] {
            assert!(row.get(figure).is_some_and(|it| it > 0.0), "{row:?}");
        }
        assert!(data.path().read_dir().unwrap().next().is_none(), "nothing is written to the user's data directory");
    }

    #[test]
    fn missing_folder_or_files_fail_with_hint() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        for (path, code) in [
            ("gone", ErrorCode::NotFound),
            ("file", ErrorCode::InvalidArgument),
            ("empty", ErrorCode::FailedPrecondition),
        ] {
            let error = measure(&config(dir.path()), &dir.path().join(path), 1).unwrap_err();
            assert!(error.code == code && error.hint.is_some(), "{error}");
        }
    }
}
