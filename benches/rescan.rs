//! Measures the walk together with the catalog: a first scan into an empty catalog, and a rescan without changes.
//!
//! Corpus: `--folder DIR`, else `--files` new empty files (default 20,000). `vic bench walk` measures the same over any
//! folder. `benches/peers/run.py walk` compares the speed with `find`.
//!
//! ```text
//! cargo bench --profile release --bench rescan -- --files 100000
//! ```

mod measure;

use std::path::PathBuf;

use serde_json::json;
use vic::bench::figures::{FILES, P50_MS, SECONDS_COLD, SECONDS_RESCAN};
use vic::bench::walk;
use vic::config::Config;

use measure::{Outcome, argument, make_tree, number_argument, print};

fn main() -> Outcome {
    let temporary = tempfile::tempdir()?;
    let folder = match argument("folder") {
        Some(folder) => PathBuf::from(folder),
        None => make_tree(temporary.path(), number_argument("files", 20_000)?)?,
    };
    let (row, warnings) = walk::measure(&Config::load()?, &folder, number_argument("runs", 5)?)?;
    warnings.iter().for_each(|it| print(&json!({ "warning": it })));
    let ms = |seconds: Option<f64>| seconds.map(|it| (it * 1e6).round() / 1e3);
    let files = row.get(FILES);
    for (what, median) in
        [("walk", row.get(P50_MS)), ("cold scan", ms(row.get(SECONDS_COLD))), ("rescan", ms(row.get(SECONDS_RESCAN)))]
    {
        print(&json!({ "what": what, "median_ms": median, "files": files }));
    }
    Ok(())
}
