//! Roots to files and changes: which files exist, which of them may be read, and what changes.
//!
//! Start with [`walk()`], which finds every visible entry below a root by one `lstat` each. [`Rules`] decides what is
//! visible and what is known without reading. [`open_beneath`] is the only access to a file's content. [`Watcher`] reports
//! changes between two walks. Nothing here remembers a file (`catalog` does) or parses its content (`extract` does). The
//! walk is authoritative; the watcher's events only make it faster.

pub(crate) mod leash;
mod left_out;
mod open;
mod rules;
pub(crate) mod silence;
mod status;
mod visible;
mod walk;
mod watch;

pub use leash::Leash;
pub use left_out::left_out;
pub use open::{OpenProblem, Stamp, hash, open_beneath};
pub use rules::Rules;
pub use walk::{Looks, WalkProblem, WalkReport, walk};
pub use watch::{Barrier, Batch, Change, ChangeKind, WatchCounts, WatchProblem, Watcher};
