//! The report of `vic doctor`, which checks an installation.

use serde::{Deserialize, Serialize};

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The check found no problem.
    Ok,
    /// The check found a problem, which remains.
    Problem,
    /// The check found a problem and fixed it.
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

/// One check of `vic doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The part of vic that the check examines.
    pub name: String,
    /// Whether the check found a problem.
    pub health: Health,
    /// What the check found, in one sentence.
    pub finding: String,
    /// How the user can fix the problem.
    pub cure: Option<String>,
}

/// The results of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Path of the data directory that was checked.
    pub data_dir: String,
    /// The checks, in the order in which they ran.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// Returns whether no check found a problem that remains.
    pub fn has_no_problem(&self) -> bool {
        self.checks.iter().all(|it| it.health != Health::Problem)
    }
}
