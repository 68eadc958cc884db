//! Checks of sizes and ranges that the gRPC, HTTP and MCP adapters apply before they call a service. Each error names the
//! invalid field.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::index::resolve_or_keep;
use crate::model::{
    AskRequest, CountsRequest, FileFilter, FilesRequest, GrepRequest, IndexRequest, L0Filters, MAX_CHECKED_GLOBS,
    MAX_MARKED_TEXTS, MAX_NAME_WORDS, MarksRequest, PageRequest, PauseRequest, QueryPlan, ReadRequest,
    RootCheckRequest, SearchNote, SimilarRequest, SyncRequest, TableRequest, parse_path,
};
use crate::{ask, planner};

/// Maximum size of a question or another text field, in bytes: far longer than typed questions, but quick to parse and
/// embed.
pub(crate) const MAX_QUERY: usize = 32 << 10;

/// Maximum number of hits of one question; documented in the API.
const MAX_HITS: u32 = 1_000;

/// Maximum number of matching lines of one grep; documented in the API.
const MAX_LINES: u32 = 10_000;

/// Checks a request to answer a question.
pub(crate) fn ask(request: &AskRequest) -> Result<()> {
    text("query", &request.query)?;
    check_range("limit", request.limit, MAX_HITS)?;
    check_filters(&request.filters)?;
    request.plan.as_ref().map_or(Ok(()), check_plan)
}

/// Names of the fields of filters and query plans whose values can be invalid.
const FILTER_FIELDS: &[&str] = &[
    "extensions",
    "path_glob",
    "modified_after",
    "modified_before",
    "min_size",
    "max_size",
    "owner",
    "language",
    "author",
];
const PLAN_FIELDS: &[&str] = &["intent", "l1_query_text", "l1_threshold", "l2_skills", "l2_top_k", "raw_user_text"];

fn check_plan(plan: &QueryPlan) -> Result<()> {
    check_length("plan.raw_user_text", &plan.raw_user_text)?;
    planner::validate(plan).map_err(|error| {
        set_quoted_field("plan.l0_filters", FILTER_FIELDS, set_quoted_field("plan", PLAN_FIELDS, error))
    })
}

fn check_filters(filters: &L0Filters) -> Result<()> {
    planner::validate_filters(filters).map_err(|error| set_quoted_field("filters", FILTER_FIELDS, error))
}

/// Sets the field of an error that the planner returned: takes the first of `fields` that the error message quotes.
fn set_quoted_field(parent: &str, fields: &[&str], error: Error) -> Error {
    let quoted = error.message.split('`').skip(1).step_by(2).find(|it| fields.contains(it));
    match (&error.field, quoted) {
        (None, Some(field)) => {
            let field = format!("{parent}.{field}");
            error.field(field)
        }
        (_, _) => error,
    }
}

/// Maximum size of the texts of one request for marks, in bytes.
const MAX_MARKED_BYTES: usize = 256 << 10;

/// Checks a request for marks.
pub(crate) fn marks(request: &MarksRequest) -> Result<()> {
    check_length("query", &request.query)?;
    let bytes: usize = request.texts.iter().map(String::len).sum();
    if request.texts.len() > MAX_MARKED_TEXTS || bytes > MAX_MARKED_BYTES {
        let text = format!("one request marks at most {MAX_MARKED_TEXTS} texts of {MAX_MARKED_BYTES} bytes in total");
        return Err(Error::invalid(text).field("texts"));
    }
    Ok(())
}

/// Checks a request for counts.
pub(crate) fn counts(request: &CountsRequest) -> Result<()> {
    check_length("query", &request.query)?;
    check_filters(&request.filters)
}

/// Checks a request for a page of a file.
pub(crate) fn page(request: &PageRequest) -> Result<()> {
    check_length("query", &request.query)?;
    check_length("quote", &request.quote)?;
    page_number(&request.path, request.page)
}

/// Checks the path and the page of a request for the picture of a page.
pub(crate) fn page_number(path: &str, page: Option<u32>) -> Result<()> {
    self::path("path", path)?;
    match page {
        Some(0) => Err(Error::invalid("pages are numbered from 1").field("page")),
        _ => Ok(()),
    }
}

/// Maximum size of the globs of a dry run in bytes: more take seconds to compile.
const MAX_GLOB_BYTES: usize = 16 << 10;

/// Checks a request for a dry run of a root.
pub(crate) fn root_check(request: &RootCheckRequest) -> Result<()> {
    path("path", &request.path)?;
    let globs = request.ignore.as_deref().unwrap_or_default();
    if globs.len() > MAX_CHECKED_GLOBS {
        return Err(Error::invalid(format!("at most {MAX_CHECKED_GLOBS} globs")).field("ignore"));
    }
    if globs.iter().map(String::len).sum::<usize>() > MAX_GLOB_BYTES {
        return Err(Error::invalid(format!("the globs have more than {MAX_GLOB_BYTES} bytes")).field("ignore"));
    }
    if request.words.len() > MAX_NAME_WORDS {
        return Err(Error::invalid(format!("at most {MAX_NAME_WORDS} words")).field("words"));
    }
    Ok(())
}

/// Maximum size of a remembered search in bytes.
const MAX_SEARCH_BYTES: usize = 4 << 10;

/// Maximum length of the name of a saved search, in characters.
const MAX_SEARCH_NAME: usize = 200;

/// Checks a search to remember.
pub(crate) fn search_note(note: &SearchNote) -> Result<()> {
    text("query", &note.query)?;
    if note.query.len() > MAX_SEARCH_BYTES {
        return Err(Error::invalid(format!("a search has at most {MAX_SEARCH_BYTES} bytes")).field("query"));
    }
    let Some(name) = &note.name else { return Ok(()) };
    match name.trim().is_empty() || name.chars().count() > MAX_SEARCH_NAME {
        true => Err(Error::invalid(format!("a name has 1 to {MAX_SEARCH_NAME} characters")).field("name")),
        false => Ok(()),
    }
}

/// Checks a request for similar files.
pub(crate) fn similar(request: &SimilarRequest) -> Result<()> {
    path("path", &request.path)?;
    check_filters(&request.filters)?;
    check_range("limit", request.limit, MAX_HITS)
}

/// Checks a grep request.
pub(crate) fn grep(request: &GrepRequest) -> Result<()> {
    if request.pattern.is_empty() {
        return Err(Error::invalid("the pattern is empty").field("pattern"));
    }
    check_length("pattern", &request.pattern)?;
    check_filters(&request.filters)?;
    check_range("limit", request.limit, MAX_LINES)
}

/// Checks a table query.
pub(crate) fn table(request: &TableRequest) -> Result<()> {
    path("path", &request.path)?;
    let columns = request.aggregates.iter().filter_map(|it| it.column.as_ref());
    let named = [&request.sheet, &request.filter, &request.group_by, &request.by];
    named.into_iter().flatten().chain(columns).try_for_each(|it| check_length("table", it))?;
    check_range("top", request.top, MAX_HITS)?;
    check_range("limit", request.limit, MAX_HITS)
}

/// Maximum number of paths of one index job, and maximum total size of these paths in bytes; a request with more is
/// rejected, because every list of jobs contains the paths of each job.
const MAX_PATHS: usize = 1_000;
const MAX_PATHS_BYTES: usize = 64 << 10;

/// Checks a request to start an index job.
pub(crate) fn index(request: &IndexRequest) -> Result<()> {
    let paths = &request.paths;
    paths.iter().try_for_each(|it| path("paths", it))?;
    if paths.len() > MAX_PATHS || paths.iter().map(String::len).sum::<usize>() > MAX_PATHS_BYTES {
        let text = format!("one job takes at most {MAX_PATHS} paths, of {MAX_PATHS_BYTES} bytes in total");
        return Err(Error::invalid(text)
            .field("paths")
            .hint("give the folder that contains them, or start several jobs"));
    }
    Ok(())
}

/// Maximum timeout of a sync in seconds; a client that wants to wait longer watches a job instead.
const MAX_WAIT: u32 = 3_600;

/// Maximum length of a pause in seconds: a year. For a longer pause, a client omits the length.
const MAX_PAUSE: u64 = 366 * 24 * 3_600;

/// Checks a sync request.
pub(crate) fn sync(request: &SyncRequest) -> Result<()> {
    request.path.as_deref().map_or(Ok(()), |it| path("path", it))?;
    check_range("timeout_seconds", request.timeout_seconds, MAX_WAIT)
}

/// Checks a pause request.
pub(crate) fn pause(request: &PauseRequest) -> Result<()> {
    match request.seconds {
        Some(seconds) if !(1..=MAX_PAUSE).contains(&seconds) => {
            Err(Error::invalid(format!("`seconds` is {seconds}, but must be between 1 and {MAX_PAUSE}"))
                .field("seconds")
                .hint("omit `seconds` to pause until you resume"))
        }
        _ => Ok(()),
    }
}

/// Maximum number of files per page; a page of this many files has about 5 MiB.
pub(crate) const MAX_FILES: u32 = 10_000;

/// Number of files per page if the request does not set it.
const DEFAULT_FILES: u32 = 100;

/// Maximum number of characters that one read returns.
const MAX_CHARS: u64 = 1_000_000;

/// Number of characters that one read returns if the request does not set it: what a person or a model reads at once.
const DEFAULT_CHARS: u64 = 20_000;

/// Checks a request to list files; returns the filter and the number of files per page.
pub(crate) async fn files(request: &FilesRequest) -> Result<(FileFilter, u32)> {
    check_range("limit", request.limit, MAX_FILES)?;
    crate::serve::validate::check_filters(&request.filters)?;
    let root = match request.warehouse_root.as_deref() {
        Some(name) => Some(resolve_folder(name).await?),
        None => None,
    };
    let filter = ask::resolve_filters(&request.filters, root.as_deref())?;
    let name_words = distinct_words(&request.words)?;
    let filter = FileFilter { name_words, state: request.state, reason: request.reason, ..filter };
    Ok((filter, request.limit.unwrap_or(DEFAULT_FILES)))
}

/// Returns the distinct words that a file name must contain. Fails if there are too many, or one is too long.
fn distinct_words(given: &[String]) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    for word in given {
        if word.len() > MAX_QUERY {
            let text = format!("`words` has a word of {} bytes; the limit is {MAX_QUERY}", word.len());
            return Err(Error::invalid(text).field("words"));
        }
        if word.is_empty() || words.contains(word) {
            continue;
        }
        if words.len() == MAX_NAME_WORDS {
            let text = format!("`words` has more than {MAX_NAME_WORDS} different words");
            return Err(Error::invalid(text).field("words").hint("remove some of the words"));
        }
        words.push(word.clone());
    }
    Ok(words)
}

/// Resolves the symbolic links of an absolute path, because roots are stored resolved. Keeps a relative path, which is
/// relative to a root.
async fn resolve_folder(name: &str) -> Result<PathBuf> {
    path("warehouse_root", name)?;
    let path = parse_path(name);
    Ok(if path.is_absolute() { resolve_or_keep(&path).await } else { path })
}

/// Checks a read request; returns the number of characters to return.
pub(crate) fn read(request: &ReadRequest) -> Result<u64> {
    path("path", &request.path)?;
    match request.max_chars.unwrap_or(DEFAULT_CHARS) {
        chars @ 1..=MAX_CHARS => Ok(chars),
        _ => Err(Error::invalid(format!("`max_chars` is not between 1 and {MAX_CHARS}")).field("max_chars")),
    }
}

/// Checks that a path is not empty or too long. It may contain any character of a file name.
pub(crate) fn path(field: &str, path: &str) -> Result<()> {
    if path.is_empty() || path.len() > MAX_QUERY || path.contains('\0') {
        return Err(Error::invalid(format!("`{field}` is empty, too long, or contains a NUL character")).field(field));
    }
    Ok(())
}

/// Checks that a text is not blank, not longer than [`MAX_QUERY`], and without control characters except line breaks and
/// tabs.
pub(crate) fn text(field: &str, text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid(format!("`{field}` is empty")).field(field));
    }
    check_length(field, text)
}

fn check_length(field: &str, text: &str) -> Result<()> {
    if text.len() > MAX_QUERY {
        return Err(Error::invalid(format!("`{field}` is longer than {MAX_QUERY} bytes")).field(field));
    }
    match text.chars().find(|it| it.is_control() && !matches!(it, '\n' | '\r' | '\t')) {
        Some(found) => {
            let name = found.escape_unicode();
            Err(Error::invalid(format!("`{field}` contains the control character `{name}`")).field(field))
        }
        None => Ok(()),
    }
}

fn check_range(field: &str, value: Option<u32>, max: u32) -> Result<()> {
    match value {
        Some(value) if !(1..=max).contains(&value) => {
            Err(Error::invalid(format!("`{field}` is not between 1 and {max}")).field(field))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the value, or the default if the value is 0. Fails if it is larger than `max`.
pub(crate) fn value_or_default(field: &str, value: u32, default: u32, max: u32) -> Result<u32> {
    match value {
        0 => Ok(default),
        value if value <= max => Ok(value),
        _ => Err(Error::invalid(format!("`{field}` is larger than {max}")).field(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples;

    fn check(request: AskRequest, field: Option<&str>) {
        assert_eq!(ask(&request).err().and_then(|it| it.field).as_deref(), field, "{:.80}", format!("{request:?}"));
    }

    fn question(query: &str) -> AskRequest {
        AskRequest { query: query.into(), ..AskRequest::default() }
    }

    #[test]
    fn blank_long_or_control_questions_are_rejected() {
        check(question("who?\n\tand why"), None);
        check(question(&"x".repeat(MAX_QUERY)), None);
        for query in ["", " \n", "a\u{0}b", "\u{1b}[2J", "\u{9b}2J", &"ä".repeat(100_000)] {
            check(question(query), Some("query"));
        }
    }

    // Case D10
    #[test]
    fn index_paths_are_limited_in_number_and_size() {
        let of = |paths: Vec<String>| index(&IndexRequest { paths, ..IndexRequest::default() }).map_err(|it| it.field);
        let field = Err(Some("paths".to_string()));
        assert_eq!(of(Vec::new()), Ok(()));
        assert_eq!(of(vec!["/w".into(); MAX_PATHS]), Ok(()));
        assert_eq!(of(vec!["/w".into(); MAX_PATHS + 1]), field);
        assert_eq!(of(vec!["/w".repeat(1_000); 40]), field, "too long in all");
        assert_eq!(of(vec!["/w".into(), String::new()]), field);
    }

    #[test]
    fn name_words_are_deduplicated_and_limited_to_16() {
        let of = |count: usize| (0..count).map(|it| format!("w{it}")).collect::<Vec<_>>();
        assert_eq!(distinct_words(&[of(16), of(16), vec![String::new(); 900]].concat()).unwrap(), of(16));
        assert_eq!(distinct_words(&of(17)).unwrap_err().field.as_deref(), Some("words"));
    }

    #[test]
    fn filters_are_bounded_in_number_and_size() {
        let glob = L0Filters { path_glob: Some("?".repeat(500_000)), ..L0Filters::default() };
        check(AskRequest { filters: glob, ..question("x") }, Some("filters.path_glob"));
        let extensions = L0Filters { extensions: vec![".a".into(); 1_001], ..L0Filters::default() };
        check(AskRequest { filters: extensions, ..question("x") }, Some("filters.extensions"));
    }

    #[test]
    fn out_of_range_values_name_their_field() {
        for (limit, field) in [(0, Some("limit")), (1, None), (1_000, None), (1_001, Some("limit"))] {
            check(AskRequest { limit: Some(limit), ..question("x") }, field);
        }
        let plan = samples::answer("x").query_plan;
        for (threshold, field) in
            [(0.0, None), (1.0, None), (1.01, Some("plan.l1_threshold")), (-0.1, Some("plan.l1_threshold"))]
        {
            let plan = QueryPlan { l1_threshold: Some(threshold), ..plan.clone() };
            check(AskRequest { plan: Some(plan), ..question("x") }, field);
        }
        let nonsense = QueryPlan { l1_threshold: Some(f64::NAN), ..plan.clone() };
        check(AskRequest { plan: Some(nonsense), ..question("x") }, Some("plan.l1_threshold"));
        let deep = QueryPlan { l2_top_k: Some(1_001), ..plan.clone() };
        check(AskRequest { plan: Some(deep), ..question("x") }, Some("plan.l2_top_k"));
        let unskilled = QueryPlan { l2_skills: vec!["juggling".into()], ..plan.clone() };
        check(AskRequest { plan: Some(unskilled), ..question("x") }, Some("plan.l2_skills"));
        let turned = L0Filters { min_size: Some(2), max_size: Some(1), ..L0Filters::default() };
        check(AskRequest { filters: turned.clone(), ..question("x") }, Some("filters.min_size"));
        let plan = QueryPlan { l0_filters: Some(turned), ..plan };
        check(AskRequest { plan: Some(plan), ..question("x") }, Some("plan.l0_filters.min_size"));
        let undated = L0Filters { modified_after: Some("soon".into()), ..L0Filters::default() };
        check(AskRequest { filters: undated, ..question("x") }, Some("filters.modified_after"));
    }
}
