//! vic: local-first indexing and search of files.
//!
//! A daemon (`vicd`) owns the warehouse, the models and the index; a thin command line (`vic`) and every other program
//! talk gRPC, HTTP or MCP to it, so that all of them share one hot index.
//!
//! ```text
//!  index:  warehouse ──> catalog ──> extract ──> chunk ──> embed ──> store ──> catalog
//!          finds         decides     (worker     cuts      vectors   commits   marks
//!                        what        process)              (cache)   a batch   it indexed
//!                        changed
//!
//!  ask:    question ──> librarian ──> catalog ──> store ──────────────> ask ──────────────> answer
//!                       plan          L0 filter   L1 keyword + vector   fuse, merge         citations checked
//!                                                      ^                     │ best files   against the file
//!                                                      └── L2 evidence ── skills
//! ```
//!
//! # Layout
//!
//! The rooms, in reading order. A room may use only rooms above it; `tests/it/layers.rs` enforces that.
//!
//! - [`error`]: one [`error::ErrorCode`] for gRPC, HTTP and exit codes.
//! - [`config`]: environment and file to [`config::Config`]; the only reader of either.
//! - [`model`]: the hand-over types `FoundFile -> FileRecord -> Document -> Chunk -> Embedded -> LegHit -> SearchHit`.
//! - [`text`]: where sentences end, in any language; pure.
//! - [`filter`]: boolean filters: their grammar, and how they are decided; pure.
//! - [`table`]: the tables of a document: rows by condition, groups, exact sums, and answers to sure questions; pure.
//! - [`machine`]: what it is, priorities of threads, a share of the processors, mains or battery.
//! - [`secrets`]: which files are secrets by name, and what in a text is a key, a token or a card number; pure.
//! - [`warehouse`]: roots to [`model::FoundFile`]s and changes: walk, watch, ignore rules.
//! - [`catalog`]: what is known of every file, in SQLite; one writer.
//! - [`extract`]: bytes to [`model::Document`], in a worker process with limits.
//! - [`chunk`]: documents to [`model::Chunk`]s; pure.
//! - [`embed`]: texts to vectors: ONNX Runtime in process, Ollama, OpenAI-compatible.
//! - [`store`]: chunks and vectors in LanceDB: keyword leg, vector leg, upkeep.
//! - [`index`]: `pipeline.rs` is the only file that knows the order of the stages.
//! - [`llm`]: language models on servers and behind commands: a request to an ordered stream of events.
//! - [`librarian`]: question to [`model::QueryPlan`].
//! - [`skills`]: deep reading of single files: page layout, text in pictures, a look by a vision model.
//! - [`ask`]: plan to [`model::AskResponse`].
//! - [`graph`]: what files say of each other, and imported graphs: AxQL, `query_ir_v1`, tools.
//! - [`agent`]: a question, a model that proposes and tools that execute, to an answer that cites.
//! - [`contract`]: a verb and a view to a typed result: the eleven verbs, their registry, validator and views.
//! - [`serve`]: gRPC, HTTP and MCP over the services above.
//! - [`daemon`]: configuration to a running process.
//! - [`client`]: the typed gRPC client.
//! - [`bench`](mod@bench): measures the stages and the daemon: speed, memory, and the share of what the processor can do.
//! - [`cli`]: the command line.
//!
//! # Invariants
//!
//! - No stage calls another: each takes values and gives values; the order lives in `index`.
//! - Only `warehouse`, `extract`, `catalog`, `store` and the model files of `embed` read or write files of users and of
//!   the index; `ask` reads a passage again, and `contract` the text of a file beside its reader, through `warehouse`.
//! - Only `llm` starts programs of the user, each by its path, without a shell, alone, and with an end.
//! - Only `embed` (remote backends and model downloads), `llm` and `contract` (pages that INGEST names) reach out, and every
//!   request passes [`embed::egress`], which knows the privacy mode and keeps the audit log. `daemon` binds the listeners
//!   that `serve` is handed; `client` talks to them.
//! - Whoever reads a file of unknown origin is jailed before the first byte of it: no file, no socket, no process.
//! - A secret is never read where its name tells, and blacked out where its looks do.
//! - A bad file is recorded data (a state and one [`model::Reason`]), never a failure of the pipeline.
//! - The catalog marks a file indexed only after the store has it on disk.
//! - `indexed + skipped + failed + pending = found`, always.
//! - An unreadable or suddenly empty root never deletes anything.
//! - The same text has the same vector, whatever it is batched with.

pub use vic_protocol::{client, config, data_dir, error, model, proto, units, verbs};

pub mod text;
pub mod filter;
pub mod table;
pub mod machine;
pub mod secrets;
pub mod warehouse;
pub mod catalog;
pub mod extract;
pub mod chunk;
pub mod embed;
pub mod store;
pub mod index;
pub mod llm;
pub mod librarian;
pub mod skills;
pub mod ask;
pub mod graph;
pub mod agent;
pub mod contract;
pub mod serve;
pub mod daemon;
pub mod bench;
pub mod commands;
