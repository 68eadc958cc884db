//! The model files on disk: lists, locates, verifies and downloads them.
//!
//! Layout: `<models directory>/<model>/<file>`, native libraries in `<models directory>/lib/`. Only the first directory
//! is written; all are searched. A file gets its final name only after its checksum matched. Only [`ModelStore::pull`]
//! downloads.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::embed::download::Fetcher;
use crate::embed::model_catalog::{ModelEntry, ModelFile, ModelKind};
use crate::embed::{model_catalog, onnx};
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Name of a user's own catalog in a models directory.
const OWN_CATALOG: &str = "catalog.toml";

/// Progress of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The file being downloaded, or the current step.
    pub file: String,
    /// Bytes so far.
    pub done: u64,
    /// Total bytes, if known.
    pub total: Option<u64>,
}

/// A model as `vic models list` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub kind: ModelKind,
    /// SPDX identifier of its licence.
    pub licence: String,
    /// Length of its vectors; absent for libraries.
    pub dimension: Option<usize>,
    /// Whether all its files are present.
    pub present: bool,
    /// Folder of its files, or the folder for a future download.
    pub path: PathBuf,
    /// Total size of its files in bytes.
    pub bytes: u64,
}

/// The models directories and their catalog.
#[derive(Clone, Debug)]
pub struct ModelStore {
    dirs: Vec<PathBuf>,
    index_url: String,
}

impl ModelStore {
    /// Creates a store over `dirs`. Only the first is written; all are searched in order.
    pub fn new(dirs: Vec<PathBuf>) -> ModelStore {
        ModelStore { dirs, index_url: crate::embed::download::PACKAGE_INDEX.to_string() }
    }

    /// Replaces the public package index.
    #[cfg(test)]
    pub(crate) fn with_package_index(mut self, url: impl Into<String>) -> ModelStore {
        self.index_url = url.into();
        self
    }

    /// Returns all entries of the catalog, including the user's own.
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

    /// Returns one entry of the catalog.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] with the known names, or as [`ModelStore::entries`].
    pub fn entry(&self, name: &str) -> Result<ModelEntry> {
        let entries = self.entries()?;
        if let Some(entry) = entries.iter().find(|it| it.name == name) {
            return Ok(entry.clone());
        }
        let known: Vec<&str> = entries.iter().map(|it| it.name.as_str()).collect();
        Err(Error::not_found(format!("unknown model `{name}`"))
            .hint(format!("known are {}; add your own to `{OWN_CATALOG}` in the models directory", known.join(", "))))
    }

    /// Lists all entries and whether each is present.
    ///
    /// # Errors
    /// As [`ModelStore::entries`].
    pub fn list(&self) -> Result<Vec<ModelInfo>> {
        Ok(self.entries()?.iter().map(|entry| self.model_info(entry)).collect())
    }

    fn model_info(&self, entry: &ModelEntry) -> ModelInfo {
        let found: Vec<Option<PathBuf>> =
            entry.platform_files().map(|file| self.find_file(entry, &file.name)).collect();
        let place = found.iter().flatten().next().and_then(|it| it.parent()).map(Path::to_path_buf);
        let bytes = entry.platform_files().zip(&found).map(|(file, path)| {
            let on_disk = path.as_ref().and_then(|it| it.metadata().ok()).map(|it| it.len());
            on_disk.or(file.bytes).unwrap_or(0)
        });
        ModelInfo {
            name: entry.name.clone(),
            kind: entry.kind,
            licence: entry.licence.clone(),
            dimension: entry.recipe.truncate_dim.or(entry.dimension),
            present: !found.is_empty() && found.iter().all(Option::is_some),
            path: place.unwrap_or_else(|| self.folder_to_write(entry)),
            bytes: bytes.sum(),
        }
    }

    /// Returns the path of a model's file.
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

    /// Checks the files of a model against their checksums.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] for a missing file, [`ErrorCode::DataLoss`] for a wrong checksum.
    pub fn verify(&self, name: &str) -> Result<()> {
        let entry = self.entry(name)?;
        for file in entry.platform_files() {
            check_file(&self.locate_file(name, &file.name)?, file)?;
        }
        Ok(())
    }

    /// Downloads the missing or damaged files of a model into the first directory, verifies them, and prepares the model.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`] if no source can be reached; [`ErrorCode::DataLoss`] if a downloaded file has the
    /// wrong checksum (it is then not installed); a full disk.
    pub async fn pull(&self, name: &str, progress: impl Fn(Progress) + Send + Sync) -> Result<()> {
        let entry = self.entry(name)?;
        let files: Vec<ModelFile> = entry.platform_files().cloned().collect();
        if files.is_empty() {
            return Err(no_file_for_platform(name));
        }
        let folder = self.folder_to_write(&entry);
        std::fs::create_dir_all(&folder).io_context("create", &folder)?;
        let mut fetcher = Fetcher::new(self.write_dir().to_path_buf(), self.index_url.clone())?;
        for file in &files {
            let ready = match self.find_file(&entry, &file.name) {
                Some(path) => {
                    let file = file.clone();
                    blocking(move || Ok(check_file(&path, &file).is_ok())).await?
                }
                None => false,
            };
            if !ready {
                self.pull_file(name, file, &folder, &mut fetcher, &progress).await?;
            }
        }
        if entry.kind == ModelKind::Embedding {
            self.build_graph(entry, &progress).await?;
        }
        Ok(())
    }

    /// Writes the graph of a model and compares its int8 vectors with fp32 vectors.
    async fn build_graph(&self, entry: ModelEntry, progress: &(impl Fn(Progress) + Send + Sync)) -> Result<()> {
        let say = |step: String| progress(Progress { file: step, done: 0, total: None });
        say("preparing the graph".into());
        let (store, prepared) = (self.clone(), entry.clone());
        blocking(move || onnx::write_graph(&store, &prepared)).await?;
        if let Err(error) = self.library("onnxruntime") {
            say(format!("int8 not compared with fp32: {error}"));
            return Ok(());
        }
        let store = self.clone();
        if let Some(cosine) = blocking(move || onnx::compare_int8_with_fp32(&store, &entry)).await? {
            say(format!("int8 matches fp32: mean cosine {cosine:.4}"));
        }
        Ok(())
    }

    async fn pull_file(
        &self,
        name: &str,
        file: &ModelFile,
        folder: &Path,
        fetcher: &mut Fetcher,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<()> {
        let mut last = Error::not_found(format!("the catalog has no source for `{}` of model `{name}`", file.name))
            .hint(format!("put the file into `{}` yourself", folder.display()));
        for source in &file.sources {
            let target = folder.join(&file.name);
            let outcome = match fetcher.fetch(source, &file.name, progress).await {
                Ok(temporary) => {
                    let file = file.clone();
                    blocking(move || install(temporary, &file, &target)).await
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => return Ok(()),
                // A wrong checksum is more serious; an unreachable later source must not hide it.
                Err(error) if last.code == ErrorCode::DataLoss => tracing::warn!(%error, source, "source failed"),
                Err(error) => last = error,
            }
        }
        if last.hint.is_none() {
            last = last.hint(format!("try `vic models pull {name}` again when the network is available"));
        }
        Err(last)
    }

    /// Returns the path of an entry's file in the first directory that has it.
    pub(crate) fn find_file(&self, entry: &ModelEntry, file: &str) -> Option<PathBuf> {
        self.dirs.iter().map(|dir| dir.join(entry.folder()).join(file)).find(|path| path.is_file())
    }

    /// Returns the directory for downloads.
    pub(crate) fn write_dir(&self) -> &Path {
        self.dirs.first().map_or(Path::new("."), PathBuf::as_path)
    }

    fn folder_to_write(&self, entry: &ModelEntry) -> PathBuf {
        self.write_dir().join(entry.folder())
    }
}

fn no_file_for_platform(name: &str) -> Error {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Error::new(ErrorCode::FailedPrecondition, format!("the catalog has no file of `{name}` for {os}-{arch}"))
        .hint(format!("add one to `{OWN_CATALOG}` in the models directory"))
}

/// Verifies the checksum of a downloaded file and moves it into place.
fn install(temporary: NamedTempFile, file: &ModelFile, target: &Path) -> Result<()> {
    let got = sha256(temporary.path())?;
    compare_checksum(&file.name, file, &got)?;
    make_readable(temporary.as_file()).io_context("set permissions of", temporary.path())?;
    temporary.as_file().sync_all().io_context("write", temporary.path())?;
    temporary.persist(target).map_err(|error| error.error).io_context("create", target)?;
    Ok(())
}

/// Makes a file world-readable: temporary files are private, but models are shared.
pub(crate) fn make_readable(file: &File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn check_file(path: &Path, file: &ModelFile) -> Result<()> {
    if file.sha256.is_none() {
        return Ok(());
    }
    compare_checksum(&path.display().to_string(), file, &sha256(path)?)
}

fn compare_checksum(shown: &str, file: &ModelFile, got: &str) -> Result<()> {
    match &file.sha256 {
        Some(expected) if !expected.eq_ignore_ascii_case(got) => Err(Error::new(
            ErrorCode::DataLoss,
            format!("`{shown}` has the wrong checksum: expected sha256 {expected}, got {got}"),
        )
        .hint("fetch it again with `vic models pull`; if that does not help, the source was changed or tampered with")),
        _ => Ok(()),
    }
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).io_context("open", path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer).io_context("read", path)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs blocking work on the blocking pool.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
}

#[cfg(test)]
mod tests;
