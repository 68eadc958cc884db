//! Readers of mail.

pub(in crate::extract) mod mime;
pub(in crate::extract) mod outlook;
