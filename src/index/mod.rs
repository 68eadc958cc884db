//! The pipeline.
