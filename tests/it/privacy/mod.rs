//! Network calls, audit log, logs and deletion of excluded text.

pub(crate) mod audit_log;
pub(crate) mod logs;
pub(crate) mod network;
pub(crate) mod purge;
