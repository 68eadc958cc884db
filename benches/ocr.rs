//! Measures the speed of OCR on images, and writes the recognized text for scoring.
//!
//! Reads every image in the arguments: files, or folders in the order of file names; without arguments the scans of the
//! sample files. With `--out`, writes the text to `OUT/<file name>.txt`. Prints one JSON object per image and a summary at
//! the end. The time includes decoding the image and excludes loading the networks.
//!
//! Run it: `cargo bench --profile release --bench ocr -- [--out OUT] [--models DIR] [--threads N] [IMAGE...]`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use vic::embed::models::ModelStore;
use vic::error::{Error, IoContext, Result};
use vic::skills::ocr::{self, Ocr, image_decoder};

struct Options {
    out: Option<PathBuf>,
    models: PathBuf,
    threads: usize,
    images: Vec<PathBuf>,
}

fn main() -> std::process::ExitCode {
    vic::embed::disable_telemetry();
    match options().and_then(|options| run(&options)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "error: {error}").ok();
            std::process::ExitCode::from(error.code.exit_code())
        }
    }
}

fn options() -> Result<Options> {
    let mut options = Options {
        out: None,
        models: Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache"),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        images: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    let missing = || Error::invalid("`--out`, `--models` and `--threads` each need a value");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => options.out = Some(arguments.next().ok_or_else(missing)?.into()),
            "--models" => options.models = arguments.next().ok_or_else(missing)?.into(),
            "--threads" => {
                let number = arguments.next().ok_or_else(missing)?;
                options.threads = number.parse().map_err(|_| Error::invalid(format!("`{number}` is not a number")))?;
            }
            // Ignores this argument, which Cargo adds.
            "--bench" => {}
            path => options.images.extend(image_files(Path::new(path))?),
        }
    }
    if options.images.is_empty() {
        options.images = image_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/Scans"))?;
    }
    Ok(options)
}

fn image_files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).io_context("read", path)? {
        files.push(entry.io_context("read", path)?.path());
    }
    files.retain(|it| it.is_file());
    files.sort();
    Ok(files)
}

fn run(options: &Options) -> Result<()> {
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out).io_context("create", out)?;
    }
    let store = ModelStore::new(vec![options.models.clone()]);
    let networks = store.locate_file(ocr::MODEL, ocr::DETECTION_FILE)?;
    let folder = networks.parent().unwrap_or(Path::new("."));
    let mut ocr = Ocr::load(&store.library("onnxruntime")?, folder, options.threads)?;
    let (mut pages, mut total) = (0u32, 0.0);
    for path in &options.images {
        let bytes = std::fs::read(path).io_context("read", path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let start = Instant::now();
        let mut text = String::new();
        let mut report = serde_json::json!({ "file": name });
        for number in 0..image_decoder::page_count(&bytes) {
            match image_decoder::decode_page(&bytes, number) {
                Ok(pixels) => {
                    let page = ocr.read(&pixels)?;
                    text.push_str(&page.text());
                    report["rotation"] = page.rotation_degrees.into();
                    report["lines"] = page.lines.len().into();
                    pages += 1;
                }
                Err(failure) => report["failure"] = format!("{:?}: {}", failure.reason, failure.detail).into(),
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        total += seconds;
        report["seconds"] = ((seconds * 1000.0).round() / 1000.0).into();
        if let Some(out) = &options.out {
            let to = out.join(format!("{name}.txt"));
            std::fs::write(&to, text).io_context("write", &to)?;
        }
        print_json(&report);
    }
    print_json(&serde_json::json!({
        "pages": pages,
        "seconds": total,
        "pages_per_minute": f64::from(pages) * 60.0 / total,
        "threads": options.threads,
    }));
    Ok(())
}

fn print_json(report: &serde_json::Value) {
    writeln!(std::io::stdout(), "{report}").ok();
}
