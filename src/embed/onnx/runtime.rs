//! ONNX Runtime in this process: loaded once, from the models directory, with its telemetry off.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;

use crate::error::{Error, ErrorCode, Result};

/// The variable that the library reads when it is loaded. Without it, it writes to the home directory and reports to its
/// maker; setting an option afterwards is too late.
const TELEMETRY_SWITCH: &str = "ORT_DISABLE_TELEMETRY";

/// A process has one environment, and it stays until the end.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
static LOADING: Mutex<()> = Mutex::new(());

/// Turns the telemetry of ONNX Runtime off for this process and its children. Call it first thing in `main`, before there
/// is any other thread: without it no model is loaded.
pub fn disable_telemetry() {
    #[expect(unsafe_code, reason = "called before there is a second thread that could read the environment")]
    // SAFETY: by this function's contract no other thread runs yet.
    unsafe {
        std::env::set_var(TELEMETRY_SWITCH, "1");
    }
}

/// Loads the library on first use.
pub(crate) fn environment(library: &Path) -> Result<&'static Environment> {
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = ENVIRONMENT.get() {
        return Ok(environment);
    }
    #[expect(clippy::disallowed_methods, reason = "the switch of a foreign library, checked where it is loaded")]
    let telemetry_off = std::env::var_os(TELEMETRY_SWITCH).is_some_and(|it| it == "1");
    if !telemetry_off {
        return Err(Error::internal(format!("{TELEMETRY_SWITCH} was not set at the start of the program")));
    }
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::FailedPrecondition, format!("cannot load `{}`: {error}", library.display()))
            .hint("run `vic models pull onnxruntime`")
    };
    let builder = ort::init_from(library).map_err(|error| failed(&error))?;
    let environment = builder.with_name("vic").with_telemetry(false).build().map_err(|error| failed(&error))?;
    environment.set_log_level(LogLevel::Error);
    Ok(ENVIRONMENT.get_or_init(|| environment))
}

/// Opens a model whose operators share `threads` threads. Where there is much to run, several sessions of one thread each
/// are faster.
pub(crate) fn session(environment: &Environment, model: &Path, threads: usize) -> Result<Session> {
    build(environment, model, threads).map_err(|error| {
        Error::new(ErrorCode::FailedPrecondition, format!("cannot load the model `{}`: {error}", model.display()))
    })
}

fn build(environment: &Environment, model: &Path, threads: usize) -> ort::Result<Session> {
    Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        // Patterns are kept for each length of text, of which there are hundreds.
        .with_memory_pattern(false)?
        // The fused operator is several times slower than its parts on processors without its fast path.
        .with_disabled_optimizers("SkipLayerNormFusion")?
        .with_log_level(LogLevel::Error)?
        .commit_from_file(model)
}
