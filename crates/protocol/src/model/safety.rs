//! The terms on which files of unknown origin are read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens where a reader cannot be jailed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JailMode {
    /// Only plain text is read; everything else waits, with a reason.
    #[default]
    Required,
    /// Everything is read, in a process with limits and no jail, and the status says so.
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

    /// Returns the mode of that [`JailMode::name`].
    pub fn from_name(name: &str) -> Option<JailMode> {
        JailMode::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// What is blacked out in texts before anybody indexes, shows or sends them.
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
    /// Every one.
    pub const ALL: [Redaction; 3] = [Redaction::None, Redaction::Keys, Redaction::All];

    /// Returns the snake_case name.
    pub fn name(self) -> &'static str {
        match self {
            Redaction::None => "none",
            Redaction::Keys => "keys",
            Redaction::All => "all",
        }
    }

    /// Returns the one of that [`Redaction::name`].
    pub fn from_name(name: &str) -> Option<Redaction> {
        Redaction::ALL.into_iter().find(|it| it.name() == name)
    }
}
