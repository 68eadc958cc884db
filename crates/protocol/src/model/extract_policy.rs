//! Settings for reading untrusted files: whether a jail is required, and which secrets are redacted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether file parsers may run without a jail (an operating system sandbox).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JailMode {
    /// Without a jail, only plain text is read; any other file fails with a reason.
    #[default]
    Required,
    /// Without a jail, every file is still read, in a process with resource limits, and the status reports it.
    Optional,
}

impl JailMode {
    /// Every jail mode.
    pub const ALL: [JailMode; 2] = [JailMode::Required, JailMode::Optional];

    /// Returns the snake_case name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            JailMode::Required => "required",
            JailMode::Optional => "optional",
        }
    }

    /// Returns the mode with this [`JailMode::name`].
    pub fn from_name(name: &str) -> Option<JailMode> {
        JailMode::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Secrets to redact in texts before they are indexed, shown or sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redaction {
    /// Redact nothing.
    None,
    /// Redact private keys, access keys and tokens.
    #[default]
    Keys,
    /// Redact private keys, access keys, tokens, and card and account numbers.
    All,
}

impl Redaction {
    /// Every redaction level.
    pub const ALL: [Redaction; 3] = [Redaction::None, Redaction::Keys, Redaction::All];

    /// Returns the snake_case name of the level.
    pub fn name(self) -> &'static str {
        match self {
            Redaction::None => "none",
            Redaction::Keys => "keys",
            Redaction::All => "all",
        }
    }

    /// Returns the level with this [`Redaction::name`].
    pub fn from_name(name: &str) -> Option<Redaction> {
        Redaction::ALL.into_iter().find(|it| it.name() == name)
    }
}
