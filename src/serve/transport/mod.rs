//! The transport of requests: listeners, connections, TLS certificates and response bodies.

pub(in crate::serve) mod certificate;
pub(in crate::serve) mod certificate_validity;
pub(in crate::serve) mod connection;
pub(in crate::serve) mod listener;
pub(in crate::serve) mod response_body;
pub(in crate::serve) mod peer_user;
