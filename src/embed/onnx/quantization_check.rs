//! Checks that the int8 vectors of a model are close to its fp32 vectors. Runs once, when the model is downloaded; a
//! failure is recorded in a file beside the graph.

use std::fs::{read_to_string, remove_file};

use crate::config::EmbedEngine;
use crate::embed::embedder::Vector;
use crate::embed::model_catalog::ModelEntry;
use crate::embed::models::ModelStore;
use crate::embed::onnx::bert_backend::BertModel;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::model_parts::{
    bert_worker, load_cpu_runtime, onnx_worker, open_lookup, open_pooler, open_tokenizer,
};
use crate::embed::onnx::model_spec::{ModelSpec, Network};
use crate::embed::onnx::worker_threads::EmbedFn;
use crate::embed::sample::sample_texts;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// File that is written when a model fails the check. It holds the identity of the model's graph and the reason.
const REFUSAL_FILE: &str = "model.int8.refused";

/// Number of texts, of 10 to 300 words, whose vectors are compared.
const TEXTS: usize = 24;

/// Minimum mean cosine of int8 and fp32 vectors for vic's own encoder, which has one scale per token; MiniLM reaches
/// 0.998.
const MIN_COSINE_BERT: f32 = 0.995;

/// Minimum mean cosine of int8 and fp32 vectors for ONNX Runtime, which has one scale per text; MiniLM reaches 0.9947,
/// with the same search results.
const MIN_COSINE_RUNTIME: f32 = 0.99;

/// Returns the mean cosine between int8 and fp32 vectors, computed by the engine that runs the model on this machine.
/// Returns `None` for a model that comes as an `.onnx` file, which vic did not quantise. Takes seconds.
///
/// # Errors
/// [`ErrorCode::FailedPrecondition`] if the vectors differ too much; other errors if files are damaged or ONNX Runtime is
/// missing.
pub(crate) fn compare_int8_with_fp32(store: &ModelStore, entry: &ModelEntry) -> Result<Option<f32>> {
    let spec = ModelSpec::from_entry(store, entry)?;
    let Network::Weights { config, weights, checksum, .. } = &spec.network else { return Ok(None) };
    let (tokenizer, pooler) = (open_tokenizer(&spec)?, open_pooler(&spec)?);
    let lookup = |precision| open_lookup(&spec, precision, &tokenizer);
    let own = BertModel::open(&spec, Precision::Int8, EmbedEngine::Auto)?.zip(lookup(Precision::Int8)?);
    let least = if own.is_some() { MIN_COSINE_BERT } else { MIN_COSINE_RUNTIME };
    let rounded = match own {
        Some((model, lookup)) => bert_worker(model, lookup, pooler.clone(), &tokenizer)()?,
        None => {
            let file = spec.network.onnx_file(Precision::Int8)?;
            onnx_worker(load_cpu_runtime(store)?, file, lookup(Precision::Int8)?, pooler.clone(), &tokenizer)()?
        }
    };
    // Writes the fp32 graph into a temporary folder, because it is four times as large as the int8 graph and needed
    // only once.
    let folder = tempfile::tempdir_in(store.write_dir()).io_context("create a folder in", store.write_dir())?;
    let (config, weights, checksum) = (config.clone(), weights.clone(), checksum.clone());
    let network = Network::Weights { config, weights, graphs: vec![folder.path().into()], checksum };
    let file = network.onnx_file(Precision::Fp32)?;
    let exact = onnx_worker(load_cpu_runtime(store)?, file, lookup(Precision::Fp32)?, pooler, &tokenizer)()?;
    let checked = require_cosine(&spec.name, mean_cosine(rounded, exact)?, least);
    record_outcome(&spec.network, &checked)?;
    checked.map(Some)
}

/// Returns an error if int8 is requested for a model that failed the check when it was downloaded.
pub(crate) fn reject_if_refused(network: &Network, precision: Precision) -> Result<()> {
    let noted = network
        .candidate_paths(REFUSAL_FILE)
        .filter(|_| precision == Precision::Int8)
        .find_map(|it| read_to_string(it).ok());
    match noted.as_deref().and_then(|it| it.split_once('\n')) {
        Some((identity, why)) if identity == network.identity(precision)? => Err(int8_refused_error(why.to_string())),
        _ => Ok(()),
    }
}

/// Records the outcome of the check, for [`reject_if_refused`].
pub(super) fn record_outcome(network: &Network, checked: &Result<f32>) -> Result<()> {
    match checked {
        Ok(_) => network
            .candidate_paths(REFUSAL_FILE)
            .filter(|it| it.exists())
            .try_for_each(|it| remove_file(&it).io_context("remove", &it)),
        Err(error) => {
            let text = format!("{}\n{}", network.identity(Precision::Int8)?, error.message);
            network.write_beside_graph(REFUSAL_FILE, text.as_bytes()).map(drop)
        }
    }
}

fn require_cosine(model: &str, cosine: f32, least: f32) -> Result<f32> {
    // Also rejects NaN, because every comparison with NaN is false.
    if cosine >= least {
        return Ok(cosine);
    }
    Err(int8_refused_error(format!(
        "int8 vectors of `{model}` differ too much from fp32: the mean cosine is {cosine:.4}, but must be at least {least}"
    )))
}

fn int8_refused_error(why: String) -> Error {
    Error::new(ErrorCode::FailedPrecondition, why).hint("set VIC_EMBED_PRECISION to `fp32`, or use another model")
}

fn mean_cosine(mut rounded: EmbedFn, mut exact: EmbedFn) -> Result<f32> {
    let texts = sample_texts();
    let cosine = |text: &String| Ok(dot(&rounded(text)?, &exact(text)?));
    let cosines = texts.iter().take(TEXTS).map(cosine).collect::<Result<Vec<f32>>>()?;
    Ok(cosines.iter().sum::<f32>() / cosines.len() as f32)
}

fn dot(a: &Vector, b: &Vector) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::onnx::tests::{cache, without_telemetry};

    #[test]
    fn default_model_int8_is_close_to_fp32() {
        without_telemetry();
        let store = ModelStore::new(vec![cache()]);
        let before = std::fs::read_dir(cache()).unwrap().count();
        let cosine = compare_int8_with_fp32(&store, &store.entry("all-MiniLM-L6-v2").unwrap()).unwrap();
        assert!(cosine.is_some_and(|it| (MIN_COSINE_RUNTIME..1.001).contains(&it)), "{cosine:?}");
        assert_eq!(std::fs::read_dir(cache()).unwrap().count(), before);
    }

    #[test]
    fn low_int8_cosine_is_rejected_with_hint() {
        for cosine in [0.98, f32::NAN] {
            let error = require_cosine("m", cosine, MIN_COSINE_BERT).unwrap_err();
            assert_eq!(error.code, ErrorCode::FailedPrecondition);
            assert!(error.hint.unwrap().contains("fp32"), "{}", error.message);
        }
        assert_eq!(require_cosine("m", 0.996, MIN_COSINE_BERT).unwrap(), 0.996);
    }

    #[test]
    fn mean_cosine_averages_cosines() {
        let work = |numbers: [f32; 2]| -> EmbedFn { Box::new(move |_: &str| Ok(numbers.to_vec())) };
        let cosine = mean_cosine(work([0.6, 0.8]), work([1.0, 0.0])).unwrap();
        assert!((cosine - 0.6).abs() < 1e-6, "{cosine}");
    }
}
