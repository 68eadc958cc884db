//! Readers of e-books.

pub(in crate::extract) mod epub;
pub(in crate::extract) mod fb2;
