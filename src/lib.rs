//! vic: local-first indexing and search of files.
//!
//! The daemon `vicd` owns the watched folders, the models and the index. The command line `vic` is a thin client. All
//! clients, over gRPC, HTTP or MCP, share the one index in the daemon's memory.
//!
//! ```text
//!  index:  files ──> catalog ──> extract ──> chunk ──> embed ──> store ──> catalog
//!          finds     decides     (worker     splits    vectors   commits   marks
//!                    what        process)              (cache)   a batch   it indexed
//!                    changed
//!
//!  ask:    question ──>  planner  ──> catalog ──> store ──────────────> ask ──────────────> answer
//!                       plan          L0 filter   L1 keyword + vector   fuse, merge         citations checked
//!                                                      ^                     │ best files   against the file
//!                                                      └── L2 evidence ── skills
//! ```
//!
//! # Layout
//!
//! The crate `vic-protocol` holds what the daemon and its clients share; `vic-cli` is the command line. All unsafe code is
//! in `vic-kernels` (vector instructions) and `vic-system` (system calls). The modules of this crate in dependency order;
//! each may use only those above it and these crates, and `tests/it/project/layers.rs` enforces that.
//!
//! - [`text`]: finds sentence boundaries in any language; no I/O.
//! - [`filter`]: parses and evaluates boolean filters; no I/O.
//! - [`table`]: filters and groups the tables of a document, computes exact sums, and answers unambiguous questions.
//! - [`machine`]: describes the hardware, sets thread priorities and the CPU limit, detects mains or battery power.
//! - [`secrets`]: detects secret files by name, and keys, tokens and card numbers in text; no I/O.
//! - [`files`]: walks and watches roots, applies ignore rules; returns [`model::FoundFile`]s and changes.
//! - [`catalog`]: the state of every file, in SQLite, with a single writer.
//! - [`extract`]: parses the bytes of a file into a [`model::Document`], in a worker process with limits.
//! - [`chunk`]: splits documents into [`model::Chunk`]s; no I/O.
//! - [`embed`]: turns texts into vectors with ONNX Runtime in process, Ollama, or an OpenAI-compatible server.
//! - [`store`]: keeps chunks and vectors in LanceDB: keyword queries, vector queries, maintenance.
//! - [`index`]: runs jobs, walks, watching and the pipeline; `pipeline.rs` defines the order of the stages.
//! - [`llm`]: sends requests to language models, on servers or as commands, and returns an ordered stream of events.
//! - [`planner`]: turns a question into a [`model::QueryPlan`].
//! - [`skills`]: reads single files in depth: page layout, OCR, vision model.
//! - [`ask`]: runs a plan and returns a [`model::AskResponse`].
//! - [`graph`]: the references between files, and imported graphs: AxQL, `query_ir_v1`, tools.
//! - [`agent`]: answers a question with citations; a model proposes tool calls, vic executes them.
//! - [`corpus`]: runs one of eleven verbs on a view and returns a typed result: registry, validator, views.
//! - [`serve`]: exposes the modules above over gRPC, HTTP and MCP.
//! - [`daemon`]: starts and runs the daemon process from a configuration.
//! - [`bench`](mod@bench): measures the stages and the daemon: speed, memory, share of peak CPU throughput.
//! - [`commands`]: the commands of `vic` that need the engine in their own process.
//!
//! # Invariants
//!
//! - No stage calls another. Each takes values and returns values; `index` defines their order.
//! - Only `files`, `extract`, `catalog`, `store` and the model files of `embed` read or write files of users and of the
//!   index. `ask` re-reads passages, and `corpus` file texts, through `files`.
//! - Only `llm` starts programs of the user: by path, without a shell, in their own session, with a timeout.
//! - Only `embed` (remote backends and model downloads), `llm` and `corpus` (pages that INGEST names) use the network.
//!   Every request passes [`embed::egress`], which enforces the privacy mode and writes the audit log. `daemon` binds the
//!   listeners that `serve` uses; `client` connects to them.
//! - Code that parses a file of unknown origin is sandboxed before it reads the first byte: no file, no socket, no process.
//! - Files with secret names are never opened; secrets inside other files are redacted.
//! - A bad file is recorded data (a state and one [`model::Reason`]), never a failure of the pipeline.
//! - The catalog marks a file as indexed only after the store has written its chunks to disk.
//! - The counts of files by state always satisfy `indexed + skipped + failed + pending = found`.
//! - An unreadable or suddenly empty root never causes deletions from the index.
//! - The vector of a text does not depend on the other texts in its batch.

#![forbid(unsafe_code)]

pub use vic_protocol::{client, config, data_dir, error, model, proto, units, verbs};

pub mod text;
pub mod filter;
pub mod table;
pub mod machine;
pub mod secrets;
pub mod files;
pub mod catalog;
pub mod extract;
pub mod chunk;
pub mod embed;
pub mod store;
pub mod index;
pub mod llm;
pub mod planner;
pub mod skills;
pub mod ask;
pub mod graph;
pub mod agent;
pub mod corpus;
pub mod serve;
pub mod daemon;
pub mod bench;
pub mod commands;
