//! Adapter to vic's own BERT encoder: decides whether it runs a model, and connects it to the embedding table and pooling.

use std::sync::Arc;

use crate::config::EmbedEngine;
use crate::embed::bert::{self, ForwardPass, ProcessorKernels, Shape};
use crate::embed::embedder::Vector;
use crate::embed::onnx::embedding_table::EmbeddingTable;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::model_spec::{ModelSpec, Network};
use crate::embed::onnx::pooling::Pooler;
use crate::embed::onnx::weights::{BertConfig, Weights};
use crate::error::{Error, ErrorCode, Result};

/// A model that vic's own encoder runs, shared between threads.
#[derive(Clone)]
pub(crate) struct BertModel {
    network: Arc<bert::Network>,
    processor: ProcessorKernels,
}

/// Computes vectors with vic's own encoder. Each worker thread has its own instance.
pub(crate) struct BertEncoder {
    pass: ForwardPass,
    lookup: Arc<EmbeddingTable>,
    pooler: Pooler,
}

impl BertModel {
    /// Loads a model that vic's own encoder can run. If ONNX Runtime must run it, logs the reason and returns `None`.
    pub(crate) fn open(spec: &ModelSpec, precision: Precision, engine: EmbedEngine) -> Result<Option<BertModel>> {
        match choose_engine(spec, precision, engine)? {
            Ok((processor, shape, weights)) => {
                let network = Arc::new(read_network(shape, &weights)?);
                let (model, mib) = (&spec.name, network.bytes() >> 20);
                tracing::info!(model, engine = processor.name(), mib, "vic's own encoder runs the model");
                Ok(Some(BertModel { network, processor }))
            }
            Err(reason) if engine == EmbedEngine::Own => Err(Error::new(
                ErrorCode::FailedPrecondition,
                format!("vic's own encoder cannot run `{}`: {reason}", spec.name),
            )
            .hint("set VIC_EMBED_ENGINE to `auto`")),
            Err(reason) => {
                tracing::info!(model = spec.name, reason, "ONNX Runtime runs the model");
                Ok(None)
            }
        }
    }

    /// Makes an encoder for one thread.
    pub(crate) fn encoder(&self, lookup: Arc<EmbeddingTable>, pooler: Pooler) -> BertEncoder {
        BertEncoder { pass: ForwardPass::new(self.network.clone(), self.processor), lookup, pooler }
    }

    /// Returns the name of the encoder and of its instruction set, for display.
    pub(crate) fn name(&self) -> String {
        format!("own ({})", self.processor.name())
    }

    /// Returns this encoder's part of the fingerprint, which changes with everything that affects the vectors.
    pub(crate) fn computation(&self) -> String {
        format!("own {} {}", bert::VERSION, self.processor.name())
    }
}

impl BertEncoder {
    /// Computes the vector of one text, given its token ids.
    pub(crate) fn encode(&mut self, ids: &[u32]) -> Result<Vector> {
        let rows = self.pass.run(|buffer| self.lookup.fill(ids, buffer))?;
        self.pooler.pool(rows, self.lookup.hidden())
    }

    /// Returns the output of the first token of a pair of texts; the tokens from index `second` are the second text.
    pub(crate) fn first_token(&mut self, ids: &[u32], second: usize) -> Result<Vec<f32>> {
        let rows = self.pass.run(|buffer| self.lookup.fill_pair(ids, second, buffer))?;
        Ok(rows[..self.lookup.hidden().min(rows.len())].to_vec())
    }
}

/// Returns what vic's own encoder needs to run a model, or the reason why ONNX Runtime must run it.
fn choose_engine(
    spec: &ModelSpec,
    precision: Precision,
    engine: EmbedEngine,
) -> Result<std::result::Result<(ProcessorKernels, Shape, Weights), String>> {
    if engine == EmbedEngine::Onnx {
        return Ok(Err("VIC_EMBED_ENGINE selects ONNX Runtime".into()));
    }
    if precision != Precision::Int8 {
        return Ok(Err("vic's own encoder computes in int8 only".into()));
    }
    let Network::Weights { config, weights, .. } = &spec.network else {
        return Ok(Err("the model is an `.onnx` file, not weights".into()));
    };
    let processor = match (engine, ProcessorKernels::fastest()) {
        (EmbedEngine::Own, processor) => processor.unwrap_or_else(ProcessorKernels::plain),
        (_, None) => return Ok(Err("the processor has no AVX-512 VNNI".into())),
        (_, Some(_)) if cfg!(unoptimised) => return Ok(Err("vic was built without optimisation".into())),
        (_, Some(processor)) => processor,
    };
    let weights = Weights::open(weights)?;
    let shape = read_shape(&BertConfig::open(config)?, &weights)?;
    Ok(match shape.obstacle() {
        Some(obstacle) => Err(obstacle),
        None => Ok((processor, shape, weights)),
    })
}

fn read_shape(config: &BertConfig, weights: &Weights) -> Result<Shape> {
    let inner = match config.num_hidden_layers {
        0 => 0,
        _ => weights.matrix_shape("encoder.layer.0.intermediate.dense.weight")?[0],
    };
    Ok(Shape {
        hidden: config.hidden_size,
        inner,
        heads: config.num_attention_heads,
        layers: config.num_hidden_layers,
        epsilon: config.layer_norm_eps,
    })
}

fn read_network(shape: Shape, weights: &Weights) -> Result<bert::Network> {
    bert::Network::read(shape, |name, size| {
        let numbers = weights.tensor(name, size)?;
        // Rejects infinities and NaN: quantised bytes cannot represent them, and every vector would be silently wrong.
        match numbers.iter().all(|it| it.is_finite()) {
            true => Ok(numbers),
            false => Err(weights.invalid_model(&format!("`{name}` holds numbers that are not finite"))),
        }
    })
}
