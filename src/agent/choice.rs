//! Which backend the `llm` commands use: remembered in the data directory, and overridden once by a request.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, LlmBackend};
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::llm::plugin::PluginCommand;
use crate::model::agent::{BackendKind, CommandLine, Override};

/// The model of an Ollama server when nobody names one.
const OLLAMA_MODEL: &str = "nemotron-3-nano";

/// A backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Its kind.
    pub backend: BackendKind,
    /// The model; None takes the one of the configuration or of the backend.
    #[serde(default)]
    pub model: Option<String>,
    /// The command, of the kind [`BackendKind::Command`].
    #[serde(default)]
    pub command: Option<PluginCommand>,
}

impl Choice {
    /// The choice that was remembered, else the configuration's.
    ///
    /// # Errors
    /// `DataLoss` when the file cannot be understood.
    pub fn load(config: &Config) -> Result<Choice> {
        let path = config.llm_choice_path();
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let text = format!("cannot understand the choice of a backend in `{}`: {error}", path.display());
                Error::new(ErrorCode::DataLoss, text).hint("choose again: vic llm use mock")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Choice::configured(config)),
            Err(error) => Err(error).at("read", &path),
        }
    }

    /// What the configuration says.
    pub fn configured(config: &Config) -> Choice {
        let backend = match config.llm.backend {
            LlmBackend::Stub => BackendKind::Mock,
            LlmBackend::Ollama => BackendKind::Ollama,
            LlmBackend::OpenAi => BackendKind::OpenAi,
        };
        let model = Some(config.llm.model.clone()).filter(|it| !it.is_empty());
        Choice { backend, model, command: None }
    }

    /// Remembers the choice. The daemon sees it with the next request.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, config: &Config) -> Result<()> {
        let path = config.llm_choice_path();
        let text = serde_json::to_string_pretty(self).map_err(Error::internal)?;
        // Made readable for this user only, and put in place whole.
        let mut file = tempfile::NamedTempFile::new_in(&config.data_dir).at("write to", &config.data_dir)?;
        file.write_all(text.as_bytes()).at("write", &path)?;
        file.as_file().sync_all().at("sync", &path)?;
        file.persist(&path).map_err(|error| error.error).at("create", &path)?;
        Ok(())
    }

    /// The choice as a request overrides it.
    ///
    /// # Errors
    /// The command cannot be found, or the kind of backend needs one and there is none.
    pub fn with(self, over: &Override) -> Result<Choice> {
        let command = over.command.as_ref().map(find).transpose()?;
        let backend = match (over.backend, &command) {
            (Some(BackendKind::Command) | None, Some(_)) => BackendKind::Command,
            (Some(other), Some(_)) => {
                let text = format!("a command was given, and the backend is `{}`", other.name());
                return Err(Error::invalid(text).hint("use --backend command"));
            }
            (Some(other), None) => other,
            (None, None) => self.backend,
        };
        // A model of another backend means nothing here.
        let model = over.model.clone().or(self.model.filter(|_| backend == self.backend));
        let choice = Choice { backend, model, command: command.or(self.command) };
        match backend == BackendKind::Command && choice.command.is_none() {
            true => {
                Err(Error::invalid("the backend `command` needs a command")
                    .hint("vic llm use command python3 plugin.py"))
            }
            false => Ok(choice),
        }
    }

    /// The model that is asked for; empty where the backend has its own.
    pub fn model_name(&self, config: &Config) -> String {
        let configured = Choice::configured(config);
        let of_config = || configured.model.filter(|_| configured.backend == self.backend);
        let fallback = || match self.backend {
            BackendKind::Ollama => OLLAMA_MODEL.to_string(),
            BackendKind::Mock => "mock".to_string(),
            BackendKind::OpenAi | BackendKind::Command => String::new(),
        };
        self.model.clone().or_else(of_config).unwrap_or_else(fallback)
    }
}

fn find(line: &CommandLine) -> Result<PluginCommand> {
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
    fn a_choice_is_remembered_and_the_configuration_holds_until_then() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), &[("VIC_LIBRARIAN_BACKEND", "ollama"), ("VIC_OLLAMA_MODEL", "small")]);
        assert_eq!(Choice::load(&config).unwrap().model_name(&config), "small");
        let choice = Choice::load(&config).unwrap().with(&command("sh")).unwrap();
        choice.save(&config).unwrap();
        assert_eq!(Choice::load(&config).unwrap(), choice);
        assert_eq!((choice.backend, choice.model.as_deref()), (BackendKind::Command, None));
        std::fs::write(config.llm_choice_path(), "{").unwrap();
        assert_eq!(Choice::load(&config).unwrap_err().code, ErrorCode::DataLoss);
    }

    #[test]
    fn a_request_overrides_once_and_only_what_fits() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), &[]);
        let mock = Choice::configured(&config);
        assert_eq!((mock.backend, mock.model_name(&config).as_str()), (BackendKind::Mock, "mock"));
        let ollama = Override { backend: Some(BackendKind::Ollama), ..Override::default() };
        assert_eq!(mock.clone().with(&ollama).unwrap().model_name(&config), "nemotron-3-nano");
        let named = Override { model: Some("x".into()), ..ollama.clone() };
        let named = mock.clone().with(&named).unwrap();
        assert_eq!(named.model_name(&config), "x");
        // The model of one backend is none of another.
        let openai = Override { backend: Some(BackendKind::OpenAi), ..Override::default() };
        assert_eq!(named.with(&openai).unwrap().model_name(&config), "");
        let none = Override { backend: Some(BackendKind::Command), ..Override::default() };
        assert!(mock.clone().with(&none).unwrap_err().message.contains("needs a command"));
        assert!(mock.clone().with(&Override { backend: ollama.backend, ..command("sh") }).is_err());
        assert_eq!(mock.with(&command("no-such-program")).unwrap_err().code, ErrorCode::NotFound);
    }
}
