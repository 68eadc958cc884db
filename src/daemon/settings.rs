//! The settings as the web page shows and changes them, in `config.toml`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::config::{self, Origin, Setting};
use crate::error::{Error, ErrorCode, Result};
use crate::files::Rules;
use crate::index::Index;
use crate::model::{PrivacyMode, SettingChange, SettingEntry, SettingList};

/// Settings that the web page may change: none that lets data leave the machine, names a program, a path or a server, or
/// changes who has access.
const EDITABLE: &[&str] = &[
    "VIC_IGNORE",
    "VIC_INCLUDE_HIDDEN",
    "VIC_MAX_FILE_BYTES",
    "VIC_OCR",
    "VIC_WORKERS",
    "VIC_CPU_PERCENT",
    "VIC_PAUSE_ON_BATTERY",
    "VIC_WATCH",
    "VIC_RESCAN_SECONDS",
    "VIC_VERIFY_SECONDS",
    "VIC_POLL_SECONDS",
    "VIC_DISK_RESERVE_BYTES",
    "VIC_EXTRACT_SECONDS",
    "VIC_EXTRACT_MEMORY_MIB",
    "VIC_L2_SECONDS",
    "VIC_RERANK_MS",
    "VIC_BRIDGE_RATE_LIMIT_PER_MIN",
    "VIC_LOG_LEVEL",
];

/// The setting that takes effect at once; all others need a restart.
const IGNORE: &str = "VIC_IGNORE";

/// The settings that are in effect, and the file that holds them.
pub(crate) struct SettingsFile {
    data_dir: PathBuf,
    privacy_mode: PrivacyMode,
    /// The settings when the daemon started, with the changes that took effect since.
    in_effect: Mutex<Vec<Setting>>,
    /// Held while the file is changed, so that two pages do not change it at once.
    changes: Mutex<()>,
}

impl SettingsFile {
    /// Remembers the settings with which the daemon starts.
    pub(crate) fn new(data_dir: PathBuf, privacy_mode: PrivacyMode) -> SettingsFile {
        // Settings that cannot be read now stopped the start; the daemon goes on without them only in tests.
        let in_effect = Mutex::new(config::settings().unwrap_or_default());
        SettingsFile { data_dir, privacy_mode, in_effect, changes: Mutex::default() }
    }

    /// Returns all settings as they are in the environment and the file now.
    ///
    /// # Errors
    /// The file is invalid.
    pub(crate) fn list(&self) -> Result<SettingList> {
        let now = config::settings()?;
        let in_effect = self.in_effect.lock().unwrap_or_else(PoisonError::into_inner);
        let before = |name: &str| in_effect.iter().find(|it| it.name == name);
        let is_changed = |it: &&Setting| before(it.name).is_some_and(|old| old.value != it.value);
        Ok(SettingList {
            privacy_mode: self.privacy_mode,
            data_dir: self.data_dir.display().to_string(),
            config_file: self.data_dir.join("config.toml").display().to_string(),
            restart_needed: now.iter().filter(is_changed).map(|it| it.name.to_string()).collect(),
            settings: now.iter().map(to_entry).collect(),
        })
    }

    /// Changes a setting in the file, and the ignored globs also in `index`.
    ///
    /// # Errors
    /// The page may not change the setting, the environment sets it, the value is invalid, or another page changed it.
    pub(crate) fn change(&self, change: &SettingChange, index: &Index) -> Result<SettingList> {
        let _changing = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let now = config::settings()?;
        let setting = now
            .iter()
            .find(|it| it.key == change.key)
            .ok_or_else(|| Error::not_found(format!("there is no setting `{}`", change.key)).field("key"))?;
        check_change(setting, change)?;
        config::check_value(setting.name, &change.value)?;
        check_log_level(setting.name, &change.value)?;
        let globs = (setting.name == IGNORE).then(|| config::split_globs(&change.value));
        Rules::check_ignore(globs.as_deref().unwrap_or_default())?;
        config::set_in_file(&self.data_dir, setting.name, &change.value)?;
        if let Some(globs) = globs {
            index.set_ignore(globs)?;
            self.note_in_effect(setting.name)?;
        }
        self.list()
    }

    fn note_in_effect(&self, name: &str) -> Result<()> {
        let now = config::settings()?.into_iter().find(|it| it.name == name);
        let mut in_effect = self.in_effect.lock().unwrap_or_else(PoisonError::into_inner);
        in_effect.retain(|it| it.name != name);
        in_effect.extend(now);
        Ok(())
    }
}

fn check_change(setting: &Setting, change: &SettingChange) -> Result<()> {
    if !is_editable(setting.name) {
        let text = format!("`{}` is changed in the terminal only", setting.key);
        let hint = format!("set `{}` in `config.toml`, and restart the daemon", setting.key);
        return Err(Error::new(ErrorCode::PermissionDenied, text).field("key").hint(hint));
    }
    if setting.origin == Origin::Environment {
        let text = format!("the environment sets {}, which takes precedence over the file", setting.name);
        return Err(Error::new(ErrorCode::FailedPrecondition, text).field("key").hint("unset it there first"));
    }
    let current = setting.value.clone().unwrap_or_default();
    if change.value_before.as_ref().is_some_and(|it| *it != current) {
        let text = format!("`{}` was changed meanwhile: it is `{current}` now", setting.key);
        return Err(Error::new(ErrorCode::FailedPrecondition, text)
            .field("value_before")
            .hint("look at it, and decide"));
    }
    Ok(())
}

/// Checks a filter of log levels, with which the daemon would not start.
fn check_log_level(name: &str, value: &str) -> Result<()> {
    if name == "VIC_LOG_LEVEL" && tracing_subscriber::EnvFilter::try_new(value).is_err() {
        return Err(Error::invalid(format!("`{value}` is no log level or filter"))
            .field("value")
            .hint("use ERROR, WARNING, INFO or DEBUG, or a filter such as `info,vic::index=debug`"));
    }
    Ok(())
}

fn is_editable(name: &str) -> bool {
    EDITABLE.contains(&name)
}

fn to_entry(setting: &Setting) -> SettingEntry {
    let origin = match setting.origin {
        Origin::Environment => "environment",
        Origin::File => "file",
        Origin::Tuned => "tuned",
        Origin::Default => "default",
    };
    SettingEntry {
        name: setting.name.into(),
        key: setting.key.clone(),
        value: setting.value.clone(),
        origin: origin.into(),
        description: setting.description.into(),
        editable: is_editable(setting.name) && setting.origin != Origin::Environment,
        needs_restart: setting.name != IGNORE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VARIABLES;

    fn setting(name: &'static str, origin: Origin) -> Setting {
        let key = name.trim_start_matches("VIC_").to_lowercase();
        Setting { name, key, value: Some("1".into()), origin, description: "" }
    }

    fn check(name: &'static str, origin: Origin, before: Option<&str>) -> Result<()> {
        let setting = setting(name, origin);
        let value_before = before.map(Into::into);
        check_change(&setting, &SettingChange { key: setting.key.clone(), value: "2".into(), value_before })
    }

    #[test]
    fn only_harmless_unchanged_settings_can_be_changed() {
        assert!(EDITABLE.iter().all(|it| VARIABLES.iter().any(|(name, _)| name == it)));
        check("VIC_IGNORE", Origin::Default, None).unwrap();
        check("VIC_IGNORE", Origin::File, Some("1")).unwrap();
        assert!(check("VIC_IGNORE", Origin::File, Some("0")).unwrap_err().message.contains("meanwhile"));
        assert!(check("VIC_IGNORE", Origin::Environment, None).is_err());
        for name in ["VIC_PRIVACY_MODE", "VIC_LISTEN", "VIC_BRIDGE_AUTH", "VIC_OPENAI_BASE_URL", "VIC_DATA_DIR"] {
            assert_eq!(check(name, Origin::Default, None).unwrap_err().code, ErrorCode::PermissionDenied, "{name}");
        }
    }
}
