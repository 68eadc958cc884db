//! Policy for reading untrusted files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether readers may run without a jail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JailMode {
    /// Only plain text is read without a jail; any other file fails with a reason.
    #[default]
    Required,
    /// Every file is read, without a jail in a process with limits, and the status reports it.
    Optional,
}

impl JailMode {
    /// Every mode.
    pub const ALL: [JailMode; 2] = [JailMode::Required, JailMode::Optional];

    /// Returns the snake_case name.
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
    /// Nothing.
    None,
    /// Private keys, access keys and tokens.
    #[default]
    Keys,
    /// Those, and card and account numbers.
    All,
}

impl Redaction {
    /// Every level.
    pub const ALL: [Redaction; 3] = [Redaction::None, Redaction::Keys, Redaction::All];

    /// Returns the snake_case name.
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
