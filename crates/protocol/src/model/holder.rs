//! Whose request it is.

use std::sync::Arc;

/// The owner, or whoever shows one of the further keys. Two people who may know of the same folders are two holders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The owner of the daemon.
    #[default]
    Owner,
    /// A key, by its hash.
    Key(Arc<str>),
}
