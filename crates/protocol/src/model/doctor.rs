//! What `vic doctor` finds.

use serde::{Deserialize, Serialize};

/// How a part of vic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// As it should be.
    Ok,
    /// Not as it should be.
    Problem,
    /// It was not as it should be, and is now.
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

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// How it is.
    pub health: Health,
    /// What was found, in one sentence.
    pub finding: String,
    /// What to do about a problem.
    pub cure: Option<String>,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// The data directory.
    pub data_dir: String,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// Says whether no problem is left.
    pub fn is_well(&self) -> bool {
        self.checks.iter().all(|it| it.health != Health::Problem)
    }
}
