//! Names of the relations that edges between files and their contents have.

/// From a folder to a folder or file, from a file to a section, from a section to a chunk.
pub(crate) const CONTAINS: &str = "contains";
/// From a file to a file or URL that it links to.
pub(crate) const LINKS_TO: &str = "links_to";
/// From a file to a paper that it cites.
pub(crate) const CITES: &str = "cites";
/// From a file to a person that it mentions.
pub(crate) const MENTIONS: &str = "mentions";
/// From a file to a code symbol, service or message that it defines.
pub(crate) const DEFINES: &str = "defines";
/// From a file to a module or file that it imports.
pub(crate) const IMPORTS: &str = "imports";
/// From a file to its author, a person.
pub(crate) const AUTHORED_BY: &str = "authored_by";
/// From a file to a tag that it has.
pub(crate) const TAGGED: &str = "tagged";
/// From a file to another file with the same content.
pub(crate) const DUPLICATE_OF: &str = "duplicate_of";
/// From a file to the file that it was made from.
pub(crate) const DERIVED_FROM: &str = "derived_from";
/// From a service to an RPC of the service.
pub(crate) const HAS_RPC: &str = "has_rpc";
/// From an RPC to its request message.
pub(crate) const TAKES: &str = "takes";
/// From an RPC to its response message.
pub(crate) const RETURNS: &str = "returns";
