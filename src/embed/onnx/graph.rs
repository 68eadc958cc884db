//! Writes the ONNX graph of a BERT encoder, for ONNX Runtime, from the weights of the model.
//!
//! The input of the graph are the embeddings of the tokens, which [`crate::embed::onnx::embedding_table`] looks up for all
//! sessions in one shared table; the output is one vector per token. A run has only one text, so there is no padding and no
//! mask.
//!
//! There are two precisions. `fp32` uses the fused operators of ONNX Runtime's optimiser. `int8` quantises weights per
//! output channel when the graph is written, and activations per tensor at run time. The scale of activations depends on
//! the whole run, which is why a run has only a single text.

use prost::Message;

use crate::embed::onnx::onnx_proto::{
    AttributeProto, FLOAT, GraphProto, INT8, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use crate::embed::onnx::weights::{BertConfig, Weights};
use crate::error::Result;

/// Version of the graph. Increase it with every change of the graph: then graph files are rewritten, and old vectors are
/// not reused.
pub(crate) const GRAPH_VERSION: u32 = 1;

/// Name of the graph's input: the sum of the word, position and segment embeddings, of shape `[1, tokens, hidden]`.
pub(crate) const INPUT: &str = "embeddings";
/// Name of the graph's output: the token vectors, of shape `[1, tokens, hidden]`.
pub(crate) const OUTPUT: &str = "last_hidden_state";

/// Operator domain of the operators that ONNX Runtime adds to the ONNX standard.
const CONTRIB: &str = "com.microsoft";
/// Version of the standard ONNX operators; 17 is the first with `LayerNormalization`.
const OPSET: i64 = 17;
const IR_VERSION: i64 = 8;

/// The number format in which the encoder computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// All computations with 32-bit floating point numbers.
    Fp32,
    /// Matrix products with 8-bit integers.
    Int8,
}

impl Precision {
    /// Returns the name of the precision in settings and file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Int8 => "int8",
        }
    }

    /// Returns this precision's part of the fingerprint, which changes with everything that affects the vectors.
    pub(crate) fn fingerprint(self) -> String {
        match self {
            Precision::Fp32 => "fp32".into(),
            Precision::Int8 => format!("int8/{}", largest_weight()),
        }
    }
}

/// Returns the maximum absolute value of a quantised weight. On processors without dot-product instructions ONNX
/// Runtime adds two products in 16 bits, which would overflow with 8-bit weights, so 7-bit weights are used there.
fn largest_weight() -> i8 {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx512vnni") && !std::arch::is_x86_feature_detected!("avxvnni") {
        return 63;
    }
    127
}

/// Returns the content of the ONNX file. `identity` (graph version and weights) is stored in it, see [`has_identity`].
pub(crate) fn encode_graph(
    weights: &Weights,
    config: &BertConfig,
    precision: Precision,
    identity: &str,
) -> Result<Vec<u8>> {
    let mut writer = Writer { weights, config, precision, nodes: Vec::new(), tensors: Vec::new() };
    writer.encoder()?;
    let hidden = config.hidden_size as i64;
    let shape = [Ok(1), Err("tokens"), Ok(hidden)];
    let graph = GraphProto {
        node: writer.nodes,
        name: Some("bert".into()),
        initializer: writer.tensors,
        input: vec![ValueInfoProto::tensor(INPUT, FLOAT, &shape)],
        output: vec![ValueInfoProto::tensor(OUTPUT, FLOAT, &shape)],
    };
    let operators = |domain: &str, version| OperatorSetIdProto { domain: Some(domain.into()), version: Some(version) };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("vic".into()),
        producer_version: Some(identity.into()),
        graph: Some(graph),
        opset_import: vec![operators("", OPSET), operators(CONTRIB, 1)],
    };
    Ok(model.encode_to_vec())
}

/// Returns whether a file that starts with `head` was written with this identity, which is stored before the graph.
pub(crate) fn has_identity(head: &[u8], identity: &str) -> bool {
    let preamble = ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("vic".into()),
        producer_version: Some(identity.into()),
        ..ModelProto::default()
    };
    head.starts_with(&preamble.encode_to_vec())
}

/// A linear layer with weights in the layout of the graph: `[inputs, outputs]`, row-major.
struct Linear {
    inputs: usize,
    outputs: usize,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Writer<'a> {
    weights: &'a Weights,
    config: &'a BertConfig,
    precision: Precision,
    nodes: Vec<NodeProto>,
    tensors: Vec<TensorProto>,
}

impl Writer<'_> {
    fn encoder(&mut self) -> Result<()> {
        let mut flow = self.layer_norm(INPUT, "embeddings.LayerNorm", "embedded")?;
        for layer in 0..self.config.num_hidden_layers {
            let last = layer + 1 == self.config.num_hidden_layers;
            let output = if last { OUTPUT.to_string() } else { format!("layer.{layer}") };
            flow = self.layer(layer, &flow, &output)?;
        }
        Ok(())
    }

    fn layer(&mut self, layer: usize, flow: &str, output: &str) -> Result<String> {
        let prefix = format!("encoder.layer.{layer}");
        let context = self.attention(flow, &prefix)?;
        let mixed = self.dense(&context, &format!("{prefix}.attention.output.dense"))?;
        // Writes separate operators for addition and normalisation, because the fused one is several times slower on some
        // processors.
        let sum = self.add_node("Add", "", &[flow, &mixed], &format!("{prefix}.attention.sum"), vec![]);
        let normal = format!("{prefix}.attention.output.LayerNorm");
        let attended = self.layer_norm(&sum, &normal, &format!("{prefix}.attended"))?;
        let active = self.dense_gelu(&attended, &format!("{prefix}.intermediate.dense"))?;
        let folded = self.dense(&active, &format!("{prefix}.output.dense"))?;
        let sum = self.add_node("Add", "", &[&attended, &folded], &format!("{prefix}.sum"), vec![]);
        self.layer_norm(&sum, &format!("{prefix}.output.LayerNorm"), output)
    }

    fn attention(&mut self, flow: &str, prefix: &str) -> Result<String> {
        let linear = self.query_key_value(&format!("{prefix}.attention.self"))?;
        let name = format!("{prefix}.attention.qkv");
        let output = format!("{prefix}.context");
        let heads = vec![AttributeProto::int("num_heads", self.config.num_attention_heads as i64)];
        let bias = self.float_tensor(&format!("{name}.bias"), &linear.bias, &[linear.outputs]);
        if self.precision == Precision::Fp32 {
            let weight = self.float_tensor(&format!("{name}.weight"), &linear.weight, &[linear.inputs, linear.outputs]);
            return Ok(self.add_node("Attention", CONTRIB, &[flow, &weight, &bias], &output, heads));
        }
        let (weight, scale) = self.quantise_weights(&name, &linear);
        let zero = self.int8_tensor(&format!("{name}.zero"), vec![0; linear.outputs], &[linear.outputs]);
        let [quantised, flow_scale, flow_zero] = ["quantised", "scale", "zero"].map(|it| format!("{prefix}.flow.{it}"));
        self.nodes.push(NodeProto {
            input: vec![flow.into()],
            output: vec![quantised.clone(), flow_scale.clone(), flow_zero.clone()],
            name: Some(quantised.clone()),
            op_type: Some("DynamicQuantizeLinear".into()),
            ..NodeProto::default()
        });
        let inputs = [&quantised, &weight, &bias, &flow_scale, &scale, "", &flow_zero, &zero];
        Ok(self.add_node("QAttention", CONTRIB, &inputs, &output, heads))
    }

    fn dense(&mut self, flow: &str, name: &str) -> Result<String> {
        let linear = self.linear(name)?;
        let output = format!("{name}.output");
        let bias = self.float_tensor(&format!("{name}.bias"), &linear.bias, &[linear.outputs]);
        if self.precision == Precision::Fp32 {
            let product = self.matmul(flow, name, &linear);
            return Ok(self.add_node("Add", "", &[&product, &bias], &output, vec![]));
        }
        let (weight, scale) = self.quantise_weights(name, &linear);
        // Leaves out the fourth input, the zero point of the weights, which is always 0.
        Ok(self.add_node("DynamicQuantizeMatMul", CONTRIB, &[flow, &weight, &scale, "", &bias], &output, vec![]))
    }

    fn dense_gelu(&mut self, flow: &str, name: &str) -> Result<String> {
        let output = format!("{name}.gelu");
        if self.precision == Precision::Int8 {
            let dense = self.dense(flow, name)?;
            return Ok(self.add_node("Gelu", CONTRIB, &[&dense], &output, vec![]));
        }
        let linear = self.linear(name)?;
        let product = self.matmul(flow, name, &linear);
        let bias = self.float_tensor(&format!("{name}.bias"), &linear.bias, &[linear.outputs]);
        Ok(self.add_node("BiasGelu", CONTRIB, &[&product, &bias], &output, vec![]))
    }

    fn matmul(&mut self, flow: &str, name: &str, linear: &Linear) -> String {
        let weight = self.float_tensor(&format!("{name}.weight"), &linear.weight, &[linear.inputs, linear.outputs]);
        self.add_node("MatMul", "", &[flow, &weight], &format!("{name}.product"), vec![])
    }

    fn layer_norm(&mut self, flow: &str, name: &str, output: &str) -> Result<String> {
        let size = self.config.hidden_size;
        let scale = self.weights.tensor(&format!("{name}.weight"), &[size])?;
        let shift = self.weights.tensor(&format!("{name}.bias"), &[size])?;
        let scale = self.float_tensor(&format!("{name}.weight"), &scale, &[size]);
        let shift = self.float_tensor(&format!("{name}.bias"), &shift, &[size]);
        let attributes =
            vec![AttributeProto::int("axis", -1), AttributeProto::float("epsilon", self.config.layer_norm_eps)];
        Ok(self.add_node("LayerNormalization", "", &[flow, &scale, &shift], output, attributes))
    }

    /// Reads a linear layer and transposes its weights, which the file has in the layout `[outputs, inputs]`.
    fn linear(&self, name: &str) -> Result<Linear> {
        let weight_name = format!("{name}.weight");
        let [outputs, inputs] = self.weights.matrix_shape(&weight_name)?;
        let weight = transposed(&self.weights.tensor(&weight_name, &[outputs, inputs])?, outputs, inputs);
        let bias = self.weights.tensor(&format!("{name}.bias"), &[outputs])?;
        Ok(Linear { inputs, outputs, weight, bias })
    }

    /// Reads the query, key and value layers, and joins them to one layer.
    fn query_key_value(&self, prefix: &str) -> Result<Linear> {
        let size = self.config.hidden_size;
        let (mut rows, mut bias) = (Vec::with_capacity(3 * size * size), Vec::with_capacity(3 * size));
        for part in ["query", "key", "value"] {
            rows.extend(self.weights.tensor(&format!("{prefix}.{part}.weight"), &[size, size])?);
            bias.extend(self.weights.tensor(&format!("{prefix}.{part}.bias"), &[size])?);
        }
        Ok(Linear { inputs: size, outputs: 3 * size, weight: transposed(&rows, 3 * size, size), bias })
    }

    /// Quantises the weights of a layer symmetrically, with one scale per output. Returns the names of the tensors of
    /// weights and scales.
    fn quantise_weights(&mut self, name: &str, linear: &Linear) -> (String, String) {
        let largest = f32::from(largest_weight());
        let mut scales = vec![0f32; linear.outputs];
        for row in linear.weight.chunks_exact(linear.outputs) {
            for (scale, weight) in scales.iter_mut().zip(row) {
                *scale = scale.max(weight.abs() / largest);
            }
        }
        // Avoids a scale of 0: a column of zeros stays zero with any scale.
        scales.iter_mut().filter(|it| **it == 0.0).for_each(|it| *it = 1.0);
        let rounded = linear.weight.chunks_exact(linear.outputs).flat_map(|row| {
            row.iter().zip(&scales).map(|(weight, scale)| (weight / scale).round_ties_even().clamp(-largest, largest))
        });
        let bytes: Vec<u8> = rounded.map(|it| (it as i8).cast_unsigned()).collect();
        let weight = self.int8_tensor(&format!("{name}.weight"), bytes, &[linear.inputs, linear.outputs]);
        let scale = self.float_tensor(&format!("{name}.scale"), &scales, &[linear.outputs]);
        (weight, scale)
    }

    fn add_node(
        &mut self,
        op: &str,
        domain: &str,
        inputs: &[&str],
        output: &str,
        attribute: Vec<AttributeProto>,
    ) -> String {
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|it| (*it).to_string()).collect(),
            output: vec![output.into()],
            name: Some(output.into()),
            op_type: Some(op.into()),
            attribute,
            domain: Some(domain.into()),
        });
        output.into()
    }

    fn float_tensor(&mut self, name: &str, numbers: &[f32], shape: &[usize]) -> String {
        let raw = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.add_tensor(name, FLOAT, raw, shape)
    }

    fn int8_tensor(&mut self, name: &str, bytes: Vec<u8>, shape: &[usize]) -> String {
        self.add_tensor(name, INT8, bytes, shape)
    }

    fn add_tensor(&mut self, name: &str, data_type: i32, raw: Vec<u8>, shape: &[usize]) -> String {
        self.tensors.push(TensorProto {
            dims: shape.iter().map(|it| *it as i64).collect(),
            data_type: Some(data_type),
            name: Some(name.into()),
            raw_data: Some(raw),
        });
        name.into()
    }
}

fn transposed(rows: &[f32], height: usize, width: usize) -> Vec<f32> {
    let mut columns = vec![0.0; rows.len()];
    for (y, row) in rows.chunks_exact(width).enumerate() {
        for (x, value) in row.iter().enumerate() {
            columns[x * height + y] = *value;
        }
    }
    columns
}

#[cfg(test)]
pub(super) mod tests;
