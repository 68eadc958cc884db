//! Names of the relations of the warehouse.

/// Folder to folder and file, file to section, section to chunk.
pub(crate) const CONTAINS: &str = "contains";
/// File to file and to URL.
pub(crate) const LINKS_TO: &str = "links_to";
/// File to paper.
pub(crate) const CITES: &str = "cites";
/// File to person.
pub(crate) const MENTIONS: &str = "mentions";
/// File to symbol, service and message.
pub(crate) const DEFINES: &str = "defines";
/// File to module and file.
pub(crate) const IMPORTS: &str = "imports";
/// File to person.
pub(crate) const AUTHORED_BY: &str = "authored_by";
/// File to tag.
pub(crate) const TAGGED: &str = "tagged";
/// File to a file with the same content.
pub(crate) const DUPLICATE_OF: &str = "duplicate_of";
/// File to its source file.
pub(crate) const DERIVED_FROM: &str = "derived_from";
/// Service to RPC.
pub(crate) const HAS_RPC: &str = "has_rpc";
/// RPC to its request message.
pub(crate) const TAKES: &str = "takes";
/// RPC to its response message.
pub(crate) const RETURNS: &str = "returns";
