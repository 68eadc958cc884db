//! What the model catalog says of a model: its files with their checksums, and how its vectors are made.
//!
//! The built-in catalog is `models/catalog.toml`; a `catalog.toml` in a models directory adds entries or replaces them.
//! Nothing here reads a file: see [`crate::embed::models`].

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The catalog that is compiled in.
const BUILT_IN: &str = include_str!("../../models/catalog.toml");

/// What an entry of the catalog is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Makes vectors.
    Embedding,
    /// The ONNX Runtime library.
    Runtime,
    /// The same with what it needs to use a graphics card.
    Cuda,
    /// The library that reads PDF.
    Pdfium,
    /// Finds and reads text in pictures.
    Ocr,
}

/// How the vectors of the tokens become the vector of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// The first one.
    Cls,
}

/// One file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Name in the directory of the model.
    pub name: String,
    /// SHA-256 in hex; absent only in a user's own catalog.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Length.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Only for this operating system and processor, e.g. `linux-x86_64`.
    #[serde(default)]
    pub platform: Option<String>,
    /// Where to get it, tried in order.
    #[serde(default)]
    pub sources: Vec<String>,
}

/// How vectors are made of the model's output. The same keys stand in a `vic.toml` beside a model of one's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VectorRecipe {
    /// How tokens become one vector.
    pub pooling: Pooling,
    /// Whether the model wants L2 normalisation. Vectors are normalised in any case: the store compares by cosine, so
    /// `false` changes nothing but what is reported.
    pub normalize: bool,
    /// Longest text in tokens, special tokens included; absent takes the model's own limit.
    pub max_tokens: Option<usize>,
    /// Stands before every question.
    pub query_prefix: String,
    /// Stands before every passage.
    pub document_prefix: String,
    /// Keeps only that many leading numbers of a vector (Matryoshka), and normalises again.
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

/// An entry of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ModelEntry {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub kind: ModelKind,
    /// SPDX identifier of its licence.
    #[serde(default)]
    pub licence: String,
    /// Length of the model's own vectors, before any truncation.
    #[serde(default)]
    pub dimension: Option<usize>,
    /// How vectors are made.
    #[serde(flatten)]
    pub recipe: VectorRecipe,
    /// Its files, of every platform.
    pub files: Vec<ModelFile>,
}

impl ModelEntry {
    /// Returns the files for this operating system and processor.
    pub fn platform_files(&self) -> impl Iterator<Item = &ModelFile> {
        let here = platform();
        self.files.iter().filter(move |file| file.platform.as_ref().is_none_or(|it| *it == here))
    }

    /// Returns the name of the folder of its files below a models directory: native libraries share one.
    pub fn folder(&self) -> &str {
        match self.kind {
            ModelKind::Embedding | ModelKind::Ocr | ModelKind::Cuda => &self.name,
            ModelKind::Runtime | ModelKind::Pdfium => "lib",
        }
    }

    /// Refuses names that would lead out of the models directory.
    fn check(&self) -> Result<()> {
        let names = std::iter::once(&self.name).chain(self.files.iter().map(|file| &file.name));
        for name in names {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
                return Err(Error::invalid(format!("`{name}` is no name for a model or its file")));
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

/// Returns the entries that are compiled in.
pub(crate) fn built_in() -> Result<Vec<ModelEntry>> {
    parse(BUILT_IN, "the built-in catalog")
}

/// Reads a catalog; `origin` names it in errors.
pub(crate) fn parse(text: &str, origin: &str) -> Result<Vec<ModelEntry>> {
    let catalog: Catalog =
        toml::from_str(text).map_err(|error| Error::invalid(format!("cannot understand {origin}: {error}")))?;
    catalog.model.iter().try_for_each(ModelEntry::check)?;
    Ok(catalog.model)
}

/// Lays `own` over `base`: an entry of the same name replaces the earlier one.
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
    fn every_built_in_file_is_pinned_and_has_a_source() {
        let entries = built_in().unwrap();
        assert!(entries.iter().any(|it| it.name == "all-MiniLM-L6-v2" && it.recipe.max_tokens == Some(512)));
        for file in entries.iter().flat_map(|it| &it.files) {
            assert_eq!(file.sha256.as_ref().map(String::len), Some(64), "{}", file.name);
            assert!(file.bytes.is_some() && !file.sources.is_empty(), "{}", file.name);
        }
    }

    #[test]
    fn an_own_entry_replaces_the_built_in_one_and_may_lack_checksums() {
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
    fn a_name_cannot_lead_out_of_the_models_directory() {
        for name in ["../x", "a/b", ".hidden", ""] {
            let text = format!("[[model]]\nname = \"{name}\"\nkind = \"embedding\"\nfiles = []");
            assert!(parse(&text, "test").is_err(), "{name}");
        }
    }
}
