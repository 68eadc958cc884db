//! What computes: the processor, or a graphics card if there is one that can be used.

use crate::config::{Config, EmbedDevice};
use crate::embed::models::ModelStore;
use crate::embed::onnx::cuda;
use crate::error::Result;

/// Says what in-process models are measured on. Asked for a graphics card that cannot be used, it is an error; with
/// `fall_back` it is the processor, and the sentence that must be said.
///
/// # Errors
/// [`crate::error::ErrorCode::FailedPrecondition`] with the cure.
pub fn choose(device: EmbedDevice, config: &Config, fall_back: bool) -> Result<(EmbedDevice, Option<String>)> {
    if device == EmbedDevice::Cpu {
        return Ok((device, None));
    }
    match cuda::runtime(&ModelStore::new(config.model_dirs.clone())) {
        Ok(_) => Ok((device, None)),
        Err(error) if fall_back => {
            let said = format!("{}; measured on the processor instead, as --fallback allows", error.message);
            Ok((EmbedDevice::Cpu, Some(said)))
        }
        Err(error) => {
            let cure = error.hint.clone().unwrap_or_default();
            Err(error.hint(format!(
                "{cure}; or let the processor stand in with `--fallback`, or measure a server that uses the card with \
                 `--backend ollama` or `--backend openai`"
            )))
        }
    }
}
