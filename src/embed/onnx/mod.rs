//! Embedding models in this process, run by vic's own encoder or by ONNX Runtime.
//!
//! The files of a model contain either weights or a ready-made `.onnx` network. `bert_backend` runs weights on supported
//! processors; otherwise [`graph`] writes the network for ONNX Runtime. Each thread has its own encoder and runs one text
//! at a time: a text of some hundred tokens already fills the CPU caches, nothing is padded, and no text affects the vector
//! of another. Start reading at [`encoder`].

pub(crate) mod cross_encoder;
pub(crate) mod cuda;
mod encoder;
mod graph;
mod worker_threads;
mod dense_layer;
mod embedding_table;
mod bert_backend;
mod pooling;
mod onnx_proto;
mod quantization_check;
mod reference_check;
pub(crate) mod runtime;
mod model_parts;
mod model_spec;
mod weights;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};

pub(crate) use crate::embed::onnx::quantization_check::compare_int8_with_fp32;
pub(crate) use crate::embed::onnx::reference_check::{Agreement, compare_with_reference};
pub use runtime::disable_telemetry;

use crate::config::{EmbedConfig, EmbedDevice};
use crate::embed::bert::ProcessorKernels;
use crate::embed::blocking::blocking;
use crate::embed::embedder::{Embedder, Vector};
use crate::embed::model_catalog::{ModelEntry, VectorRecipe};
use crate::embed::models::ModelStore;
use crate::embed::onnx::bert_backend::BertModel;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::model_parts::{
    bert_worker, load_cpu_runtime, onnx_worker, open_lookup, open_pooler, open_tokenizer,
};
use crate::embed::onnx::model_spec::ModelSpec;
use crate::embed::onnx::worker_threads::{ThreadCounts, WorkerThreads};
use crate::embed::tokenizer::ModelTokenizer;
use crate::error::{Error, ErrorCode, Result};
use crate::model::TokenCounter;

/// Recommended number of texts per call for each thread: several, so that the threads finish at about the same time.
const TEXTS_PER_CALL_AND_THREAD: usize = 32;

/// Maximum number of threads unless the user configures it. Each thread has its own copy of the weights, and with more
/// threads, reading files is the bottleneck.
const MAX_DEFAULT_THREADS: usize = 8;

/// Maximum number of threads that embed the candidate sentences of an answer with vic's own encoder, which shares its
/// weights between threads: two halve the time of an answer.
const MAX_INTERACTIVE_THREADS: usize = 2;

/// An embedding model that runs in this process.
pub(crate) struct OnnxEmbedder {
    workers: WorkerThreads,
    tokenizer: Arc<ModelTokenizer>,
    recipe: VectorRecipe,
    dimension: usize,
    /// Length of the vectors that the catalog states.
    stated_dimension: Option<usize>,
    fingerprint: String,
    name: String,
    engine: String,
    precision: &'static str,
}

impl OnnxEmbedder {
    /// Loads the model, one encoder for each thread.
    pub(crate) async fn open(store: ModelStore, config: EmbedConfig) -> Result<OnnxEmbedder> {
        let mut model = blocking(move || load_model(&store, &config)).await?;
        let found = model.workers.embed_question("probe".into()).await?.len();
        if let Some(expected) = model.stated_dimension.filter(|it| *it != found) {
            return Err(wrong_dimension(&model.name, found, expected));
        }
        model.dimension = found;
        Ok(model)
    }
}

/// Loads a model without setting the dimension, which the caller takes from the first vector.
fn load_model(store: &ModelStore, config: &EmbedConfig) -> Result<OnnxEmbedder> {
    let precision = parse_precision(&config.precision)?;
    cuda::check_settings(config, precision)?;
    let spec = ModelSpec::resolve(store, &config.model)?;
    quantization_check::reject_if_refused(&spec.network, precision)?;
    let (tokenizer, pooler) = (open_tokenizer(&spec)?, open_pooler(&spec)?);
    let lookup = open_lookup(&spec, precision, &tokenizer)?;
    let rounding = lookup.as_ref().map_or("", |it| it.computation());
    let passages = thread_count(config.threads);
    let own = BertModel::open(&spec, precision, config.engine)?.zip(lookup.clone());
    let (lanes, engine, computation) = match own {
        Some((model, lookup)) => {
            let (engine, computation) = (model.name(), model.computation());
            let counts = ThreadCounts { interactive: available_cores().min(MAX_INTERACTIVE_THREADS), passages };
            (WorkerThreads::start(counts, bert_worker(model, lookup, pooler, &tokenizer))?, engine, computation)
        }
        None => {
            let computation = spec.network.computation(precision);
            let (runtime, engine) = match config.device {
                EmbedDevice::Cpu => (load_cpu_runtime(store)?, "onnxruntime"),
                EmbedDevice::Cuda => (cuda::load_cuda_runtime(store)?, "onnxruntime (cuda)"),
            };
            let work = onnx_worker(runtime, spec.network.onnx_file(precision)?, lookup, pooler, &tokenizer);
            // A session of ONNX Runtime has its own copy of the weights, so questions get a single one.
            (WorkerThreads::start(ThreadCounts { interactive: 1, passages }, work)?, engine.to_string(), computation)
        }
    };
    Ok(OnnxEmbedder {
        workers: lanes,
        tokenizer,
        fingerprint: spec.fingerprint(&format!("{computation}{rounding}"))?,
        name: format!("{} (onnx)", spec.name),
        recipe: spec.recipe,
        dimension: 0,
        stated_dimension: spec.dimension,
        engine,
        precision: spec.network.precision(precision),
    })
}

/// Writes the ONNX graph of a model that consists of weights. Reads all files of the model once, so that errors are
/// reported before its first use.
pub(crate) fn write_graph(store: &ModelStore, entry: &ModelEntry) -> Result<()> {
    let spec = ModelSpec::from_entry(store, entry)?;
    spec.network.onnx_file(Precision::Int8).map(|_| ())
}

/// Returns the error that the files are those of another model than the catalog describes.
fn wrong_dimension(model: &str, found: usize, expected: usize) -> Error {
    Error::new(
        ErrorCode::DataLoss,
        format!("the model `{model}` gives vectors of {found} numbers, but the catalog says {expected}"),
    )
    .hint("its files belong to another model: delete them and fetch them again with `vic models pull`, or correct `dimension` in your `catalog.toml`")
}

/// Returns whether vic's own encoder has fast kernels for this processor, so that it runs the models that it supports.
pub(crate) fn has_fast_kernels() -> bool {
    ProcessorKernels::fastest().is_some()
}

fn parse_precision(name: &str) -> Result<Precision> {
    [Precision::Int8, Precision::Fp32]
        .into_iter()
        .find(|it| it.name() == name)
        .ok_or_else(|| Error::invalid(format!("unknown precision `{name}`")).hint("use `int8` or `fp32`"))
}

/// Returns the number of threads, and so of texts embedded in parallel; a setting of 0 means one per core, up to a limit.
pub(crate) fn thread_count(setting: usize) -> usize {
    if setting == 0 { available_cores().min(MAX_DEFAULT_THREADS) } else { setting }
}

fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[async_trait]
impl Embedder for OnnxEmbedder {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let prefix = &self.recipe.document_prefix;
        self.workers.embed_passages(texts.iter().map(|text| format!("{prefix}{text}")).collect()).await
    }

    async fn embed_urgent(&self, texts: &[String]) -> Result<Vec<Vector>> {
        // Queues only as many texts as run at once, so that a question waits for at most one of them.
        let running = self.workers.interactive_threads();
        let texts: Vec<String> = texts.iter().map(|text| format!("{}{text}", self.recipe.document_prefix)).collect();
        stream::iter(texts).map(|text| self.workers.embed_urgent(text)).buffered(running).try_collect().await
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        self.workers.embed_question(format!("{}{text}", self.recipe.query_prefix)).await
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn known_share(&self, text: &str) -> f32 {
        self.tokenizer.known_share(text)
    }

    fn is_word(&self, word: &str) -> bool {
        self.tokenizer.is_word(word)
    }

    fn max_tokens(&self) -> usize {
        self.tokenizer.max_tokens()
    }

    fn batch_size(&self) -> usize {
        TEXTS_PER_CALL_AND_THREAD * self.workers.threads()
    }

    fn padding_waste(&self) -> Option<f64> {
        // Reports no padding, because each run has only one text.
        Some(0.0)
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn engine(&self) -> &str {
        &self.engine
    }

    fn precision(&self) -> Option<&str> {
        Some(self.precision)
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        self.tokenizer.clone()
    }
}

#[cfg(test)]
mod converted_tests;
#[cfg(test)]
pub(crate) mod tests;
