//! CUDA support: runs models on an NVIDIA graphics card with ONNX Runtime, which needs a separate library and the system's
//! CUDA.

use std::path::Path;

use ort::ep::{CUDA, ExecutionProvider};
use ort::value::TensorRef;
use prost::Message;

use crate::config::{EmbedConfig, EmbedDevice, EmbedEngine};
use crate::embed::models::ModelStore;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::onnx_proto::{FLOAT, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use crate::embed::onnx::runtime::Runtime;
use crate::error::{Error, ErrorCode, Result};
use crate::machine;

/// Name of the ONNX Runtime library with CUDA support in the model catalog.
const LIBRARY: &str = EmbedDevice::Cuda.runtime_library();

/// Device file of the graphics driver in Windows Subsystem for Linux, where the driver does not list the graphics cards.
const WSL_DRIVER: &str = "/dev/dxg";

/// Loads the library and runs a test computation on the graphics card, so that a missing component is reported at once by
/// name.
///
/// # Errors
/// [`ErrorCode::FailedPrecondition`] with a hint: there is no card or library, or the library or the system has no CUDA.
pub(crate) fn load_cuda_runtime(store: &ModelStore) -> Result<Runtime> {
    if machine::gpu_models(Path::new(machine::NVIDIA_CARDS)).is_empty() && !Path::new(WSL_DRIVER).exists() {
        return Err(
            cuda_unusable("this machine has no CUDA device").hint("set VIC_EMBED_DEVICE to `cpu` to use the processor")
        );
    }
    let library =
        store.library(LIBRARY).map_err(|error| cuda_unusable(&error.message).hint(error.hint.unwrap_or_default()))?;
    let runtime = Runtime::load(&library, EmbedDevice::Cuda)?;
    test_compute(runtime)?;
    Ok(runtime)
}

/// Returns an error for settings that cannot be combined with the CUDA device.
pub(super) fn check_settings(config: &EmbedConfig, precision: Precision) -> Result<()> {
    let refuse = |why: &str, cure: &str| Err(Error::invalid(why).hint(cure));
    match (config.device, config.engine, precision) {
        (EmbedDevice::Cpu, ..) | (EmbedDevice::Cuda, EmbedEngine::Auto | EmbedEngine::Onnx, Precision::Fp32) => Ok(()),
        (EmbedDevice::Cuda, EmbedEngine::Own, _) => {
            refuse("vic's own encoder computes on the processor only", "set VIC_EMBED_ENGINE to `auto`")
        }
        (EmbedDevice::Cuda, _, Precision::Int8) => {
            refuse("a graphics card computes in fp32 only", "set VIC_EMBED_PRECISION to `fp32`, or leave it out")
        }
    }
}

/// Removes the ONNX Runtime source location at the beginning of an error message.
fn strip_source_location(message: &str) -> &str {
    let begins = ["CUDA failure", "Failed to load library"].into_iter().filter_map(|it| message.rfind(it)).max();
    message[begins.unwrap_or(0)..].trim_end_matches("\\n").trim()
}

/// Runs a test computation of one number on the graphics card.
fn test_compute(runtime: Runtime) -> Result<()> {
    let failed = |error: ort::Error| {
        let cure = "install NVIDIA's driver and CUDA 13, and set LD_LIBRARY_PATH to find them";
        cuda_unusable(strip_source_location(&error.to_string())).hint(cure)
    };
    if !CUDA::is_available().map_err(failed)? {
        return Err(cuda_unusable("the ONNX Runtime that this process loaded was built without CUDA")
            .hint(format!("fetch one with CUDA support: `vic models pull {LIBRARY}`")));
    }
    let builder = runtime.builder(1).and_then(|it| Ok(it.with_config_entry("session.disable_cpu_ep_fallback", "1")?));
    let mut session = builder.and_then(|mut it| it.commit_from_memory(&relu_model())).map_err(failed)?;
    let number = TensorRef::from_array_view(([1], &[-1_f32][..])).map_err(failed)?;
    let outputs = session.run(ort::inputs![number]).map_err(failed)?;
    match outputs[0].try_extract_tensor::<f32>().map_err(failed)?.1 {
        [0.0] => Ok(()),
        other => Err(cuda_unusable(&format!("the test computation gave {other:?} instead of 0"))),
    }
}

/// Returns an ONNX model with a single ReLU operator, for the test computation.
fn relu_model() -> Vec<u8> {
    let number = |name| ValueInfoProto::tensor(name, FLOAT, &[Ok(1)]);
    let step = NodeProto {
        input: vec!["number".into()],
        output: vec!["positive".into()],
        op_type: Some("Relu".into()),
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![step],
        name: Some("step".into()),
        input: vec![number("number")],
        output: vec![number("positive")],
        ..GraphProto::default()
    };
    let operators = vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(17) }];
    ModelProto { ir_version: Some(8), graph: Some(graph), opset_import: operators, ..ModelProto::default() }
        .encode_to_vec()
}

fn cuda_unusable(why: &str) -> Error {
    Error::new(ErrorCode::FailedPrecondition, format!("the configured graphics card cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::onnx::tests::{cache, settings, without_telemetry};

    fn library(device: EmbedDevice) -> Runtime {
        without_telemetry();
        let library = ModelStore::new(vec![cache()]).library("onnxruntime").expect("run `make models`");
        Runtime::load(&library, device).unwrap()
    }

    #[test]
    fn cpu_library_is_rejected_for_cuda_with_hint() {
        let error = test_compute(library(EmbedDevice::Cuda)).unwrap_err();
        assert_eq!(error.code, ErrorCode::FailedPrecondition, "{error}");
        assert!(error.message.contains("without CUDA") && error.hint.unwrap().contains(LIBRARY));
    }

    #[test]
    fn cuda_never_falls_back_to_cpu_silently() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.onnx");
        std::fs::write(&model, relu_model()).unwrap();
        assert!(library(EmbedDevice::Cpu).session(&model, 1).is_ok());
        assert!(library(EmbedDevice::Cuda).session(&model, 1).is_err());
    }

    #[test]
    fn cuda_error_omits_library_source_location() {
        assert_eq!(
            strip_source_location("/src/a.cc:154 a::b(int) CUDA failure 35: old driver ; GPU=-1 ; \\n\\n"),
            "CUDA failure 35: old driver ; GPU=-1 ;"
        );
        assert_eq!(
            strip_source_location("/src/p.cc:2 [E] : FAIL : Failed to load library x.so\\n"),
            "Failed to load library x.so"
        );
        assert_eq!(strip_source_location("something else"), "something else");
    }

    #[test]
    fn unsupported_cuda_settings_are_rejected() {
        let refused = |device, engine, precision| {
            check_settings(&EmbedConfig { device, engine, ..settings("m", "fp32") }, precision).is_err()
        };
        for engine in EmbedEngine::ALL {
            assert!(!refused(EmbedDevice::Cpu, engine, Precision::Int8));
            assert!(refused(EmbedDevice::Cuda, engine, Precision::Int8), "{engine:?}");
            assert_eq!(refused(EmbedDevice::Cuda, engine, Precision::Fp32), engine == EmbedEngine::Own, "{engine:?}");
        }
    }
}
