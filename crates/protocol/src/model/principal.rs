//! Identity of the caller of a request, e.g. to decide which jobs and sessions belong to it.

use std::sync::Arc;

/// The owner, or an API key. Two keys with access to the same folders are two different callers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Principal {
    /// The owner of the daemon.
    #[default]
    Owner,
    /// An API key, given by the hash of the key.
    Key(Arc<str>),
}
