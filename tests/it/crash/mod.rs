//! Tests of the daemon under kills, power loss, read and write errors of the disk, and damaged data directories.

pub(crate) mod daemon_mix;
pub(crate) mod damaged_data;
pub(crate) mod deadly_files;
pub(crate) mod kills;
pub(crate) mod power_loss;
pub(crate) mod read_faults;
pub(crate) mod store_mix;
pub(crate) mod write_faults;
