//! Benchmarks of the stages and the daemon: speed, memory, and share of the CPU's peak.
//!
//! One file per measurement: [`embed`], [`walk`], [`reading`] (extraction and OCR), [`index`], [`search`]. Each returns
//! [`Row`]s of [`figures`]. A [`Report`] holds the rows with the machine. It serialises to JSON with stable keys, to a
//! page by [`html`], and to ratios against an earlier run by [`EarlierReport`]. [`tune`] finds the fastest setting of the
//! embedder. This module prints nothing and does not write to the user's data directory.

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

pub use compare::EarlierReport;
pub use peak::MatmulPeak;
pub use report::{Report, Row};
pub use texts::TextLengths;
pub use times::{Durations, HistogramBar};
