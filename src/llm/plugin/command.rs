//! A command that speaks the plugin protocol, and one run of it.
//!
//! It is started without a shell, by its absolute path, with an environment out of a fixed list and no file of ours, and in
//! mode `local_only` without a network. It has a time and room for its answer; when either is over, it and everything that
//! it started is killed. What it writes to standard error is shown only when it fails.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::config;
use crate::embed::egress;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::llm::plugin::offline;
use crate::llm::plugin::process::Running;
use crate::llm::plugin::protocol::{PluginRequest, PluginResponse, PluginTask};
use crate::llm::plugin::seal::{self, SealedFile, is_program};
use crate::model::PrivacyMode;
use crate::model::llm::event::TaskId;

/// How long what a plugin left behind may hold its output open after its end.
const GRACE: Duration = Duration::from_millis(200);

/// The longest first line of a script that the system reads.
const FIRST_LINE: u64 = 256;

/// What a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// From its start to its end.
    pub time: Duration,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// Bytes of its answer.
    pub answer_bytes: usize,
    /// Bytes of its last words that are shown when it fails.
    pub words_bytes: usize,
}

impl PluginLimits {
    /// What a task needs: a file of proposals is larger than a question, and takes longer.
    pub fn of(task: &PluginTask) -> PluginLimits {
        let (seconds, request_bytes, answer_bytes) = match task {
            PluginTask::AugmentProposals { .. } => (600, 64 << 20, 32 << 20),
            // A local model on a processor may think for minutes.
            PluginTask::ToQuery { .. } | PluginTask::Answer { .. } | PluginTask::ToolLoopStep { .. } => {
                (120, 4 << 20, 1 << 20)
            }
        };
        PluginLimits { time: Duration::from_secs(seconds), request_bytes, answer_bytes, words_bytes: 2_000 }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginCommand {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments, each as it is.
    #[serde(default)]
    pub args: Vec<String>,
    /// The folder that it runs in.
    pub folder: PathBuf,
    /// BLAKE3 of the program when it was chosen, in hex: another one under its name is not run.
    pub seal: String,
    /// Its script, and the files that its arguments name by their whole path, sealed likewise.
    #[serde(default)]
    pub files: Vec<SealedFile>,
}

impl PluginCommand {
    /// Finds a program as a shell would, and seals it. `folder` is where relative arguments count from.
    ///
    /// # Errors
    /// `NotFound`: there is no such program; `PermissionDenied`: others may change it or a file that it is given, or that is
    /// a link, so that nobody knows what would run.
    pub fn find(program: &str, args: Vec<String>, folder: &Path) -> Result<PluginCommand> {
        if program.is_empty() || program.contains('\0') || args.iter().any(|it| it.contains('\0')) {
            return Err(Error::invalid("a command is a program and its arguments")
                .hint("vic llm use command python3 plugin.py"));
        }
        let folder = std::path::absolute(folder).at("resolve", folder)?;
        let program = if program.contains('/') { folder.join(program) } else { in_path(program)? };
        let seal = seal::seal_program(&program)?;
        let files = SealedFile::all(&program, &args, &folder)?;
        Ok(PluginCommand { program, args, folder, seal, files })
    }

    /// The command in one line, for people.
    pub fn shown(&self) -> String {
        let program = self.program.display().to_string();
        std::iter::once(program.as_str()).chain(self.args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    /// Looks whether it can be run as it was chosen: its folder, the program and its files with their seals, and whether it
    /// can be kept off the network where the mode asks for that. Nothing is run, and nothing else of it is known before it
    /// is.
    ///
    /// # Errors
    /// As [`PluginCommand::ask`] would say it, with the cure; for a script `NotFound` and `PermissionDenied`.
    pub async fn check(&self, mode: PrivacyMode) -> Result<()> {
        let command = self.clone();
        tokio::task::spawn_blocking(move || {
            command.check_folder()?;
            command.check_program()?;
            check_interpreter(&command.program)?;
            command.check_files()?;
            if mode == PrivacyMode::LocalOnly { offline::check() } else { Ok(()) }
        })
        .await
        .map_err(Error::internal)?
    }

    fn check_folder(&self) -> Result<()> {
        let folder = &self.folder;
        let cure = "choose it again in a folder that is there: vic llm use command ...";
        match std::fs::metadata(folder) {
            Ok(it) if !it.is_dir() => {
                let text = format!("the plugin runs in `{}`, which is no folder", folder.display());
                Err(Error::new(ErrorCode::FailedPrecondition, text).hint(cure))
            }
            Ok(_) => access(folder, Access::EXEC_OK).map_err(|_| {
                let text = format!("the plugin runs in `{}`, which may not be entered", folder.display());
                Error::new(ErrorCode::PermissionDenied, text).hint(format!("chmod u+x {}", folder.display()))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let text = format!("the folder `{}`, in which the plugin runs, is not there", folder.display());
                Err(Error::not_found(text).hint(cure))
            }
            Err(error) => Err(error).at("look at", folder),
        }
    }

    /// Makes sure that the program is the one that was chosen.
    fn check_program(&self) -> Result<()> {
        seal::same(&self.program, "program", &self.seal, seal::seal_program(&self.program))
    }

    /// Makes sure that its script is there and was sealed, and that every sealed file is the one that was chosen.
    fn check_files(&self) -> Result<()> {
        if let Some(script) = seal::script(&self.program, &self.args, &self.folder) {
            let script = self.folder.join(script);
            check_script(&script)?;
            if !self.files.iter().any(|it| it.is_of(&script)) {
                let text = format!("the script `{}` was not there when the plugin was chosen", script.display());
                let cure = "choose it again: vic llm use command ...";
                return Err(Error::new(ErrorCode::PermissionDenied, text).hint(cure));
            }
        }
        self.files.iter().try_for_each(SealedFile::check)
    }

    /// Asks it. That it was asked is written down before: a command can pass on what it is told, whatever the mode.
    ///
    /// # Errors
    /// `NotFound` and `PermissionDenied` as [`PluginCommand::find`], also when the program or a file of it is another than
    /// it was; `DeadlineExceeded` when its time is over; `ResourceExhausted` when it says too much; `FailedPrecondition`
    /// when it fails, says nothing or something that is no answer to the task, or cannot be kept off the network in mode
    /// `local_only`.
    pub async fn ask(
        &self,
        request: &PluginRequest,
        mode: PrivacyMode,
        limits: PluginLimits,
    ) -> Result<PluginResponse> {
        let text = serde_json::to_vec(request).map_err(Error::internal)?;
        if text.len() > limits.request_bytes {
            let (bytes, most) = (text.len(), limits.request_bytes);
            return Err(Error::invalid(format!("the request has {bytes} bytes; a plugin is sent at most {most}")));
        }
        egress::announce_command(self.program.display().to_string(), text.len(), mode).await?;
        let said = self.run(text, limits, mode).await.map_err(|error| without_network(error, mode))?;
        let value: Value = serde_json::from_slice(&said).map_err(|error| {
            let shown: String = String::from_utf8_lossy(&said).trim().chars().take(120).collect();
            let what = match (said.is_empty(), error.is_eof()) {
                (true, _) => "said nothing".to_string(),
                (false, true) => format!("said half a JSON: `{shown}`"),
                (false, false) => format!("said something that is no JSON: `{shown}`"),
            };
            self.failed(&what, &[])
        })?;
        PluginResponse::parse(value, &request.task, &format!("the plugin `{}`", self.shown()))
    }

    /// Runs it once: `request` goes in, what it says comes out.
    async fn run(&self, request: Vec<u8>, limits: PluginLimits, mode: PrivacyMode) -> Result<Vec<u8>> {
        let chosen = self.clone();
        let look =
            move || chosen.check_folder().and_then(|()| chosen.check_program()).and_then(|()| chosen.check_files());
        tokio::task::spawn_blocking(look).await.map_err(Error::internal)??;
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder).env_clear().envs(config::plugin_environment());
        if mode == PrivacyMode::LocalOnly {
            offline::confine(&mut command)?;
        }
        let running = Running::start(command, TaskId::random()?.0)
            .map_err(|it| offline::refused(&it).unwrap_or_else(|| Error::io("start", &self.program, &it)))?;
        let (running, outcome) = self.converse(running, request, limits).await;
        // What it left behind goes before its answer is believed. Waits for processes, hence on another thread.
        tokio::task::spawn_blocking(move || drop(running)).await.map_err(Error::internal)?;
        outcome
    }

    async fn converse(
        &self,
        mut running: Running,
        request: Vec<u8>,
        limits: PluginLimits,
    ) -> (Running, Result<Vec<u8>>) {
        let child = &mut running.child;
        let stdin = child.stdin.take();
        let write = async {
            if let Some(mut stdin) = stdin {
                // One that reads nothing may still answer.
                let _unread = stdin.write_all(&request).await;
            }
        };
        let both = async {
            let talk = listen(child, &limits);
            tokio::pin!(talk);
            tokio::select! {
                biased;
                heard = &mut talk => heard,
                () = write => talk.await,
            }
        };
        let heard = tokio::time::timeout(limits.time, both).await.ok();
        (running, self.answer(heard, &limits))
    }

    /// What a plugin said, if it ended well and in time.
    fn answer(&self, heard: Option<Heard>, limits: &PluginLimits) -> Result<Vec<u8>> {
        let Some(Heard { ended, said, words }) = heard else {
            return Err(Error::new(
                ErrorCode::DeadlineExceeded,
                format!("the plugin `{}` took longer than {:?}, and was killed", self.shown(), limits.time),
            ));
        };
        match ended {
            Ended::Flooded => Err(Error::new(
                ErrorCode::ResourceExhausted,
                format!("the plugin `{}` said more than {} bytes, and was killed", self.shown(), limits.answer_bytes),
            )),
            Ended::Status(Ok(status)) if status.success() => Ok(said),
            Ended::Status(Ok(status)) => Err(self.failed(&told(status), &words)),
            Ended::Status(Err(error)) => Err(self.failed(&error.to_string(), &words)),
        }
    }

    fn failed(&self, what: &str, words: &[u8]) -> Error {
        let words = String::from_utf8_lossy(words);
        let text = match words.trim() {
            "" => format!("the plugin `{}` {what}", self.shown()),
            words => format!("the plugin `{}` {what}: {words}", self.shown()),
        };
        Error::new(ErrorCode::FailedPrecondition, text)
    }
}

/// Everything that came from a plugin.
struct Heard {
    ended: Ended,
    /// Its answer.
    said: Vec<u8>,
    /// Its last words on the error output.
    words: Vec<u8>,
}

/// Reads what a plugin says until it ends, or says too much.
async fn listen(child: &mut Child, limits: &PluginLimits) -> Heard {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut said, mut words) = (Vec::new(), Vec::new());
    let ended = {
        let reading = async {
            // One byte more tells that it is too much.
            let answer = read(stdout, &mut said, limits.answer_bytes + 1, false);
            let last_words = read(stderr, &mut words, limits.words_bytes, true);
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
            full = &mut reading => if full { Ended::Flooded } else { Ended::Status(child.wait().await) },
            status = child.wait() => match tokio::time::timeout(GRACE, &mut reading).await {
                Ok(true) => Ended::Flooded,
                _ => Ended::Status(status),
            },
        }
    };
    Heard { ended, said, words }
}

/// A plugin that fails may have wanted what it does not get.
fn without_network(error: Error, mode: PrivacyMode) -> Error {
    if mode != PrivacyMode::LocalOnly || error.code != ErrorCode::FailedPrecondition || error.hint.is_some() {
        return error;
    }
    error.hint(
        "in mode local_only a plugin has no network, also not to this machine; a model server here is asked by `vic llm \
         use ollama` or `openai`",
    )
}

/// How a conversation ended.
enum Ended {
    Flooded,
    Status(std::io::Result<ExitStatus>),
}

fn told(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with {code}"),
        None => format!("was ended by the system ({status})"),
    }
}

/// Reads at most so much; `on` reads further and throws away, so that the writer is not held up. Returns whether it was
/// full.
async fn read(source: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, most: usize, on: bool) -> bool {
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

/// The first program of that name in the folders of `PATH`.
fn in_path(name: &str) -> Result<PathBuf> {
    let environment = config::plugin_environment();
    let path = environment.iter().find(|(name, _)| *name == "PATH").map(|(_, it)| it.clone()).unwrap_or_default();
    // A relative folder in it would make the program depend on where we are.
    let folders = std::env::split_paths(&path).filter(|it| it.is_absolute());
    let mut files = folders.map(|it| it.join(name)).filter(|it| it.metadata().is_ok_and(|it| is_program(&it)));
    files.next().ok_or_else(|| Error::not_found(format!("there is no program `{name}` in PATH")))
}

/// Makes sure that what the first line of a script names is there; without it the system only says that the script is not.
fn check_interpreter(program: &Path) -> Result<()> {
    let mut begin = Vec::new();
    let read = std::fs::File::open(program).and_then(|it| it.take(FIRST_LINE).read_to_end(&mut begin));
    read.at("read", program)?;
    let line = begin.split(|it| *it == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(()) };
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next() else { return Ok(()) };
    let named = match words.next() {
        // What `env` looks for, it looks for as we do.
        Some(name) if interpreter.ends_with("/env") && !name.starts_with('-') => in_path(name).err().map(|_| name),
        _ => (!Path::new(interpreter).exists()).then_some(interpreter),
    };
    match named {
        None => Ok(()),
        Some(missing) => {
            let text = format!("`{}` is a script for `{missing}`, which is not there", program.display());
            Err(Error::not_found(text).hint(format!("install {missing}, or name another in its first line")))
        }
    }
}

fn check_script(script: &Path) -> Result<()> {
    let cure = "name it by its path, from the folder where you type: vic llm use command ...";
    match std::fs::metadata(script) {
        Ok(_) => access(script, Access::READ_OK).map_err(|_| {
            let text = format!("the script `{}` of the plugin may not be read", script.display());
            Error::new(ErrorCode::PermissionDenied, text).hint(format!("chmod u+r {}", script.display()))
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::not_found(format!("there is no script `{}` for the plugin to run", script.display())).hint(cure))
        }
        Err(error) => Err(error).at("look at", script),
    }
}

#[cfg(test)]
mod tests;
