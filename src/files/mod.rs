//! Access to the files of the user: finds them below the roots, decides which may be read, opens them and reports changes.
//!
//! Start with [`walk()`], which finds every visible entry below a root with one `lstat` each. [`Rules`] decides what is
//! visible and which files are skipped without reading them. [`open_beneath`] is the only way to read the content of a
//! file. [`Watcher`] reports changes between two walks; its events save time, but only a walk is authoritative. This
//! module neither stores the state of files (`catalog` does) nor parses their content (`extract` does).

pub(crate) mod walk_watchdog;
mod dry_run;
mod left_out;
mod open;
mod rules;
pub(crate) mod unresponsive;
mod stat;
mod ignore_matcher;
mod walk;
mod watch;

pub use crate::files::dry_run::dry_run;
pub use crate::files::left_out::{explain_left_out, ignored_files};
pub use crate::files::open::{ContentStamp, OpenProblem, hash, open_beneath};
pub use crate::files::rules::Rules;
pub use crate::files::walk::{PlaceWalker, WalkProblem, WalkReport, walk};
pub use crate::files::walk_watchdog::WalkToken;
pub use crate::files::watch::{Barrier, Batch, Change, ChangeKind, WatchCounts, WatchProblem, Watcher};
