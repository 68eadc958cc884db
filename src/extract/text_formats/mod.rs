//! Readers of text formats: plain text, Markdown and light markup, JSON, CSV, notebooks, source code, subtitles.

pub(in crate::extract) mod code;
pub(in crate::extract) mod csv;
pub(in crate::extract) mod light_markup;
pub(in crate::extract) mod markdown;
pub(in crate::extract) mod notebook;
pub(in crate::extract) mod plain;
pub(in crate::extract) mod rst_tables;
pub(in crate::extract) mod structured;
pub(in crate::extract) mod subtitle;
