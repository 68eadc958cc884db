//! gRPC over the services.
