//! Keeps vic from disturbing other work on the machine: CPU and I/O priority, a limit on processor time, and detection of
//! battery power. [`Machine`] describes the hardware; [`FairSlots`] limits requests in progress per caller.
//!
//! Questions run at the priority that the daemon was started with. Indexing threads lower their priority
//! ([`lower_priority`]); threads that only compute lower it further ([`minimize_priority`]). [`AutogroupPriority`] lowers
//! the whole process while no answer is pending.

mod budget;
mod blocking;
mod hardware;
mod battery;
mod autogroup;
mod fair_slots;
#[cfg(test)]
pub(crate) mod test_needs;

pub use crate::machine::autogroup::{AutogroupPriority, RaisedPriority};
pub use crate::machine::battery::{POWER_SUPPLIES, on_battery};
pub(crate) use crate::machine::blocking::block_in_place;
pub use crate::machine::fair_slots::{FairSlots, Slot};
pub use crate::machine::hardware::{Machine, NVIDIA_CARDS, gpu_models};
pub use budget::{ActiveQuestion, Budget, budget, cap_processors};
pub use vic_system::priority::{IoClass, lower_priority, minimize_priority};
