//! Tests of the client against the mock server, and against Milvus Lite and Milvus where they are.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod rows;
mod codegen;
mod mock_calls;
mod mock_errors;
mod tls;
mod lite;
mod full_server;
