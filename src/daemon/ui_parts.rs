//! Parts of the daemon that only the web page uses.

use std::sync::Arc;

use crate::catalog::SearchLog;
use crate::config::Config;
use crate::daemon::preview::Previews;
use crate::daemon::settings::SettingsFile;

/// Parts of the daemon that only the web page uses.
pub(crate) struct UiParts {
    pub(crate) config: Config,
    pub(crate) previews: Previews,
    pub(crate) searches: SearchLog,
    pub(crate) settings: SettingsFile,
}

/// The parts, shared by all callers.
pub(crate) type SharedUiParts = Arc<UiParts>;
