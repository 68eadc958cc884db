//! The published types of a question and its answer. Names and types follow the API document and must not change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::Anchor;

/// Which data may leave the machine, strictest mode first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyMode {
    /// No data.
    #[default]
    LocalOnly,
    /// Questions and excerpts, which are sent to the configured language model.
    CloudReasoningOk,
    /// Also the content of files, which is sent to the configured embedding server. Discouraged.
    CloudEmbeddingOk,
}

impl PrivacyMode {
    /// Returns the stricter of the two modes.
    pub fn stricter(self, other: PrivacyMode) -> PrivacyMode {
        self.min(other)
    }

    /// Returns the snake_case name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            PrivacyMode::LocalOnly => "local_only",
            PrivacyMode::CloudReasoningOk => "cloud_reasoning_ok",
            PrivacyMode::CloudEmbeddingOk => "cloud_embedding_ok",
        }
    }

    /// Returns the mode with this [`PrivacyMode::name`].
    pub fn from_name(name: &str) -> Option<PrivacyMode> {
        [PrivacyMode::LocalOnly, PrivacyMode::CloudReasoningOk, PrivacyMode::CloudEmbeddingOk]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

/// Metadata filters; a file must match all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct L0Filters {
    /// File extensions with the dot, e.g. `.pdf`; a file must have one of them. A dot alone stands for no extension.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Glob that the path relative to the root must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_glob: Option<String>,
    /// Only files modified at or after this RFC 3339 date or date-time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_after: Option<String>,
    /// Only files modified before this RFC 3339 date or date-time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_before: Option<String>,
    /// Minimum file size in bytes, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<u64>,
    /// Maximum file size in bytes, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// User name or user id of the file's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Code (ISO 639-1) of the language in which most passages of the file are, e.g. `de`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Name or mail address of the sender of a mail or the author of a document: words in sequence, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

/// Maximum size of a glob in bytes; a longer one is rejected, because a compiled glob takes some hundred bytes of memory per
/// byte.
pub const MAX_GLOB: usize = 4 << 10;

/// Maximum number of extensions in a filter; a filter with more is rejected.
pub const MAX_EXTENSIONS: usize = 1_000;

/// Maximum number of words in a search of file names; a search with more is rejected, because each word is searched in every
/// name.
pub const MAX_NAME_WORDS: usize = 16;

/// Values of [`QueryPlan::intent`].
pub const INTENTS: &[&str] = &["search", "list", "count", "summarize", "read_evidence"];

/// L2 skills, which read files in depth: values of [`QueryPlan::l2_skills`].
pub const SKILLS: &[&str] = &["pdf_layout", "ocr_image", "vision"];

/// The order by date that a question asks for, as in `the latest version of the lease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DateOrder {
    /// The newest first.
    Newest,
    /// The oldest first.
    Oldest,
}

impl DateOrder {
    /// Every order.
    pub const ALL: [DateOrder; 2] = [DateOrder::Newest, DateOrder::Oldest];

    /// Returns the snake_case name of the order.
    pub fn name(self) -> &'static str {
        match self {
            DateOrder::Newest => "newest",
            DateOrder::Oldest => "oldest",
        }
    }
}

/// The plan of a search, which the librarian (rules or a language model) derives from a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryPlan {
    /// Intent of the question, from [`INTENTS`]; any other value runs as `search`.
    pub intent: String,
    /// Metadata filters that files must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l0_filters: Option<L0Filters>,
    /// The text to search for, by vector and by keywords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_query_text: Option<String>,
    /// Minimum similarity of L1 hits, 0 to 1; hits below it are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub l1_threshold: Option<f64>,
    /// Which of equally relevant files come first: the newest or the oldest ones. Absent if the date does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date_order: Option<DateOrder>,
    /// Whether L2 skills must run even if the similarity of the hits is high.
    #[serde(default)]
    pub requires_l2: bool,
    /// Names of the L2 skills to run, from [`SKILLS`].
    #[serde(default)]
    pub l2_skills: Vec<String>,
    /// Maximum number of files on which L2 skills run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_top_k: Option<u32>,
    /// Which data may leave the machine.
    pub privacy_mode: PrivacyMode,
    /// The original question of the user.
    pub raw_user_text: String,
    /// Name of the model or the rules that made the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner_model_id: Option<String>,
}

/// One matching file of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchHit {
    /// Path relative to the warehouse root; `archive.zip!/member` inside archives.
    pub path: String,
    /// Relevance, 0 to 1; see `ask::fuse` for the formula.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: f64,
    /// Deepest tier of the match: `L0`, `L1` or `L2`.
    pub tier: String,
    /// Names of all tiers that contributed to the match.
    pub layers: Vec<String>,
    /// The matching passage of the file.
    pub excerpt: String,
    /// Metadata fields, anchors and chunk ids.
    pub metadata: Map<String, Value>,
    /// Why the file matched, in words, made from facts of the search only.
    pub reasoning: String,
}

/// Statistics of an answer's search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseStats {
    /// The search pipeline: `tiered` or `legacy`.
    pub pipeline: String,
    /// The searched root; several roots are joined by `:`.
    pub warehouse_root: String,
    /// Directory of the index.
    pub db_path: String,
    /// Milliseconds from request to response.
    pub latency_ms: Option<f64>,
    /// Name of the embedding model.
    pub embed_model: Option<String>,
    /// Number of chunks in the index.
    pub chunk_rows_indexed: Option<u64>,
    /// Number of distinct paths after the hits of each file were merged.
    pub unique_paths_in_index: Option<u64>,
    /// Number of distinct paths before the list was truncated to the limit.
    pub l1_candidates_merged: Option<u64>,
    /// Number of hits in the answer.
    pub hits_returned: u64,
    /// Number of hits by tier.
    pub hits_by_tier: BTreeMap<String, u64>,
    /// Number of files walked, in the legacy pipeline.
    pub filesystem_files_seen: Option<u64>,
}

/// How well the indexed files answer the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// The quotes answer the question.
    Answered,
    /// A file very likely holds the answer, but no single sentence gives it: the quotes show where to look.
    Passage,
    /// Nothing in the indexed files answers the question.
    Nothing,
}

impl AnswerOutcome {
    /// Every outcome.
    pub const ALL: [AnswerOutcome; 3] = [AnswerOutcome::Answered, AnswerOutcome::Passage, AnswerOutcome::Nothing];
}

/// Text copied from a file that answers the question or a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuote {
    /// Number, from 1, of the hit from which the text was copied.
    pub hit: u32,
    /// The sentence, the list item, or the table row with its column headings.
    pub text: String,
    /// Path and location of the text, e.g. `Contracts/lease.pdf, page 3`.
    pub place: String,
    /// Whether the text was found again in the current file.
    pub checked: bool,
}

/// The answer of the indexed files to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// How well the files answer the question.
    pub outcome: AnswerOutcome,
    /// Estimated probability, 0 to 1, that the quotes answer the question; calibrated on questions with known answers.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// One to three quotes, best first; empty if the outcome is `nothing`.
    pub quotes: Vec<AnswerQuote>,
}

/// The response to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskResponse {
    /// The plan of the search that was run.
    pub query_plan: QueryPlan,
    /// Hits, best first.
    pub hits: Vec<SearchHit>,
    /// A summary of the hits as text, or null.
    pub answer_summary: Option<String>,
    /// The summary's quotes as data; null if no summary was requested, and for lists of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Warnings for the user: skipped paths, missing parts, stale index.
    pub warnings: Vec<String>,
    /// Statistics of the search.
    pub stats: Option<ResponseStats>,
}

/// A question from a client. An absent field takes the configured default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AskRequest {
    /// The text of the question.
    pub query: String,
    /// Which data may leave the machine.
    pub privacy_mode: Option<PrivacyMode>,
    /// Search only below this folder.
    pub warehouse_root: Option<String>,
    /// Maximum number of hits, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Number of best hits to leave out, to get the next part of the same ranking; with `limit` at most 1000. Parts join exactly
    /// if they are pages of one size, or if the first part has 50 hits.
    #[schemars(range(min = 0, max = 999))]
    pub offset: Option<u32>,
    /// Filters to apply in addition to those that the librarian finds in the question.
    pub filters: L0Filters,
    /// Whether the metadata of each hit contains its rank and score in each ranked list, under the key `explain`.
    pub explain: bool,
    /// Search by words and names alone, as fast as a user types: without vectors, models, skills and corrections.
    pub words_only: bool,
    /// Search for every word of the question: no word becomes a filter or an order. Operators still apply.
    pub plain_words: bool,
    /// A plan to run; if absent, one is made from the question.
    pub plan: Option<QueryPlan>,
}

/// One event of a streamed answer, in this order: the plan once, the hits (again if L2 skills changed them), the summary
/// in pieces, and finally the whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event", content = "data")]
pub enum AskEvent {
    /// The plan of the search.
    Plan(Box<QueryPlan>),
    /// All hits found so far, best first.
    Hits(Vec<SearchHit>),
    /// The next piece of the summary.
    Text(String),
    /// The whole answer, always last. Its summary is verified, so it may differ from the pieces sent before.
    Done(Box<AskResponse>),
}

/// A request for files with similar content to a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SimilarRequest {
    /// Absolute path of an indexed file.
    pub path: String,
    /// Search only below this folder.
    pub warehouse_root: Option<String>,
    /// Maximum number of hits, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Number of best hits to leave out, to get the next part of the same ranking; with `limit` at most 1000.
    #[schemars(range(min = 0, max = 999))]
    pub offset: Option<u32>,
    /// Metadata filters that the files must match.
    pub filters: L0Filters,
}

/// A search for a regular expression in the indexed text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrepRequest {
    /// Regular expression in the syntax of Rust's `regex` crate, matched line by line.
    pub pattern: String,
    /// Whether to ignore upper and lower case.
    pub ignore_case: bool,
    /// Whether the pattern is plain text, not a regular expression.
    pub fixed: bool,
    /// Whether to ignore case, accents and width in pattern and text.
    pub fold: bool,
    /// Search only below this folder.
    pub warehouse_root: Option<String>,
    /// Maximum number of lines, 1 to 10000.
    #[schemars(range(min = 1, max = 10000))]
    pub limit: Option<u32>,
    /// Context lines before each match, at most 50.
    #[schemars(range(max = 50))]
    pub before: u32,
    /// Context lines after each match, at most 50.
    #[schemars(range(max = 50))]
    pub after: u32,
    /// Metadata filters that the files must match.
    pub filters: L0Filters,
}

/// One matching line of a [`GrepRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrepMatch {
    /// Path relative to its root; `archive.zip!/member` inside archives.
    pub path: String,
    /// Absolute path of the file on disk.
    pub absolute_path: String,
    /// Location of the line in the file, as exactly as the format allows.
    pub anchor: Anchor,
    /// Text of the line.
    pub line: String,
    /// Offset of the first byte of the match in `line`.
    pub start: u32,
    /// Offset one past the last byte of the match in `line`.
    pub end: u32,
    /// Context lines before the match, up to the requested number; the last is the one directly above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Context lines after the match, up to the requested number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// All matching lines of a [`GrepRequest`], sorted by path and location.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrepResponse {
    /// The matching lines.
    pub matches: Vec<GrepMatch>,
    /// Number of files that were searched.
    pub files_searched: u64,
    /// True if the list was truncated at the limit.
    pub truncated: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Audit log entry of one outbound request, whether it was sent or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Time of the request, in milliseconds since the epoch.
    pub time_ms: i64,
    /// Scheme, host and port of the server.
    pub destination: String,
    /// Bytes of the request's body; 0 if the request was refused.
    pub bytes: u64,
    /// Purpose of the request: `embedding`, `reasoning`, `download`.
    pub purpose: String,
    /// Privacy mode in effect at that time.
    pub privacy_mode: PrivacyMode,
    /// True if the request was sent, false if the privacy mode refused it.
    pub allowed: bool,
}
