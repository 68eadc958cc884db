//! OCR of images and of PDF pages without text, in the background.
//!
//! ```text
//!  pipeline ──> queue ──> file ──> slice ──> worker ──> evidence cache
//!  (file without  (who     (state,   (seconds  (jailed)        │
//!   text)          asks)    retries)  of work)                 │
//!     ^              ^                                         │
//!     │              └───────── more pages to read ────────────┤
//!     └──────────────── merge: text into the document ─────────┘
//! ```
//!
//! The evidence cache makes the loop durable: pages that were read survive a restart. `throttle` keeps OCR within its
//! CPU limit, `availability` waits for the models.

pub(in crate::index) mod availability;
pub(in crate::index) mod cached_text;
pub(in crate::index) mod file;
pub(in crate::index) mod merge;
pub(in crate::index) mod queue;
pub(in crate::index) mod read_queue;
pub(in crate::index) mod time_slice;
pub(in crate::index) mod throttle;
