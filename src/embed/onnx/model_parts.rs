//! Opens the parts of an in-process model: its tokenizer, its embedding table, and the encoder of each thread.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::EmbedDevice;
use crate::embed::models::ModelStore;
use crate::embed::onnx::bert_backend::BertModel;
use crate::embed::onnx::dense_layer::DenseLayer;
use crate::embed::onnx::embedding_table::EmbeddingTable;
use crate::embed::onnx::encoder::Encoder;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::model_spec::{ModelSpec, Network};
use crate::embed::onnx::pooling::Pooler;
use crate::embed::onnx::runtime::Runtime;
use crate::embed::onnx::weights::{BertConfig, Weights};
use crate::embed::onnx::worker_threads::EmbedFn;
use crate::embed::tokenizer::ModelTokenizer;
use crate::error::{Error, ErrorCode, Result};

/// Number of rows of the word table that a model may have beyond its tokens: tables are padded to round sizes.
const MAX_UNUSED_ROWS: usize = 1024;

/// Returns a factory that each worker thread calls to create its embedding function, which runs vic's own encoder.
pub(super) fn bert_worker(
    model: BertModel,
    lookup: Arc<EmbeddingTable>,
    pooler: Pooler,
    tokenizer: &Arc<ModelTokenizer>,
) -> impl Fn() -> Result<EmbedFn> + Send + Sync + 'static {
    let words = tokenizer.clone();
    move || {
        let (mut encoder, words) = (model.encoder(lookup.clone(), pooler.clone()), words.clone());
        Ok(Box::new(move |text: &str| encoder.encode(&words.ids(text)?)))
    }
}

/// Loads the ONNX Runtime library for the CPU.
pub(super) fn load_cpu_runtime(store: &ModelStore) -> Result<Runtime> {
    Runtime::load(&store.library(EmbedDevice::Cpu.runtime_library())?, EmbedDevice::Cpu)
}

/// Returns a factory that each worker thread calls to create its embedding function, which runs its own ONNX Runtime
/// session.
pub(super) fn onnx_worker(
    runtime: Runtime,
    file: PathBuf,
    lookup: Option<Arc<EmbeddingTable>>,
    pooler: Pooler,
    tokenizer: &Arc<ModelTokenizer>,
) -> impl Fn() -> Result<EmbedFn> + Send + Sync + 'static {
    let words = tokenizer.clone();
    move || {
        let mut encoder = Encoder::open(runtime, &file, lookup.clone(), pooler.clone())?;
        let words = words.clone();
        Ok(Box::new(move |text: &str| encoder.encode(&words.ids(text)?)))
    }
}

/// Opens what combines the token vectors of a model: its recipe, and its dense layer if it has one.
pub(super) fn open_pooler(spec: &ModelSpec) -> Result<Pooler> {
    let dense = spec.dense.as_ref().map(DenseLayer::open).transpose()?.map(Arc::new);
    Ok(Pooler::new(spec.recipe.clone(), dense))
}

/// Opens the tokenizer of a model, limited to the longest text that the model accepts.
pub(super) fn open_tokenizer(spec: &ModelSpec) -> Result<Arc<ModelTokenizer>> {
    let positions = spec.positions()?;
    let max_tokens = spec.recipe.max_tokens.unwrap_or(positions).min(positions);
    Ok(Arc::new(ModelTokenizer::open(&spec.tokenizer, max_tokens, &spec.recipe.document_prefix)?))
}

/// Opens the embedding table of a model that consists of weights; returns `None` for an `.onnx` file, which contains
/// its table.
pub(super) fn open_lookup(
    spec: &ModelSpec,
    precision: Precision,
    tokenizer: &ModelTokenizer,
) -> Result<Option<Arc<EmbeddingTable>>> {
    let Network::Weights { config, weights, .. } = &spec.network else { return Ok(None) };
    let lookup = EmbeddingTable::open(&Weights::open(weights)?, &BertConfig::open(config)?, precision)?;
    require_fitting_tokenizer(spec, tokenizer.vocabulary(), lookup.vocabulary())?;
    tracing::info!(model = spec.name, mib = lookup.bytes() >> 20, "the embedding table is loaded");
    Ok(Some(Arc::new(lookup)))
}

/// Refuses a tokenizer whose vocabulary is not that of the model: it would give vectors without meaning.
fn require_fitting_tokenizer(spec: &ModelSpec, tokens: usize, rows: usize) -> Result<()> {
    if tokens <= rows && rows - tokens < MAX_UNUSED_ROWS {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::DataLoss,
        format!("the tokenizer `{}` has {tokens} tokens, but the model knows {rows}", spec.tokenizer.display()),
    )
    .hint("the files belong to different models: fetch them again with `vic models pull`"))
}
