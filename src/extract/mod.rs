//! Extracts documents from bytes, in worker processes.
//!
//! [`WorkerPool`] reads files: it passes each open file to a worker process with limits, so that a file that loops,
//! exhausts memory or crashes its reader costs only that worker. The worker calls [`extract_bytes`], which detects the type
//! by content and selects one of the readers, one per format. A separate pool runs skills: a skill is a [`SkillHandler`]
//! that the program passes to [`run_worker`], and returns a document too.
//!
//! Nothing here opens a path: files arrive as open descriptors, and archive members stay in memory.

/// Version of the readers. Increase the number whenever a file that failed before might be readable now.
pub const READERS: &str = concat!(env!("CARGO_PKG_VERSION"), "+5");

mod sink;
mod encoding;
mod source;
mod formats;
mod detect;
mod head;
mod dispatch;
mod text;
mod markdown;
mod directive;
mod markup;
mod shallow;
mod html;
mod xml;
mod code;
mod csv;
mod json;
mod ipynb;
mod subtitle;
mod mail;
mod image;
mod pdf;
mod hyphen;
mod pdf_text;
mod protocol;
mod descriptor;
mod redact;
mod panics;
mod jail;
mod worker;
mod pool;
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

pub(crate) use hyphen::{CUT, join_cut_words};
pub(crate) use pdf::pdfium as pdf_library;
pub(crate) use pdf_text::clean as clean_text;
pub(crate) use redact::redact;
pub(crate) use sink::{Input, ReadResult, Sink, failure};

#[cfg(test)]
pub(crate) use pool::scripted;

pub use dispatch::{OcrTools, Tools, extract_bytes};
pub use formats::{is_readable_name, kind_of_media_type, kind_of_name};
pub use pool::{EscapeAttempt, PoolSettings, Witness, WorkerPool};
pub use protocol::{Purpose, SkillJob};
pub use worker::{SkillHandler, SkillInput, run_worker};
