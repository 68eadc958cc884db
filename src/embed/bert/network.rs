//! The weights of all layers of a BERT encoder, quantised to 8 bits.

use crate::embed::bert::attention::MAX_WIDTH;
use crate::embed::bert::linear::Linear;
use vic_kernels::encoder::{LANES, NormParameters, PANEL};

/// The weights of one model's encoder, shared between threads.
pub(crate) struct Network {
    pub(super) shape: Shape,
    /// Parameters for the normalisation of the embeddings.
    pub(super) embedding_norm: Vec<NormParameters>,
    pub(super) layers: Vec<EncoderLayer>,
}

/// The sizes of an encoder's layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) hidden: usize,
    pub(crate) inner: usize,
    pub(crate) heads: usize,
    pub(crate) layers: usize,
    /// Number that is added to the variance to avoid division by zero.
    pub(crate) epsilon: f32,
}

/// The weights of one encoder layer; the fields are in the order of computation.
pub(super) struct EncoderLayer {
    /// Layer that computes queries, keys and values.
    pub(super) project: Linear,
    /// Layer that combines the attention heads.
    pub(super) mix: Linear,
    pub(super) attention_norm: Vec<NormParameters>,
    pub(super) widen: Linear,
    pub(super) narrow: Linear,
    pub(super) output_norm: Vec<NormParameters>,
}

impl Shape {
    /// Returns the reason why vic's own encoder does not support a model of this shape; `None` if it supports the
    /// model.
    pub(crate) fn obstacle(&self) -> Option<String> {
        // Requires multiples, because the kernels process rows in whole registers and heads in whole panels.
        let whole = |size: usize| size > 0 && size.is_multiple_of(4 * LANES);
        let width = self.hidden.checked_div(self.heads).unwrap_or(0);
        if !whole(self.hidden) || !whole(self.inner) {
            return Some(format!("layer widths {} and {} are not multiples of {}", self.hidden, self.inner, 4 * LANES));
        }
        if ![PANEL, MAX_WIDTH].contains(&width) || width * self.heads != self.hidden {
            return Some(format!("attention heads have {width} values, not {PANEL} or {MAX_WIDTH}"));
        }
        None
    }
}

impl Network {
    /// Reads the weights of an encoder and quantises them. `tensor` returns the numbers of a tensor, given its name in BERT
    /// models and its shape; its first error is returned.
    pub(crate) fn read<E>(
        shape: Shape,
        mut tensor: impl FnMut(&str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Network, E> {
        let first = read_norms("embeddings.LayerNorm", shape.hidden, &mut tensor)?;
        let layers =
            (0..shape.layers).map(|layer| EncoderLayer::read(shape, layer, &mut tensor)).collect::<Result<_, E>>()?;
        Ok(Network { shape, embedding_norm: first, layers })
    }

    /// Returns the size of the weights in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.layers.iter().flat_map(|it| [&it.project, &it.mix, &it.widen, &it.narrow]).map(Linear::bytes).sum()
    }
}

impl EncoderLayer {
    fn read<E>(
        shape: Shape,
        layer: usize,
        tensor: &mut impl FnMut(&str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<EncoderLayer, E> {
        let Shape { hidden, inner, .. } = shape;
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        let (mut weights, mut bias) = (Vec::with_capacity(3 * hidden * hidden), Vec::with_capacity(3 * hidden));
        for part in ["query", "key", "value"] {
            weights.extend(tensor(&name(&format!("attention.self.{part}.weight")), &[hidden, hidden])?);
            bias.extend(tensor(&name(&format!("attention.self.{part}.bias")), &[hidden])?);
        }
        let mut linear = |part: &str, outputs: usize, inputs: usize| {
            let weights = tensor(&name(&format!("{part}.weight")), &[outputs, inputs])?;
            Ok(Linear::new(&weights, &tensor(&name(&format!("{part}.bias")), &[outputs])?))
        };
        let mix = linear("attention.output.dense", hidden, hidden)?;
        let widen = linear("intermediate.dense", inner, hidden)?;
        let narrow = linear("output.dense", hidden, inner)?;
        Ok(EncoderLayer {
            project: Linear::new(&weights, &bias),
            mix,
            attention_norm: read_norms(&name("attention.output.LayerNorm"), hidden, tensor)?,
            widen,
            narrow,
            output_norm: read_norms(&name("output.LayerNorm"), hidden, tensor)?,
        })
    }
}

fn read_norms<E>(
    name: &str,
    hidden: usize,
    tensor: &mut impl FnMut(&str, &[usize]) -> Result<Vec<f32>, E>,
) -> Result<Vec<NormParameters>, E> {
    let scale = tensor(&format!("{name}.weight"), &[hidden])?;
    let shift = tensor(&format!("{name}.bias"), &[hidden])?;
    let groups = scale.as_chunks().0.iter().zip(shift.as_chunks().0);
    Ok(groups.map(|(scale, shift)| NormParameters { scale: *scale, shift: *shift }).collect())
}
