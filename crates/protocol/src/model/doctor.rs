//! Report of `vic doctor`.

use serde::{Deserialize, Serialize};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// No problem.
    Ok,
    /// A problem remains.
    Problem,
    /// A problem was found and fixed.
    Fixed,
}

impl Health {
    /// Returns `ok`, `problem` or `fixed`.
    pub fn name(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Problem => "problem",
            Health::Fixed => "fixed",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The part of vic that is checked.
    pub name: String,
    /// The result.
    pub health: Health,
    /// The finding, in one sentence.
    pub finding: String,
    /// How to fix the problem.
    pub cure: Option<String>,
}

/// All checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// The data directory.
    pub data_dir: String,
    /// The checks, in order of execution.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// Returns whether no problem remains.
    pub fn has_no_problem(&self) -> bool {
        self.checks.iter().all(|it| it.health != Health::Problem)
    }
}
