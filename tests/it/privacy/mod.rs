//! Tests of network calls, the audit log, logs, and the deletion of text that the user excludes.

pub(crate) mod audit_log;
pub(crate) mod logs;
pub(crate) mod network;
pub(crate) mod purge;
