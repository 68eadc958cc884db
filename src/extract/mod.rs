//! Extracts text and structure (`Document`) from the bytes of files, in worker processes.
//!
//! [`WorkerPool`] reads files: it passes each open file to a worker process with limits, so that a file that loops,
//! exhausts memory or crashes its reader costs only that worker. The worker calls [`extract_bytes`], which detects the type
//! by content and calls the reader of that format. A separate pool runs skills (e.g. OCR): a skill is a [`SkillHandler`]
//! that the program passes to [`run_worker`], and returns a document too.
//!
//! No code in this module opens user files by path: they arrive as open descriptors, and archive members stay in memory.

/// Version of the format readers. Increase the number when a change may make a failed file readable: failed files are then
/// tried again.
pub const READERS_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+5");

mod ebooks;
mod email;
mod office;
mod sink;
mod encoding;
mod limits;
mod text_pieces;
mod source_text;
mod formats;
mod detect;
mod text_formats;
mod text_prefix;
mod tools;
mod dispatch;
mod html_depth_limit;
mod html;
mod xml;
mod image;
mod pdf;
mod hyphenation;
mod pdf_paragraphs;
mod protocol;
mod redact;
mod panic_location;
mod jail_paths;
mod worker;
mod pool;
mod xml_entities;
mod xml_tree;
mod zip_container;
mod xhtml;
mod table_text;
mod sheet_writer;
mod archive;
mod member;

pub(crate) use crate::extract::hyphenation::{CUT_MARK, join_cut_words};
pub(crate) use crate::extract::pdf_paragraphs::clean_text;
pub(crate) use member::member_content;
pub(crate) use office::slide::{
    Align, Area, CroppedPicture, Geometry, Paragraph, Rgb, Shape, Slide, TextBody, has_slides, read_slide,
};
pub(crate) use pdf::{load_pdfium as pdf_library, open_pdf};
pub(crate) use redact::redact;
pub(crate) use sink::{Input, ReadResult, Sink, new_failure};

#[cfg(test)]
pub(crate) use crate::extract::office::slide::Run;
#[cfg(test)]
pub(crate) use crate::extract::pool::scripted_worker;

pub use dispatch::extract_bytes;
pub use formats::{is_readable_name, kind_of_media_type, kind_of_name};
pub use pool::{EscapeAttempt, PoolSettings, ReadObserver, WorkerPool};
pub use protocol::{Purpose, SkillJob};
pub use tools::{OcrTools, Tools};
pub use worker::{SkillHandler, SkillInput, run_worker};
