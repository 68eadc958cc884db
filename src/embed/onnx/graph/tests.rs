//! Tests that compare the graph with a plain forward pass, on a tiny BERT model with random weights.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::*;
use crate::config::EmbedDevice;
use crate::embed::model_catalog::{Pooling, VectorRecipe};
use crate::embed::onnx::embedding_table::EmbeddingTable;
use crate::embed::onnx::encoder::Encoder;
use crate::embed::onnx::onnx_proto::INT64;
use crate::embed::onnx::pooling::Pooler;
use crate::embed::onnx::runtime::Runtime;
use crate::embed::onnx::tests::{cache, without_telemetry};

const VOCABULARY: usize = 100;
const POSITIONS: usize = 64;
const EPSILON: f32 = 1e-12;

/// The sizes of the layers of a [`TinyBert`].
#[derive(Clone, Copy)]
pub(in crate::embed::onnx) struct TinyShape {
    pub(in crate::embed::onnx) hidden: usize,
    pub(in crate::embed::onnx) heads: usize,
    pub(in crate::embed::onnx) layers: usize,
    pub(in crate::embed::onnx) inner: usize,
}

const TINY: TinyShape = TinyShape { hidden: 32, heads: 4, layers: 2, inner: 64 };

/// A BERT model with random weights, small enough for a plain forward pass.
pub(in crate::embed::onnx) struct TinyBert {
    shape: TinyShape,
    tensors: HashMap<String, (Vec<usize>, Vec<f32>)>,
}

impl TinyBert {
    pub(in crate::embed::onnx) fn random(seed: u64) -> TinyBert {
        TinyBert::shaped(TINY, seed)
    }

    pub(in crate::embed::onnx) fn shaped(shape: TinyShape, seed: u64) -> TinyBert {
        let TinyShape { hidden, inner, .. } = shape;
        let mut bert = TinyBert { shape, tensors: HashMap::new() };
        let mut state = seed;
        let mut add = |name: String, shape: &[usize], middle: f32, spread: f32| {
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                middle + spread * ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
            };
            let numbers = (0..shape.iter().product()).map(|_| random()).collect();
            bert.tensors.insert(name, (shape.to_vec(), numbers));
        };
        for (table, rows) in [("word", VOCABULARY), ("position", POSITIONS), ("token_type", 2)] {
            add(format!("embeddings.{table}_embeddings.weight"), &[rows, hidden], 0.0, 1.0);
        }
        let mut norms = vec!["embeddings.LayerNorm".to_string()];
        for layer in 0..shape.layers {
            let p = format!("encoder.layer.{layer}");
            for (name, outputs, inputs) in [
                ("attention.self.query", hidden, hidden),
                ("attention.self.key", hidden, hidden),
                ("attention.self.value", hidden, hidden),
                ("attention.output.dense", hidden, hidden),
                ("intermediate.dense", inner, hidden),
                ("output.dense", hidden, inner),
            ] {
                add(format!("{p}.{name}.weight"), &[outputs, inputs], 0.0, 0.3);
                add(format!("{p}.{name}.bias"), &[outputs], 0.0, 0.1);
            }
            norms.extend([format!("{p}.attention.output.LayerNorm"), format!("{p}.output.LayerNorm")]);
        }
        for norm in norms {
            add(format!("{norm}.weight"), &[hidden], 1.0, 0.2);
            add(format!("{norm}.bias"), &[hidden], 0.0, 0.1);
        }
        bert
    }

    /// Creates a model of these tensors: name in BERT models, shape and numbers.
    pub(in crate::embed::onnx) fn of(
        shape: TinyShape,
        tensors: impl Iterator<Item = (String, Vec<usize>, Vec<f32>)>,
    ) -> TinyBert {
        TinyBert { shape, tensors: tensors.map(|(name, shape, numbers)| (name, (shape, numbers))).collect() }
    }

    /// Adds the pooler and the classifier of a cross-encoder with random numbers.
    pub(in crate::embed::onnx) fn add_classifier(&mut self, seed: u64) {
        let (hidden, mut random) = (self.shape.hidden, fastrand::Rng::with_seed(seed));
        for (name, shape) in [
            ("pooler.dense.weight", vec![hidden, hidden]),
            ("pooler.dense.bias", vec![hidden]),
            ("classifier.weight", vec![1, hidden]),
            ("classifier.bias", vec![1]),
        ] {
            let numbers = (0..shape.iter().product()).map(|_| 0.4 * random.f32() - 0.2).collect();
            self.tensors.insert(name.into(), (shape, numbers));
        }
    }

    /// Computes the relevance of a pair of texts; the tokens from index `second` are the second text.
    pub(in crate::embed::onnx) fn relevance(&self, ids: &[u32], second: usize) -> f32 {
        let first = self.forward_pair(ids, second).swap_remove(0);
        let pooled: Vec<f32> = self.dense(&first, "pooler.dense").into_iter().map(f32::tanh).collect();
        1.0 / (1.0 + (-self.dense(&pooled, "classifier")[0]).exp())
    }

    /// Overwrites the first number of a tensor.
    pub(in crate::embed::onnx) fn spoil(&mut self, name: &str, number: f32) {
        if let Some((_, numbers)) = self.tensors.get_mut(name) {
            numbers[0] = number;
        }
    }

    /// Writes the model as `model.safetensors` and `config.json`.
    pub(in crate::embed::onnx) fn save(&self, folder: &Path) {
        let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(name, (shape, numbers))| {
                (name.clone(), shape.clone(), numbers.iter().flat_map(|it| it.to_le_bytes()).collect())
            })
            .collect();
        let views =
            bytes.iter().map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
        safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
        let config = serde_json::json!({
            "model_type": "bert", "hidden_size": self.shape.hidden,
            "num_hidden_layers": self.shape.layers, "num_attention_heads": self.shape.heads,
            "max_position_embeddings": POSITIONS, "layer_norm_eps": EPSILON, "hidden_act": "gelu",
        });
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    }

    /// Writes the model as `model.onnx` with the inputs of a usual export, whose graph looks up the embeddings.
    pub(in crate::embed::onnx) fn save_ready_made(&self, folder: &Path) {
        let own = tempfile::tempdir().unwrap();
        self.save(own.path());
        let mut model = ModelProto::decode(self.graph(own.path(), Precision::Fp32).as_slice()).unwrap();
        let graph = model.graph.as_mut().unwrap();
        let dimensions = [Err("batch"), Err("tokens")];
        graph.input = ["input_ids", "attention_mask"].map(|it| ValueInfoProto::tensor(it, INT64, &dimensions)).to_vec();
        let raw = |numbers: &[f32]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        let tensor = |name: &str, data_type, dims: &[i64], raw_data| TensorProto {
            dims: dims.to_vec(),
            data_type: Some(data_type),
            name: Some(name.into()),
            raw_data: Some(raw_data),
        };
        let hidden = self.shape.hidden as i64;
        graph.initializer.extend([
            tensor(
                "words",
                FLOAT,
                &[VOCABULARY as i64, hidden],
                raw(self.numbers("embeddings.word_embeddings.weight")),
            ),
            tensor("places", FLOAT, &[POSITIONS as i64, hidden], raw(&self.places())),
            tensor("one", INT64, &[], 1i64.to_le_bytes().to_vec()),
        ]);
        let node = |op: &str, inputs: &[&str], output: &str| NodeProto {
            input: inputs.iter().map(|it| (*it).to_string()).collect(),
            output: vec![output.into()],
            op_type: Some(op.into()),
            ..NodeProto::default()
        };
        let before = [
            node("CumSum", &["attention_mask", "one"], "count"),
            node("Sub", &["count", "one"], "position"),
            node("Gather", &["places", "position"], "place"),
            node("Gather", &["words", "input_ids"], "word"),
            node("Add", &["word", "place"], INPUT),
        ];
        graph.node.splice(0..0, before);
        std::fs::write(folder.join("model.onnx"), model.encode_to_vec()).unwrap();
    }

    fn graph(&self, folder: &Path, precision: Precision) -> Vec<u8> {
        let weights = Weights::open(&folder.join("model.safetensors")).unwrap();
        encode_graph(&weights, &BertConfig::open(&folder.join("config.json")).unwrap(), precision, "test").unwrap()
    }

    fn numbers(&self, name: &str) -> &[f32] {
        &self.tensors[name].1
    }

    fn places(&self) -> Vec<f32> {
        let segment = &self.numbers("embeddings.token_type_embeddings.weight")[..self.shape.hidden];
        let places = self.numbers("embeddings.position_embeddings.weight");
        places.iter().zip(segment.iter().cycle()).map(|(a, b)| a + b).collect()
    }

    /// Computes the forward pass as the BERT paper defines it.
    pub(in crate::embed::onnx) fn forward(&self, ids: &[u32]) -> Vec<Vec<f32>> {
        self.forward_pair(ids, ids.len())
    }

    /// Computes the forward pass of a pair of texts; the tokens from index `second` are the second text.
    fn forward_pair(&self, ids: &[u32], second: usize) -> Vec<Vec<f32>> {
        let words = self.numbers("embeddings.word_embeddings.weight");
        let places = self.numbers("embeddings.position_embeddings.weight");
        let segments = self.numbers("embeddings.token_type_embeddings.weight");
        let hidden = self.shape.hidden;
        let row = |at: usize, id: u32| -> Vec<f32> {
            let segment = usize::from(at >= second);
            let sum =
                |i: usize| words[id as usize * hidden + i] + places[at * hidden + i] + segments[segment * hidden + i];
            (0..hidden).map(sum).collect()
        };
        let mut flow: Vec<Vec<f32>> = ids.iter().enumerate().map(|(at, id)| row(at, *id)).collect();
        flow.iter_mut().for_each(|it| self.norm(it, "embeddings.LayerNorm"));
        for layer in 0..self.shape.layers {
            let p = format!("encoder.layer.{layer}");
            let dense = |x: &[f32], name: &str| self.dense(x, &format!("{p}.{name}"));
            let context = self.attend(&flow, &format!("{p}.attention.self"));
            for (x, context) in flow.iter_mut().zip(&context) {
                add(x, &dense(context, "attention.output.dense"));
                self.norm(x, &format!("{p}.attention.output.LayerNorm"));
                let inner: Vec<f32> = dense(x, "intermediate.dense").into_iter().map(gelu).collect();
                add(x, &dense(&inner, "output.dense"));
                self.norm(x, &format!("{p}.output.LayerNorm"));
            }
        }
        flow
    }

    fn attend(&self, flow: &[Vec<f32>], prefix: &str) -> Vec<Vec<f32>> {
        let [q, k, v] = ["query", "key", "value"]
            .map(|part| flow.iter().map(|x| self.dense(x, &format!("{prefix}.{part}"))).collect::<Vec<_>>());
        let (hidden, heads) = (self.shape.hidden, self.shape.heads);
        let width = hidden / heads;
        let mut context = vec![vec![0.0; hidden]; flow.len()];
        for head in (0..heads).map(|it| it * width..(it + 1) * width) {
            for (at, context) in context.iter_mut().enumerate() {
                let dot = |other: &Vec<f32>| -> f32 { head.clone().map(|i| q[at][i] * other[i]).sum() };
                let mut scores: Vec<f32> = k.iter().map(|it| (dot(it) / (width as f32).sqrt()).exp()).collect();
                let sum: f32 = scores.iter().sum();
                scores.iter_mut().for_each(|it| *it /= sum);
                for i in head.clone() {
                    context[i] = scores.iter().zip(&v).map(|(score, v)| score * v[i]).sum();
                }
            }
        }
        context
    }

    fn dense(&self, x: &[f32], name: &str) -> Vec<f32> {
        let rows = self.numbers(&format!("{name}.weight")).chunks_exact(x.len());
        let bias = self.numbers(&format!("{name}.bias"));
        rows.zip(bias).map(|(row, bias)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f32>()).collect()
    }

    fn norm(&self, x: &mut [f32], name: &str) {
        let mean = x.iter().sum::<f32>() / x.len() as f32;
        let variance = x.iter().map(|it| (it - mean).powi(2)).sum::<f32>() / x.len() as f32;
        let scale = self.numbers(&format!("{name}.weight")).iter().zip(self.numbers(&format!("{name}.bias")));
        for (x, (scale, shift)) in x.iter_mut().zip(scale) {
            *x = (*x - mean) / (variance + EPSILON).sqrt() * scale + shift;
        }
    }
}

fn add(x: &mut [f32], other: &[f32]) {
    x.iter_mut().zip(other).for_each(|(x, other)| *x += other);
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x / std::f32::consts::SQRT_2))
}

/// Computes the error function with formula 7.1.26 of Abramowitz and Stegun, exact to 1.5e-7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [0.254_829_6, -0.284_496_74, 1.421_413_7, -1.453_152, 1.061_405_4];
    let sum = series.iter().rev().fold(0.0, |sum, it| (sum + it) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

/// Writes a word-level tokenizer with the words `w0` to `w95`.
pub(in crate::embed::onnx) fn write_tokenizer(folder: &Path) {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
    let words = special.map(String::from).into_iter().chain((0..VOCABULARY - special.len()).map(|it| format!("w{it}")));
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        words.enumerate().map(|(id, word)| (word, id.into())).collect();
    let token = |name: &str| serde_json::json!({ "SpecialToken": { "id": name, "type_id": 0 } });
    let detail = |name: &str, id: u32| serde_json::json!({ "id": name, "ids": [id], "tokens": [name] });
    let text = serde_json::json!({ "Sequence": { "id": "A", "type_id": 0 } });
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": {
            "type": "TemplateProcessing", "single": [token("[CLS]"), text, token("[SEP]")], "pair": [text, text],
            "special_tokens": { "[CLS]": detail("[CLS]", 2), "[SEP]": detail("[SEP]", 3) },
        },
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]" },
    });
    std::fs::write(folder.join("tokenizer.json"), json.to_string()).unwrap();
}

/// Runs vic's graph and the plain forward pass on a few texts, and returns the minimum cosine of their vectors.
fn check(precision: Precision, pooling: Pooling) -> f32 {
    without_telemetry();
    let library =
        crate::embed::models::ModelStore::new(vec![cache()]).library("onnxruntime").expect("run `make models`");
    let runtime = Runtime::load(&library, EmbedDevice::Cpu).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bert = TinyBert::random(1);
    bert.save(folder.path());
    let model = folder.path().join("model.onnx");
    std::fs::write(&model, bert.graph(folder.path(), precision)).unwrap();
    let weights = Weights::open(&folder.path().join("model.safetensors")).unwrap();
    let config = BertConfig::open(&folder.path().join("config.json")).unwrap();
    let lookup = Arc::new(EmbeddingTable::open(&weights, &config, precision).unwrap());
    let pooler = Pooler::new(VectorRecipe { pooling, ..VectorRecipe::default() }, None);
    let mut encoder = Encoder::open(runtime, &model, Some(lookup), pooler.clone()).unwrap();
    let texts: [&[u32]; 4] = [&[2, 3], &[2, 50, 3], &[2, 9, 99, 42, 9, 3], &[7; POSITIONS]];
    let mut worst = 1f32;
    for ids in texts {
        let expect = pooler.pool(&bert.forward(ids).concat(), TINY.hidden).unwrap();
        let got = encoder.encode(ids).unwrap();
        if precision == Precision::Fp32 {
            assert!(got.iter().zip(&expect).all(|(a, b)| (a - b).abs() < 1e-4), "{got:?}\n{expect:?}");
        }
        worst = worst.min(got.iter().zip(&expect).map(|(a, b)| a * b).sum());
    }
    worst
}

#[test]
fn fp32_graph_matches_plain_forward_pass() {
    assert!(check(Precision::Fp32, Pooling::Mean) > 0.99999);
    assert!(check(Precision::Fp32, Pooling::Cls) > 0.99999);
}

#[test]
fn int8_graph_is_close_to_plain_forward_pass() {
    assert!(check(Precision::Int8, Pooling::Mean) > 0.98);
    assert!(check(Precision::Int8, Pooling::Cls) > 0.98);
}

#[test]
fn graph_identity_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let bert = TinyBert::random(1);
    bert.save(folder.path());
    let bytes = bert.graph(folder.path(), Precision::Int8);
    assert!(has_identity(&bytes[..64], "test"));
    assert!(!has_identity(&bytes[..64], "test2") && !has_identity(&bytes[..64], "tes"));
}

#[test]
fn wrong_weight_shape_is_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut bert = TinyBert::random(1);
    bert.tensors.insert("encoder.layer.1.output.dense.bias".into(), (vec![3], vec![0.0; 3]));
    bert.save(folder.path());
    let weights = Weights::open(&folder.path().join("model.safetensors")).unwrap();
    let config = BertConfig::open(&folder.path().join("config.json")).unwrap();
    let error = encode_graph(&weights, &config, Precision::Int8, "test").unwrap_err();
    assert!(error.message.contains("encoder.layer.1.output.dense.bias"), "{error}");
}
