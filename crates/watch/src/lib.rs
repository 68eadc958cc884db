//! File events of the operating system: changes in watched folders, and a heartbeat through the same queue.
//!
//! [`WatchBackend`] is the interface; [`inotify`] implements it for Linux, `notify_backend` for other systems. The caller
//! decides which folders to watch and how to interpret their events.

#![forbid(unsafe_code)]

mod backend;
#[cfg(target_os = "linux")]
pub mod inotify;
#[cfg(any(test, not(target_os = "linux")))]
pub mod notify_backend;
#[cfg(test)]
mod tests;

pub use crate::backend::{Beat, Descriptor, Event, EventKind, EventReader, OpenBackend, Refusal, WatchBackend};

#[cfg(target_os = "linux")]
pub use crate::inotify::open;
#[cfg(not(target_os = "linux"))]
pub use crate::notify_backend::open;
