//! What is known of every file, in SQLite.
