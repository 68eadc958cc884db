//! The ONNX Runtime library, which is loaded once per process from the models directory, with telemetry off.

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

/// Environment variable that ONNX Runtime reads when it is loaded. If it is not set, the library writes to the home
/// directory and sends telemetry to its vendor; setting an option afterwards is too late.
const TELEMETRY_VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

/// The ONNX Runtime environment; a process can have only one. It is never dropped.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
static LOAD_LOCK: Mutex<()> = Mutex::new(());

/// Turns off the telemetry of ONNX Runtime for this process and its children. Call this first in `main`, while there is
/// only one thread. Without this call, vic refuses to load ONNX Runtime.
pub fn disable_telemetry() {
    // Ignores an error here, because [`Runtime::load`] checks later that the variable is set, and fails if it is not.
    vic_system::environment::set_variable_before_threads(TELEMETRY_VARIABLE, "1").ok();
}

/// The loaded library and the device on which it computes.
#[derive(Clone, Copy)]
pub(crate) struct Runtime {
    environment: &'static Environment,
    device: EmbedDevice,
}

impl Runtime {
    /// Loads the library at a path, unless the process has already loaded one.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`] with a hint if the library cannot be loaded.
    pub(crate) fn load(library: &Path, device: EmbedDevice) -> Result<Runtime> {
        Ok(Runtime { environment: environment(library)?, device })
    }

    /// Opens a model for runs with `threads` threads each. For high throughput, several sessions with one thread are
    /// faster.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`]: the model or the device cannot be used.
    pub(crate) fn session(self, model: &Path, threads: usize) -> Result<Session> {
        load_session(model, self.builder(threads))
    }

    /// Opens a model that allocates memory from the shared [`onnx_arena`] and returns it after a run.
    ///
    /// # Errors
    /// The same errors as [`Runtime::session`].
    pub(crate) fn session_in_arena(self, model: &Path, threads: usize) -> Result<Session> {
        let in_arena = || {
            onnx_arena::ensure_created(self.environment)?;
            // Allocates the weights outside the arena, because an arena that holds them could never return its memory
            // to the system.
            Ok(self.builder(threads)?.with_env_allocators()?.with_device_allocated_initializers()?)
        };
        load_session(model, in_arena())
    }

    /// Returns a session builder with the options that all models share.
    pub(super) fn builder(self, threads: usize) -> ort::Result<SessionBuilder> {
        let builder = Session::builder(self.environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(threads)?
            .with_inter_threads(1)?
            .with_intra_op_spinning(false)?
            .with_inter_op_spinning(false)?
            // Turns off memory patterns: the runtime would keep one for each text length, and there are hundreds.
            .with_memory_pattern(false)?
            // Turns off this fused operator: it is several times slower than separate operators on processors without
            // its fast path.
            .with_disabled_optimizers("SkipLayerNormFusion")?
            .with_log_level(LogLevel::Error)?;
        Ok(match self.device {
            EmbedDevice::Cpu => builder,
            // Turns off TF32, so that the vectors equal those of the CPU, and an index can be used with either device.
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

/// Returns the environment; loads the library at the first call.
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
