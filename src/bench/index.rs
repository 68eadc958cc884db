//! `vic bench index`: measures a first index run and a rescan, by a daemon of its own with a temporary data directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;

use crate::bench::figures::{
    CHUNKS, FILES, FILES_PER_SECOND, PEAK_RSS_MIB, SECONDS_COLD, SECONDS_READY, SECONDS_RESCAN, TOKENS,
    TOKENS_PER_SECOND, UNREAD,
};
use crate::bench::input_texts::TextLengths;
use crate::bench::report::Row;
use crate::client::{self, Client};
use crate::config::{Config, EmbedBackend, tuned_path};
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::model::{IndexRequest, JobSnapshot, JobState};

/// Time limit for the start of the daemon.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks whether the daemon is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of files that are generated if the user names no folder.
const GENERATED_FILES: usize = 256;

/// The folder and options of the indexing benchmark.
#[derive(Clone, Debug)]
pub struct IndexPlan {
    /// The folder to index; `None` generates files with texts.
    pub path: Option<PathBuf>,
    /// Options of the index job; the paths in it are ignored.
    pub request: IndexRequest,
}

/// Indexes the folder into an empty data directory, then rescans it. Returns the row of figures, and warnings.
///
/// # Errors
/// The folder does not exist, the daemon does not start, or the job fails.
pub async fn measure(config: &Config, plan: &IndexPlan) -> Result<(Row, Vec<String>)> {
    let made = tempfile::Builder::new().prefix("vic-bench-").tempdir().map_err(Error::internal)?;
    let folder = match &plan.path {
        Some(path) => path.canonicalize().io_context("read", path).map_err(|it| it.hint("name an existing folder"))?,
        None => generate_files(made.path())?,
    };
    if !folder.is_dir() {
        return Err(Error::invalid(format!("`{}` is not a folder", folder.display())).hint("name a folder"));
    }
    let begun = Instant::now();
    let daemon = PrivateDaemon::start(config).await?;
    let ready = begun.elapsed().as_secs_f64();
    let paths = vec![folder.to_str().ok_or_else(|| Error::invalid("the folder's path is not UTF-8"))?.to_string()];
    let request = IndexRequest { paths, ..plan.request.clone() };
    let (cold, job) = daemon.index(request.clone()).await?;
    if job.files_found == 0 {
        return Err(Error::new(ErrorCode::FailedPrecondition, format!("there are no files in `{}`", folder.display()))
            .hint("name a folder that contains files"));
    }
    let (again, _) = daemon.index(IndexRequest { full: false, ..request }).await?;
    let status = daemon.client.status().await?;
    let mut row = Row::new("index");
    row.set(SECONDS_READY, ready);
    row.set(SECONDS_COLD, cold);
    row.set(SECONDS_RESCAN, again);
    row.set(FILES, job.files_found as f64);
    row.rate(FILES_PER_SECOND, job.files_found as f64, cold);
    row.set(CHUNKS, status.chunks as f64);
    let mut warnings = status.degraded;
    if job.files_done >= status.coverage.indexed {
        row.set(TOKENS, job.tokens_embedded as f64);
        row.rate(TOKENS_PER_SECOND, job.tokens_embedded as f64, cold);
    } else {
        warnings.push("some files were read outside the job, so the number of tokens is unknown".into());
    }
    row.set(UNREAD, job.files_failed as f64);
    row.set(PEAK_RSS_MIB, status.peak_rss_mib);
    row.setting("path", plan.path.as_ref().map(|_| folder.to_string_lossy().into_owned()));
    row.setting("embed_model", status.embed_model);
    if config.embed.backend == EmbedBackend::Onnx {
        row.setting("precision", config.embed.precision.clone());
    }
    row.setting("metadata_only", plan.request.metadata_only);
    row.setting("ocr", plan.request.ocr.name());
    row.setting("store_bytes", status.store_bytes);
    Ok((row, warnings))
}

/// A daemon only for this measurement, which is killed when this value is dropped.
struct PrivateDaemon {
    client: Client,
    /// Declared before `_data`, so that it is dropped first and the process ends before its data directory is deleted.
    _child: KillOnDrop,
    _data: tempfile::TempDir,
}

impl PrivateDaemon {
    async fn start(config: &Config) -> Result<PrivateDaemon> {
        let data = tempfile::Builder::new().prefix("vic-bench-").tempdir().map_err(Error::internal)?;
        for file in [config.data_dir.join("config.toml"), tuned_path(&config.data_dir)] {
            if let Some(name) = file.file_name().filter(|_| file.is_file()) {
                std::fs::copy(&file, data.path().join(name)).io_context("copy", &file)?;
            }
        }
        let mut config = config.clone();
        config.data_dir = data.path().to_path_buf();
        config.db_path = data.path().join("index");
        config.job_db_path = data.path().join("vic_jobs.sqlite");
        config.listen = ([127, 0, 0, 1], 0).into();
        let log = config.log_path();
        let output = std::fs::File::create(&log).io_context("create", &log)?;
        let mut command = client::vicd_command(&config);
        let program = PathBuf::from(command.get_program());
        // Turns off watching and verification, because they would disturb the measurement.
        command.env("VIC_WATCH", "0").env("VIC_VERIFY_SECONDS", "0").current_dir(data.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child = command
            .spawn()
            .map_err(|error| Error::io("start", &program, &error).hint("install `vicd` beside `vic`"))?;
        let mut child = KillOnDrop(child);
        let client = child.connect(&config, &log).await?;
        Ok(PrivateDaemon { client, _child: child, _data: data })
    }

    /// Runs an index job to its end. Returns its duration in seconds and its last snapshot.
    async fn index(&self, request: IndexRequest) -> Result<(f64, JobSnapshot)> {
        let begun = Instant::now();
        let mut snapshots = std::pin::pin!(self.client.index(request).await?);
        let mut last = None;
        while let Some(snapshot) = snapshots.next().await {
            last = Some(snapshot?);
        }
        let seconds = begun.elapsed().as_secs_f64();
        match last {
            Some(job) if job.state == JobState::Completed => Ok((seconds, job)),
            Some(job) => Err(Error::internal(format!(
                "the job ended as {}: {}",
                job.state.name(),
                job.error.unwrap_or_default()
            ))),
            None => Err(Error::internal("the job reported no state")),
        }
    }
}

/// A child process that is killed on drop.
struct KillOnDrop(Child);

impl KillOnDrop {
    async fn connect(&mut self, config: &Config, log: &Path) -> Result<Client> {
        let begun = Instant::now();
        loop {
            if let Ok(client) = Client::connect(config).await
                && client.status().await.is_ok()
            {
                return Ok(client);
            }
            let ended = self.0.try_wait().ok().flatten();
            if ended.is_some() || begun.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                let last = said.lines().rev().find(|it| !it.trim().is_empty()).unwrap_or("no output").to_string();
                return Err(Error::new(
                    ErrorCode::Unavailable,
                    format!("the daemon for the measurement does not start: {last}"),
                )
                .hint("check whether `vic daemon start` works"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Ignores errors, because `kill` fails if the process has already ended.
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Writes generated texts of a few hundred tokens each as files. Returns their folder.
fn generate_files(folder: &Path) -> Result<PathBuf> {
    let folder = folder.canonicalize().io_context("read", folder)?.join("files");
    std::fs::create_dir(&folder).io_context("create", &folder)?;
    for (number, text) in TextLengths::Mixed.generate().into_iter().take(GENERATED_FILES).enumerate() {
        let path = folder.join(format!("note {number}.md"));
        std::fs::write(&path, text).io_context("write", &path)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::input_files::tests::config;

    #[tokio::test]
    async fn invalid_path_fails_with_hint_before_daemon_starts() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        for name in ["gone", "file"] {
            let plan = IndexPlan { path: Some(dir.path().join(name)), request: IndexRequest::default() };
            let error = measure(&config(dir.path()), &plan).await.unwrap_err();
            assert!(error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn generated_files_exist_and_are_deterministic() {
        let read = || {
            let dir = tempfile::tempdir().unwrap();
            let folder = generate_files(dir.path()).unwrap();
            assert_eq!(folder.read_dir().unwrap().count(), GENERATED_FILES);
            std::fs::read_to_string(folder.join("note 7.md")).unwrap()
        };
        assert_eq!(read(), read());
    }
}
