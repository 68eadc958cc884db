//! Readers of e-book formats: EPUB and FictionBook.

pub(in crate::extract) mod epub;
pub(in crate::extract) mod fb2;
