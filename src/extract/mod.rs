//! Bytes to documents, in a worker process.

mod sink;
mod entity;
mod xml_tree;
mod package;
mod ooxml;
mod xhtml;
mod docx;
mod pptx;
mod cells;
mod spreadsheet;
mod odf;
mod epub;
mod fb2;
mod rtf;
mod legacy;
mod archive;
mod msg;

pub(crate) use sink::{Input, ReadResult, Sink, failure};
