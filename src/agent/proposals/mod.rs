//! TODO_DOC

pub(in crate::agent) mod augment;
pub(in crate::agent) mod promote;
pub(in crate::agent) mod propose;
