//! How much an agent may take.

use std::time::Duration;

/// Bytes of a token, as a rule of thumb.
const BYTES_A_TOKEN: usize = 4;

/// What an agent may take for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of tools.
    pub steps: u32,
    /// From the question to the answer.
    pub time: Duration,
    /// Tokens sent and received, estimated.
    pub tokens: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { steps: 12, time: Duration::from_secs(180), tokens: 120_000 }
    }
}

/// Tokens of a JSON text, estimated.
pub(super) fn tokens(value: &impl serde::Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |it| (it.len() / BYTES_A_TOKEN) as u64)
}
