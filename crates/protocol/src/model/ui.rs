//! Requests and responses that the web page needs besides those of programs: highlights, completion, counts, previews,
//! folders, settings, models, keys and remembered searches.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{AuditRecord, JobSnapshot, L0Filters, PrivacyMode, Region, Root};

/// Maximum number of texts in one [`MarksRequest`].
pub const MAX_MARKED_TEXTS: usize = 500;

/// Maximum number of globs in one [`RootCheckRequest`].
pub const MAX_CHECKED_GLOBS: usize = 100;

/// Which words of some texts match a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MarksRequest {
    /// The question, with its operators.
    pub query: String,
    /// The texts, at most 500.
    pub texts: Vec<String>,
    /// Whether the last word of the question is being typed, so that words which begin with it match too.
    pub prefix: bool,
}

/// The matches of a [`MarksRequest`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Marks {
    /// For each text, the ranges that match, in order and without overlaps: start and end in UTF-16 code units, as scripts of
    /// web pages count.
    pub marks: Vec<Vec<(u32, u32)>>,
}

/// A question that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompleteRequest {
    /// The text typed so far.
    pub text: String,
    /// Position of the cursor in the text, in UTF-16 code units.
    pub position: u32,
}

/// What a [`Suggestion`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuggestionKind {
    /// An operator, such as `ext:`.
    Operator,
    /// A value of the operator before the cursor.
    Value,
}

/// One completion of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// The text to insert.
    pub insert: String,
    /// The text to show.
    pub label: String,
    /// What it means, or how many files it has; may be empty.
    pub detail: String,
    /// What the suggestion is.
    pub kind: SuggestionKind,
}

/// The completions of a [`CompleteRequest`]: each replaces the text from `from` to `to`, in UTF-16 code units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Completion {
    /// Start of the part to replace.
    pub from: u32,
    /// End of the part to replace.
    pub to: u32,
    /// The completions, best first.
    pub items: Vec<Suggestion>,
}

/// A request for the numbers of files by type, folder, date, size, language and owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CountsRequest {
    /// The question; if it has no words, all files that pass its filters are counted.
    pub query: String,
    /// Metadata filters that the files must match.
    pub filters: L0Filters,
    /// Only files below this folder.
    pub warehouse_root: Option<String>,
    /// Search for every word of the question, as in [`AskRequest::plain_words`](crate::model::AskRequest::plain_words).
    pub plain_words: bool,
}

/// The files that have one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedValue {
    /// The value for people, e.g. `2026-11`.
    pub label: String,
    /// The value for a filter: extensions joined by commas (`.` for files without one), a folder, two dates or two sizes joined
    /// by `..`, a language, a person, an owner.
    pub value: String,
    /// Number of files.
    pub count: u64,
}

/// The counts of one property of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountGroup {
    /// `kind` (the label is the name of a kind of files, judged by the extension), `type`, `folder`, `date`, `size`, `language`,
    /// `person` or `owner`.
    pub name: String,
    /// The values with the most files, or in order of date or size.
    pub values: Vec<CountedValue>,
}

/// Numbers of files by property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Number of files that match.
    pub total: u64,
    /// False if only the best matches were counted.
    pub complete: bool,
    /// The counts.
    pub groups: Vec<CountGroup>,
}

/// A request for a page of a PDF, an image or a slide, to show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PageRequest {
    /// Absolute path of an indexed file; a member of an archive or an attachment of a mail is named by `archive!/member`.
    pub path: String,
    /// Number of the page, from 1; the first if absent.
    #[schemars(range(min = 1))]
    pub page: Option<u32>,
    /// The question whose words are framed; may be empty.
    pub query: String,
    /// A quote of an answer, framed as a whole where its words follow each other on the page; may be empty.
    pub quote: String,
    /// Width in pixels in which the picture will be requested, 100 to 2400, so that it is drawn only once; 1200 if absent.
    #[schemars(range(min = 100, max = 2400))]
    pub width: Option<u32>,
}

/// A request for the picture of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PictureRequest {
    /// Absolute path of an indexed PDF, image or presentation; a member of an archive is named by `archive!/member`.
    pub path: String,
    /// Number of the page, from 1; the first if absent.
    #[schemars(range(min = 1))]
    pub page: Option<u32>,
    /// Width of the picture in pixels, 100 to 2400; 1200 if absent.
    #[schemars(range(min = 100, max = 2400))]
    pub width: Option<u32>,
}

/// A picture that vic made of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The picture as JPEG.
    pub jpeg: Vec<u8>,
}

/// Where the words of a page come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WordsFrom {
    /// The page has no words, or they are not known yet.
    #[default]
    None,
    /// The page has a text layer.
    Text,
    /// OCR read the page.
    Ocr,
}

/// A page to show, without its picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PagePreview {
    /// Number of the page, from 1.
    pub page: u32,
    /// Number of pages.
    pub pages: u32,
    /// Width of the page, in points or pixels.
    pub width: f32,
    /// Height of the page, in points or pixels.
    pub height: f32,
    /// The places of the words of the question on this page. If an earlier version read the page by OCR, those of the paragraphs
    /// with them.
    pub frames: Vec<Region>,
    /// The lines of the quote on this page; empty if its words do not follow each other here.
    pub quote_frames: Vec<Region>,
    /// Where the words come from.
    pub words_from: WordsFrom,
    /// Whether the picture shows the content in a simplified layout, as that of a slide does.
    pub simplified: bool,
    /// Address of the picture, without its width.
    pub picture: String,
}

/// A request for the folders in a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FoldersRequest {
    /// Absolute path of the folder; the home of the daemon's user if absent.
    pub path: Option<String>,
}

/// A folder in a [`FolderList`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderEntry {
    /// Name of the folder.
    pub name: String,
    /// Absolute path of the folder.
    pub path: String,
    /// Whether a root contains the folder.
    pub indexed: bool,
}

/// The visible folders in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderList {
    /// Absolute path of the folder.
    pub path: String,
    /// The folder above it; absent for `/`.
    pub parent: Option<String>,
    /// Whether a root contains the folder.
    pub indexed: bool,
    /// The folders in it by name, at most 1,000.
    pub folders: Vec<FolderEntry>,
}

/// A request to look what indexing a folder would read and leave out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RootCheckRequest {
    /// Absolute path of the folder.
    pub path: String,
    /// Globs to leave out in place of the configured ones, at most 100; the configured ones if absent.
    pub ignore: Option<Vec<String>>,
    /// If not empty, only entries whose name holds all of these words are counted, those in ignored folders among them; at
    /// most 16.
    pub words: Vec<String>,
}

/// The files that one rule leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Name of the rule: `hidden`, `ignore_file`, `ignore_setting`, `excluded`, or the reason why a file is skipped.
    pub rule: String,
    /// Number of entries: files, and folders that are left out as a whole.
    pub count: u64,
    /// Some of them, relative to the folder.
    pub examples: Vec<String>,
}

/// The files with one extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeCount {
    /// Extension without the dot; empty for files without one.
    pub extension: String,
    /// Number of files.
    pub count: u64,
}

/// What indexing a folder would read and leave out. Nothing is indexed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RootCheck {
    /// Absolute path of the folder.
    pub path: String,
    /// Number of files that would be known.
    pub files: u64,
    /// Number of files that would be read.
    pub read_files: u64,
    /// Size of the files that would be read, in bytes.
    pub bytes: u64,
    /// False if the look ended early, after the time or the number of files that it may take.
    pub complete: bool,
    /// What would be left out, by rule.
    pub left_out: Vec<LeftOut>,
    /// The files that would be read by type, the most frequent first.
    pub types: Vec<TypeCount>,
    /// Seconds that the look took.
    pub seconds: f64,
}

/// A path of a root or of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathRequest {
    /// The absolute path.
    pub path: String,
}

/// All roots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RootList {
    /// The roots.
    pub roots: Vec<Root>,
}

/// Jobs, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobSnapshot>,
}

/// The id of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobRequest {
    /// Id of the job.
    pub job_id: String,
}

/// A setting as the web page shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingEntry {
    /// Name of the environment variable, e.g. `VIC_LISTEN`.
    pub name: String,
    /// Key of the setting in `config.toml`.
    pub key: String,
    /// The value in effect; absent if unset without a default. For API keys, `set` instead of the value.
    pub value: Option<String>,
    /// Where the value comes from: `environment`, `file`, `tuned` or `default`.
    pub origin: String,
    /// Description of the setting in one line.
    pub description: String,
    /// Whether the web page may change it.
    pub editable: bool,
    /// Whether a change takes effect only after a restart of the daemon.
    pub needs_restart: bool,
}

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingList {
    /// Which data may leave the machine.
    pub privacy_mode: PrivacyMode,
    /// The data directory.
    pub data_dir: String,
    /// The file that holds the settings.
    pub config_file: String,
    /// The settings. Values of API keys are not shown.
    pub settings: Vec<SettingEntry>,
    /// Names of the settings that were changed since the daemon started, and that take effect after its restart.
    pub restart_needed: Vec<String>,
}

/// A change of a setting in `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SettingChange {
    /// Key of the setting in `config.toml`.
    pub key: String,
    /// The new value.
    pub value: String,
    /// The value that the change replaces; if another one is set, the change is refused. Absent: any value.
    pub value_before: Option<String>,
}

/// The model that fits the languages of the index better than the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelAdvice {
    /// Name of the model.
    pub name: String,
    /// Why it fits, with the command to type.
    pub reason: String,
}

/// The embedding models that vic knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelList {
    /// Name of the model in use, with its backend.
    pub current: String,
    /// The models, each as `vic models list` shows it, with the cost of a switch and the command.
    pub models: Vec<serde_json::Value>,
    /// The model that fits better; absent if the current one fits.
    pub suggestion: Option<ModelAdvice>,
    /// Number of chunks by language in a sample of the index.
    pub languages: BTreeMap<String, u64>,
}

/// Requests to other machines, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditList {
    /// The requests.
    pub records: Vec<AuditRecord>,
}

/// A new API key for some folders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewKeyRequest {
    /// Name of the holder.
    pub name: String,
    /// Absolute paths of the folders that the holder may see.
    pub folders: Vec<String>,
    /// `read`, or `index` to start and cancel index jobs too.
    pub right: String,
}

/// The name of an API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyNameRequest {
    /// Name of the holder.
    pub name: String,
}

/// A search of the web page that is remembered: its question and filters as the query string of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastSearch {
    /// The query string, e.g. `q=lease&ext=pdf`.
    pub query: String,
    /// When it was last run or saved, in milliseconds since the epoch.
    pub time_ms: i64,
    /// Name under which it is saved; absent in the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The remembered searches of one caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastSearches {
    /// The last searches, newest first.
    pub history: Vec<PastSearch>,
    /// The saved searches by name.
    pub saved: Vec<PastSearch>,
}

/// A change of the remembered searches: with `query` it is remembered, with `name` too it is saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchNote {
    /// The query string.
    pub query: String,
    /// Name under which the search is saved.
    pub name: Option<String>,
}

/// Which remembered searches to delete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForgetSearches {
    /// The saved search with this name.
    pub name: Option<String>,
    /// This search of the history.
    pub query: Option<String>,
    /// The whole history; saved searches stay.
    pub all: bool,
}
