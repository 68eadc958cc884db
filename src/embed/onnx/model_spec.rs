//! Finds the files of an embedding model, given its name in the catalog or the path of a user's own model.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::embed::model_catalog::{ModelEntry, ModelKind, Pooling, VectorRecipe};
use crate::embed::model_file::persist_readable;
use crate::embed::models::ModelStore;
use crate::embed::onnx::dense_layer::DenseFiles;
use crate::embed::onnx::graph::{self, Precision};
use crate::embed::onnx::weights::{BertConfig, Weights};
use crate::error::{Error, IoContext, Result};

/// Optional file in the folder of a user's own model, which describes how its vectors are computed.
const RECIPE_FILE: &str = "vic.toml";

/// File in which sentence-transformers models state the pooling mode.
const POOLING_FILE: &str = "1_Pooling/config.json";

/// File names of an `.onnx` network in the folder of a model, in order of preference.
const NETWORKS: [&str; 4] = ["model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx"];

/// Text that is reported as the precision of a model that comes as an `.onnx` file, because vic does not change it.
const READY_MADE: &str = "as it is";

/// Maximum number of tokens of an `.onnx` network if its `config.json` does not state it.
const DEFAULT_POSITIONS: usize = 512;

/// The files of a model and the settings for computing its vectors.
pub(crate) struct ModelSpec {
    pub(crate) name: String,
    pub(crate) recipe: VectorRecipe,
    pub(crate) tokenizer: PathBuf,
    pub(crate) network: Network,
    /// The layer after pooling, if the model has one.
    pub(crate) dense: Option<DenseFiles>,
    /// Length of the vectors that the catalog states; `None` if it states none.
    pub(crate) dimension: Option<usize>,
}

/// The network of a model: weights, or an `.onnx` file that comes with the model.
pub(crate) enum Network {
    /// Weights, from which vic writes the ONNX graph.
    Weights {
        config: PathBuf,
        weights: PathBuf,
        /// Folders that are searched for the graph file. If none has it, it is written to the first writable folder.
        graphs: Vec<PathBuf>,
        /// SHA-256 of the weights from the catalog, verified when they were downloaded; `None` for a user's own model.
        checksum: Option<String>,
    },
    /// An `.onnx` file that comes with the model and is run unchanged.
    Onnx(PathBuf),
}

impl ModelSpec {
    /// Finds an embedding model by its name in the catalog, or by the path of its folder or of its `.onnx` file.
    pub(crate) fn resolve(store: &ModelStore, model: &str) -> Result<ModelSpec> {
        ModelSpec::resolve_kind(store, model, ModelKind::Embedding)
    }

    /// Finds a model of a kind by its name in the catalog, or any model by the path of its folder or of its `.onnx` file.
    pub(crate) fn resolve_kind(store: &ModelStore, model: &str, kind: ModelKind) -> Result<ModelSpec> {
        if model.contains(std::path::is_separator) || model.ends_with(".onnx") {
            return ModelSpec::from_path(store, Path::new(model), kind);
        }
        ModelSpec::from_entry_of_kind(store, &store.entry(model)?, kind)
    }

    pub(crate) fn from_entry(store: &ModelStore, entry: &ModelEntry) -> Result<ModelSpec> {
        ModelSpec::from_entry_of_kind(store, entry, ModelKind::Embedding)
    }

    fn from_entry_of_kind(store: &ModelStore, entry: &ModelEntry, kind: ModelKind) -> Result<ModelSpec> {
        if entry.kind != kind {
            let wanted = if kind == ModelKind::Reranker { "a reranker" } else { "an embedding model" };
            return Err(
                Error::invalid(format!("`{}` is not {wanted}", entry.name)).hint("`vic models list` shows the models")
            );
        }
        for file in entry.platform_files() {
            store.locate_file(&entry.name, &file.name)?;
        }
        let home = store.locate_file(&entry.name, "tokenizer.json")?.with_file_name("");
        let own_network = entry.platform_files().find(|it| it.name.ends_with(".onnx"));
        let network = match own_network {
            Some(file) => Network::Onnx(store.locate_file(&entry.name, &file.name)?),
            None => {
                let weights = store.locate_file(&entry.name, "model.safetensors")?;
                Network::Weights {
                    config: store.locate_file(&entry.name, "config.json")?,
                    graphs: graph_folders(&weights, store.write_dir().join(entry.folder())),
                    weights,
                    checksum: store.checksum(entry, "model.safetensors")?,
                }
            }
        };
        Ok(ModelSpec {
            name: entry.name.clone(),
            recipe: entry.recipe.clone(),
            tokenizer: home.join("tokenizer.json"),
            network,
            dense: DenseFiles::find(&home)?,
            dimension: entry.recipe.truncate_dim.or(entry.dimension),
        })
    }

    fn from_path(store: &ModelStore, path: &Path, kind: ModelKind) -> Result<ModelSpec> {
        let missing = |what: &str| {
            Error::not_found(format!("there is no {what} at `{}`", path.display())).hint(
                "VIC_EMBED_MODEL takes a name of `vic models list`, a folder with model.onnx (or config.json and \
                 model.safetensors) and tokenizer.json, or the path of the .onnx file",
            )
        };
        let (folder, onnx) = if path.is_file() {
            (path.parent().unwrap_or(Path::new(".")), Some(path.to_path_buf()))
        } else if path.is_dir() && kind == ModelKind::Reranker {
            // Rerankers run from their weights, even if an exported network is beside them.
            (path, None)
        } else if path.is_dir() {
            (path, NETWORKS.iter().map(|it| path.join(it)).find(|it| it.is_file()))
        } else {
            return Err(missing("model"));
        };
        // Searches the parent folder too: exported networks are often in `onnx/`, and the other files of the model in its
        // parent.
        let home = [folder, folder.parent().unwrap_or(folder)]
            .into_iter()
            .find(|it| it.join("tokenizer.json").is_file())
            .ok_or_else(|| missing("tokenizer.json"))?;
        let network = match onnx {
            Some(file) => Network::Onnx(file),
            None => {
                let (config, weights) = (home.join("config.json"), home.join("model.safetensors"));
                if !config.is_file() || !weights.is_file() {
                    return Err(missing("model.onnx, and no config.json with model.safetensors,"));
                }
                // Writes the graph to the models directory, and never into the user's own folders.
                let place = blake3::hash(home.as_os_str().as_encoded_bytes()).to_hex();
                let graphs = vec![store.write_dir().join(format!("own-{}", &place[..16]))];
                Network::Weights { config, weights, graphs, checksum: None }
            }
        };
        let name = home.file_name().map_or_else(|| home.display().to_string(), |it| it.to_string_lossy().into_owned());
        let (recipe, dense) = (read_recipe(home)?, DenseFiles::find(home)?);
        Ok(ModelSpec { name, recipe, tokenizer: home.join("tokenizer.json"), network, dense, dimension: None })
    }

    /// Returns the maximum number of tokens that the network accepts.
    pub(crate) fn positions(&self) -> Result<usize> {
        match &self.network {
            Network::Weights { config, .. } => Ok(BertConfig::open(config)?.max_position_embeddings),
            Network::Onnx(_) => {
                let home = self.tokenizer.parent().unwrap_or(Path::new("."));
                let Ok(text) = std::fs::read_to_string(home.join("config.json")) else { return Ok(DEFAULT_POSITIONS) };
                let config: PositionConfig = serde_json::from_str(&text).unwrap_or_default();
                // Subtracts 2 for RoBERTa models, which count positions from 2.
                let offset = if config.pad_token_id == Some(1) { 2 } else { 0 };
                Ok(config.max_position_embeddings.map_or(DEFAULT_POSITIONS, |it| it.saturating_sub(offset)))
            }
        }
    }

    /// Returns the fingerprint of this model's vectors; `computation` identifies the engine and precision.
    pub(crate) fn fingerprint(&self, computation: &str) -> Result<String> {
        let network = match &self.network {
            Network::Weights { weights, checksum: Some(sum), .. } => {
                let config = weights.with_file_name("config.json");
                format!("{sum}/{}", file_hash(&config).unwrap_or_default())
            }
            Network::Weights { weights, .. } => file_hash(weights)?,
            Network::Onnx(model) => file_hash(model)?,
        };
        let recipe = serde_json::to_string(&self.recipe).map_err(Error::internal)?;
        let mut parts = vec![network, computation.to_string(), file_hash(&self.tokenizer)?, recipe];
        if let Some(dense) = &self.dense {
            parts.extend([file_hash(&dense.config)?, file_hash(&dense.weights)?]);
        }
        Ok(blake3::hash(parts.join("\0").as_bytes()).to_hex()[..32].to_string())
    }
}

impl Network {
    /// Returns the precision in which the network computes: the requested one, or `as it is` for an `.onnx` file.
    pub(crate) fn precision(&self, asked: Precision) -> &'static str {
        match self {
            Network::Weights { .. } => asked.name(),
            Network::Onnx(_) => READY_MADE,
        }
    }

    /// Returns the graph's part of the fingerprint, which changes with everything that affects vectors from ONNX
    /// Runtime.
    pub(crate) fn computation(&self, precision: Precision) -> String {
        match self {
            Network::Weights { .. } => graph_version(precision),
            Network::Onnx(_) => READY_MADE.into(),
        }
    }

    /// Returns the `.onnx` file of the network; writes it if it is missing or has another version.
    pub(crate) fn onnx_file(&self, precision: Precision) -> Result<PathBuf> {
        let (config, weights) = match self {
            Network::Onnx(path) => return Ok(path.clone()),
            Network::Weights { config, weights, .. } => (config, weights),
        };
        let identity = self.identity(precision)?;
        let name = format!("model.{}.onnx", precision.name());
        if let Some(place) = self.candidate_paths(&name).find(|it| has_current_graph(it, &identity)) {
            return Ok(place);
        }
        let bytes = graph::encode_graph(&Weights::open(weights)?, &BertConfig::open(config)?, precision, &identity)?;
        self.write_beside_graph(&name, &bytes)
    }

    /// Returns a text that identifies the version of the graph and the weights from which it was written.
    pub(crate) fn identity(&self, precision: Precision) -> Result<String> {
        let source = match self {
            Network::Weights { checksum: Some(sum), .. } => sum.clone(),
            Network::Weights { weights, .. } => file_hash(weights)?,
            Network::Onnx(model) => file_hash(model)?,
        };
        Ok(format!("{}/{source}", graph_version(precision)))
    }

    /// Returns the possible paths of a file that is kept beside the graph, in order of preference.
    pub(crate) fn candidate_paths(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let folders: &[PathBuf] = if let Network::Weights { graphs, .. } = self { graphs } else { &[] };
        folders.iter().map(move |it| it.join(name))
    }

    /// Writes a file into the first writable folder for graphs, and returns its path.
    pub(crate) fn write_beside_graph(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let mut last = Error::internal(format!("no folder is known in which `{name}` can be written for the model"));
        for place in self.candidate_paths(name) {
            match write_file(&place, bytes) {
                Ok(()) => return Ok(place),
                // Tries the next folder, which belongs to the user, because a shared folder may be read-only.
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn graph_version(precision: Precision) -> String {
    format!("graph {} {}", graph::GRAPH_VERSION, precision.fingerprint())
}

fn graph_folders(weights: &Path, own: PathBuf) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = weights.parent().map(Path::to_path_buf).into_iter().collect();
    folders.push(own);
    folders.dedup();
    folders
}

fn has_current_graph(path: &Path, identity: &str) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1024).read_to_end(&mut head));
    read.is_ok() && graph::has_identity(&head, identity)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).io_context("create", folder)?;
    let temporary = tempfile::NamedTempFile::new_in(folder).io_context("create a file in", folder)?;
    std::fs::write(temporary.path(), bytes).io_context("write", temporary.path())?;
    persist_readable(temporary, path)
}

/// Returns the hash of a file, which is read in pieces, so that a large model is never in memory as a whole.
fn file_hash(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).io_context("open", path)?).io_context("read", path)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[derive(Default, Deserialize)]
struct PositionConfig {
    max_position_embeddings: Option<usize>,
    pad_token_id: Option<i64>,
}

#[derive(Deserialize)]
struct PoolingConfig {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

fn read_recipe(home: &Path) -> Result<VectorRecipe> {
    let sidecar = home.join(RECIPE_FILE);
    if sidecar.is_file() {
        let text = std::fs::read_to_string(&sidecar).io_context("read", &sidecar)?;
        return toml::from_str(&text)
            .map_err(|error| Error::invalid(format!("cannot parse `{}`: {error}", sidecar.display())));
    }
    let path = home.join(POOLING_FILE);
    if !path.is_file() {
        return Ok(VectorRecipe::default());
    }
    let text = std::fs::read_to_string(&path).io_context("read", &path)?;
    let config: PoolingConfig = serde_json::from_str(&text)
        .map_err(|error| Error::invalid(format!("cannot parse `{}`: {error}", path.display())))?;
    match (config.pooling_mode_mean_tokens, config.pooling_mode_cls_token) {
        (true, false) => Ok(VectorRecipe::default()),
        (false, true) => Ok(VectorRecipe { pooling: Pooling::Cls, ..VectorRecipe::default() }),
        _ => Err(Error::invalid(format!("`{}` requires a pooling that is neither mean nor CLS", path.display()))),
    }
}
