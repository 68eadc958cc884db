//! What computes: the processor, or a graphics card if there is one that can be used.

use std::path::Path;

use crate::config::EmbedBackend;
use crate::error::{Error, ErrorCode, Result};
use crate::machine;

/// What an in-process model is to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Device {
    /// The processor
    #[default]
    Cpu,
    /// A graphics card by CUDA
    Cuda,
}

/// Says what the measurement runs on. Asked for a graphics card that cannot be used, it is an error; with `fall_back` it is
/// the processor, and the sentence that must be said.
///
/// # Errors
/// [`ErrorCode::FailedPrecondition`] with the cure.
pub fn choose(device: Device, backend: EmbedBackend, fall_back: bool) -> Result<Option<String>> {
    choose_of(device, backend, fall_back, &machine::gpus(Path::new(machine::NVIDIA_CARDS)))
}

fn choose_of(device: Device, backend: EmbedBackend, fall_back: bool, gpus: &[String]) -> Result<Option<String>> {
    if device == Device::Cpu || backend != EmbedBackend::Onnx {
        return Ok(None);
    }
    let why = match gpus.first() {
        None => "a graphics card was asked for, and this machine has none that CUDA could use".to_string(),
        Some(gpu) => format!(
            "a graphics card was asked for, and vic runs its own models on the processor only: `{gpu}` stays idle"
        ),
    };
    if fall_back {
        return Ok(Some(format!("{why}; measured on the processor instead, as --fallback allows")));
    }
    Err(Error::new(ErrorCode::FailedPrecondition, why).hint(
        "measure the processor with `--device cpu`, let it stand in with `--fallback`, or measure a server that uses the \
         card with `--backend ollama` or `--backend openai`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_card_is_an_error_with_a_cure_or_a_loud_stand_in() {
        let choose = |fall_back, gpus: &[String]| choose_of(Device::Cuda, EmbedBackend::Onnx, fall_back, gpus);
        for gpus in [vec![], vec!["Some Card".to_string()]] {
            let error = choose(false, &gpus).unwrap_err();
            assert!(error.code == ErrorCode::FailedPrecondition && error.hint.unwrap().contains("--fallback"));
            assert!(choose(true, &gpus).unwrap().unwrap().contains("on the processor instead"));
        }
    }

    #[test]
    fn the_processor_and_servers_need_no_card() {
        assert_eq!(choose_of(Device::Cpu, EmbedBackend::Onnx, false, &[]).unwrap(), None);
        assert_eq!(choose_of(Device::Cuda, EmbedBackend::Ollama, false, &[]).unwrap(), None);
    }
}
