//! Chooses the compute device: the CPU, or a usable GPU.

use crate::config::{Config, EmbedDevice};
use crate::embed::models::ModelStore;
use crate::embed::onnx::cuda;
use crate::error::Result;

/// Returns the device to measure in-process models on. An unusable GPU is an error, unless `fall_back` is set: then
/// returns the CPU and a warning.
///
/// # Errors
/// [`crate::error::ErrorCode::FailedPrecondition`] with a hint.
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
