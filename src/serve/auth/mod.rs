//! Authentication and authorisation: keys, scopes, the origin check, and the work that a key owns.

pub(in crate::serve) mod authenticator;
pub(in crate::serve) mod authorized_service;
pub(in crate::serve) mod config;
pub(in crate::serve) mod key_owned_work;
pub(in crate::serve) mod origin_guard;
