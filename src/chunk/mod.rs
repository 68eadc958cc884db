//! Documents to chunks.
