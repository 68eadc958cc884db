//! Readers of mail formats: messages and mailboxes (eml, mbox), and Outlook messages (msg).

pub(in crate::extract) mod mime;
pub(in crate::extract) mod outlook;
