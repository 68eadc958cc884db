//! Tests of answers by language models, agents and plugins.

pub(crate) mod agents;
pub(crate) mod foreign_plugins;
pub(crate) mod plugins;
pub(crate) mod prompt_injection;
pub(crate) mod real_models;
pub(crate) mod summaries;
pub(crate) mod vision;
