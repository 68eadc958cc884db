//! Identity of the caller of a request.

use std::sync::Arc;

/// The owner, or an API key. Two keys with access to the same folders are two holders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Principal {
    /// The owner of the daemon.
    #[default]
    Owner,
    /// An API key, given by its hash.
    Key(Arc<str>),
}
