//! Rules of a walk: which entries of a root are visible, and which files are skipped without reading them.
//!
//! Only ignore files in the root and below apply, not those above it, because the user indexed the root explicitly. The
//! global gitignore of the user does not apply either, so that the index does not depend on another program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::overrides::{Override, OverrideBuilder};

use crate::config::WalkConfig;
use crate::error::{Error, Result};
use crate::files::ignore_matcher::{IgnoreMatcher, RULE_FILES};
use crate::files::open;
use crate::files::stat::FileStat;
use crate::model::{FoundFile, Reason};
use crate::secrets::{self, PathVerdict};

/// Folders of version control are always excluded, even if hidden files are indexed: they never contain documents of the
/// user.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// Smaller sparse files are read like others, because holes are common in disk images and databases, and rare in small
/// files.
const SPARSE_MIN_BYTES: u64 = 64 << 20;

/// A file counts as sparse if less than 1/64 of its bytes are allocated on disk; compressed logs have 1/20.
const SPARSE_FRACTION: u64 = 64;

/// A `.key` file smaller than this is taken for a private key: keys have at most a dozen KB, Keynote presentations at
/// least some hundred.
const MIN_KEYNOTE_BYTES: u64 = 32 << 10;

/// Decides which files are ignored, and which are recorded without being read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rules {
    config: Arc<WalkConfig>,
    /// Globs of `VIC_IGNORE`, which may change; shared by all clones.
    ignore: Arc<RwLock<Vec<String>>>,
    excluded: Arc<Vec<PathBuf>>,
    /// All roots; the list is shared by all clones.
    roots: Arc<RwLock<Vec<PathBuf>>>,
}

impl Rules {
    /// Creates rules after checking the globs of `config`.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::InvalidArgument`] naming the glob that cannot be parsed.
    pub fn new(config: &WalkConfig) -> Result<Rules> {
        let rules = Rules {
            config: Arc::new(config.clone()),
            ignore: Arc::default(),
            excluded: Arc::default(),
            roots: Arc::default(),
        };
        rules.set_ignore(config.ignore.clone())?;
        Ok(rules)
    }

    /// Checks the globs of `VIC_IGNORE`.
    ///
    /// # Errors
    /// As [`Rules::new`].
    pub(crate) fn check_ignore(globs: &[String]) -> Result<()> {
        for glob in globs {
            if glob.starts_with('!') {
                return Err(Error::invalid(format!("the ignore glob `{glob}` begins with `!`"))
                    .hint("VIC_IGNORE can only exclude files; put exceptions into a .vicignore file"));
            }
            compile_globs(Path::new("/"), std::slice::from_ref(glob))?;
        }
        Ok(())
    }

    /// Replaces the globs of `VIC_IGNORE`. Matchers created from now on follow them.
    ///
    /// # Errors
    /// As [`Rules::new`]; the globs stay as they were.
    pub(crate) fn set_ignore(&self, globs: Vec<String>) -> Result<()> {
        Rules::check_ignore(&globs)?;
        *self.ignore.write().unwrap_or_else(PoisonError::into_inner) = globs;
        Ok(())
    }

    /// Returns the globs of `VIC_IGNORE`.
    pub(crate) fn ignore(&self) -> Vec<String> {
        self.ignore.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Excludes these absolute folders or files in every root, so that the files of vic itself are not indexed.
    #[must_use]
    pub fn excluding(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Rules {
        let excluded = Arc::make_mut(&mut self.excluded);
        for path in paths {
            // Also excludes the canonical path: paths below a root are canonical, so they would not match an alias of the
            // data directory.
            let canonical = path.canonicalize().ok();
            excluded.extend(canonical.filter(|it| *it != path));
            excluded.push(path);
        }
        self
    }

    /// Sets the list of roots. Matchers created from now on do not apply rules from outside a nested root to it.
    pub(crate) fn set_roots(&self, roots: Vec<PathBuf>) {
        *self.roots.write().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// Returns whether this absolute path is excluded; an ignore file cannot include it again.
    pub(crate) fn excludes(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| VERSION_CONTROL.iter().any(|it| name == OsStr::new(it)))
            || self.excluded.iter().any(|it| path == it)
    }

    /// Returns whether a file of this name is an ignore file.
    pub(crate) fn is_ignore_file(name: &OsStr) -> bool {
        RULE_FILES.iter().any(|it| name == OsStr::new(it))
    }

    /// Returns a matcher for paths below `root`, which caches the ignore files that it has read.
    pub(crate) fn matcher(&self, root: &Path) -> Result<IgnoreMatcher> {
        let named = self.roots.read().unwrap_or_else(PoisonError::into_inner);
        Ok(IgnoreMatcher::new(root, self.config.include_hidden, compile_globs(root, &self.ignore())?, &named))
    }

    /// Converts the result of an `lstat` into a [`FoundFile`], with the reason to skip it if there is one. Opens no file
    /// except `.key` files, whose first bytes are read.
    pub(super) fn to_found_file(&self, root: &Path, relative: &Path, status: &FileStat) -> FoundFile {
        FoundFile {
            path: relative.to_path_buf(),
            size: status.size,
            modified_ns: status.modified_ns,
            changed_ns: status.changed_ns,
            created_ns: status.created_ns,
            inode: status.inode,
            device: status.device,
            mode: status.mode,
            uid: status.uid,
            skip: self.skip_reason(root, relative, status),
        }
    }

    fn skip_reason(&self, root: &Path, relative: &Path, status: &FileStat) -> Option<Reason> {
        let kind = status.kind();
        let size = status.size;
        if kind.is_symlink() {
            Some(Reason::Symlink)
        } else if !kind.is_file() {
            Some(Reason::NotRegular)
        } else if self.is_secret(root, relative, size) {
            Some(Reason::Secret)
        } else if size == 0 {
            Some(Reason::Empty)
        } else if size > SPARSE_MIN_BYTES && status.blocks * 512 < size / SPARSE_FRACTION {
            Some(Reason::Sparse)
        } else if size > self.config.max_file_bytes {
            Some(Reason::TooLarge)
        } else {
            None
        }
    }

    fn is_secret(&self, root: &Path, relative: &Path, size: u64) -> bool {
        match secrets::judge_path(&root.join(relative)) {
            PathVerdict::Plain => false,
            PathVerdict::Secret => true,
            // Treats a file no larger than a private key as a secret, without opening it.
            PathVerdict::SecretUnlessZip => {
                size > 0 && (size < MIN_KEYNOTE_BYTES || !open::begins_like_zip(root, relative))
            }
        }
    }
}

fn compile_globs(root: &Path, globs: &[String]) -> Result<Override> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        let bad = |error: ignore::Error| Error::invalid(format!("cannot parse the ignore glob `{glob}`: {error}"));
        builder.add(&format!("!{glob}")).map_err(bad)?;
    }
    builder.build().map_err(|error| Error::invalid(format!("cannot parse the ignore globs: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use crate::files::walk::tests::config;

    #[test]
    fn invalid_glob_is_refused_by_name() {
        for glob in ["a[", "!keep.txt"] {
            let error = Rules::new(&WalkConfig { ignore: vec![glob.into()], ..config() }).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument);
            assert!(error.message.contains(glob), "{error}");
        }
    }
}
