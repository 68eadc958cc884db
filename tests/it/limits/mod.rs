//! Tests of the limits on requests, memory, disk space and CPU time.

pub(crate) mod background_load;
pub(crate) mod disk_space;
pub(crate) mod http2_floods;
pub(crate) mod overload;
pub(crate) mod requests;
pub(crate) mod soak;
