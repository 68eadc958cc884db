//! `vic corpus`: calls a verb of the corpus API. The registry defines the fields of each verb and their types, by which
//! the words are parsed; the envelope of the reply is printed unchanged.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value};

use crate::output::Printer;
use crate::text::escape_controls_in_json;
use crate::{value_parsers, vicd_command};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, Result};
use vic_protocol::model::{CorpusReply, CorpusRequest};
use vic_protocol::verbs::{self, Field, FieldKind, Verb};

/// Arguments of `vic corpus`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// A verb, its form, and its fields as `--name=value` or `--name value`; `ingest PATH...`; also `help [VERB [FORM]]`,
    /// `help fields`, `schema [VERB]`, `job ID` and `result ID`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "VERB")]
    words: Vec<String>,
}

impl Args {
    /// Returns whether the call can be answered without a daemon.
    pub(crate) fn needs_no_daemon(&self) -> bool {
        matches!(self.words[0].as_str(), "help" | "schema") || self.asks_for_help()
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
    let call = parse_call(&args.words)?;
    let reply = Client::connect_or_start(config).await?.corpus(call).await?;
    print_reply(&reply, printer)
}

/// Prints the envelope of a reply unchanged. A refusal also has an envelope; only the exit code differs.
pub(crate) fn print_reply(reply: &CorpusReply, printer: &mut Printer) -> Result<()> {
    printer.exit_code = reply.error_code.map_or(0, ErrorCode::exit_code);
    let text = if printer.terminal { escape_controls_in_json(&reply.text) } else { reply.text.as_str().into() };
    printer.line(text.trim_end_matches('\n'))
}

/// Parses the words into a call. Values are converted to the type of their field in the registry.
pub(crate) fn parse_call(words: &[String]) -> Result<CorpusRequest> {
    let verb = words[0].clone();
    let mut request = Map::new();
    let mut rest = words[1..].iter().peekable();
    if verbs::verb(&verb).is_some_and(|it| it.name == "INGEST") {
        // INGEST has no forms, so the words after the verb are the paths to ingest.
        let paths: Vec<Value> = absolute_paths(std::iter::from_fn(|| rest.next_if(|it| !it.starts_with("--"))))?;
        if !paths.is_empty() {
            request.insert("paths".into(), paths.into());
        }
    } else if let Some(word) = rest.next_if(|it| !it.starts_with("--")) {
        let name = if matches!(verb.as_str(), "job" | "result") { "id" } else { "form" };
        request.insert(name.into(), word.as_str().into());
    }
    while let Some(word) = rest.next() {
        let name = word
            .strip_prefix("--")
            .ok_or_else(|| Error::invalid(format!("`{word}` is not of the form `--name=value`")))?;
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (name, rest.next_if(|it| !it.starts_with("--")).cloned()),
        };
        let name = name.replace('-', "_");
        let field = registry_field(&verb, request.get("form").and_then(Value::as_str), &name);
        add_field(&mut request, name, typed_value(field, value)?)?;
    }
    Ok(CorpusRequest { verb, request })
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

/// Returns the field with this name from the registry, if there is one.
fn registry_field(verb: &str, form: Option<&str>, name: &str) -> Option<&'static Field> {
    let verb = verbs::verb(verb)?;
    let form = verb.forms.iter().find(|it| Some(it.name) == form).or(verb.forms.first())?;
    Verb::fields(form).find(|it| it.name == name)
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
        "urls" => !value.split(',').all(|it| it.trim().starts_with("http")),
        _ => false,
    };
    value.split(move |it| it == ',' && !is_one)
}

/// Makes the typed paths absolute, because the daemon has a different working directory.
fn absolute_paths<'w>(words: impl Iterator<Item = &'w String>) -> Result<Vec<Value>> {
    words.map(|it| absolute_path(it)).collect()
}

/// Makes the paths in a JSON list absolute. Values that are not paths are passed on unchanged.
fn absolute_json_paths(list: Vec<Value>) -> Result<Vec<Value>> {
    list.into_iter()
        .map(|it| it.as_str().map(absolute_path).transpose().map(|found| found.unwrap_or(it.clone())))
        .collect()
}

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
