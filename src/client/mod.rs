//! Typed gRPC client.
