//! Writes `model.safetensors` in vic's own 8-bit form: a matrix has one step per row, in the tensor `NAME.scale`.

use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::embed::e5s1::{E5Model, Sizes};
use crate::error::{IoContext, Result};

/// The largest absolute value of an 8-bit weight.
const MAX_WEIGHT: f32 = 127.0;

/// Rows that are converted at once, so that the word table is never in memory as a whole.
const ROWS: usize = 4096;

/// Returns the name, in the source and in BERT models, and the shape of each matrix.
pub(crate) fn matrices(sizes: &Sizes) -> Vec<(String, String, [usize; 2])> {
    let Sizes { hidden, inner, .. } = *sizes;
    let words = ("emb.word".into(), "embeddings.word_embeddings.weight".into(), [sizes.vocabulary, hidden]);
    let parts = [
        ("q", "attention.self.query", [hidden, hidden]),
        ("k", "attention.self.key", [hidden, hidden]),
        ("v", "attention.self.value", [hidden, hidden]),
        ("ao", "attention.output.dense", [hidden, hidden]),
        ("fi", "intermediate.dense", [inner, hidden]),
        ("fo", "output.dense", [hidden, inner]),
    ];
    let layers = (0..sizes.layers).flat_map(|layer| {
        parts.map(|(part, name, shape)| {
            (format!("l{layer}.{part}.w"), format!("encoder.layer.{layer}.{name}.weight"), shape)
        })
    });
    std::iter::once(words).chain(layers).collect()
}

/// Returns the name, in the source and in BERT models, and the shape of each tensor that is not quantised.
pub(crate) fn exact_tensors(sizes: &Sizes) -> Vec<(String, String, Vec<usize>)> {
    let Sizes { hidden, inner, .. } = *sizes;
    let mut tensors = vec![
        ("emb.pos".into(), "embeddings.position_embeddings.weight".into(), vec![sizes.positions, hidden]),
        ("emb.type".into(), "embeddings.token_type_embeddings.weight".into(), vec![sizes.segments, hidden]),
        ("emb.ln.w".into(), "embeddings.LayerNorm.weight".into(), vec![hidden]),
        ("emb.ln.b".into(), "embeddings.LayerNorm.bias".into(), vec![hidden]),
    ];
    for layer in 0..sizes.layers {
        for (part, name, size) in [
            ("q.b", "attention.self.query.bias", hidden),
            ("k.b", "attention.self.key.bias", hidden),
            ("v.b", "attention.self.value.bias", hidden),
            ("ao.b", "attention.output.dense.bias", hidden),
            ("aln.w", "attention.output.LayerNorm.weight", hidden),
            ("aln.b", "attention.output.LayerNorm.bias", hidden),
            ("fi.b", "intermediate.dense.bias", inner),
            ("fo.b", "output.dense.bias", hidden),
            ("oln.w", "output.LayerNorm.weight", hidden),
            ("oln.b", "output.LayerNorm.bias", hidden),
        ] {
            tensors.push((format!("l{layer}.{part}"), format!("encoder.layer.{layer}.{name}"), vec![size]));
        }
    }
    tensors
}

/// Writes the weights of a model to a temporary file in `folder`. The same model always gives the same bytes.
///
/// # Errors
/// A tensor is missing or has another size; the disk is full.
pub(super) fn write_weights(model: &E5Model, folder: &Path) -> Result<NamedTempFile> {
    let file = NamedTempFile::new_in(folder).io_context("create a file in", folder)?;
    let (matrices, exact) = (matrices(&model.sizes), exact_tensors(&model.sizes));
    let head = header(&matrices, &exact);
    let mut output = BufWriter::new(file.as_file());
    let written = |result: std::io::Result<()>| result.io_context("write", file.path());
    written(output.write_all(&(head.len() as u64).to_le_bytes()))?;
    written(output.write_all(&head))?;
    for (source, _, shape) in &exact {
        let numbers = model.rows(source, 0..1, shape.iter().product())?;
        written(output.write_all(&float_bytes(&numbers)))?;
    }
    for (source, _, [rows, width]) in &matrices {
        let mut steps = Vec::with_capacity(*rows);
        for start in (0..*rows).step_by(ROWS) {
            let numbers = model.rows(source, start..(start + ROWS).min(*rows), *width)?;
            for row in numbers.chunks_exact(*width) {
                let (bytes, step) = quantise_row(row);
                written(output.write_all(&bytes))?;
                steps.push(step);
            }
        }
        written(output.write_all(&float_bytes(&steps)))?;
    }
    written(output.flush())?;
    drop(output);
    file.as_file().seek(SeekFrom::Start(0)).io_context("write", file.path())?;
    Ok(file)
}

/// Returns the header of the file: the type, shape and place of each tensor, in the order in which they are written.
/// Exact tensors come first, because readers expect aligned numbers.
fn header(matrices: &[(String, String, [usize; 2])], exact: &[(String, String, Vec<usize>)]) -> Vec<u8> {
    let mut head = Map::new();
    let mut at = 0;
    let mut add = |name: String, kind: &str, shape: Value, bytes: usize| {
        head.insert(name, json!({ "dtype": kind, "shape": shape, "data_offsets": [at, at + bytes] }));
        at += bytes;
    };
    for (_, name, shape) in exact {
        add(name.clone(), "F32", json!(shape), shape.iter().product::<usize>() * 4);
    }
    for (_, name, [rows, width]) in matrices {
        add(name.clone(), "I8", json!([rows, width]), rows * width);
        add(format!("{name}.scale"), "F32", json!([rows]), rows * 4);
    }
    let mut bytes = Value::Object(head).to_string().into_bytes();
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    bytes
}

/// Quantises a row symmetrically. Returns its bytes, each the bits of a signed integer, and its step.
pub(crate) fn quantise_row(row: &[f32]) -> (Vec<u8>, f32) {
    let step = row.iter().fold(0f32, |most, it| most.max(it.abs())) / MAX_WEIGHT;
    let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
    let bytes = row.iter().map(|it| ((it * inverse).round_ties_even() as i8).cast_unsigned());
    (bytes.collect(), step)
}

fn float_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|it| it.to_le_bytes()).collect()
}
