//! The settings as the web page shows and changes them, in `config.toml`.

use std::path::PathBuf;
use std::sync::Mutex;

use crate::config::{self, Origin, Setting};
use crate::error::{Error, ErrorCode, Result};
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

/// The settings with which the daemon started, and the file that holds them.
pub(crate) struct SettingsFile {
    data_dir: PathBuf,
    privacy_mode: PrivacyMode,
    /// The settings when the daemon started.
    at_start: Vec<Setting>,
    /// Held while the file is changed, so that two pages do not change it at once.
    changes: Mutex<()>,
}

impl SettingsFile {
    /// Remembers the settings with which the daemon starts.
    pub(crate) fn new(data_dir: PathBuf, privacy_mode: PrivacyMode) -> SettingsFile {
        // Settings that cannot be read now stopped the start; the daemon goes on without them only in tests.
        let at_start = config::settings().unwrap_or_default();
        SettingsFile { data_dir, privacy_mode, at_start, changes: Mutex::default() }
    }

    /// Returns all settings as they are in the environment and the file now.
    ///
    /// # Errors
    /// The file is invalid.
    pub(crate) fn list(&self) -> Result<SettingList> {
        let now = config::settings()?;
        let before = |name: &str| self.at_start.iter().find(|it| it.name == name);
        let is_changed = |it: &&Setting| before(it.name).is_some_and(|old| old.value != it.value);
        Ok(SettingList {
            privacy_mode: self.privacy_mode,
            data_dir: self.data_dir.display().to_string(),
            config_file: self.data_dir.join("config.toml").display().to_string(),
            restart_needed: now.iter().filter(is_changed).map(|it| it.name.to_string()).collect(),
            settings: now.iter().map(to_entry).collect(),
        })
    }

    /// Changes a setting in the file.
    ///
    /// # Errors
    /// The page may not change the setting, the environment sets it, the value is invalid, or another page changed it.
    pub(crate) fn change(&self, change: &SettingChange) -> Result<SettingList> {
        let _changing = self.changes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = config::settings()?;
        let setting = now
            .iter()
            .find(|it| it.key == change.key)
            .ok_or_else(|| Error::not_found(format!("there is no setting `{}`", change.key)).field("key"))?;
        check_change(setting, change)?;
        config::check_value(setting.name, &change.value)?;
        config::set_in_file(&self.data_dir, setting.name, &change.value)?;
        self.list()
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
        needs_restart: true,
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
