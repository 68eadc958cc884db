//! Tests of start, shutdown, lock, socket and clock of the daemon.

pub(crate) mod bad_input;
pub(crate) mod clock_shift;
pub(crate) mod lifecycle;
pub(crate) mod model_switch;
pub(crate) mod shutdown;
pub(crate) mod single_instance;
pub(crate) mod socket;
