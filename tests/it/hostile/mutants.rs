//! Tests files with some changed bytes or parts: damaged files are the most common hostile input. Mutations are seeded, so
//! that a failure is reproducible, and every file that kills a worker is kept.
//!
//! `VIC_MUTANTS` sets the number of mutants (`make torture`, `make fuzz`), `VIC_SEED` the first seed. `VIC_MUTANTS_FROM`
//! names a folder of original files in place of `data/` and the [`crate::support::seeds`]. `ocr_bombs` runs OCR and layout
//! on mutants, and `daemon_mutants` puts mutants into the folder of a daemon. `query_mutants`, `request_mutants`,
//! `grpc_mutants`, `model_reply_mutants` and `settings_mutants` mutate requests, replies of servers, and settings files.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use vic::extract::{PoolSettings, SkillJob, Tools, WorkerPool};
use vic::model::{Document, ExtractFailure, ExtractLimits, Reason};
use zip::write::SimpleFileOptions;

use super::bombs::MAX_MIB;
use super::{model_store, worker_program};
use crate::support::harness::sample_dir;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::seeds::seeds;

/// Number of mutants in a short run, which takes a minute on two cores.
pub(super) const DEFAULT_MUTANTS: u64 = 300;

/// A deterministic random generator (xorshift), so that a failure is reproducible.
pub(super) struct Xorshift(u64);

impl Xorshift {
    pub(super) fn index_below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index_below(from.len())]
    }
}

pub(super) fn variable_or(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise)
}

pub(super) fn rng_of_mutant(number: u64) -> Xorshift {
    Xorshift(
        (variable_or("VIC_SEED", 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number.wrapping_mul(0xD134_2543_DE82_EF95))
            | 1,
    )
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = folder.read_dir().unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    let below = |it: PathBuf| if it.is_dir() { files(&it) } else { vec![it] };
    entries.into_iter().flat_map(below).filter(|it| it.metadata().unwrap().len() > 0).collect()
}

/// An original file that mutations start from.
pub(super) struct Original {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Returns the folder that keeps the files that have killed a worker.
fn deaths_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("deaths")
}

/// Keeps a file for debugging if its extraction killed the worker.
pub(super) fn keep_if_deadly(failed: &ExtractFailure, number: u64, name: &str, bytes: &[u8]) {
    let by_process = [Reason::WorkerCrash, Reason::Timeout, Reason::OutOfMemory];
    if by_process.contains(&failed.reason) || failed.detail.contains("stack") {
        std::fs::create_dir_all(deaths_folder()).unwrap();
        std::fs::write(deaths_folder().join(format!("{}-{number}-{name}", failed.reason.name())), bytes).unwrap();
    }
}

/// Returns the files to mutate: the sample files and the seed of every format, or the files of `VIC_MUTANTS_FROM`.
pub(super) fn originals() -> Vec<Original> {
    let folder = std::env::var_os("VIC_MUTANTS_FROM").filter(|it| !it.is_empty());
    let seeds = if folder.is_some() { Vec::new() } else { seeds() };
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        Original { name, bytes: std::fs::read(path).unwrap() }
    };
    let found = files(&folder.map_or_else(sample_dir, PathBuf::from)).into_iter().map(read);
    found.chain(seeds.into_iter().map(|it| Original { name: it.name.into(), bytes: it.bytes })).collect()
}

/// Numbers and markup that parsers use as lengths or often handle wrongly.
const TOKENS: [&[u8]; 16] = [
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\x7f\xff\xff\xff",
    b"99999999999",
    b"-1",
    b"<a>",
    b"</a>",
    b"]]>",
    b"&x;",
    b"<<",
    b">>",
    b"endobj",
    b"stream\n",
    b"PK\x03\x04",
    b"{\\rtf",
    b"\xed\xa0\x80",
];

/// Changes, removes, repeats or inserts bytes at up to eight random positions.
pub(super) fn mutate(bytes: &mut Vec<u8>, dice: &mut Xorshift) {
    for _ in 0..=dice.index_below(8) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.index_below(bytes.len());
        let length = 1 + dice.index_below(64.min(bytes.len() - at));
        match dice.index_below(7) {
            0 => bytes[at] ^= 1 << dice.index_below(8),
            1 => bytes[at] = dice.index_below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let copy = bytes[at..at + length].repeat(1 + dice.index_below(200));
                bytes.splice(at..at, copy).for_each(drop);
            }
            5 => {
                let token = dice.pick(&TOKENS).repeat(1 + dice.index_below(3));
                bytes.splice(at..at, token).for_each(drop);
            }
            _ => {
                let from = dice.index_below(bytes.len());
                let end = (from + length).min(bytes.len());
                let copy = bytes[from..end].to_vec();
                let end = (at + copy.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&copy[..end - at]);
            }
        }
    }
}

/// Changes one part inside a zip container. Changes to the compressed bytes of a container would rarely reach its content.
fn mutate_part(bytes: &[u8], dice: &mut Xorshift) -> Option<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).ok()?;
    let chosen = dice.index_below(archive.len());
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for place in 0..archive.len() {
        let mut part = archive.by_index(place).ok()?;
        let mut content = Vec::new();
        part.read_to_end(&mut content).ok()?;
        if place == chosen {
            mutate(&mut content, dice);
        }
        writer.start_file(part.name().ok()?.into_owned(), SimpleFileOptions::default()).ok()?;
        writer.write_all(&content).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

pub(super) fn mutant(original: &[u8], dice: &mut Xorshift) -> Vec<u8> {
    if original.starts_with(b"PK")
        && dice.index_below(4) > 0
        && let Some(bytes) = mutate_part(original, dice)
    {
        return bytes;
    }
    let mut bytes = original.to_vec();
    mutate(&mut bytes, dice);
    bytes
}

// Case C17
#[tokio::test(flavor = "multi_thread")]
async fn mutated_files_cost_at_most_a_worker() {
    let count = variable_or("VIC_MUTANTS", DEFAULT_MUTANTS);
    let tools = Tools { pdfium: model_store().library("pdfium").ok(), ocr: None };
    let limits = ExtractLimits { seconds: 20, ..ExtractLimits::default() };
    let pool =
        Arc::new(WorkerPool::new(worker_program().into(), PoolSettings { workers: 2, limits, tools, skills: false }));
    let originals = Arc::new(originals());
    let (mut tasks, mut outcomes) = (JoinSet::new(), BTreeMap::<String, u64>::new());
    let mut times = Vec::new();
    let mut note = |(outcome, took): (String, Duration)| {
        *outcomes.entry(outcome).or_default() += 1;
        times.push(took);
    };
    for number in 0..count {
        // Runs as many tasks as workers, so that few files are in memory at a time.
        if tasks.len() >= 2 {
            note(tasks.join_next().await.unwrap().unwrap());
        }
        tasks.spawn(read_mutant(number, pool.clone(), originals.clone()));
    }
    while let Some(outcome) = tasks.join_next().await {
        note(outcome.unwrap());
    }
    let (peak, slowest) = (pool.peak_mib(), percentile(&times, 100));
    figure("mutants given to the readers", format!("{count}: {outcomes:?}; at most {peak} MiB, {slowest:.1?}"));
    println!("files that killed a worker are kept in {}", deaths_folder().display());
    let ends_of_workers =
        ["worker_crash", "timeout"].map(|it| outcomes.get(it).copied().unwrap_or(0)).iter().sum::<u64>();
    assert!(ends_of_workers * 100 <= count, "over 1 % crash or hang a worker: {outcomes:?}");
    assert!(outcomes.get("read").copied().unwrap_or(0) * 4 > count, "{outcomes:?}");
    assert!(peak <= MAX_MIB, "{peak} MiB");
    assert_eq!(pool.is_jailed(), Some(true));
}

/// Extracts one mutant. Returns the outcome and the time.
async fn read_mutant(number: u64, pool: Arc<WorkerPool>, originals: Arc<Vec<Original>>) -> (String, Duration) {
    let mut dice = rng_of_mutant(number);
    let Original { name, bytes } = dice.pick(&originals);
    let bytes = mutant(bytes, &mut dice);
    let begun = Instant::now();
    let outcome = match name.ends_with(".pdf") && dice.index_below(2) == 0 {
        true => read_layout(&pool, name, &bytes).await,
        false => super::extract_with(&pool, name, &bytes).await,
    };
    let took = begun.elapsed();
    let Err(failed) = outcome else { return ("read".to_string(), took) };
    keep_if_deadly(&failed, number, name, &bytes);
    (failed.reason.name().to_string(), took)
}

/// Extracts a PDF with its layout, which runs more code than extraction of the text alone.
async fn read_layout(pool: &WorkerPool, name: &str, bytes: &[u8]) -> Result<Document, ExtractFailure> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let tools = Tools { pdfium: model_store().library("pdfium").ok(), ocr: None };
    let job = SkillJob { skill: vic::skills::PDF_LAYOUT.into(), seconds: 20, tools, ..SkillJob::default() };
    pool.run_skill(file, name, job).await
}
