//! Roots to files and changes: which files there are, which of them may be read, and what happens to them.
//!
//! Start with [`walk()`], which gives every visible entry below a root by one `lstat` each; [`Rules`] says what is visible
//! and what is known without reading; [`open_beneath`] is the only way to a file's content; [`Watcher`] tells of changes
//! between two walks. Nothing here remembers a file (that is `catalog`) or understands its content (that is `extract`).
//! The walk is the truth; events of the watcher only make it quicker.

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
