//! The entries of the model catalog: the files of each model with their checksums, and how its vectors are computed.
//!
//! The built-in catalog is `models/catalog.toml`; a `catalog.toml` in a models directory adds or replaces entries. This
//! module reads no files: see [`crate::embed::models`].

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Text of the catalog that is built into vic.
const BUILT_IN: &str = include_str!("../../models/catalog.toml");

/// What a catalog entry provides: a model for a purpose, or a native library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A model that computes vectors of texts.
    Embedding,
    /// The ONNX Runtime library.
    Runtime,
    /// The ONNX Runtime library with CUDA support.
    Cuda,
    /// PDFium, the library that reads PDF files.
    Pdfium,
    /// Models that detect and recognize text in images.
    Ocr,
    /// A model that judges how well a passage answers a question.
    Reranker,
}

/// How token vectors are combined into the vector of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean of all token vectors.
    #[default]
    Mean,
    /// The vector of the first token.
    Cls,
}

/// One file of a catalog entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// File name in the model's directory.
    pub name: String,
    /// SHA-256 of the file in hexadecimal. If it is absent, it is unconfirmed: that of the first download is recorded in
    /// the models directory and required from then on.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Size of the file in bytes.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Operating system and processor for which the file is, e.g. `linux-x86_64`; `None` for all.
    #[serde(default)]
    pub platform: Option<String>,
    /// Sources from which the file can be downloaded; they are tried in order.
    #[serde(default)]
    pub sources: Vec<String>,
}

/// A file of a package from which vic makes all files of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Format of the file.
    pub format: PackageFormat,
    /// The file, with its checksum and sources. It is not kept.
    pub file: ModelFile,
}

/// Format of a file from which vic makes the files of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageFormat {
    /// XLM-R tokenizer and BERT encoder with 4-bit weights.
    E5s1,
}

/// A published result of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Name of the benchmark and its measure.
    pub benchmark: String,
    /// The result, in the unit of the benchmark.
    pub score: f64,
    /// Who published the result, and where.
    pub source: String,
}

/// How vectors are computed from the output of a model. The file `vic.toml` beside a user's own model has the same keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VectorRecipe {
    /// How token vectors are combined.
    pub pooling: Pooling,
    /// Whether the model expects L2 normalization. Only reported: vectors are always normalized, because the store compares
    /// them by cosine.
    pub normalize: bool,
    /// Maximum length of a text in tokens, special tokens included; if absent, the limit of the model's network.
    pub max_tokens: Option<usize>,
    /// Text that is prepended to every query.
    pub query_prefix: String,
    /// Text that is prepended to every passage.
    pub document_prefix: String,
    /// If set, only this many leading numbers of a vector are kept (Matryoshka), and then normalized again.
    pub truncate_dim: Option<usize>,
}

impl Default for VectorRecipe {
    fn default() -> VectorRecipe {
        VectorRecipe {
            pooling: Pooling::default(),
            normalize: true,
            max_tokens: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
            truncate_dim: None,
        }
    }
}

/// An entry of the model catalog: a model or a library.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ModelEntry {
    /// Name of the model or library.
    pub name: String,
    /// Purpose of the entry.
    pub kind: ModelKind,
    /// SPDX identifier of the license.
    #[serde(default)]
    pub licence: String,
    /// Length of the model's vectors before truncation.
    #[serde(default)]
    pub dimension: Option<usize>,
    /// Languages that the model was trained for, as ISO 639-1 codes.
    #[serde(default)]
    pub languages: Vec<String>,
    /// Tokens per second of a CPU, relative to the default model; `None` if it was not measured.
    #[serde(default)]
    pub speed: Option<f64>,
    /// Published results of the model.
    #[serde(default)]
    pub quality: Vec<Quality>,
    /// A file from which vic makes all files of the entry. If it cannot be fetched, they come from their own sources.
    #[serde(default)]
    pub package: Option<Package>,
    /// Name of the built-in reference vectors with which a download is compared.
    #[serde(default)]
    pub reference: Option<String>,
    /// How vectors are computed from the model's output.
    #[serde(flatten)]
    pub recipe: VectorRecipe,
    /// Files of the entry, for all platforms.
    pub files: Vec<ModelFile>,
}

impl ModelEntry {
    /// Returns the files that the entry needs on this operating system and processor.
    pub fn platform_files(&self) -> impl Iterator<Item = &ModelFile> {
        let here = platform();
        self.files.iter().filter(move |file| file.platform.as_ref().is_none_or(|it| *it == here))
    }

    /// Returns the name of the folder for the files of this entry in a models directory. Native libraries share one folder.
    pub fn folder(&self) -> &str {
        match self.kind {
            ModelKind::Embedding | ModelKind::Ocr | ModelKind::Cuda | ModelKind::Reranker => &self.name,
            ModelKind::Runtime | ModelKind::Pdfium => "lib",
        }
    }

    /// Rejects names of models and files that would lead out of the models directory, such as `../x`. The name of a file
    /// may have folders, such as `2_Dense/config.json`.
    fn validate_names(&self) -> Result<()> {
        let parts = self.files.iter().flat_map(|file| file.name.split('/'));
        for name in std::iter::once(self.name.as_str()).chain(parts) {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
                return Err(Error::invalid(format!(
                    "`{name}` is not a valid name: it must have no `/`, `\\` or leading `.`"
                )));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalog {
    #[serde(default)]
    model: Vec<ModelEntry>,
}

/// Returns the entries of the built-in catalog.
pub(crate) fn built_in() -> Result<Vec<ModelEntry>> {
    parse(BUILT_IN, "the built-in catalog")
}

/// Parses the text of a catalog; `origin` names the catalog in errors.
pub(crate) fn parse(text: &str, origin: &str) -> Result<Vec<ModelEntry>> {
    let catalog: Catalog =
        toml::from_str(text).map_err(|error| Error::invalid(format!("cannot parse {origin}: {error}")))?;
    catalog.model.iter().try_for_each(ModelEntry::validate_names)?;
    Ok(catalog.model)
}

/// Adds the entries `own` to `base`. An entry replaces the one in `base` that has the same name.
pub(crate) fn merge(base: &mut Vec<ModelEntry>, own: Vec<ModelEntry>) {
    for entry in own {
        match base.iter_mut().find(|it| it.name == entry.name) {
            Some(slot) => *slot = entry,
            None => base.push(entry),
        }
    }
}

fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_files_have_pinned_sources_and_known_or_recorded_checksums() {
        let entries = built_in().unwrap();
        assert!(entries.iter().any(|it| it.name == "all-MiniLM-L6-v2" && it.recipe.max_tokens == Some(512)));
        let packages = entries.iter().filter_map(|it| it.package.as_ref()).map(|it| &it.file);
        for file in entries.iter().flat_map(|it| &it.files).chain(packages) {
            assert!(!file.sources.is_empty(), "{}", file.name);
            match &file.sha256 {
                Some(sum) => assert!(sum.len() == 64 && file.bytes.is_some(), "{}", file.name),
                // An address whose content may change would make the recorded checksum useless.
                None => assert!(file.sources.iter().all(|it| is_pinned(it)), "{:?}", file.sources),
            }
        }
    }

    /// Returns whether an address of the model hub names a revision.
    fn is_pinned(source: &str) -> bool {
        let revision = source.split_once("/resolve/").and_then(|it| it.1.split('/').next());
        revision.is_some_and(|it| it.len() == 40 && it.bytes().all(|it| it.is_ascii_hexdigit()))
    }

    #[test]
    fn built_in_models_state_what_a_user_chooses_by() {
        for entry in built_in().unwrap() {
            if entry.kind == ModelKind::Embedding {
                assert!(entry.dimension.is_some() && !entry.licence.is_empty(), "{}", entry.name);
                assert!(!entry.languages.is_empty() && !entry.quality.is_empty(), "{}", entry.name);
            }
            assert!(entry.quality.iter().all(|it| !it.source.is_empty()), "{}", entry.name);
        }
    }

    #[test]
    fn user_entry_replaces_built_in_without_checksum() {
        let mut entries = built_in().unwrap();
        let count = entries.len();
        let own = parse(
            "[[model]]\nname = \"all-MiniLM-L6-v2\"\nkind = \"embedding\"\npooling = \"cls\"\ntruncate_dim = 64\n\
             query_prefix = \"query: \"\nfiles = [{ name = \"model.onnx\" }]",
            "test",
        )
        .unwrap();
        merge(&mut entries, own);
        let entry = entries.iter().find(|it| it.name == "all-MiniLM-L6-v2").unwrap();
        assert_eq!(entries.len(), count);
        assert_eq!((entry.recipe.pooling, entry.recipe.truncate_dim), (Pooling::Cls, Some(64)));
    }

    #[test]
    fn unsafe_model_names_are_rejected() {
        for name in ["../x", "a/b", ".hidden", ""] {
            let text = format!("[[model]]\nname = \"{name}\"\nkind = \"embedding\"\nfiles = []");
            assert!(parse(&text, "test").is_err(), "{name}");
        }
        for (file, valid) in [("2_Dense/config.json", true), ("a/../../x", false), ("a//b", false), ("/x", false)] {
            let text = format!("[[model]]\nname = \"m\"\nkind = \"embedding\"\nfiles = [{{ name = \"{file}\" }}]");
            assert_eq!(parse(&text, "test").is_ok(), valid, "{file}");
        }
    }
}
