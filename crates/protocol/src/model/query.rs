//! The published contract of a question and its answer. Names and types follow the API document and must not change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::Anchor;

/// Data that may leave the machine, strictest mode first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrivacyMode {
    /// Nothing.
    #[default]
    LocalOnly,
    /// Questions and excerpts, to the configured language model.
    CloudReasoningOk,
    /// File content too, to the configured embedding server. Discouraged.
    CloudEmbeddingOk,
}

impl PrivacyMode {
    /// Returns the stricter mode of the two.
    pub fn stricter(self, other: PrivacyMode) -> PrivacyMode {
        self.min(other)
    }

    /// Returns the snake_case name.
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
    /// Extensions with the dot, e.g. `.pdf`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Glob over the path relative to its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_glob: Option<String>,
    /// RFC 3339 date or date-time; at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_after: Option<String>,
    /// RFC 3339 date or date-time; before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_before: Option<String>,
    /// Bytes, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<u64>,
    /// Bytes, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
    /// User name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Maximum size of a glob, in bytes; a compiled glob takes some hundred bytes per byte.
pub const MAX_GLOB: usize = 4 << 10;

/// Maximum number of extensions in a filter.
pub const MAX_EXTENSIONS: usize = 1_000;

/// Maximum number of words that a name must contain; each word is searched in every name.
pub const MAX_NAME_WORDS: usize = 16;

/// Values of [`QueryPlan::intent`].
pub const INTENTS: &[&str] = &["search", "list", "count", "summarize", "read_evidence"];

/// L2 skills: values of [`QueryPlan::l2_skills`].
pub const SKILLS: &[&str] = &["pdf_layout", "ocr_image", "vision"];

/// The query plan that the librarian derives from a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryPlan {
    /// Short label from [`INTENTS`]; others run as `search`.
    pub intent: String,
    /// Metadata filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l0_filters: Option<L0Filters>,
    /// The text to embed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1_query_text: Option<String>,
    /// Similarity floor of L1 hits, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub l1_threshold: Option<f64>,
    /// Whether L2 must run.
    #[serde(default)]
    pub requires_l2: bool,
    /// Skills to run at L2, from [`SKILLS`].
    #[serde(default)]
    pub l2_skills: Vec<String>,
    /// Maximum number of files for L2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_top_k: Option<u32>,
    /// Data that may leave the machine.
    pub privacy_mode: PrivacyMode,
    /// The original question.
    pub raw_user_text: String,
    /// The planner that made the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner_model_id: Option<String>,
}

/// One matching file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchHit {
    /// Path relative to the warehouse root; `archive.zip!/member` inside archives.
    pub path: String,
    /// 0 to 1; see `ask::fuse` for the formula.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: f64,
    /// `L0`, `L1` or `L2`.
    pub tier: String,
    /// Tiers that took part.
    pub layers: Vec<String>,
    /// The passage that matched.
    pub excerpt: String,
    /// L0 fields, anchors and chunk ids.
    pub metadata: Map<String, Value>,
    /// Explanation of the match, from facts only.
    pub reasoning: String,
}

/// Statistics of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseStats {
    /// `tiered` or `legacy`.
    pub pipeline: String,
    /// The searched root; several roots are joined by `:`.
    pub warehouse_root: String,
    /// Directory of the index.
    pub db_path: String,
    /// Milliseconds from request to response.
    pub latency_ms: Option<f64>,
    /// Embedding model.
    pub embed_model: Option<String>,
    /// Chunks in the index.
    pub chunk_rows_indexed: Option<u64>,
    /// Distinct paths after the per-file merge.
    pub unique_paths_in_index: Option<u64>,
    /// The same, before the cut to the limit.
    pub l1_candidates_merged: Option<u64>,
    /// Number of hits.
    pub hits_returned: u64,
    /// Number of hits by tier.
    pub hits_by_tier: BTreeMap<String, u64>,
    /// Files walked, in the legacy pipeline.
    pub filesystem_files_seen: Option<u64>,
}

/// How well the indexed files answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOutcome {
    /// The quotes answer it.
    Answered,
    /// A file very likely holds the answer, but no single sentence gives it: the quotes show where to read.
    Passage,
    /// Nothing in the indexed files answers it.
    Nothing,
}

impl AnswerOutcome {
    /// All outcomes.
    pub const ALL: [AnswerOutcome; 3] = [AnswerOutcome::Answered, AnswerOutcome::Passage, AnswerOutcome::Nothing];
}

/// Text copied from a file that answers a question or a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuote {
    /// Number of the hit it comes from, from 1.
    pub hit: u32,
    /// The sentence, the list item, or the table row with its column heads.
    pub text: String,
    /// Path and place, e.g. `Contracts/lease.pdf, page 3`.
    pub place: String,
    /// Whether the quote was verified in the current file.
    pub checked: bool,
}

/// The answer of the indexed files to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The outcome.
    pub outcome: AnswerOutcome,
    /// Estimated probability, 0 to 1, that the quotes answer the question, calibrated on questions with known answers.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// One to three quotes, best first; empty when nothing answers.
    pub quotes: Vec<AnswerQuote>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskResponse {
    /// The plan that was run.
    pub query_plan: QueryPlan,
    /// Hits, best first.
    pub hits: Vec<SearchHit>,
    /// A summary of the hits for people, or null.
    pub answer_summary: Option<String>,
    /// The same for programs; null if no summary was requested, and for lists of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Warnings for the user: skipped paths, missing parts, stale index.
    pub warnings: Vec<String>,
    /// Statistics.
    pub stats: Option<ResponseStats>,
}

/// A question from a client. Absent fields take the configured default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AskRequest {
    /// The question.
    pub query: String,
    /// Data that may leave the machine.
    pub privacy_mode: Option<PrivacyMode>,
    /// Only below this folder.
    pub warehouse_root: Option<String>,
    /// Maximum number of hits, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Filters in addition to those found by the librarian.
    pub filters: L0Filters,
    /// Whether each hit's metadata has every leg's rank and score under `explain`.
    pub explain: bool,
    /// A plan to run instead of making one.
    pub plan: Option<QueryPlan>,
}

/// One event of a streamed answer, in this order: the plan once, the hits (again if L2 changed them), the summary in
/// pieces, and finally the whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event", content = "data")]
pub enum AskEvent {
    /// The plan to run.
    Plan(Box<QueryPlan>),
    /// Hits so far, best first.
    Hits(Vec<SearchHit>),
    /// The next piece of the summary.
    Text(String),
    /// The whole answer, always last. Its summary is verified and may differ from the pieces.
    Done(Box<AskResponse>),
}

/// A request for files similar to a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SimilarRequest {
    /// Absolute path of an indexed file.
    pub path: String,
    /// Only below this folder.
    pub warehouse_root: Option<String>,
    /// Maximum number of hits, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Metadata filters.
    pub filters: L0Filters,
}

/// A search with a regular expression in the indexed text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GrepRequest {
    /// Regular expression of the `regex` crate, matched line by line.
    pub pattern: String,
    /// Whether to ignore case.
    pub ignore_case: bool,
    /// Whether the pattern is plain text.
    pub fixed: bool,
    /// Only below this folder.
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
    /// Metadata filters.
    pub filters: L0Filters,
}

/// One matching line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrepMatch {
    /// Path relative to its root; `archive.zip!/member` inside archives.
    pub path: String,
    /// Absolute path of the file on disk.
    pub absolute_path: String,
    /// Place of the line, as exactly as its format allows.
    pub anchor: Anchor,
    /// The line.
    pub line: String,
    /// First byte of the match in `line`.
    pub start: u32,
    /// One past its last byte.
    pub end: u32,
    /// Context lines before the match, up to the requested number; the last is the one directly above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Context lines after the match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// All matching lines, by path and place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrepResponse {
    /// The lines.
    pub matches: Vec<GrepMatch>,
    /// Files that were searched.
    pub files_searched: u64,
    /// True when the limit cut the list short.
    pub truncated: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Audit log entry of one outbound request, sent or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// Scheme, host and port.
    pub destination: String,
    /// Bytes of the request's body; 0 when it was refused.
    pub bytes: u64,
    /// Purpose: `embedding`, `reasoning`, `download`.
    pub purpose: String,
    /// Privacy mode in effect.
    pub privacy_mode: PrivacyMode,
    /// True when it was sent.
    pub allowed: bool,
}
