//! Folders of the user in which other programs keep their settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::sources::absolute;
use crate::error::{Error, Result};

/// Where programs of this user keep their settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFolders {
    /// The home directory.
    pub home: PathBuf,
    /// `XDG_CONFIG_HOME`, by default `~/.config`.
    pub config: PathBuf,
    /// `CODEX_HOME`, by default `~/.codex`.
    pub codex: PathBuf,
    /// `VIC_DATA_DIR`, if it is set: programs that start vic without the shell of the user must set it too.
    pub data_dir: Option<PathBuf>,
}

impl UserFolders {
    /// Returns the folders of the user of this process.
    ///
    /// # Errors
    /// `InvalidArgument` if `HOME` is not an absolute path.
    pub fn load() -> Result<UserFolders> {
        #[expect(clippy::disallowed_methods, reason = "`config` is the one reader of the environment")]
        UserFolders::from_lookup(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// Returns the folders with `lookup` in place of the process environment.
    ///
    /// # Errors
    /// `InvalidArgument` if `HOME` is not an absolute path.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<UserFolders> {
        let folder = |name: &str| lookup(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let home = folder("HOME").ok_or_else(|| {
            Error::invalid("HOME is not an absolute path").hint("set HOME, or give the file of the client with --file")
        })?;
        Ok(UserFolders {
            config: folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            codex: folder("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            data_dir: lookup("VIC_DATA_DIR").map(|it| absolute(Path::new(&it))).transpose()?,
            home,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(variables: &[(&str, &str)]) -> Result<UserFolders> {
        UserFolders::from_lookup(&|name| variables.iter().find(|it| it.0 == name).map(|it| it.1.into()))
    }

    #[test]
    fn folders_default_below_home() {
        let plain = folders(&[("HOME", "/home/anna"), ("XDG_CONFIG_HOME", "relative")]).unwrap();
        assert_eq!((plain.config.to_str(), plain.data_dir), (Some("/home/anna/.config"), None));
        assert_eq!(plain.codex.to_str(), Some("/home/anna/.codex"));
        let given = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("CODEX_HOME", "/x"), ("VIC_DATA_DIR", "/d")];
        let given = folders(&given).unwrap();
        assert_eq!((given.config.to_str(), given.codex.to_str()), (Some("/c"), Some("/x")));
        assert_eq!(given.data_dir.as_deref(), Some(Path::new("/d")));
        assert!(folders(&[("HOME", "anna")]).unwrap_err().message.contains("HOME"));
    }
}
