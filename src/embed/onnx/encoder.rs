//! Runs a model in an ONNX Runtime session: computes the vector of a text from its token ids.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use ort::session::{Session, SessionInputValue};
use ort::value::TensorRef;

use crate::embed::embedder::Vector;
use crate::embed::onnx::embedding_table::EmbeddingTable;
use crate::embed::onnx::graph;
use crate::embed::onnx::pooling::Pooler;
use crate::embed::onnx::runtime::Runtime;
use crate::error::{Error, ErrorCode, Result};

/// Possible names of the output to read, in order of preference, if a model comes as an `.onnx` file.
const OUTPUTS: [&str; 4] = ["sentence_embedding", graph::OUTPUT, "token_embeddings", "embeddings"];

/// Computes vectors in an ONNX Runtime session. Each worker thread has its own encoder.
pub(crate) struct Encoder {
    session: Session,
    input: NetworkInput,
    output: String,
    pooler: Pooler,
}

/// The inputs that the network of a model takes.
enum NetworkInput {
    /// Embeddings of tokens, which are looked up before the run, for graphs that vic writes.
    Embeddings { lookup: Arc<EmbeddingTable>, buffer: Vec<f32> },
    /// Token ids, and attention mask and token types if the network takes them, for models that come as an `.onnx`
    /// file.
    Tokens { inputs: Vec<TokenInput> },
}

#[derive(Clone, Copy, PartialEq)]
enum TokenInput {
    Ids,
    Mask,
    Types,
}

impl TokenInput {
    const ALL: [TokenInput; 3] = [TokenInput::Ids, TokenInput::Mask, TokenInput::Types];

    fn name(self) -> &'static str {
        match self {
            TokenInput::Ids => "input_ids",
            TokenInput::Mask => "attention_mask",
            TokenInput::Types => "token_type_ids",
        }
    }
}

impl Encoder {
    /// Opens a graph that vic has written, or, if `lookup` is `None`, a model that comes as an `.onnx` file.
    pub(crate) fn open(
        runtime: Runtime,
        model: &Path,
        lookup: Option<Arc<EmbeddingTable>>,
        pooler: Pooler,
    ) -> Result<Encoder> {
        let session = runtime.session(model, 1)?;
        let feed = match lookup {
            Some(lookup) => NetworkInput::Embeddings { lookup, buffer: Vec::new() },
            None => NetworkInput::Tokens { inputs: network_inputs(&session, model)? },
        };
        let has = |name: &&&str| session.outputs().iter().any(|it| it.name() == **name);
        let output = match OUTPUTS.iter().find(has) {
            Some(name) => (*name).to_string(),
            None => session.outputs().first().map(|it| it.name().to_string()).unwrap_or_default(),
        };
        Ok(Encoder { session, input: feed, output, pooler })
    }

    /// Computes the vector of one text. A run has only one text, so no other text affects the vector.
    pub(crate) fn encode(&mut self, ids: &[u32]) -> Result<Vector> {
        let pooler = self.pooler.clone();
        self.run(ids, ids.len(), |shape, values| match *shape {
            [_, _, width] => pooler.pool(values, width.unsigned_abs() as usize),
            _ => pooler.finish(values.to_vec()),
        })
    }

    /// Returns the output of the first token of a pair of texts; the tokens from index `second` are the second text. Only
    /// graphs that vic writes tell the texts apart.
    pub(crate) fn first_token(&mut self, ids: &[u32], second: usize) -> Result<Vec<f32>> {
        self.run(ids, second, |shape, values| {
            let width = shape.last().map_or(0, |it| it.unsigned_abs() as usize);
            Ok(values[..width.min(values.len())].to_vec())
        })
    }

    /// Runs one text, and passes the shape and the numbers of the output to `read`: `[1, tokens, width]` or `[1, width]`.
    fn run<T>(&mut self, ids: &[u32], second: usize, read: impl FnOnce(&[i64], &[f32]) -> Result<T>) -> Result<T> {
        let failed = |error: ort::Error| Error::internal(format!("ONNX Runtime cannot run the model: {error}"));
        let (ones, zeros, numbers): (Vec<i64>, Vec<i64>, Vec<i64>);
        let inputs: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = match &mut self.input {
            NetworkInput::Embeddings { lookup, buffer } => {
                lookup.fill_pair(ids, second, buffer)?;
                let shape = [1, ids.len(), lookup.hidden()];
                let tensor = TensorRef::from_array_view((shape, buffer.as_slice())).map_err(failed)?;
                vec![(graph::INPUT.into(), tensor.into())]
            }
            NetworkInput::Tokens { inputs } => {
                numbers = ids.iter().map(|it| i64::from(*it)).collect();
                ones = vec![1; ids.len()];
                zeros = vec![0; ids.len()];
                let mut given = Vec::with_capacity(inputs.len());
                for input in inputs {
                    let values = match input {
                        TokenInput::Ids => &numbers,
                        TokenInput::Mask => &ones,
                        TokenInput::Types => &zeros,
                    };
                    let tensor = TensorRef::from_array_view(([1, ids.len()], values.as_slice())).map_err(failed)?;
                    given.push((input.name().into(), tensor.into()));
                }
                given
            }
        };
        let outputs = self.session.run(inputs).map_err(failed)?;
        let (shape, values) = outputs[self.output.as_str()].try_extract_tensor::<f32>().map_err(failed)?;
        match shape.iter().as_slice() {
            shape @ ([1, _, _] | [1, _]) => read(shape, values),
            other => Err(Error::new(
                ErrorCode::FailedPrecondition,
                format!("the model's output `{}` has the shape {other:?}, not [1, tokens, width]", self.output),
            )),
        }
    }
}

fn network_inputs(session: &Session, model: &Path) -> Result<Vec<TokenInput>> {
    let mut inputs = Vec::new();
    for outlet in session.inputs() {
        match TokenInput::ALL.into_iter().find(|it| it.name() == outlet.name()) {
            Some(input) => inputs.push(input),
            None => {
                return Err(Error::new(
                    ErrorCode::FailedPrecondition,
                    format!("the model `{}` requires an unsupported input `{}`", model.display(), outlet.name()),
                )
                .hint("use an encoder that takes input_ids, attention_mask and token_type_ids"));
            }
        }
    }
    Ok(inputs)
}
