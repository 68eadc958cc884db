//! Data types that the modules of vic, and daemon and clients, exchange. They hold no logic beyond conversions.
//!
//! `FoundFile -> FileRecord -> Document -> Chunk -> Embedded -> LegHit -> SearchHit` is the path of a file through the
//! program. The answer types ([`QueryPlan`], [`SearchHit`], [`AskResponse`], [`ResponseStats`]) are a published
//! contract: their field names and types do not change.

mod paths;
pub mod agent;
mod background;
mod chunk;
mod corpus;
mod doctor;
mod document;
mod file;
mod file_state;
mod graph;
mod principal;
mod job;
mod file_kind;
mod json_views;
pub mod llm;
mod chunk_pieces;
pub mod chunk_places;
mod place_parser;
mod query;
mod extract_policy;
#[doc(hidden)]
pub mod samples;
mod root;
mod scope;
mod table;
mod tool;
mod ui;

pub use crate::model::chunk_pieces::{ChunkPiece, EncodedPieces};
pub use crate::model::chunk_places::PlaceIndex;
pub use crate::model::extract_policy::{JailMode, Redaction};
pub use crate::model::file_kind::CODE_EXTENSIONS;
pub use crate::model::json_views::{
    FileEntry, FilePage, FilesRequest, IndexStart, JobReport, ReadRequest, Reading, ReadingBlock,
};
pub use crate::model::paths::{MEMBER_SEPARATOR, display_path, display_relative, parse_path};
pub use crate::model::place_parser::{Place, parse_cells, parse_span, split_path_and_place};
pub use crate::model::principal::Principal;
pub use background::{MemoryCap, Pause, PauseReason, PauseRequest, PauseState, SyncReport, SyncRequest, WatchReport};
pub use chunk::{Chunk, ChunkId, Embedded, FileChunks, LegHit, StoredChunk, Tier, TokenCounter, has_unit_norm};
pub use corpus::{CorpusReply, CorpusRequest};
pub use doctor::{Check, DoctorReport, Health};
pub use document::{
    Anchor, Block, BlockKind, Document, ExtractFailure, ExtractLimits, Link, LinkKind, MAX_BLOCKS, MAX_FILE_BYTES,
    MAX_PLACED_WORDS, OCR_MODELS_UNAVAILABLE, PlacedWord, Region,
};
pub use file::{ContentHash, Contents, FileFilter, FileId, FileKind, FileList, FileRecord, FoundFile, MailFacts};
pub use file_state::{FileState, Reason};
pub use graph::{
    AT_TIME, AXQL_HELP, GraphChange, GraphEdge, GraphEvidence, GraphExtent, GraphField, GraphFormat, GraphImport,
    GraphNode, GraphPart, GraphQuestion, GraphRelation, GraphRequest, GraphSchema, GraphShape, GraphSource, GraphType,
    IN_CONTEXT,
};
pub use job::{Coverage, IndexRequest, JobSnapshot, JobState, OcrMode, Phase, Status, Upkeep};
pub use query::{
    Answer, AnswerOutcome, AnswerQuote, AskEvent, AskRequest, AskResponse, AuditRecord, DateOrder, GrepMatch,
    GrepRequest, GrepResponse, INTENTS, L0Filters, MAX_EXTENSIONS, MAX_GLOB, MAX_NAME_WORDS, PrivacyMode, QueryPlan,
    ResponseStats, SKILLS, SearchHit, SimilarRequest,
};
pub use root::{Root, RootId, resolve_in_roots};
pub use scope::Scope;
pub use table::{
    TableAggregate, TableCell, TableColumn, TableFunction, TableGroup, TableLeftOut, TablePeriod, TableRequest,
    TableResponse, TableRow, TableValue,
};
pub use tool::{AgentRun, ToolSpec, TranscriptRecord};
pub use ui::{
    AuditList, CompleteRequest, Completion, CountGroup, CountedValue, Counts, CountsRequest, FolderEntry, FolderList,
    FoldersRequest, ForgetSearches, JobList, JobRequest, KeyNameRequest, LeftOut, MAX_CHECKED_GLOBS, MAX_MARKED_TEXTS,
    Marks, MarksRequest, ModelAdvice, ModelList, NewKeyRequest, PagePreview, PageRequest, PastSearch, PastSearches,
    PathRequest, Picture, PictureRequest, RootCheck, RootCheckRequest, RootList, SearchNote, SettingChange,
    SettingEntry, SettingList, Suggestion, SuggestionKind, TypeCount, WordsFrom,
};
