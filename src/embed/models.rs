//! Manages the model files on disk: lists, finds, verifies and downloads them.
//!
//! Files are at `<models directory>/<model>/<file>`, native libraries in `<models directory>/lib/`. There may be several
//! models directories: all are searched, but files are written only to the first. A file gets its final name only after its
//! checksum was verified. Only [`ModelStore::pull`] downloads files.

mod pull;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use crate::embed::download::Progress;

use crate::embed::checksums::{Checksums, Recorded};
use crate::embed::download::PACKAGE_INDEX;
use crate::embed::model_catalog::{self, ModelEntry, ModelKind, Quality};
use crate::embed::model_file::check_file;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// File name of a user's own catalog in a models directory.
const OWN_CATALOG: &str = "catalog.toml";

/// What is known about the checksums of a model's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumState {
    /// The catalog has the checksum of every file, or of the file from which vic makes them.
    Confirmed,
    /// The catalog lacks a checksum; that of the first download was recorded and is required from then on.
    Recorded,
    /// The catalog lacks a checksum, and none has been recorded yet.
    Unconfirmed,
}

/// A model as `vic models list` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelInfo {
    /// Name of the model or library.
    pub name: String,
    /// Purpose of the model or library.
    pub kind: ModelKind,
    /// SPDX identifier of the license.
    pub licence: String,
    /// Length of the model's vectors; `None` for libraries.
    pub dimension: Option<usize>,
    /// Whether all files are on this machine.
    pub present: bool,
    /// Folder of the files, or the folder into which they would be downloaded.
    pub path: PathBuf,
    /// Total size of the files in bytes; 0 if it is unknown.
    pub bytes: u64,
    /// What is known about the checksums of the files.
    pub checksums: ChecksumState,
    /// Languages that the model was trained for, as ISO 639-1 codes.
    pub languages: Vec<String>,
    /// Tokens per second of a CPU, relative to the default model; `None` if it was not measured.
    pub speed: Option<f64>,
    /// Published results of the model.
    pub quality: Vec<Quality>,
}

/// The models directories, with the catalog of what they may contain.
#[derive(Clone, Debug)]
pub struct ModelStore {
    dirs: Vec<PathBuf>,
    index_url: String,
}

impl ModelStore {
    /// Creates a store over the models directories `dirs`. All are searched in order, but files are written only to the
    /// first.
    pub fn new(dirs: Vec<PathBuf>) -> ModelStore {
        ModelStore { dirs, index_url: PACKAGE_INDEX.to_string() }
    }

    /// Replaces the public Python package index by the one at `url`.
    #[cfg(test)]
    pub(crate) fn with_package_index(mut self, url: impl Into<String>) -> ModelStore {
        self.index_url = url.into();
        self
    }

    /// Returns all entries of the built-in catalog and of the user's own catalogs.
    ///
    /// # Errors
    /// A `catalog.toml` in a models directory cannot be read or parsed.
    pub fn entries(&self) -> Result<Vec<ModelEntry>> {
        let mut entries = model_catalog::built_in()?;
        for dir in self.dirs.iter().rev() {
            let path = dir.join(OWN_CATALOG);
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    model_catalog::merge(&mut entries, model_catalog::parse(&text, &format!("`{}`", path.display()))?);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(error).io_context("read", &path),
            }
        }
        Ok(entries)
    }

    /// Returns the catalog entry of this name.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] with the known names; the errors of [`ModelStore::entries`].
    pub fn entry(&self, name: &str) -> Result<ModelEntry> {
        let entries = self.entries()?;
        if let Some(entry) = entries.iter().find(|it| it.name == name) {
            return Ok(entry.clone());
        }
        let known: Vec<&str> = entries.iter().map(|it| it.name.as_str()).collect();
        Err(Error::not_found(format!("unknown model `{name}`")).hint(format!(
            "known models: {}; add your own to `{OWN_CATALOG}` in the models directory",
            known.join(", ")
        )))
    }

    /// Lists all catalog entries, and whether their files are on this machine.
    ///
    /// # Errors
    /// The same errors as [`ModelStore::entries`].
    pub fn list(&self) -> Result<Vec<ModelInfo>> {
        self.entries()?.iter().map(|entry| self.model_info(entry)).collect()
    }

    fn model_info(&self, entry: &ModelEntry) -> Result<ModelInfo> {
        let found: Vec<Option<PathBuf>> =
            entry.platform_files().map(|file| self.find_file(entry, &file.name)).collect();
        let folder = || self.dirs.iter().map(|it| it.join(entry.folder())).find(|it| it.is_dir());
        let place = if found.iter().any(Option::is_some) { folder() } else { None };
        let bytes = entry.platform_files().zip(&found).map(|(file, path)| {
            let on_disk = path.as_ref().and_then(|it| it.metadata().ok()).map(|it| it.len());
            on_disk.or(file.bytes).unwrap_or(0)
        });
        let packed = entry.package.as_ref().and_then(|it| it.file.bytes).filter(|_| found.iter().all(Option::is_none));
        Ok(ModelInfo {
            name: entry.name.clone(),
            kind: entry.kind,
            licence: entry.licence.clone(),
            dimension: entry.recipe.truncate_dim.or(entry.dimension),
            present: !found.is_empty() && found.iter().all(Option::is_some),
            path: place.unwrap_or_else(|| self.folder_to_write(entry)),
            bytes: packed.unwrap_or_else(|| bytes.sum()),
            checksums: self.checksum_state(entry)?,
            languages: entry.languages.clone(),
            speed: entry.speed,
            quality: entry.quality.clone(),
        })
    }

    fn checksum_state(&self, entry: &ModelEntry) -> Result<ChecksumState> {
        let packed = entry.package.as_ref().is_some_and(|it| it.file.sha256.is_some());
        let mut state = ChecksumState::Confirmed;
        for file in entry.platform_files().filter(|it| it.sha256.is_none()) {
            match self.recorded(entry, &file.name)? {
                Some(recorded) if recorded.converted => {}
                Some(_) => state = ChecksumState::Recorded,
                None if packed && self.find_file(entry, &file.name).is_none() => {}
                None => return Ok(ChecksumState::Unconfirmed),
            }
        }
        Ok(state)
    }

    /// Returns what was recorded about a file when it was installed.
    fn recorded(&self, entry: &ModelEntry, file: &str) -> Result<Option<Recorded>> {
        let Some(path) = self.find_file(entry, file) else { return Ok(None) };
        let depth = Path::new(file).components().count();
        let folder = path.ancestors().nth(depth).unwrap_or(Path::new("."));
        Ok(Checksums::open(folder)?.get(file).cloned())
    }

    /// Returns the SHA-256 that a file must have: that of the catalog, else the recorded one.
    ///
    /// # Errors
    /// The record of checksums cannot be read.
    pub(crate) fn checksum(&self, entry: &ModelEntry, file: &str) -> Result<Option<String>> {
        let listed = entry.platform_files().find(|it| it.name == file).and_then(|it| it.sha256.clone());
        match listed {
            Some(sum) => Ok(Some(sum)),
            None => Ok(self.recorded(entry, file)?.map(|it| it.sha256)),
        }
    }

    /// Returns the path of a file of a model.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] with the command that fetches it.
    pub fn locate_file(&self, name: &str, file: &str) -> Result<PathBuf> {
        let entry = self.entry(name)?;
        self.find_file(&entry, file).ok_or_else(|| {
            Error::not_found(format!("the file `{file}` of model `{name}` is not in `{}`", self.write_dir().display()))
                .hint(format!("run `vic models pull {name}`"))
        })
    }

    /// Returns the path of a native library (`onnxruntime` or `pdfium`); the file name depends on the platform.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] with the command that fetches it; [`ErrorCode::FailedPrecondition`] if the catalog has
    /// none for this platform.
    pub fn library(&self, name: &str) -> Result<PathBuf> {
        let entry = self.entry(name)?;
        let Some(file) = entry.platform_files().next() else { return Err(no_file_for_platform(name)) };
        self.locate_file(name, &file.name)
    }

    /// Verifies the checksums of all files of a model.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] for a missing file, [`ErrorCode::DataLoss`] for a wrong checksum.
    pub fn verify(&self, name: &str) -> Result<()> {
        let entry = self.entry(name)?;
        for file in entry.platform_files() {
            let expected = self.checksum(&entry, &file.name)?;
            check_file(&self.locate_file(name, &file.name)?, expected.as_deref())?;
        }
        Ok(())
    }

    /// Returns the path of a file of a catalog entry, in the first models directory that has it.
    pub(crate) fn find_file(&self, entry: &ModelEntry, file: &str) -> Option<PathBuf> {
        self.dirs.iter().map(|dir| dir.join(entry.folder()).join(file)).find(|path| path.is_file())
    }

    /// Returns the models directory for downloads, which is the first one.
    pub(crate) fn write_dir(&self) -> &Path {
        self.dirs.first().map_or(Path::new("."), PathBuf::as_path)
    }

    fn folder_to_write(&self, entry: &ModelEntry) -> PathBuf {
        self.write_dir().join(entry.folder())
    }
}

fn no_file_for_platform(name: &str) -> Error {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Error::new(ErrorCode::FailedPrecondition, format!("the model catalog has no file of `{name}` for {os}-{arch}"))
        .hint(format!("add one to `{OWN_CATALOG}` in the models directory"))
}

#[cfg(test)]
mod tests;
