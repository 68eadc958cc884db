//! Compares the vectors of a model with reference vectors that an independent implementation made once
//! (`models/reference/make_vectors.py`). Runs when a model is downloaded.

use base64::Engine as _;
use half::f16;
use serde::Deserialize;

use crate::config::EmbedEngine;
use crate::embed::model_catalog::ModelEntry;
use crate::embed::models::ModelStore;
use crate::embed::onnx::bert_backend::BertModel;
use crate::embed::onnx::graph::Precision;
use crate::embed::onnx::model_parts::{bert_worker, open_lookup, open_pooler, open_tokenizer};
use crate::embed::onnx::model_spec::ModelSpec;
use crate::embed::onnx::worker_threads::EmbedFn;
use crate::error::{Error, ErrorCode, Result};

/// A text with its token ids, special tokens included, and its vector as 16-bit floating point numbers in base64.
#[derive(Deserialize)]
struct ReferenceText {
    role: Role,
    text: String,
    ids: Vec<u32>,
    vector: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Role {
    Query,
    Passage,
}

/// How close a model must be to its reference vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// Minimum cosine of each text.
    pub(crate) least_cosine: f32,
    /// Whether each text must have the same tokens. The original tokenizer treats `<s>` in a text as a special token.
    pub(crate) same_tokens: bool,
}

/// Returns the built-in reference vectors of a name as JSON.
fn built_in(name: &str) -> Option<&'static str> {
    match name {
        "multilingual-e5-small" => Some(include_str!("../../../models/reference/multilingual-e5-small.json")),
        _ => None,
    }
}

/// Returns the least cosine between the vectors of a model and its reference vectors; `None` if the entry names none.
///
/// # Errors
/// [`ErrorCode::DataLoss`] if a text is not as close to its reference as `required`; other errors if files are damaged.
pub(crate) fn compare_with_reference(
    store: &ModelStore,
    entry: &ModelEntry,
    required: Agreement,
) -> Result<Option<f32>> {
    let Some(name) = entry.reference.as_deref() else { return Ok(None) };
    let json = built_in(name).ok_or_else(|| {
        Error::invalid(format!("vic has no reference vectors `{name}`"))
            .hint("remove `reference` from your `catalog.toml`")
    })?;
    let texts: Vec<ReferenceText> = serde_json::from_str(json).map_err(Error::internal)?;
    let spec = ModelSpec::from_entry(store, entry)?;
    let tokenizer = open_tokenizer(&spec)?;
    let mut embed = open_own(&spec)?;
    let mut worst = 1f32;
    for reference in texts {
        let prefix = match reference.role {
            Role::Query => &entry.recipe.query_prefix,
            Role::Passage => &entry.recipe.document_prefix,
        };
        let text = format!("{prefix}{}", reference.text);
        let cosine = cosine(&embed(&text)?, &decode(&reference.vector)?);
        worst = worst.min(cosine);
        let same_tokens = !required.same_tokens || tokenizer.ids(&text)? == reference.ids;
        if !same_tokens || cosine.is_nan() || cosine < required.least_cosine {
            let what = if same_tokens { format!("the cosine is {cosine:.4}") } else { "other tokens".into() };
            return Err(differs(entry, &text, &what));
        }
    }
    Ok(Some(worst))
}

fn differs(entry: &ModelEntry, text: &str, what: &str) -> Error {
    Error::new(
        ErrorCode::DataLoss,
        format!("the vectors of `{}` differ from its reference vectors: {what} for `{text:.40}`", entry.name),
    )
    .hint("the model was not installed: use another one, and report this")
}

/// Opens vic's own encoder, on every processor: the check is about the weights, and ONNX Runtime rounds more. Without
/// fast kernels the check takes a minute.
fn open_own(spec: &ModelSpec) -> Result<EmbedFn> {
    let (tokenizer, pooler) = (open_tokenizer(spec)?, open_pooler(spec)?);
    let lookup = open_lookup(spec, Precision::Int8, &tokenizer)?;
    let model = BertModel::open(spec, Precision::Int8, EmbedEngine::Own)?.zip(lookup);
    let (model, lookup) = model.ok_or_else(|| Error::internal("vic's own encoder did not open the model"))?;
    bert_worker(model, lookup, pooler, &tokenizer)()
}

/// Returns the cosine of two vectors of norm 1; 0 if they have different lengths.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    if a.len() == b.len() { a.iter().zip(b).map(|(a, b)| a * b).sum() } else { 0.0 }
}

fn decode(vector: &str) -> Result<Vec<f32>> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(vector).map_err(Error::internal)?;
    Ok(bytes.as_chunks::<2>().0.iter().map(|it| f16::from_le_bytes(*it).to_f32()).collect())
}
