//! Chooses the device, CPU or GPU, on which `vic bench embed` runs the model.

use crate::config::{Config, EmbedDevice};
use crate::embed::models::ModelStore;
use crate::embed::onnx::cuda;
use crate::error::Result;

/// Returns the device on which to measure a model that runs in this process. A GPU that cannot be used is an error; with
/// `fall_back`, returns the CPU and a warning instead.
///
/// # Errors
/// [`crate::error::ErrorCode::FailedPrecondition`] with a hint, if the GPU cannot be used.
pub fn choose_device(device: EmbedDevice, config: &Config, fall_back: bool) -> Result<(EmbedDevice, Option<String>)> {
    if device == EmbedDevice::Cpu {
        return Ok((device, None));
    }
    match cuda::load_cuda_runtime(&ModelStore::new(config.model_dirs.clone())) {
        Ok(_) => Ok((device, None)),
        Err(error) if fall_back => {
            let said = format!("{}; measured on the CPU instead, as --fallback allows", error.message);
            Ok((EmbedDevice::Cpu, Some(said)))
        }
        Err(error) => {
            let cure = error.hint.clone().unwrap_or_default();
            Err(error.hint(format!(
                "{cure}; or fall back to the CPU with `--fallback`, or measure a server that uses the GPU with \
                 `--backend ollama` or `--backend openai`"
            )))
        }
    }
}
