//! A command that implements the plugin protocol: how it is found, checked and run.
//!
//! The command is started without a shell, by its absolute path, with a fixed list of environment variables and no
//! inherited file descriptors, and in mode `local_only` without network access. Its run time and output size are limited;
//! at a limit, it is killed with all processes that it started. Its standard error is shown only if it fails.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::llm::plugin::integrity::{HashedFile, is_program};
use crate::llm::plugin::process::PluginProcess;
use crate::llm::plugin::protocol::{PluginRequest, PluginResponse, PluginTask};
use crate::llm::plugin::{integrity, seccomp, shape};
use crate::model::PrivacyMode;
use crate::model::llm::event::TaskId;
use crate::{config, egress};

/// Maximum wait for the end of a plugin's output after the plugin has exited, because its child processes may keep the
/// pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

/// Maximum length in bytes of a script's first line (`#!`) that the system reads.
const MAX_SHEBANG_BYTES: u64 = 256;

/// Limits of one run of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Maximum run time; the plugin is killed after this.
    pub time: Duration,
    /// Maximum bytes of the request.
    pub request_bytes: usize,
    /// Maximum bytes of the plugin's answer.
    pub answer_bytes: usize,
    /// Maximum bytes of standard error that are shown if the plugin fails.
    pub stderr_bytes: usize,
}

impl PluginLimits {
    /// Returns the limits of a task. They are higher for proposals, which are larger than questions and take longer.
    pub fn for_task(task: &PluginTask) -> PluginLimits {
        let (seconds, request_bytes, answer_bytes) = match task {
            PluginTask::AugmentProposals { .. } => (600, 64 << 20, 32 << 20),
            // Allows minutes, because a local model on a CPU may need them.
            PluginTask::ToQuery { .. } | PluginTask::Answer { .. } | PluginTask::ToolLoopStep { .. } => {
                (120, 4 << 20, 1 << 20)
            }
        };
        PluginLimits { time: Duration::from_secs(seconds), request_bytes, answer_bytes, stderr_bytes: 2_000 }
    }
}

/// A plugin command as the user chose it, with the hashes of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginCommand {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments of the program, which are passed unchanged.
    #[serde(default)]
    pub args: Vec<String>,
    /// Working directory of the program.
    pub folder: PathBuf,
    /// BLAKE3 hash of the program when it was chosen, in hexadecimal; a changed program is not run.
    pub seal: String,
    /// The script that the program runs, and the files named by absolute path in the arguments, with their hashes.
    #[serde(default)]
    pub files: Vec<HashedFile>,
}

impl PluginCommand {
    /// Finds a program as a shell would, and hashes it and its files. `folder` becomes the working directory.
    ///
    /// # Errors
    /// `NotFound`: there is no such program; `PermissionDenied`: other users may change the program or one of its files, or
    /// a file is a symbolic link, which may change its target.
    pub fn find(program: &str, args: Vec<String>, folder: &Path) -> Result<PluginCommand> {
        if program.is_empty() || program.contains('\0') || args.iter().any(|it| it.contains('\0')) {
            return Err(Error::invalid("the command has no program, or contains a NUL character")
                .hint("give a program, for example: vic llm use command python3 plugin.py"));
        }
        let folder = std::path::absolute(folder).io_context("resolve", folder)?;
        let program = if program.contains('/') { folder.join(program) } else { find_in_path(program)? };
        let seal = integrity::hash_program(&program)?;
        let files = HashedFile::hash_all(&program, &args, &folder)?;
        Ok(PluginCommand { program, args, folder, seal, files })
    }

    /// Returns the command line for display.
    pub fn command_line(&self) -> String {
        let program = self.program.display().to_string();
        std::iter::once(program.as_str()).chain(self.args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// Checks that the command can be run as it was chosen: its folder, the hashes of program and files, and, if the mode
    /// requires it, network isolation. Does not run it, so other failures appear only in a run.
    ///
    /// # Errors
    /// The same errors as [`PluginCommand::ask`], with a hint; also `NotFound` or `PermissionDenied` if the script or its
    /// interpreter is missing, or if the script is unreadable.
    pub async fn check(&self, mode: PrivacyMode) -> Result<()> {
        let command = self.clone();
        tokio::task::spawn_blocking(move || {
            command.check_folder()?;
            command.check_program()?;
            check_interpreter(&command.program)?;
            command.check_files()?;
            if mode == PrivacyMode::LocalOnly { seccomp::check_supported() } else { Ok(()) }
        })
        .await
        .map_err(Error::internal)?
    }

    fn check_folder(&self) -> Result<()> {
        let folder = &self.folder;
        let cure = "choose the command again in an existing folder: vic llm use command ...";
        match std::fs::metadata(folder) {
            Ok(it) if !it.is_dir() => {
                let text = format!("the plugin runs in `{}`, which is not a folder", folder.display());
                Err(Error::new(ErrorCode::FailedPrecondition, text).hint(cure))
            }
            Ok(_) => access(folder, Access::EXEC_OK).map_err(|_| {
                let text = format!("the plugin runs in `{}`, which cannot be entered", folder.display());
                Error::new(ErrorCode::PermissionDenied, text).hint(format!("chmod u+x {}", folder.display()))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let text = format!("the folder `{}`, in which the plugin runs, does not exist", folder.display());
                Err(Error::not_found(text).hint(cure))
            }
            Err(error) => Err(error).io_context("look at", folder),
        }
    }

    /// Checks that the program has not changed since it was chosen.
    fn check_program(&self) -> Result<()> {
        integrity::require_same_hash(&self.program, "program", &self.seal, integrity::hash_program(&self.program))
    }

    /// Checks that the script exists and was hashed, and that no hashed file has changed.
    fn check_files(&self) -> Result<()> {
        if let Some(script) = integrity::interpreter_script(&self.program, &self.args, &self.folder) {
            let script = self.folder.join(script);
            check_script(&script)?;
            if !self.files.iter().any(|it| it.has_path(&script)) {
                let text = format!("the script `{}` did not exist when the plugin was chosen", script.display());
                let cure = "choose the command again: vic llm use command ...";
                return Err(Error::new(ErrorCode::PermissionDenied, text).hint(cure));
            }
        }
        self.files.iter().try_for_each(HashedFile::check)
    }

    /// Runs the plugin with a request and returns its response. Logs the call first, in every privacy mode, because a
    /// command can forward its input.
    ///
    /// # Errors
    /// `NotFound` and `PermissionDenied` as [`PluginCommand::find`], also if the program or a file has changed;
    /// `DeadlineExceeded` on timeout; `ResourceExhausted` if the output is too large; `FailedPrecondition` if the plugin
    /// fails, prints anything but one valid answer to the task, or cannot be isolated from the network in mode `local_only`.
    pub async fn ask(
        &self,
        request: &PluginRequest,
        mode: PrivacyMode,
        limits: PluginLimits,
    ) -> Result<PluginResponse> {
        let text = serde_json::to_vec(request).map_err(Error::internal)?;
        if text.len() > limits.request_bytes {
            let (bytes, most) = (text.len(), limits.request_bytes);
            return Err(Error::invalid(format!("a request to a plugin has {bytes} bytes, but the limit is {most}")));
        }
        egress::announce_command(self.program.display().to_string(), text.len(), mode).await?;
        let expected = request.task.expected().sentence();
        let said = self.run(text, limits, mode).await.map_err(|error| match error.code {
            ErrorCode::ResourceExhausted => Error { message: format!("{}; {expected}", error.message), ..error },
            _ => with_network_hint(error, mode),
        })?;
        let value = shape::parse_output(&said).map_err(|what| self.failed(&format!("{what}, but {expected}"), &[]))?;
        PluginResponse::parse(value, &request.task, &format!("the plugin `{}`", self.command_line()))
    }

    /// Runs the command once: writes `request` to its standard input and returns its standard output.
    async fn run(&self, request: Vec<u8>, limits: PluginLimits, mode: PrivacyMode) -> Result<Vec<u8>> {
        let chosen = self.clone();
        let look =
            move || chosen.check_folder().and_then(|()| chosen.check_program()).and_then(|()| chosen.check_files());
        tokio::task::spawn_blocking(look).await.map_err(Error::internal)??;
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder).env_clear().envs(config::plugin_environment());
        if mode == PrivacyMode::LocalOnly {
            seccomp::confine(&mut command)?;
        }
        let running = PluginProcess::start(command, TaskId::random()?.0)
            .map_err(|it| seccomp::filter_error(&it).unwrap_or_else(|| Error::io("start", &self.program, &it)))?;
        let (running, outcome) = self.exchange(running, request, limits).await;
        // Kills leftover processes before the answer is used; on the blocking pool, because the drop waits until they
        // have ended.
        tokio::task::spawn_blocking(move || drop(running)).await.map_err(Error::internal)?;
        outcome
    }

    async fn exchange(
        &self,
        mut running: PluginProcess,
        request: Vec<u8>,
        limits: PluginLimits,
    ) -> (PluginProcess, Result<Vec<u8>>) {
        let child = &mut running.child;
        let stdin = child.stdin.take();
        let write = async {
            if let Some(mut stdin) = stdin {
                // Ignores a write error, because a plugin that does not read its input may still answer.
                let _unread = stdin.write_all(&request).await;
            }
        };
        let both = async {
            let talk = read_output(child, &limits);
            tokio::pin!(talk);
            tokio::select! {
                biased;
                heard = &mut talk => heard,
                () = write => talk.await,
            }
        };
        let heard = tokio::time::timeout(limits.time, both).await.ok();
        (running, self.evaluate_run(heard, &limits))
    }

    /// Returns the standard output of a plugin that succeeded in time; otherwise the error. `heard` is `None` after a
    /// timeout.
    fn evaluate_run(&self, heard: Option<RunOutput>, limits: &PluginLimits) -> Result<Vec<u8>> {
        let Some(RunOutput { ended, stdout: said, stderr: words }) = heard else {
            return Err(Error::new(
                ErrorCode::DeadlineExceeded,
                format!("the plugin `{}` took longer than {:?} and was killed", self.command_line(), limits.time),
            ));
        };
        match ended {
            RunEnd::OutputLimit => Err(Error::new(
                ErrorCode::ResourceExhausted,
                format!(
                    "the plugin `{}` printed more than {} bytes and was killed",
                    self.command_line(),
                    limits.answer_bytes
                ),
            )),
            RunEnd::Status(Ok(status)) if status.success() => Ok(said),
            RunEnd::Status(Ok(status)) => Err(self.failed(&status_text(status), &words)),
            RunEnd::Status(Err(error)) => Err(self.failed(&error.to_string(), &words)),
        }
    }

    fn failed(&self, what: &str, words: &[u8]) -> Error {
        let words = String::from_utf8_lossy(words);
        let text = match words.trim() {
            "" => format!("the plugin `{}` {what}", self.command_line()),
            words => format!("the plugin `{}` {what}: {words}", self.command_line()),
        };
        Error::new(ErrorCode::FailedPrecondition, text)
    }
}

/// How a run ended, and its output.
struct RunOutput {
    ended: RunEnd,
    /// Standard output of the plugin.
    stdout: Vec<u8>,
    /// The beginning of standard error, up to the limit.
    stderr: Vec<u8>,
}

/// Reads the output until the plugin ends or exceeds the output limit.
async fn read_output(child: &mut Child, limits: &PluginLimits) -> RunOutput {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut said, mut words) = (Vec::new(), Vec::new());
    let ended = {
        let reading = async {
            // Reads one byte more than the limit allows, to detect that the limit is exceeded.
            let answer = read_limited(stdout, &mut said, limits.answer_bytes + 1, false);
            let last_words = read_limited(stderr, &mut words, limits.stderr_bytes, true);
            tokio::pin!(answer, last_words);
            tokio::select! {
                full = &mut answer => {
                    if !full {
                        last_words.await;
                    }
                    full
                }
                _ = &mut last_words => answer.await,
            }
        };
        tokio::pin!(reading);
        tokio::select! {
            full = &mut reading => if full { RunEnd::OutputLimit } else { RunEnd::Status(child.wait().await) },
            status = child.wait() => match tokio::time::timeout(OUTPUT_GRACE, &mut reading).await {
                Ok(true) => RunEnd::OutputLimit,
                _ => RunEnd::Status(status),
            },
        }
    };
    RunOutput { ended, stdout: said, stderr: words }
}

/// Adds a hint to an error in mode `local_only`: the plugin may have failed because it has no network access.
fn with_network_hint(error: Error, mode: PrivacyMode) -> Error {
    if mode != PrivacyMode::LocalOnly || error.code != ErrorCode::FailedPrecondition || error.hint.is_some() {
        return error;
    }
    error.hint(
        "in mode local_only a plugin has no network access, not even to this machine; reach a local model server with \
         `vic llm use ollama` or `openai`",
    )
}

/// How a run ended.
enum RunEnd {
    OutputLimit,
    Status(std::io::Result<ExitStatus>),
}

fn status_text(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with {code}"),
        None => format!("was killed ({status})"),
    }
}

/// Reads at most `most` bytes into `into`. At the limit it stops and returns true; with `on` it reads to the end
/// instead and discards the rest, so that the writer does not block.
async fn read_limited(source: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, most: usize, on: bool) -> bool {
    let Some(mut source) = source else { return false };
    let mut piece = [0_u8; 8_192];
    loop {
        match source.read(&mut piece).await {
            Ok(0) | Err(_) => return false,
            Ok(got) => {
                let room = most - into.len();
                into.extend_from_slice(&piece[..got.min(room)]);
                if into.len() == most && !on {
                    return true;
                }
            }
        }
    }
}

/// Returns the path of the first program with this name in the folders of `PATH`.
fn find_in_path(name: &str) -> Result<PathBuf> {
    let environment = config::plugin_environment();
    let path = environment.iter().find(|(name, _)| *name == "PATH").map(|(_, it)| it.clone()).unwrap_or_default();
    // Ignores relative folders, with which the program would depend on the current directory.
    let folders = std::env::split_paths(&path).filter(|it| it.is_absolute());
    let mut files = folders.map(|it| it.join(name)).filter(|it| it.metadata().is_ok_and(|it| is_program(&it)));
    files.next().ok_or_else(|| Error::not_found(format!("there is no program `{name}` in PATH")))
}

/// Checks that the interpreter in the first line of a script exists, because the system would report the script itself as
/// missing.
fn check_interpreter(program: &Path) -> Result<()> {
    let mut begin = Vec::new();
    let read = std::fs::File::open(program).and_then(|it| it.take(MAX_SHEBANG_BYTES).read_to_end(&mut begin));
    read.io_context("read", program)?;
    let line = begin.split(|it| *it == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(()) };
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else { return Ok(()) };
    let named = match words.next() {
        // `env` searches its argument in `PATH`, as `find_in_path` does.
        Some(name) if interpreter.ends_with("/env") && !name.starts_with('-') => find_in_path(name).err().map(|_| name),
        _ => (!Path::new(interpreter).exists()).then_some(interpreter),
    };
    match named {
        None => Ok(()),
        Some(missing) => {
            let text = format!("`{}` is a script for `{missing}`, which does not exist", program.display());
            Err(Error::not_found(text)
                .hint(format!("install {missing}, or name another interpreter in its first line")))
        }
    }
}

fn check_script(script: &Path) -> Result<()> {
    let cure = "give the path of an existing script, relative to the current folder: vic llm use command ...";
    match std::fs::metadata(script) {
        Ok(_) => access(script, Access::READ_OK).map_err(|_| {
            let text = format!("the script `{}` of the plugin is not readable", script.display());
            Error::new(ErrorCode::PermissionDenied, text).hint(format!("chmod u+r {}", script.display()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::not_found(format!("there is no script `{}` for the plugin to run", script.display())).hint(cure))
        }
        Err(error) => Err(error).io_context("look at", script),
    }
}

#[cfg(test)]
mod tests;
