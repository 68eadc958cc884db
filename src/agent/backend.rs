//! The language model backend that the `vic llm` commands use: saved in the data directory; a request may override it.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, LlmBackend};
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::llm::plugin::PluginCommand;
use crate::model::agent::{BackendKind, CommandLine, Override};

/// The model to request from an Ollama server if neither the user nor the configuration names one.
const OLLAMA_MODEL: &str = "nemotron-3-nano";

/// A language model backend that the user or the configuration chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendChoice {
    /// Kind of the backend.
    pub backend: BackendKind,
    /// Name of the model; `None` takes the default of the configuration or of the backend.
    #[serde(default)]
    pub model: Option<String>,
    /// The command to run, for a [`BackendKind::Command`].
    #[serde(default)]
    pub command: Option<PluginCommand>,
}

impl BackendChoice {
    /// Returns the backend that `vic llm use` saved, else the configured one.
    ///
    /// # Errors
    /// `DataLoss` if the file with the saved choice cannot be parsed.
    pub fn load(config: &Config) -> Result<BackendChoice> {
        let path = config.llm_choice_path();
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let text = format!("cannot parse the saved choice of a backend in `{}`: {error}", path.display());
                Error::new(ErrorCode::DataLoss, text).hint("choose a backend again, for example: vic llm use mock")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BackendChoice::configured(config)),
            Err(error) => Err(error).io_context("read", &path),
        }
    }

    /// Returns the backend that the configuration names.
    pub fn configured(config: &Config) -> BackendChoice {
        let backend = match config.llm.backend {
            LlmBackend::Stub => BackendKind::Mock,
            LlmBackend::Ollama => BackendKind::Ollama,
            LlmBackend::OpenAi => BackendKind::OpenAi,
        };
        let model = Some(config.llm.model.clone()).filter(|it| !it.is_empty());
        BackendChoice { backend, model, command: None }
    }

    /// Saves the choice. The daemon reads the file again for each request.
    ///
    /// # Errors
    /// The file with the choice cannot be written.
    pub fn save(&self, config: &Config) -> Result<()> {
        let path = config.llm_choice_path();
        let text = serde_json::to_string_pretty(self).map_err(Error::internal)?;
        // Writes a temporary file that only this user can read, and renames it, which replaces the old file atomically.
        let mut file = tempfile::NamedTempFile::new_in(&config.data_dir).io_context("write to", &config.data_dir)?;
        file.write_all(text.as_bytes()).io_context("write", &path)?;
        file.as_file().sync_all().io_context("sync", &path)?;
        file.persist(&path).map_err(|error| error.error).io_context("create", &path)?;
        Ok(())
    }

    /// Returns the backend for one request, with the overrides of the request applied to this choice.
    ///
    /// # Errors
    /// The command cannot be found, or the backend needs a command and has none.
    pub fn with_overrides(self, over: &Override) -> Result<BackendChoice> {
        let command = over.command.as_ref().map(find_command).transpose()?;
        let backend = match (over.backend, &command) {
            (Some(BackendKind::Command) | None, Some(_)) => BackendKind::Command,
            (Some(other), Some(_)) => {
                let text = format!("a command was given, but the backend is `{}`", other.name());
                return Err(Error::invalid(text).hint("use --backend command"));
            }
            (Some(other), None) => other,
            (None, None) => self.backend,
        };
        // Keeps the saved model only if the request does not choose another backend.
        let model = over.model.clone().or(self.model.filter(|_| backend == self.backend));
        let choice = BackendChoice { backend, model, command: command.or(self.command) };
        match backend == BackendKind::Command && choice.command.is_none() {
            true => {
                Err(Error::invalid("the backend `command` needs a command")
                    .hint("vic llm use command python3 plugin.py"))
            }
            false => Ok(choice),
        }
    }

    /// Returns the name of the model to request; empty if the backend has its own default.
    pub fn model_name(&self, config: &Config) -> String {
        let configured = BackendChoice::configured(config);
        let of_config = || configured.model.filter(|_| configured.backend == self.backend);
        let fallback = || match self.backend {
            BackendKind::Ollama => OLLAMA_MODEL.to_string(),
            BackendKind::Mock => "mock".to_string(),
            BackendKind::OpenAi | BackendKind::Command => String::new(),
        };
        self.model.clone().or_else(of_config).unwrap_or_else(fallback)
    }
}

fn find_command(line: &CommandLine) -> Result<PluginCommand> {
    PluginCommand::find(&line.program, line.args.clone(), Path::new(&line.folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dir: &Path, variables: &[(&str, &str)]) -> Config {
        let own = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.into());
        Config::from_lookup(&|name| if name == "VIC_DATA_DIR" { Some(dir.as_os_str().to_owned()) } else { own(name) })
            .unwrap()
    }

    fn command(program: &str) -> Override {
        let line = CommandLine { program: program.into(), args: vec!["-c".into()], folder: "/".into() };
        Override { command: Some(line), ..Override::default() }
    }

    #[test]
    fn saved_choice_replaces_configured_backend() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), &[("VIC_LIBRARIAN_BACKEND", "ollama"), ("VIC_OLLAMA_MODEL", "small")]);
        assert_eq!(BackendChoice::load(&config).unwrap().model_name(&config), "small");
        let choice = BackendChoice::load(&config).unwrap().with_overrides(&command("sh")).unwrap();
        choice.save(&config).unwrap();
        assert_eq!(BackendChoice::load(&config).unwrap(), choice);
        assert_eq!((choice.backend, choice.model.as_deref()), (BackendKind::Command, None));
        std::fs::write(config.llm_choice_path(), "{").unwrap();
        assert_eq!(BackendChoice::load(&config).unwrap_err().code, ErrorCode::DataLoss);
    }

    #[test]
    fn override_applies_once_and_rejects_mismatches() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), &[]);
        let mock = BackendChoice::configured(&config);
        assert_eq!((mock.backend, mock.model_name(&config).as_str()), (BackendKind::Mock, "mock"));
        let ollama = Override { backend: Some(BackendKind::Ollama), ..Override::default() };
        assert_eq!(mock.clone().with_overrides(&ollama).unwrap().model_name(&config), "nemotron-3-nano");
        let named = Override { model: Some("x".into()), ..ollama.clone() };
        let named = mock.clone().with_overrides(&named).unwrap();
        assert_eq!(named.model_name(&config), "x");
        // The model of one backend does not apply to another.
        let openai = Override { backend: Some(BackendKind::OpenAi), ..Override::default() };
        assert_eq!(named.with_overrides(&openai).unwrap().model_name(&config), "");
        let none = Override { backend: Some(BackendKind::Command), ..Override::default() };
        assert!(mock.clone().with_overrides(&none).unwrap_err().message.contains("needs a command"));
        assert!(mock.clone().with_overrides(&Override { backend: ollama.backend, ..command("sh") }).is_err());
        assert_eq!(mock.with_overrides(&command("no-such-program")).unwrap_err().code, ErrorCode::NotFound);
    }
}
