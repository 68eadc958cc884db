//! Question to plan.
