//! vic: local-first indexing and search of files.
//!
//! The daemon `vicd` owns the watched folders, the models and the index. The command line `vic` is a thin client. It and all
//! other programs use gRPC, HTTP or MCP, so they share one index in memory.
//!
//! ```text
//!  index:  files ──> catalog ──> extract ──> chunk ──> embed ──> store ──> catalog
//!          finds     decides     (worker     cuts      vectors   commits   marks
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
//! - [`text`]: sentence boundaries in any language; pure.
//! - [`filter`]: boolean filters, their grammar and evaluation; pure.
//! - [`table`]: the tables of a document: filter, group, exact sums, answers to unambiguous questions; pure.
//! - [`machine`]: hardware description, thread priorities, CPU share, mains or battery.
//! - [`secrets`]: which files are secrets by name, and which text is a key, a token or a card number; pure.
//! - [`files`]: roots to [`model::FoundFile`]s and changes: walk, watch, ignore rules.
//! - [`catalog`]: the state of every file, in SQLite; one writer.
//! - [`egress`]: checks every request to another machine against the privacy mode, and logs it in the audit log.
//! - [`extract`]: bytes to [`model::Document`], in a worker process with limits.
//! - [`chunk`]: documents to [`model::Chunk`]s; pure.
//! - [`embed`]: texts to vectors: ONNX Runtime in process, Ollama, OpenAI-compatible.
//! - [`store`]: chunks and vectors in LanceDB: keyword queries, vector queries, maintenance.
//! - [`index`]: jobs, walks, watching and the pipeline; `pipeline.rs` holds the order of the stages.
//! - [`llm`]: language models on servers and behind commands: a request to an ordered stream of events.
//! - [`planner`]: question to [`model::QueryPlan`].
//! - [`skills`]: deep extraction from single files: page layout, OCR, vision model.
//! - [`ask`]: plan to [`model::AskResponse`].
//! - [`graph`]: references between files, and imported graphs; queried in AxQL (text), `query_ir_v1` (JSON) or by tools.
//! - [`agent`]: a question to an answer with citations; a model proposes tool calls, vic executes them.
//! - [`corpus`]: the corpus API: eleven calls (verbs) that take a view (a set of documents) and return a typed result.
//! - [`serve`]: gRPC, HTTP and MCP over the services above.
//! - [`daemon`]: configuration to a running process.
//! - [`bench`](mod@bench): measures the stages and the daemon: speed, memory, share of peak CPU throughput.
//! - [`commands`]: the commands of `vic` that need the engine in their own process.
//!
//! # Invariants
//!
//! - No stage calls another. Each takes values and returns values; `index` holds the order.
//! - Only `files`, `extract`, `catalog`, `store` and the model files of `embed` read or write files of users and of the
//!   index. `ask` re-reads passages, and `corpus` file texts, through `files`.
//! - Only `llm` starts programs of the user: by path, without a shell, in their own session, with a timeout.
//! - Only `embed` (remote backends and model downloads), `llm` and `corpus` (pages that INGEST names) use the network.
//!   Every request passes [`egress`], which enforces the privacy mode and writes the audit log. `daemon` binds the
//!   listeners that `serve` uses; `client` connects to them.
//! - Code that parses a file of unknown origin is sandboxed before it reads the first byte: no file, no socket, no process.
//! - Files with secret names are never opened; secrets inside other files are redacted.
//! - A bad file is recorded data (a state and one [`model::Reason`]), never a failure of the pipeline.
//! - The catalog marks a file indexed only after the store has it on disk.
//! - `indexed + skipped + failed + pending = found`, always.
//! - An unreadable or suddenly empty root never deletes anything.
//! - A text has the same vector in every batch.

#![forbid(unsafe_code)]

pub use vic_protocol::{client, compact_output, config, data_dir, error, escape, model, proto, units, verbs};

pub mod text;
pub mod filter;
pub mod table;
pub mod machine;
pub mod secrets;
pub mod files;
pub mod catalog;
pub mod egress;
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
