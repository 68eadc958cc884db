//! ONNX Runtime: loaded once per process from the models directory, with telemetry off. Start reading at [`Runtime`].

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::environment::Environment;
use ort::ep::CUDA;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};

use crate::config::EmbedDevice;
use crate::error::{Error, ErrorCode, Result};
use vic_kernels::onnx_arena;

/// Environment variable that the library reads when it is loaded. Without it, the library writes to the home directory
/// and sends telemetry to its vendor; setting an option afterwards is too late.
const TELEMETRY_VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

/// The single environment of the process. It is never dropped.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
static LOAD_LOCK: Mutex<()> = Mutex::new(());

/// Turns off ONNX Runtime's telemetry for this process and its children. Call it first in `main`, while there is only
/// one thread. Without it no model is loaded.
pub fn disable_telemetry() {
    // A failure shows when a model is loaded: without the variable that is refused.
    vic_system::environment::set_variable_before_threads(TELEMETRY_VARIABLE, "1").ok();
}

/// The library and its compute device.
#[derive(Clone, Copy)]
pub(crate) struct Runtime {
    environment: &'static Environment,
    device: EmbedDevice,
}

impl Runtime {
    /// Loads the library at this path, unless the process has already loaded one.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`] with a hint.
    pub(crate) fn load(library: &Path, device: EmbedDevice) -> Result<Runtime> {
        Ok(Runtime { environment: environment(library)?, device })
    }

    /// Opens a model with `threads` intra-operator threads. For high throughput, several single-threaded sessions are
    /// faster.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`]: the model or the device is unusable.
    pub(crate) fn session(self, model: &Path, threads: usize) -> Result<Session> {
        load_session(model, self.builder(threads))
    }

    /// Opens a model that allocates from the shared [`onnx_arena`] and returns its memory after a run.
    ///
    /// # Errors
    /// As [`Runtime::session`].
    pub(crate) fn session_in_arena(self, model: &Path, threads: usize) -> Result<Session> {
        let in_arena = || {
            onnx_arena::ensure_created(self.environment)?;
            // Weights are allocated outside the arena; otherwise it could never return memory.
            Ok(self.builder(threads)?.with_env_allocators()?.with_device_allocated_initializers()?)
        };
        load_session(model, in_arena())
    }

    /// Returns a session builder with the common options.
    pub(super) fn builder(self, threads: usize) -> ort::Result<SessionBuilder> {
        let builder = Session::builder(self.environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(threads)?
            .with_inter_threads(1)?
            .with_intra_op_spinning(false)?
            .with_inter_op_spinning(false)?
            // The runtime keeps a pattern for each text length, and there are hundreds.
            .with_memory_pattern(false)?
            // The fused operator is several times slower than its parts on processors without its fast path.
            .with_disabled_optimizers("SkipLayerNormFusion")?
            .with_log_level(LogLevel::Error)?;
        Ok(match self.device {
            EmbedDevice::Cpu => builder,
            // Without TF32, the vectors equal those of the CPU, so an index can switch between the two.
            EmbedDevice::Cuda => {
                builder.with_execution_providers([CUDA::default().with_tf32(false).build().error_on_failure()])?
            }
        })
    }
}

fn load_session(model: &Path, builder: ort::Result<SessionBuilder>) -> Result<Session> {
    builder.and_then(|mut it| it.commit_from_file(model)).map_err(|error| {
        Error::new(ErrorCode::FailedPrecondition, format!("cannot load the model `{}`: {error}", model.display()))
    })
}

/// Loads the library on first use.
fn environment(library: &Path) -> Result<&'static Environment> {
    let _loading = LOAD_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = ENVIRONMENT.get() {
        return Ok(environment);
    }
    #[expect(clippy::disallowed_methods, reason = "the switch of a foreign library, checked where it is loaded")]
    let telemetry_off = std::env::var_os(TELEMETRY_VARIABLE).is_some_and(|it| it == "1");
    if !telemetry_off {
        return Err(Error::internal(format!("{TELEMETRY_VARIABLE} was not set at program start")));
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
