//! `vic corpus`: the verbs of the contract. Which words a verb takes, and what they hold, the registry says; the envelope is
//! printed as it comes.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value};

use crate::output::Printer;
use crate::text::visible_json;
use crate::{engine, values};
use vic_protocol::client::Client;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, Result};
use vic_protocol::model::{CorpusCall, CorpusReply};
use vic_protocol::verbs::{self, Field, Kind, Verb};

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
    /// Says whether the answer is known here.
    pub(crate) fn needs_no_daemon(&self) -> bool {
        matches!(self.words[0].as_str(), "help" | "schema") || self.asks_for_help()
    }

    /// The words, for a command that `vicd` runs.
    pub(crate) fn passed_on(&self) -> engine::Args {
        engine::Args { arguments: self.words.iter().map(OsString::from).collect() }
    }

    fn asks_for_help(&self) -> bool {
        self.words.iter().any(|it| matches!(it.as_str(), "--help" | "-h"))
    }
}

/// Asks, and prints the envelope.
pub(crate) async fn run(args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    let call = call(&args.words)?;
    let reply = Client::connect_or_start(config).await?.corpus(call).await?;
    print(&reply, printer)
}

/// Prints a reply as it is. A refusal is an answer like any other; beside it there is only the exit code.
pub(crate) fn print(reply: &CorpusReply, printer: &mut Printer) -> Result<()> {
    printer.exit_code = reply.refused.map_or(0, ErrorCode::exit_code);
    let text = if printer.terminal { visible_json(&reply.text) } else { reply.text.as_str().into() };
    printer.line(text.trim_end_matches('\n'))
}

/// Words to a call: the values take the type that the registry gives their field.
pub(crate) fn call(words: &[String]) -> Result<CorpusCall> {
    let verb = words[0].clone();
    let mut request = Map::new();
    let mut rest = words[1..].iter().peekable();
    if verbs::verb(&verb).is_some_and(|it| it.name == "INGEST") {
        // It has no forms: what stands there is what is to be brought in.
        let paths: Vec<Value> = typed_paths(std::iter::from_fn(|| rest.next_if(|it| !it.starts_with("--"))))?;
        if !paths.is_empty() {
            request.insert("paths".into(), paths.into());
        }
    } else if let Some(word) = rest.next_if(|it| !it.starts_with("--")) {
        let name = if matches!(verb.as_str(), "job" | "result") { "id" } else { "form" };
        request.insert(name.into(), word.as_str().into());
    }
    while let Some(word) = rest.next() {
        let name = word.strip_prefix("--").ok_or_else(|| Error::invalid(format!("`{word}` is no `--name`")))?;
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (name, rest.next_if(|it| !it.starts_with("--")).cloned()),
        };
        let name = name.replace('-', "_");
        let field = field(&verb, request.get("form").and_then(Value::as_str), &name);
        add(&mut request, name, typed(field, value)?)?;
    }
    Ok(CorpusCall { verb, request })
}

/// A list may be given in several options; nothing else may be given twice.
fn add(request: &mut Map<String, Value>, name: String, value: Value) -> Result<()> {
    match (request.get_mut(&name), value) {
        (None, value) => {
            request.insert(name, value);
        }
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (Some(_), _) => return Err(Error::invalid(format!("`--{}` is given twice", name.replace('_', "-")))),
    }
    Ok(())
}

/// The field of a name, as far as the registry knows it.
fn field(verb: &str, form: Option<&str>, name: &str) -> Option<&'static Field> {
    let verb = verbs::verb(verb)?;
    let form = verb.forms.iter().find(|it| Some(it.name) == form).or(verb.forms.first())?;
    Verb::fields(form).find(|it| it.name == name)
}

/// A value of the kind of its field. What does not fit goes as it is: the validator says what is wrong with it.
fn typed(field: Option<&Field>, value: Option<String>) -> Result<Value> {
    let Some(value) = value else { return Ok(Value::Bool(true)) };
    let Some(field) = field else { return Ok(Value::String(value)) };
    let json = || serde_json::from_str::<Value>(&value).ok();
    Ok(match field.kind {
        Kind::Flag | Kind::Whole(..) | Kind::Number(..) | Kind::Baseline | Kind::Object(_) | Kind::SchemaFilters => {
            json().unwrap_or(Value::String(value))
        }
        Kind::Texts(_) | Kind::Files(_) => match json() {
            Some(Value::Array(list)) if field.name == "paths" => Value::Array(resolved(list)?),
            Some(list @ Value::Array(_)) => list,
            _ => Value::Array(items(field, &value).map(|it| item(field, it.trim())).collect::<Result<_>>()?),
        },
        _ => Value::String(value),
    })
}

/// The items of a list with commas between; an address and a path may have commas of their own.
fn items<'v>(field: &Field, value: &'v str) -> impl Iterator<Item = &'v str> {
    let is_one = match field.name {
        "paths" => Path::new(value).exists(),
        "urls" => !value.split(',').all(|it| it.trim().starts_with("http")),
        _ => false,
    };
    value.split(move |it| it == ',' && !is_one)
}

/// Paths as they were typed, made absolute, because the daemon works elsewhere.
fn typed_paths<'w>(words: impl Iterator<Item = &'w String>) -> Result<Vec<Value>> {
    words.map(|it| path(it)).collect()
}

/// The same of a list of JSON. What is no text goes as it is.
fn resolved(list: Vec<Value>) -> Result<Vec<Value>> {
    list.into_iter().map(|it| it.as_str().map(path).transpose().map(|found| found.unwrap_or(it.clone()))).collect()
}

fn path(text: &str) -> Result<Value> {
    if text.trim().is_empty() {
        // The working directory would be a surprise.
        return Ok(Value::String(text.into()));
    }
    Ok(Value::String(values::absolute(Path::new(text))?))
}

/// An item of a list.
fn item(field: &Field, text: &str) -> Result<Value> {
    if field.name == "paths" {
        return path(text);
    }
    Ok(match (field.kind, text.parse::<i64>()) {
        (Kind::Files(_), Ok(number)) => number.into(),
        _ => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(line: &str, verb: &str, request: Value) {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let made = call(&words).unwrap();
        assert_eq!((made.verb.as_str(), Value::Object(made.request)), (verb, request), "{line}");
    }

    #[test]
    fn the_forms_of_the_document_become_requests() {
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
    fn what_is_no_field_or_no_object_is_said() {
        for line in ["extract schema Code", "query --filter=a --filter=b"] {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            assert!(call(&words).is_err(), "{line}");
        }
    }

    #[test]
    fn lists_are_parted_at_commas_or_given_in_several_options() {
        check(
            "ingest --urls=http://e/a,http://e/b --urls=http://e/c?d=1,2",
            "ingest",
            json!({"urls": ["http://e/a", "http://e/b", "http://e/c?d=1,2"]}),
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bread, salt");
        std::fs::create_dir(&path).unwrap();
        let made = call(&["ingest".into(), format!("--paths={}", path.display())]).unwrap();
        assert_eq!(made.request["paths"], json!([path]));
    }

    #[test]
    fn paths_are_typed_behind_ingest_and_hold_where_they_are_typed() {
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
