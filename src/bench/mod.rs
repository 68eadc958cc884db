//! `vic bench`: measures the speed and memory use of each stage and of the daemon, and compares with the CPU's peak.
//!
//! One file per measurement: [`embed`], [`walk`], [`extraction`] (extraction and OCR), [`index`], [`search`]. Each returns
//! [`Row`]s of [`figures`]. A [`Report`] holds the rows and a description of the machine. It serialises to JSON with stable
//! keys; [`html`] renders it as a page, and [`EarlierReport`] adds the ratios to an earlier run. [`tune`] finds the fastest
//! setting of the embedder. This module prints nothing and does not write to the user's data directory.

pub mod compare;
pub mod device;
pub mod embed;
pub mod figures;
mod input_files;
pub mod html;
pub mod index;
mod open_loop;
pub mod matmul_peak;
mod plot;
pub mod extraction;
mod report;
pub mod search;
pub mod input_texts;
mod durations;
pub mod tune;
mod resource_usage;
pub mod walk;

pub use crate::bench::durations::Durations;
pub use crate::bench::input_texts::TextLengths;
pub use crate::bench::matmul_peak::MatmulPeak;
pub use compare::EarlierReport;
pub use report::{HistogramBar, Report, Row};
