//! Authentication and authorization of requests: keys, scopes, host and origin, and the background work of a key.

pub(in crate::serve) mod authenticator;
pub(in crate::serve) mod authorized_service;
pub(in crate::serve) mod config;
pub(in crate::serve) mod key_owned_work;
pub(in crate::serve) mod origin_guard;
pub(in crate::serve) mod authorized_ui;
pub(in crate::serve) mod sessions;
