//! The error of a skill that gives no evidence.

use crate::error::Error;

/// Why a skill gives no evidence: one sentence for the warnings of the answer, with a hint if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillProblem(pub String);

pub(super) fn to_problem(error: &Error) -> SkillProblem {
    SkillProblem(error.message_with_hint())
}
