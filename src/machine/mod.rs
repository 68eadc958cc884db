//! What vic asks of the machine on which it is not alone: its place in the queues for processor and disk, a share of the
//! processors, and whether there is mains power. [`Machine`] says what kind of machine it is,
//! [`Shares`] parts its places among those who ask.
//!
//! Questions are served at the priority that the daemon was started with. Everything else steps back ([`step_back`]), and
//! what only computes stands aside ([`stand_aside`]). The [`Session`] as a whole is behind while nobody waits for an answer.

mod budget;
mod computing;
mod describe;
mod power;
mod priority;
mod session;
mod shares;

pub use budget::{Attention, Budget, budget, cap_processors};
pub(crate) use computing::computing;
pub use describe::{Machine, NVIDIA_CARDS, gpus};
pub use power::{POWER_SUPPLIES, on_battery};
pub use priority::{Disk, stand_aside, step_back};
pub use session::{Ahead, Session};
pub use shares::{Share, Shares};
