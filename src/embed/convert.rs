//! Converts a package into the files of a model: `config.json`, `tokenizer.json` and `model.safetensors`.

use std::path::Path;

use serde_json::json;

use crate::embed::converted_weights::write_weights;
use crate::embed::e5s1::E5Model;
use crate::embed::model_catalog::PackageFormat;
use crate::embed::model_file::persist_readable;
use crate::embed::unigram_tokenizer::tokenizer_json;
use crate::error::{Error, IoContext, Result};

/// Writes the files of a model, made from the file `package`, into `folder`.
///
/// # Errors
/// The package is damaged or in another format ([`crate::error::ErrorCode::DataLoss`]); the disk is full.
pub(super) fn convert(format: PackageFormat, package: &Path, folder: &Path) -> Result<()> {
    match format {
        PackageFormat::E5s1 => convert_e5s1(&E5Model::open(package)?, folder),
    }
}

fn convert_e5s1(model: &E5Model, folder: &Path) -> Result<()> {
    let sizes = &model.sizes;
    let config = json!({
        "model_type": "bert",
        "hidden_size": sizes.hidden,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": sizes.inner,
        "max_position_embeddings": sizes.positions,
        "vocab_size": sizes.vocabulary,
        "type_vocab_size": sizes.segments,
        "layer_norm_eps": sizes.epsilon,
        "hidden_act": "gelu",
    });
    write(folder, "config.json", &config)?;
    write(folder, "tokenizer.json", &tokenizer_json(&model.pieces))?;
    persist_readable(write_weights(model, folder)?, &folder.join("model.safetensors"))
}

fn write(folder: &Path, name: &str, content: &serde_json::Value) -> Result<()> {
    let path = folder.join(name);
    let text = serde_json::to_vec(content).map_err(Error::internal)?;
    std::fs::write(&path, text).io_context("write", &path)
}
