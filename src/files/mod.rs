//! Roots to files and changes: which files exist, which of them may be read, and what changes.
//!
//! Start with [`walk()`], which finds every visible entry below a root by one `lstat` each. [`Rules`] decides what is
//! visible and what is known without reading. [`open_beneath`] is the only access to a file's content. [`Watcher`] reports
//! changes between two walks. Nothing here remembers a file (`catalog` does) or parses its content (`extract` does). The
//! walk is authoritative; the watcher's events only make it faster.

pub(crate) mod walk_watchdog;
mod left_out;
mod open;
mod rules;
pub(crate) mod unresponsive;
mod stat;
mod ignore_matcher;
mod walk;
mod watch;

pub use crate::files::left_out::ignored_files;
pub use crate::files::open::{ContentStamp, OpenProblem, hash, open_beneath};
pub use crate::files::rules::Rules;
pub use crate::files::walk::{PlaceWalker, WalkProblem, WalkReport, walk};
pub use crate::files::walk_watchdog::WalkToken;
pub use crate::files::watch::{Barrier, Batch, Change, ChangeKind, WatchCounts, WatchProblem, Watcher};
