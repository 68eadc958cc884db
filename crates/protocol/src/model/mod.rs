//! Data types passed between the modules. They hold no logic beyond conversions.
//!
//! `FoundFile -> FileRecord -> Document -> Chunk -> Embedded -> LegHit -> SearchHit` is the path of a file through the
//! program. The answer types ([`QueryPlan`], [`SearchHit`], [`AskResponse`], [`ResponseStats`]) are a published
//! contract: their field names and types do not change.

mod address;
pub mod agent;
mod background;
mod chunk;
mod corpus;
mod doctor;
mod document;
mod file;
mod graph;
mod holder;
mod job;
mod kind;
mod listing;
pub mod llm;
pub mod place;
mod place_text;
mod query;
mod safety;
#[doc(hidden)]
pub mod samples;
mod scope;
mod table;
mod tool;

pub use address::{MEMBER_SEPARATOR, display_path, display_relative, parse_path, resolve_in_roots};
pub use background::{MemoryCap, Pause, PauseReason, PauseRequest, PauseState, SyncReport, SyncRequest, WatchReport};
pub use chunk::{Chunk, ChunkId, Embedded, FileChunks, LegHit, StoredChunk, Tier, TokenCounter, has_unit_norm};
pub use corpus::{CorpusReply, CorpusRequest};
pub use doctor::{Check, DoctorReport, Health};
pub use document::{
    Anchor, Block, BlockKind, Document, ExtractFailure, ExtractLimits, Link, LinkKind, MAX_BLOCKS, MAX_FILE_BYTES,
    OCR_MODELS_UNAVAILABLE, Region,
};
pub use file::{
    ContentHash, Contents, FileFilter, FileId, FileKind, FileRecord, FileState, FoundFile, Reason, Root, RootId,
};
pub use graph::{
    AT_TIME, GraphChange, GraphEdge, GraphEvidence, GraphExtent, GraphField, GraphFormat, GraphImport, GraphNode,
    GraphPart, GraphQuestion, GraphRelation, GraphRequest, GraphSchema, GraphShape, GraphSource, GraphType, IN_CONTEXT,
};
pub use holder::Principal;
pub use job::{Coverage, IndexRequest, JobSnapshot, JobState, OcrMode, Phase, Status, Upkeep};
pub use kind::CODE_EXTENSIONS;
pub use listing::{FileEntry, FilePage, FilesRequest, IndexStart, JobReport, ReadRequest, Reading, ReadingBlock};
pub use place::{ChunkPiece, EncodedPieces, PlaceIndex};
pub use place_text::{Place, parse_cells, parse_span, split_path_and_place};
pub use query::{
    Answer, AnswerOutcome, AnswerQuote, AskEvent, AskRequest, AskResponse, AuditRecord, GrepMatch, GrepRequest,
    GrepResponse, INTENTS, L0Filters, MAX_EXTENSIONS, MAX_GLOB, MAX_NAME_WORDS, PrivacyMode, QueryPlan, ResponseStats,
    SKILLS, SearchHit, SimilarRequest,
};
pub use safety::{JailMode, Redaction};
pub use scope::Scope;
pub use table::{
    TableAggregate, TableCell, TableColumn, TableFunction, TableGroup, TableLeftOut, TablePeriod, TableRequest,
    TableResponse, TableRow, TableValue,
};
pub use tool::{AgentRun, ToolSpec, TranscriptRecord};
