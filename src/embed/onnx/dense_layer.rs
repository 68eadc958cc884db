//! The linear layer that some models apply to the pooled vector (the folder `2_Dense` of sentence-transformers).

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::embed::onnx::weights::Weights;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Folder of the layer in the folder of a model.
pub(crate) const FOLDER: &str = "2_Dense";

/// Folder that a model with several such layers has; vic supports one.
const SECOND: &str = "3_Dense";

/// The files of a layer.
#[derive(Clone, Debug)]
pub(crate) struct DenseFiles {
    pub(crate) config: PathBuf,
    pub(crate) weights: PathBuf,
}

/// The layer `y = activation(W x + b)`, in 32-bit floating point: it runs once per text, so speed does not matter.
#[derive(Debug)]
pub(crate) struct DenseLayer {
    inputs: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Activation {
    Identity,
    Tanh,
}

#[derive(Deserialize)]
struct Config {
    in_features: usize,
    out_features: usize,
    #[serde(default)]
    activation_function: String,
}

impl DenseFiles {
    /// Returns the files of the layer of the model in `home`; `None` if it has no such layer.
    ///
    /// # Errors
    /// The model has several such layers, or no `model.safetensors`.
    pub(crate) fn find(home: &Path) -> Result<Option<DenseFiles>> {
        let refused = |text: String| Error::new(ErrorCode::FailedPrecondition, text).hint("use another model");
        let folder = home.join(FOLDER);
        if home.join(SECOND).is_dir() {
            return Err(refused(format!("`{}` has several dense layers, but vic supports one", home.display())));
        }
        if !folder.is_dir() {
            return Ok(None);
        }
        let files = DenseFiles { config: folder.join("config.json"), weights: folder.join("model.safetensors") };
        match files.weights.is_file() {
            true => Ok(Some(files)),
            false => Err(refused(format!("`{}` has no `model.safetensors`", folder.display()))),
        }
    }
}

impl DenseLayer {
    /// Reads a layer.
    ///
    /// # Errors
    /// A file is missing or damaged, or its sizes differ from those in `config.json`; the activation is unknown.
    pub(crate) fn open(files: &DenseFiles) -> Result<DenseLayer> {
        let text = std::fs::read_to_string(&files.config).io_context("read", &files.config)?;
        let config: Config = serde_json::from_str(&text)
            .map_err(|error| Error::invalid(format!("cannot parse `{}`: {error}", files.config.display())))?;
        let activation = match config.activation_function.rsplit('.').next().unwrap_or_default() {
            "" | "Identity" => Activation::Identity,
            "Tanh" => Activation::Tanh,
            other => {
                let text = format!("`{}` has the unsupported activation `{other}`", files.config.display());
                return Err(Error::new(ErrorCode::FailedPrecondition, text).hint("use another model"));
            }
        };
        let weights = Weights::open(&files.weights)?;
        let (inputs, outputs) = (config.in_features, config.out_features);
        let bias = match weights.has("linear.bias") {
            true => weights.tensor("linear.bias", &[outputs])?,
            false => vec![0.0; outputs],
        };
        Ok(DenseLayer { inputs, weights: weights.tensor("linear.weight", &[outputs, inputs])?, bias, activation })
    }

    /// Returns the length of the vectors that the layer takes.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Applies the layer to a vector of [`DenseLayer::inputs`] numbers.
    pub(crate) fn apply(&self, vector: &[f32]) -> Vec<f32> {
        let rows = self.weights.chunks_exact(self.inputs.max(1)).zip(&self.bias);
        let output = |(row, bias): (&[f32], &f32)| {
            let sum = bias + row.iter().zip(vector).map(|(weight, number)| weight * number).sum::<f32>();
            if self.activation == Activation::Tanh { sum.tanh() } else { sum }
        };
        rows.map(output).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    /// Writes a layer with these weights, row by row, below `home`.
    pub(crate) fn write_dense(home: &Path, inputs: usize, weights: &[f32], bias: &[f32], activation: &str) {
        let folder = home.join(FOLDER);
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = |numbers: &[f32]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        let (weights, offsets) = (bytes(weights), bytes(bias));
        let views =
            [("linear.weight", vec![bias.len(), inputs], &weights), ("linear.bias", vec![bias.len()], &offsets)]
                .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape, bytes).unwrap()));
        safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
        let config = serde_json::json!({
            "in_features": inputs, "out_features": bias.len(), "bias": true, "activation_function": activation,
        });
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    }

    fn open(home: &Path) -> Result<DenseLayer> {
        DenseLayer::open(&DenseFiles::find(home).unwrap().unwrap())
    }

    #[test]
    fn layer_is_read_and_applied() {
        let home = tempfile::tempdir().unwrap();
        assert!(DenseFiles::find(home.path()).unwrap().is_none());
        write_dense(
            home.path(),
            2,
            &[1.0, 2.0, 3.0, 4.0, 0.0, -1.0],
            &[0.5, 0.0, 0.0],
            "torch.nn.modules.linear.Identity",
        );
        assert_eq!(open(home.path()).unwrap().apply(&[1.0, 2.0]), [5.5, 11.0, -2.0]);
        write_dense(home.path(), 1, &[1.0], &[0.0], "torch.nn.modules.activation.Tanh");
        assert_eq!(open(home.path()).unwrap().apply(&[1.0]), [1f32.tanh()]);
    }

    #[test]
    fn unsupported_layers_are_refused_with_cause() {
        let home = tempfile::tempdir().unwrap();
        write_dense(home.path(), 1, &[1.0], &[0.0], "torch.nn.modules.activation.GELU");
        assert!(open(home.path()).unwrap_err().message.contains("GELU"));
        std::fs::remove_file(home.path().join("2_Dense/model.safetensors")).unwrap();
        assert!(DenseFiles::find(home.path()).unwrap_err().message.contains("model.safetensors"));
        std::fs::create_dir(home.path().join("3_Dense")).unwrap();
        assert!(DenseFiles::find(home.path()).unwrap_err().message.contains("several"));
    }
}
