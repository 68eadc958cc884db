//! Readers of office formats: text documents, presentations and spreadsheets.

pub(in crate::extract) mod docx;
pub(in crate::extract) mod legacy;
pub(in crate::extract) mod odf;
pub(in crate::extract) mod ooxml;
pub(in crate::extract) mod pptx;
pub(in crate::extract) mod rtf;
pub(in crate::extract) mod slide;
pub(in crate::extract) mod spreadsheet;
