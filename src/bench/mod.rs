//! Measures the stages and the daemon: speed, memory, and the share of what the processor can do.
//!
//! Each measurement has a file: [`embed`], [`walk`], [`reading`] (extraction and OCR), [`index`], [`search`]. Each gives
//! [`Row`]s of [`figures`]; a [`Report`] holds them with the machine, becomes JSON with keys that stay, a page by
//! [`html`], and ratios to an earlier run by [`Earlier`]. [`tune`] looks for the fastest setting of the embedder. Nothing
//! here prints, and nothing is written to the user's data directory.

pub mod compare;
pub mod device;
pub mod embed;
pub mod figures;
mod folder;
pub mod html;
pub mod index;
mod load;
pub mod peak;
mod plot;
pub mod reading;
mod report;
pub mod search;
pub mod texts;
mod times;
pub mod tune;
mod usage;
pub mod walk;

pub use compare::Earlier;
pub use peak::Peak;
pub use report::{Report, Row};
pub use texts::Mix;
pub use times::{Bar, Times};
