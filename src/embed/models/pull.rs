//! Downloads the files of a model, verifies them, and prepares the model for use.

use std::path::Path;

use crate::embed::blocking::blocking;
use crate::embed::download::{Fetcher, Progress};
use crate::embed::model_catalog::{ModelEntry, ModelFile, ModelKind};
use crate::embed::model_file::{check_file, install};
use crate::embed::models::{ModelStore, no_file_for_platform};
use crate::embed::onnx;
use crate::error::{Error, ErrorCode, IoContext, Result};

impl ModelStore {
    /// Downloads the missing or damaged files of a model into the first models directory, verifies them, and prepares the
    /// model.
    ///
    /// # Errors
    /// [`ErrorCode::Unavailable`] if no source can be reached; [`ErrorCode::DataLoss`] if a downloaded file has the wrong
    /// checksum (it is then not kept); a full disk.
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

    /// Writes the ONNX graph of a model, and checks that its int8 vectors are close to its fp32 vectors.
    async fn build_graph(&self, entry: ModelEntry, progress: &(impl Fn(Progress) + Send + Sync)) -> Result<()> {
        let say = |step: String| progress(Progress { file: step, done: 0, total: None });
        say("writing the model graph".into());
        let (store, prepared) = (self.clone(), entry.clone());
        blocking(move || onnx::write_graph(&store, &prepared)).await?;
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
