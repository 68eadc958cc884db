//! Plan to answer.
