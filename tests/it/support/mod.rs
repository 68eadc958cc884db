//! Helpers that all integration tests share: a daemon on a temporary data directory, fake servers, traces, sample files.

pub(crate) mod browser;
pub(crate) mod capabilities;
pub(crate) mod client;
pub(crate) mod crash_oracle;
pub(crate) mod disk_images;
pub(crate) mod grpc_client;
pub(crate) mod harness;
pub(crate) mod http_client;
pub(crate) mod llama_server;
pub(crate) mod long_tests;
pub(crate) mod mcp_session;
pub(crate) mod ollama_server;
pub(crate) mod open_trace;
pub(crate) mod openai_server;
pub(crate) mod proc_sampler;
pub(crate) mod scripted_server;
pub(crate) mod seeds;
pub(crate) mod syscall_trace;
pub(crate) mod workload;
