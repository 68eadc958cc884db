//! Roots to files and changes.
