//! Tests of converted models and of the dense layer after pooling, against independent forward passes.

use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;

use super::tests::settings;
use super::*;
use crate::config::EmbedEngine;
use crate::embed::convert::convert;
use crate::embed::converted_weights::{exact_tensors, matrices};
use crate::embed::e5s1::E5Model;
use crate::embed::e5s1::tests::{TINY, tiny_model};
use crate::embed::model_catalog::PackageFormat;
use crate::embed::onnx::dense_layer::tests::write_dense;
use crate::embed::onnx::graph::tests::{TinyBert, TinyShape, write_tokenizer};
use crate::embed::onnx::pooling::Pooler;
use crate::embed::onnx::tests::{cache, without_telemetry};

async fn open(folder: &Path, precision: &str, engine: EmbedEngine) -> Result<OnnxEmbedder> {
    without_telemetry();
    let config = EmbedConfig { engine, threads: 1, ..settings(folder.to_str().unwrap(), precision) };
    OnnxEmbedder::open(ModelStore::new(vec![folder.join("graphs"), cache()]), config).await
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Converts a model with random weights; returns its folder and the plain forward pass of the weights before conversion.
fn convert_tiny(folder: &Path) -> TinyBert {
    let package = folder.join("package.bin");
    std::fs::write(&package, tiny_model(3)).unwrap();
    convert(PackageFormat::E5s1, &package, folder).unwrap();
    let model = E5Model::open(&package).unwrap();
    let matrices = matrices(&model.sizes).into_iter().map(|(from, to, shape)| (from, to, shape.to_vec()));
    let tensors = matrices.chain(exact_tensors(&model.sizes)).map(|(from, to, shape)| {
        let width = *shape.last().unwrap();
        let numbers = model.rows(&from, 0..shape.iter().product::<usize>() / width, width).unwrap();
        (to, shape, numbers)
    });
    let shape = TinyShape { hidden: TINY.hidden, heads: TINY.heads, layers: TINY.layers, inner: TINY.inner };
    TinyBert::of(shape, tensors)
}

#[tokio::test]
async fn converted_model_gives_vectors_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let source = convert_tiny(folder.path());
    let pooler = Pooler::new(VectorRecipe::default(), None);
    for (precision, engine, least) in
        [("int8", EmbedEngine::Own, 0.995), ("int8", EmbedEngine::Onnx, 0.98), ("fp32", EmbedEngine::Onnx, 0.999)]
    {
        let model = open(folder.path(), precision, engine).await.unwrap();
        for (text, ids) in
            [("ab a", &[0, 5, 8, 2][..]), ("", &[0, 2]), ("<s> ﬁ é b", &[0, 4, 11, 12, 13, 4, 9, 4, 10, 4, 7, 2])]
        {
            let expected = pooler.pool(&source.forward(ids).concat(), TINY.hidden).unwrap();
            let got = cosine(&model.embed_query(text).await.unwrap(), &expected);
            assert!(got >= least, "{precision} {text}: {got}");
        }
    }
}

#[tokio::test]
async fn conversion_is_deterministic_and_small() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for folder in &folders {
        convert_tiny(folder.path());
    }
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let [first, second] = folders.each_ref().map(|it| std::fs::read(it.path().join(file)).unwrap());
        assert!(first == second, "{file}");
    }
    let layers = TINY.layers * (4 * TINY.hidden * TINY.hidden + 2 * TINY.hidden * TINY.inner);
    let weights = std::fs::metadata(folders[0].path().join("model.safetensors")).unwrap().len();
    assert!(weights < (layers + TINY.vocabulary * TINY.hidden) as u64 * 3 / 2, "{weights} bytes");
}

/// A text, and its vector as 32-bit floating point numbers in base64, made with numpy.
#[derive(Deserialize)]
struct Expected {
    text: String,
    vector: String,
}

#[tokio::test]
async fn dense_layer_after_pooling_matches_numpy() {
    let home = tempfile::tempdir().unwrap();
    let shape = TinyShape { hidden: 64, heads: 2, layers: 2, inner: 128 };
    TinyBert::shaped(shape, 11).save(home.path());
    write_tokenizer(home.path());
    let mut state = 12u64;
    let mut random = |spread: f32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        spread * ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
    };
    let weights: Vec<f32> = (0..96 * 64).map(|_| random(0.3)).collect();
    let bias: Vec<f32> = (0..96).map(|_| random(0.5)).collect();
    write_dense(home.path(), 64, &weights, &bias, "torch.nn.modules.activation.Tanh");
    let texts: Vec<Expected> = serde_json::from_str(include_str!("../../../models/reference/tiny-dense.json")).unwrap();
    for (precision, engine, least) in
        [("fp32", EmbedEngine::Onnx, 0.9999), ("int8", EmbedEngine::Own, 0.995), ("int8", EmbedEngine::Onnx, 0.99)]
    {
        let model = open(home.path(), precision, engine).await.unwrap();
        assert_eq!(model.dimension(), 96);
        for expected in &texts {
            let bytes = base64::engine::general_purpose::STANDARD.decode(&expected.vector).unwrap();
            let vector: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it)).collect();
            let got = cosine(&model.embed_query(&expected.text).await.unwrap(), &vector);
            assert!(got >= least, "{precision} `{:.20}`: {got}", expected.text);
        }
    }
}

#[tokio::test]
async fn unusable_models_are_refused_with_cause_and_cure() {
    let check = async |damage: &dyn Fn(&Path), cause: &str, cure: &str| {
        let folder = tempfile::tempdir().unwrap();
        convert_tiny(folder.path());
        damage(folder.path());
        let error = open(folder.path(), "int8", EmbedEngine::Own).await.map(|_| ()).unwrap_err();
        let told = error.message_with_hint();
        assert!(told.contains(cause) && told.contains(cure), "{cause}: {told}");
    };
    let cut = |folder: &Path| {
        let path = folder.join("model.safetensors");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    };
    check(&cut, "it is cut", "download it again").await;
    let foreign = |folder: &Path| {
        let path = folder.join("config.json");
        let text = std::fs::read_to_string(&path).unwrap().replace("\"bert\"", "\"mamba\"");
        std::fs::write(path, text).unwrap();
    };
    check(&foreign, "model_type `mamba`", "vic models list").await;
    let other_tokenizer = |folder: &Path| write_tokenizer(folder);
    check(&other_tokenizer, "has 100 tokens, but the model knows 16", "vic models pull").await;
    check(
        &|folder: &Path| std::fs::remove_file(folder.join("model.safetensors")).unwrap(),
        "no model.onnx",
        "VIC_EMBED_MODEL",
    )
    .await;
    check(
        &|folder: &Path| std::fs::write(folder.join("tokenizer.json"), "{").unwrap(),
        "cannot read the tokenizer",
        "",
    )
    .await;
}

#[tokio::test]
async fn model_of_other_dimension_than_catalog_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tiny");
    std::fs::create_dir(&folder).unwrap();
    convert_tiny(&folder);
    let files = ["config.json", "tokenizer.json", "model.safetensors"].map(|it| format!("{{ name = \"{it}\" }}"));
    let catalog =
        format!("[[model]]\nname = \"tiny\"\nkind = \"embedding\"\ndimension = 384\nfiles = [{}]", files.join(", "));
    std::fs::write(dir.path().join("catalog.toml"), catalog).unwrap();
    let config = EmbedConfig { engine: EmbedEngine::Own, threads: 1, ..settings("tiny", "int8") };
    let error = OnnxEmbedder::open(ModelStore::new(vec![dir.path().into()]), config).await.map(|_| ()).unwrap_err();
    assert!(error.message.contains("64 numbers") && error.message.contains("384"), "{error}");
    assert!(error.hint.unwrap().contains("vic models pull"));
}
