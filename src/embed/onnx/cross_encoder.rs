//! Cross-encoders: BERT models that read a question together with a passage, and tell how well the passage answers it.
//!
//! The relevance is `sigmoid(c . tanh(P x + p) + b)`: `x` is the output of the first token, `P` and `p` are the pooler of
//! BERT, `c` and `b` its classifier with a single label.

use std::sync::Arc;

use crate::config::{EmbedConfig, EmbedDevice};
use crate::embed::model_catalog::{ModelKind, VectorRecipe};
use crate::embed::models::ModelStore;
use crate::embed::onnx::bert_backend::{BertEncoder, BertModel};
use crate::embed::onnx::encoder::Encoder;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::model_parts::{load_cpu_runtime, open_lookup, open_tokenizer};
use crate::embed::onnx::model_spec::{ModelSpec, Network};
use crate::embed::onnx::parse_precision;
use crate::embed::onnx::pooling::Pooler;
use crate::embed::onnx::weights::Weights;
use crate::embed::onnx::worker_threads::{EmbedFn, ThreadCounts, WorkerThreads};
use crate::embed::tokenizer::ModelTokenizer;
use crate::error::{Error, ErrorCode, Result};

/// Number of threads that judge passages: an answer waits for them, and more would take the processor from indexing.
const THREADS: usize = 2;

/// Separates question and passage in a job of a worker thread; removed from questions.
const SEPARATOR: char = '\0';

/// A cross-encoder that runs in this process.
pub(crate) struct CrossEncoder {
    workers: WorkerThreads,
    name: String,
}

/// The layers on top of the encoder.
struct RelevanceHead {
    pooler: Vec<f32>,
    pooler_bias: Vec<f32>,
    classifier: Vec<f32>,
    bias: f32,
}

/// What runs the encoder on a worker thread.
enum PairEncoder {
    Own(Box<BertEncoder>),
    Onnx(Encoder),
}

impl CrossEncoder {
    /// Loads a model: a name of the catalog, or a folder with `config.json`, `model.safetensors` and `tokenizer.json`.
    /// Engine and precision are those of the embedding model.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] if files are missing; [`ErrorCode::DataLoss`] if they are damaged or not those of a
    /// cross-encoder; [`ErrorCode::FailedPrecondition`] if the model is not of the BERT family.
    pub(crate) fn open(store: &ModelStore, config: &EmbedConfig, model: &str) -> Result<CrossEncoder> {
        let precision = match config.device {
            EmbedDevice::Cpu => parse_precision(&config.precision)?,
            // Rerankers run on the processor, where int8 is the default.
            EmbedDevice::Cuda => Precision::Int8,
        };
        let spec = ModelSpec::resolve_kind(store, model, ModelKind::Reranker)?;
        let Network::Weights { weights, .. } = &spec.network else {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                format!("the reranker `{}` is an `.onnx` file, which vic does not support", spec.name),
            )
            .hint("set VIC_RERANK_MODEL to a folder with config.json, model.safetensors and tokenizer.json"));
        };
        let tokenizer = open_tokenizer(&spec)?;
        let lookup = open_lookup(&spec, precision, &tokenizer)?
            .ok_or_else(|| Error::internal("a model of weights has no embedding table"))?;
        let head = Arc::new(RelevanceHead::read(&Weights::open(weights)?, lookup.hidden())?);
        let pooler = Pooler::new(VectorRecipe::default(), None);
        let own = BertModel::open(&spec, precision, config.engine)?;
        let onnx = match &own {
            Some(_) => None,
            None => Some((load_cpu_runtime(store)?, spec.network.onnx_file(precision)?)),
        };
        let work = move || {
            let encoder = match (&own, &onnx) {
                (Some(model), _) => PairEncoder::Own(Box::new(model.encoder(lookup.clone(), pooler.clone()))),
                (None, Some((runtime, file))) => {
                    PairEncoder::Onnx(Encoder::open(*runtime, file, Some(lookup.clone()), pooler.clone())?)
                }
                (None, None) => return Err(Error::internal("no engine runs the reranker")),
            };
            Ok(judge_pairs(encoder, tokenizer.clone(), head.clone()))
        };
        let workers = WorkerThreads::start(ThreadCounts { interactive: THREADS, passages: 0 }, work)?;
        Ok(CrossEncoder { workers, name: spec.name })
    }

    /// Returns how well a passage answers a question, 0 to 1.
    pub(crate) async fn relevance(&self, question: &str, passage: &str) -> Result<f32> {
        let pair = format!("{}{SEPARATOR}{passage}", question.replace(SEPARATOR, " "));
        let relevance = self.workers.embed_question(pair).await?.first().copied();
        relevance.ok_or_else(|| Error::internal("the reranker returned nothing"))
    }

    /// Returns the name of the model.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Returns the function of a worker thread: it takes a question and a passage, and returns one number.
fn judge_pairs(mut encoder: PairEncoder, tokenizer: Arc<ModelTokenizer>, head: Arc<RelevanceHead>) -> EmbedFn {
    Box::new(move |pair: &str| {
        let (question, passage) = pair.split_once(SEPARATOR).unwrap_or((pair, ""));
        let (ids, second) = tokenizer.pair_ids(question, passage)?;
        let first = match &mut encoder {
            PairEncoder::Own(encoder) => encoder.first_token(&ids, second)?,
            PairEncoder::Onnx(encoder) => encoder.first_token(&ids, second)?,
        };
        head.relevance(&first).map(|it| vec![it])
    })
}

impl RelevanceHead {
    fn read(weights: &Weights, hidden: usize) -> Result<RelevanceHead> {
        let [labels, _] = weights.matrix_shape("classifier.weight")?;
        if labels != 1 {
            return Err(weights.invalid_model(&format!("its classifier has {labels} labels, a reranker has one")));
        }
        Ok(RelevanceHead {
            pooler: weights.tensor("pooler.dense.weight", &[hidden, hidden])?,
            pooler_bias: weights.tensor("pooler.dense.bias", &[hidden])?,
            classifier: weights.tensor("classifier.weight", &[1, hidden])?,
            bias: weights.tensor("classifier.bias", &[1])?[0],
        })
    }

    /// Returns the relevance, given the output of the first token.
    fn relevance(&self, first: &[f32]) -> Result<f32> {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let rows = self.pooler.chunks_exact(self.pooler_bias.len()).zip(&self.pooler_bias);
        let pooled: Vec<f32> = rows.map(|(row, bias)| (dot(row, first) + bias).tanh()).collect();
        let logit = dot(&self.classifier, &pooled) + self.bias;
        let relevance = 1.0 / (1.0 + (-logit).exp());
        match relevance.is_finite() {
            true => Ok(relevance),
            false => Err(Error::new(ErrorCode::DataLoss, "the reranker returned a number that is not finite")
                .hint("fetch it again with `vic models pull`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::EmbedEngine;
    use crate::embed::onnx::graph::tests::{TinyBert, TinyShape, write_tokenizer};
    use crate::embed::onnx::tests::{cache, settings, without_telemetry};

    /// A shape that vic's own encoder supports.
    const SHAPE: TinyShape = TinyShape { hidden: 64, heads: 2, layers: 2, inner: 128 };

    fn write_model(folder: &Path) -> TinyBert {
        let mut model = TinyBert::shaped(SHAPE, 7);
        model.add_classifier(11);
        model.save(folder);
        write_tokenizer(folder);
        model
    }

    fn open(folder: &Path, precision: &str, engine: EmbedEngine) -> Result<CrossEncoder> {
        without_telemetry();
        let config = EmbedConfig { engine, ..settings("unused", precision) };
        CrossEncoder::open(&ModelStore::new(vec![cache()]), &config, folder.to_str().unwrap())
    }

    /// Compares the relevance of pairs with that of a plain forward pass in full precision.
    async fn check(precision: &str, engine: EmbedEngine, most: f32) {
        let folder = tempfile::tempdir().unwrap();
        let model = write_model(folder.path());
        let encoder = open(folder.path(), precision, engine).unwrap();
        let tokenizer = ModelTokenizer::open(&folder.path().join("tokenizer.json"), 64, "").unwrap();
        let long = "w7 w9 ".repeat(80);
        for (question, passage) in [("w1 w2", "w3 w4 w5"), ("w6", ""), ("", "w1"), ("w2", long.as_str())] {
            let (ids, second) = tokenizer.pair_ids(question, passage).unwrap();
            let exact = model.relevance(&ids, second);
            let found = encoder.relevance(question, passage).await.unwrap();
            assert!((found - exact).abs() < most, "{question} / {passage:.20}: {found} instead of {exact}");
        }
    }

    #[tokio::test]
    async fn relevance_agrees_with_plain_forward_pass() {
        check("fp32", EmbedEngine::Onnx, 1e-4).await;
        check("int8", EmbedEngine::Own, 0.03).await;
    }

    #[tokio::test]
    async fn order_of_texts_and_segments_matter() {
        let folder = tempfile::tempdir().unwrap();
        let model = write_model(folder.path());
        let tokenizer = ModelTokenizer::open(&folder.path().join("tokenizer.json"), 64, "").unwrap();
        let (ids, second) = tokenizer.pair_ids("w1 w2", "w3").unwrap();
        assert!((model.relevance(&ids, second) - model.relevance(&ids, ids.len())).abs() > 1e-4);
        let encoder = open(folder.path(), "fp32", EmbedEngine::Onnx).unwrap();
        let (one, other) = (encoder.relevance("w1 w2", "w3").await, encoder.relevance("w3", "w1 w2").await);
        assert!((one.unwrap() - other.unwrap()).abs() > 1e-4);
    }

    #[test]
    fn model_without_classifier_is_rejected_by_name() {
        let folder = tempfile::tempdir().unwrap();
        TinyBert::shaped(SHAPE, 7).save(folder.path());
        write_tokenizer(folder.path());
        let error = open(folder.path(), "int8", EmbedEngine::Own).err().unwrap();
        assert!(error.message.contains("classifier.weight"), "{error}");
        let store = ModelStore::new(vec![cache()]);
        let error = CrossEncoder::open(&store, &settings("unused", "int8"), "all-MiniLM-L6-v2").err().unwrap();
        assert!(error.message.contains("not a reranker"), "{error}");
    }
}
