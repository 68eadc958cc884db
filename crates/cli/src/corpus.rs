//! `vic corpus`: calls a verb of the corpus API. The registry defines the fields of each verb and their types, by which
//! the words are parsed; the envelope of the reply is printed unchanged.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value};

use crate::output::Printer;
use crate::text::escape_controls_in_json;
use crate::{corpus_input, value_parsers, vicd_command};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, Result};
use vic_protocol::model::{CorpusReply, CorpusRequest};
use vic_protocol::verbs::{self, Field, FieldKind, Verb};

/// Arguments of `vic corpus`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// A verb, its form, and its fields as JSON (`'{"name":value}'`, `@FILE`, or `-` for standard input) or as
    /// `--name=value`; `ingest PATH...`; also `help [VERB [FORM]]`, `help fields`, `schema [VERB]`,
    /// `view create|list|show|delete`, `job ID` and `result ID`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "VERB")]
    words: Vec<String>,
}

impl Args {
    /// Returns whether the call can be answered without a daemon.
    pub(crate) fn needs_no_daemon(&self) -> bool {
        ["help", "schema"].iter().any(|it| self.words[0].eq_ignore_ascii_case(it)) || self.asks_for_help()
    }

    /// Returns the words as arguments for the command that `vicd` runs.
    pub(crate) fn passed_on(&self) -> vicd_command::Args {
        vicd_command::Args { arguments: self.words.iter().map(OsString::from).collect() }
    }

    fn asks_for_help(&self) -> bool {
        self.words.iter().any(|it| matches!(it.as_str(), "--help" | "-h"))
    }
}

/// Sends the call to the daemon and prints the envelope of the reply.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let call = read_call(&args.words)?;
    let reply = Client::connect_or_start(config).await?.corpus(call).await?;
    print_reply(&reply, printer)
}

/// Prints the envelope of a reply unchanged. A refusal also has an envelope; only the exit code differs.
pub(crate) fn print_reply(reply: &CorpusReply, printer: &mut Printer) -> Result<()> {
    printer.exit_code = reply.error_code.map_or(0, ErrorCode::exit_code);
    let text = if printer.terminal { escape_controls_in_json(&reply.text) } else { reply.text.as_str().into() };
    printer.line(text.trim_end_matches('\n'))
}

/// Returns the call that the words make. Without fields, a request that needs some may stand on standard input.
fn read_call(words: &[String]) -> Result<CorpusRequest> {
    let mut call = parse_call(words)?;
    if lacks_fields(&call)
        && let Some(fields) = corpus_input::request_on_stdin()?
    {
        add_fields(&mut call, fields)?;
    }
    Ok(call)
}

/// Returns whether a call has no fields, although its form needs some. Only then is standard input read without a `-`,
/// because a loop that calls `vic` may have other input there.
fn lacks_fields(call: &CorpusRequest) -> bool {
    let Some(verb) = verbs::any_call(&call.verb) else { return false };
    if call.request.keys().any(|it| it != verb.form_field()) {
        return false;
    }
    match call.request.get(verb.form_field()).and_then(Value::as_str) {
        Some(form) => verbs::form_of(verb, form).is_some_and(|it| it.fields.iter().any(|it| it.required)),
        None => true,
    }
}

/// Parses the words into a call. Values are converted to the type of their field in the registry.
pub(crate) fn parse_call(words: &[String]) -> Result<CorpusRequest> {
    if let Some(sign) = words[0].chars().next().filter(|it| matches!(it, '{' | '@' | '-')) {
        return Err(Error::invalid(format!("a call begins with a verb, not with `{sign}`"))
            .hint("put the verb before the request: vic corpus extract '{\"schema\":\"Code\"}'"));
    }
    let mut call = CorpusRequest { verb: words[0].clone(), request: Map::new() };
    let mut rest = words[1..].iter().peekable();
    let mut position = 0;
    while let Some(word) = rest.next() {
        if let Some(option) = word.strip_prefix("--") {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (option, None),
            };
            let name = name.replace('-', "_");
            let field = registry_field(&call, &name);
            let is_value = |it: &&String| match field.map(|it| it.kind) {
                // The word after a flag is its value only if it is `true` or `false`; any other word may be the request.
                Some(FieldKind::Flag) => matches!(it.as_str(), "true" | "false"),
                _ => !it.starts_with("--"),
            };
            let value = value.or_else(|| rest.next_if(is_value).cloned());
            add_field(&mut call.request, name, typed_value(field, value)?)?;
        } else if let Some(fields) = corpus_input::request_in(word)? {
            add_fields(&mut call, fields)?;
        } else {
            add_positional(&mut call, position, word)?;
            position += 1;
        }
    }
    Ok(call)
}

/// Adds the value of a word without `--` to the call. The verb and the `position` of the word, from 0, decide which field it
/// is.
fn add_positional(call: &mut CorpusRequest, position: usize, word: &str) -> Result<()> {
    let verb = verbs::any_call(&call.verb).map_or("", |it| it.name);
    let name = match (verb, position) {
        // The words after INGEST are the paths to ingest, because it has no forms.
        ("INGEST", _) => return add_field(&mut call.request, "paths".into(), Value::Array(vec![absolute_path(word)?])),
        ("EXTRACT", 0) => "schema",
        ("QUERY", 0) => "filter",
        ("EXPLAIN_FAILURE", 0) if word.starts_with("r-") => "id",
        ("EXPLAIN_FAILURE", 0) => "url_id",
        ("JOB" | "RESULT", 0) => "id",
        ("VIEW", 0) => "action",
        ("VIEW", 1) => "name",
        (_, 0) => "form",
        _ => {
            return Err(Error::invalid(format!("`{word}` is not a `--name` option"))
                .hint("write fields as --name=value, or all of them as '{\"name\":value}'"));
        }
    };
    add_field(&mut call.request, name.into(), word.into())
}

/// Adds the fields of a JSON request. Relative paths of INGEST start at the working directory.
fn add_fields(call: &mut CorpusRequest, fields: Map<String, Value>) -> Result<()> {
    for (name, value) in fields {
        let name = name.replace('-', "_");
        let is_paths = registry_field(call, &name).is_some_and(|it| it.name == "paths");
        let value = match value {
            Value::Array(list) if is_paths => Value::Array(absolute_json_paths(list)?),
            Value::String(path) if is_paths => absolute_path(&path)?,
            value => value,
        };
        if call.request.get(&name) != Some(&value) {
            add_field(&mut call.request, name, value)?;
        }
    }
    Ok(())
}

/// Adds a field to the request. A list may be split over several options with the same name; other fields may occur only
/// once.
fn add_field(request: &mut Map<String, Value>, name: String, value: Value) -> Result<()> {
    match (request.get_mut(&name), value) {
        (None, value) => {
            request.insert(name, value);
        }
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (Some(_), _) => return Err(Error::invalid(format!("`--{}` is given twice", name.replace('_', "-")))),
    }
    Ok(())
}

/// Returns the field with this name, or another name of it, from the registry, if there is one.
fn registry_field(call: &CorpusRequest, name: &str) -> Option<&'static Field> {
    let verb = verbs::any_call(&call.verb)?;
    let form = call.request.get(verb.form_field()).and_then(Value::as_str).and_then(|it| verbs::form_of(verb, it));
    let form = form.or(verb.forms.first())?;
    match verbs::verb(&call.verb) {
        Some(_) => Verb::fields(form).find(|it| it.is_named(name)),
        None => form.fields.iter().find(|it| it.is_named(name)),
    }
}

/// Converts a value to the type of its field. A value that does not fit is passed on unchanged, for the validator to
/// report.
fn typed_value(field: Option<&Field>, value: Option<String>) -> Result<Value> {
    let Some(value) = value else { return Ok(Value::Bool(true)) };
    let Some(field) = field else { return Ok(Value::String(value)) };
    let json = || serde_json::from_str::<Value>(&value).ok();
    Ok(match field.kind {
        FieldKind::Flag
        | FieldKind::Whole(..)
        | FieldKind::Number(..)
        | FieldKind::Baseline
        | FieldKind::Object(_)
        | FieldKind::SchemaFilters => json().unwrap_or(Value::String(value)),
        FieldKind::Texts(_) | FieldKind::Files(_) => match json() {
            Some(Value::Array(list)) if field.name == "paths" => Value::Array(absolute_json_paths(list)?),
            Some(list @ Value::Array(_)) => list,
            _ => {
                Value::Array(split_items(field, &value).map(|it| typed_item(field, it.trim())).collect::<Result<_>>()?)
            }
        },
        _ => Value::String(value),
    })
}

/// Splits a list at commas, except a URL or an existing path, which may contain commas.
fn split_items<'v>(field: &Field, value: &'v str) -> impl Iterator<Item = &'v str> {
    let is_one = match field.name {
        "paths" => Path::new(value).exists(),
        "urls" if matches!(field.kind, FieldKind::Texts(_)) => {
            !value.split(',').all(|it| it.trim().starts_with("http"))
        }
        _ => false,
    };
    value.split(move |it| it == ',' && !is_one)
}

/// Makes the paths in a JSON list absolute. Values that are not paths are passed on unchanged.
fn absolute_json_paths(list: Vec<Value>) -> Result<Vec<Value>> {
    list.into_iter()
        .map(|it| it.as_str().map(absolute_path).transpose().map(|found| found.unwrap_or(it.clone())))
        .collect()
}

/// Makes a typed path absolute, because the daemon has a different working directory.
fn absolute_path(text: &str) -> Result<Value> {
    if text.trim().is_empty() {
        // Passes an empty path on unchanged; made absolute, it would become the working directory.
        return Ok(Value::String(text.into()));
    }
    Ok(Value::String(value_parsers::absolute_path(Path::new(text))?))
}

/// Converts an item of a list to the type that the field requires.
fn typed_item(field: &Field, text: &str) -> Result<Value> {
    if field.name == "paths" {
        return absolute_path(text);
    }
    Ok(match (field.kind, text.parse::<i64>()) {
        (FieldKind::Files(_), Ok(number)) => number.into(),
        _ => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(line: &str, verb: &str, request: Value) {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let made = parse_call(&words).unwrap();
        assert_eq!((made.verb.as_str(), Value::Object(made.request)), (verb, request), "{line}");
    }

    #[test]
    fn documented_forms_become_requests() {
        check(
            "extract --session 4 --schema=Table --format=csv",
            "extract",
            json!({"session": 4, "schema": "Table", "format": "csv"}),
        );
        check(
            r#"detect clusters --objective=group --constraints={"max_clusters":5}"#,
            "detect",
            json!({"form": "clusters", "objective": "group", "constraints": {"max_clusters": 5}}),
        );
        check("trace citations --format=graph", "trace", json!({"form": "citations", "format": "graph"}));
        check(
            "compare versions --doc-a=3 --doc-b=b.md",
            "compare",
            json!({"form": "versions", "doc_a": "3", "doc_b": "b.md"}),
        );
        check(
            "compare consensus --threshold=0.8 --field x",
            "compare",
            json!({"form": "consensus", "threshold": 0.8, "field": "x"}),
        );
        check(
            "summarize comparison-matrix --items=1,5 --schema=year,author",
            "summarize",
            json!({"form": "comparison-matrix", "items": [1, 5], "schema": ["year", "author"]}),
        );
        check("ingest --session 4 --refetch-failed", "ingest", json!({"session": 4, "refetch_failed": true}));
        check("extract --async --limit=ten", "extract", json!({"async": true, "limit": "ten"}));
        check("extract --filters=language", "extract", json!({"filters": "language"}));
        check("job j-1", "job", json!({"id": "j-1"}));
        check("delta --baseline=4", "delta", json!({"baseline": 4}));
        check("delta --baseline r-41c0", "delta", json!({"baseline": "r-41c0"}));
    }

    #[test]
    fn json_request_joins_words_and_options() {
        check(r#"extract {"schema":"Code","limit":3}"#, "extract", json!({"schema": "Code", "limit": 3}));
        check(
            r#"compare consensus {"form":"consensus","field":"x"} --format=yaml"#,
            "compare",
            json!({"form": "consensus", "field": "x", "format": "yaml"}),
        );
        check(r#"extract --async {"schema":"Code"}"#, "extract", json!({"async": true, "schema": "Code"}));
        check(r#"summarize {"form":"timeline"}"#, "summarize", json!({"form": "timeline"}));
        let src = std::env::current_dir().unwrap().canonicalize().unwrap().join("src");
        check(r#"ingest {"path":"src"}"#, "ingest", json!({"path": src}));
        check(r#"ingest {"paths":["src",3]}"#, "ingest", json!({"paths": [src, 3]}));
        for line in [r#"extract {"schema":"Code"} --schema=Table"#, r#"{"schema":"Code"}"#, "extract {'schema':1}", "-"]
        {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            assert!(parse_call(&words).is_err(), "{line}");
        }
    }

    #[test]
    fn words_without_dashes_have_a_field() {
        check("extract Table", "extract", json!({"schema": "Table"}));
        check("query size>3 --limit=5", "query", json!({"filter": "size>3", "limit": 5}));
        check("explain-failure r-1", "explain-failure", json!({"id": "r-1"}));
        check("explain-failure a.md --session-id 3", "explain-failure", json!({"url_id": "a.md", "session_id": 3}));
        check("JOB j-1 --wait-ms 500 --cancel", "JOB", json!({"id": "j-1", "wait_ms": 500, "cancel": true}));
        check("view show papers", "view", json!({"action": "show", "name": "papers"}));
        check(
            "view create --name=v --urls=1,b.md --auto-update",
            "view",
            json!({"action": "create", "name": "v", "urls": [1, "b.md"], "auto_update": true}),
        );
    }

    #[test]
    fn standard_input_is_read_for_missing_fields_only() {
        for (line, expected) in [
            ("extract", true),
            ("compare", true),
            ("compare consensus", true),
            ("view create", true),
            ("job", true),
            ("normalize dates", false),
            ("view list", false),
            ("extract --limit=3", false),
            ("extract {}", true),
            ("nonsense", false),
            ("compare nonsense", false),
        ] {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            assert_eq!(lacks_fields(&parse_call(&words).unwrap()), expected, "{line}");
        }
    }

    #[test]
    fn invalid_or_repeated_option_is_rejected() {
        for line in ["extract schema Code", "query --filter=a --filter=b"] {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            assert!(parse_call(&words).is_err(), "{line}");
        }
    }

    #[test]
    fn lists_split_at_commas_or_over_options() {
        check(
            "ingest --urls=http://e/a,http://e/b --urls=http://e/c?d=1,2",
            "ingest",
            json!({"urls": ["http://e/a", "http://e/b", "http://e/c?d=1,2"]}),
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bread, salt");
        std::fs::create_dir(&path).unwrap();
        let made = parse_call(&["ingest".into(), format!("--paths={}", path.display())]).unwrap();
        assert_eq!(made.request["paths"], json!([path]));
    }

    #[test]
    fn ingest_paths_resolve_against_working_directory() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let src = here.join("src");
        check("ingest src", "ingest", json!({"paths": [src]}));
        check("INGEST src . --mode=minimal", "INGEST", json!({"paths": [src, here], "mode": "minimal"}));
        check("ingest --paths src", "ingest", json!({"paths": [src]}));
        check(r#"ingest --paths=["src","."]"#, "ingest", json!({"paths": [src, here]}));
        check("ingest src --paths=.", "ingest", json!({"paths": [src, here]}));
        check(r#"ingest --paths=[1,""]"#, "ingest", json!({"paths": [1, ""]}));
    }
}
