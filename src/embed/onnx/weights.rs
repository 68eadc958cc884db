//! Reads the files of a BERT model: `config.json`, and `model.safetensors` tensor by tensor, so that the whole file is
//! never in memory. Besides floating point numbers it reads vic's own 8-bit form: a matrix of signed bytes, and the step
//! of each row in the tensor `NAME.scale`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::f16;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Maximum bytes of the header of a safetensors file; a file with a longer one is rejected. Headers of supported models are
/// far smaller.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The sizes and settings of a BERT model in `config.json`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct BertConfig {
    #[serde(default = "bert")]
    pub(crate) model_type: String,
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) max_position_embeddings: usize,
    #[serde(default = "default_epsilon")]
    pub(crate) layer_norm_eps: f32,
    #[serde(default = "gelu")]
    pub(crate) hidden_act: String,
    #[serde(default = "absolute")]
    pub(crate) position_embedding_type: String,
}

fn bert() -> String {
    "bert".into()
}

fn gelu() -> String {
    "gelu".into()
}

fn absolute() -> String {
    "absolute".into()
}

fn default_epsilon() -> f32 {
    1e-12
}

impl BertConfig {
    /// Reads `config.json`, and fails for models that are not plain BERT encoders, which the graph writer does not support.
    pub(crate) fn open(path: &Path) -> Result<BertConfig> {
        let text = std::fs::read_to_string(path).io_context("read", path)?;
        let config: BertConfig = serde_json::from_str(&text)
            .map_err(|error| Error::invalid(format!("cannot parse `{}`: {error}", path.display())))?;
        let supported = config.model_type == "bert"
            && config.hidden_act == "gelu"
            && config.position_embedding_type == "absolute"
            && config.num_attention_heads > 0
            && config.hidden_size.is_multiple_of(config.num_attention_heads);
        if supported {
            return Ok(config);
        }
        let BertConfig { model_type, hidden_act, position_embedding_type, .. } = &config;
        Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!(
                "`{}` describes a model that is not a plain BERT encoder: model_type `{model_type}`, hidden_act \
                 `{hidden_act}`, position_embedding_type `{position_embedding_type}`",
                path.display()
            ),
        )
        .hint("export it to `model.onnx` and use that, or use a model that `vic models list` shows"))
    }
}

/// An open `model.safetensors` file.
pub(crate) struct Weights {
    path: PathBuf,
    file: RefCell<File>,
    data_start: u64,
    tensors: HashMap<String, TensorInfo>,
    prefix: &'static str,
}

impl Weights {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Weights> {
        let mut file = File::open(path).io_context("open", path)?;
        let broken = |text: &str| {
            Error::new(
                ErrorCode::DataLoss,
                format!("`{}` is damaged or not a safetensors file: {text}; download it again", path.display()),
            )
        };
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|error| broken(&error.to_string()))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES {
            return Err(broken("its header is too long"));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(|error| broken(&error.to_string()))?;
        let mut header: HashMap<String, serde_json::Value> =
            serde_json::from_slice(&header).map_err(|error| broken(&error.to_string()))?;
        header.remove("__metadata__");
        let tensors = header
            .into_iter()
            .map(|(name, value)| Ok((name, serde_json::from_value(value)?)))
            .collect::<Result<HashMap<String, TensorInfo>, serde_json::Error>>()
            .map_err(|error| broken(&error.to_string()))?;
        let end = tensors.values().map(|it: &TensorInfo| it.data_offsets.1 as u64).max().unwrap_or(0);
        let present = file.metadata().io_context("read", path)?.len();
        if end.checked_add(8 + length).is_none_or(|end| end > present) {
            return Err(broken("it is cut"));
        }
        let prefix = if tensors.contains_key("bert.embeddings.word_embeddings.weight") { "bert." } else { "" };
        Ok(Weights { path: path.to_path_buf(), file: RefCell::new(file), data_start: 8 + length, tensors, prefix })
    }

    /// Reads a tensor as row-major numbers, and checks its shape.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let found = &self.tensor_info(name)?.shape;
        if found != shape {
            return Err(self.invalid_model(&format!("`{name}` has the shape {found:?} instead of {shape:?}")));
        }
        let mut numbers = Vec::with_capacity(shape.iter().product());
        self.read(name, &mut |piece| numbers.extend_from_slice(piece))?;
        Ok(numbers)
    }

    /// Returns the number of rows and columns of a matrix.
    pub(crate) fn matrix_shape(&self, name: &str) -> Result<[usize; 2]> {
        let shape = &self.tensor_info(name)?.shape;
        shape
            .as_slice()
            .try_into()
            .map_err(|_| self.invalid_model(&format!("`{name}` has the shape {shape:?}, not a matrix")))
    }

    /// Reads a tensor and passes its numbers to `take` piece by piece, so that large tensors need no second copy in memory.
    /// A matrix of bytes is multiplied by the steps of its rows, and a piece of it has whole rows.
    pub(crate) fn read(&self, name: &str, take: &mut dyn FnMut(&[f32])) -> Result<()> {
        const PIECE: usize = 1 << 20;
        let info = self.tensor_info(name)?;
        let dtype = info.dtype;
        match dtype {
            Dtype::F32 => self.read_bytes(name, 4, PIECE, &mut |bytes| take(&decode_numbers(bytes, dtype))),
            Dtype::F16 | Dtype::BF16 => {
                self.read_bytes(name, 2, PIECE, &mut |bytes| take(&decode_numbers(bytes, dtype)))
            }
            Dtype::I8 => {
                let [_, width] = self.matrix_shape(name)?;
                let steps = self.row_steps(name)?;
                let mut steps = steps.iter();
                self.read_bytes(name, 1, width.max(1), &mut |bytes| {
                    let step = steps.next().copied().unwrap_or(0.0);
                    take(&bytes.iter().map(|it| f32::from(it.cast_signed()) * step).collect::<Vec<f32>>());
                })
            }
            other => Err(self.invalid_model(&format!("`{name}` has numbers of type {other:?}"))),
        }
    }

    /// Returns the bytes of a matrix and the step of each of its rows; `None` if it does not have 8-bit numbers.
    pub(crate) fn quantised_matrix(&self, name: &str) -> Result<Option<(Vec<u8>, Vec<f32>)>> {
        if self.tensor_info(name)?.dtype != Dtype::I8 {
            return Ok(None);
        }
        let [rows, width] = self.matrix_shape(name)?;
        let mut bytes = Vec::with_capacity(rows * width);
        self.read_bytes(name, 1, 1 << 20, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(Some((bytes, self.row_steps(name)?)))
    }

    fn row_steps(&self, name: &str) -> Result<Vec<f32>> {
        let [rows, _] = self.matrix_shape(name)?;
        self.tensor(&format!("{name}.scale"), &[rows])
    }

    /// Passes the bytes of a tensor to `take`, at most `piece` at once. A number has `width` bytes.
    fn read_bytes(&self, name: &str, width: usize, piece: usize, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let info = self.tensor_info(name)?;
        let count = info.shape.iter().try_fold(1usize, |count, it| count.checked_mul(*it));
        let (start, end) = info.data_offsets;
        let length = end.checked_sub(start);
        if length.is_none() || length != count.and_then(|it| it.checked_mul(width)) {
            return Err(self.invalid_model(&format!("the length of `{name}` does not match its shape")));
        }
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(self.data_start + start as u64)).io_context("read", &self.path)?;
        let mut input = BufReader::with_capacity(piece.max(1 << 16), &mut *file);
        let mut bytes = vec![0; piece.min(end - start)];
        let mut left = end - start;
        while left > 0 {
            let size = left.min(piece);
            input.read_exact(&mut bytes[..size]).io_context("read", &self.path)?;
            take(&bytes[..size]);
            left -= size;
        }
        Ok(())
    }

    /// Returns whether the file has a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensor_info(name).is_ok()
    }

    /// Returns the description of a tensor. Layers on top of the encoder, such as a classifier, have no prefix.
    fn tensor_info(&self, name: &str) -> Result<&TensorInfo> {
        let full = format!("{}{name}", self.prefix);
        self.tensors
            .get(&full)
            .or_else(|| self.tensors.get(name))
            .ok_or_else(|| self.invalid_model(&format!("`{full}` is missing")))
    }

    /// Returns the error that the content of the file is invalid; `text` is the reason.
    pub(crate) fn invalid_model(&self, text: &str) -> Error {
        Error::new(
            ErrorCode::DataLoss,
            format!("`{}` is damaged or not a BERT model: {text}; download it again", self.path.display()),
        )
    }
}

fn decode_numbers(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    match dtype {
        Dtype::F16 => bytes.chunks_exact(2).map(|it| f16::from_le_bytes([it[0], it[1]]).to_f32()).collect(),
        Dtype::BF16 => bytes.chunks_exact(2).map(|it| half::bf16::from_le_bytes([it[0], it[1]]).to_f32()).collect(),
        _ => bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect(),
    }
}
