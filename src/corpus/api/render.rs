//! Renders envelopes as JSON or YAML, and tables as CSV.
//!
//! CSV starts with a comment line: the id, the confidence and the coverage of the answer, the next offset, and the unknowns.
//! Rows follow, with the columns `file`, `page` and `lines` first if the objects have them; before these comes the name of
//! the list if there are several. Tables of documents are written unchanged, each with its own header.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};

/// Media type and text of a rendered answer.
pub(crate) type Rendered = (&'static str, String);

/// Columns that are written before all others.
const LEADING_COLUMNS: [&str; 3] = ["file", "page", "lines"];

/// Verbs and forms whose answers contain no table.
const FORMS_WITHOUT_TABLE: [(&str, &str); 2] = [("SCORE", "confidence"), ("SUMMARIZE", "decision-inputs")];

/// Returns whether the answers of a form contain a table.
pub(crate) fn has_table(verb: &str, form: &str) -> bool {
    !FORMS_WITHOUT_TABLE.contains(&(verb, form))
}

/// Returns the error for a request of CSV for an answer without a table.
pub(crate) fn no_table_error(what: &str) -> ApiError {
    ApiError::new(ApiErrorKind::OutOfRange, format!("{what} has no table, but csv needs one"))
        .field("format")
        .action("use json or yaml")
}

/// Renders an envelope. CSV is possible for an answer with a table only; errors and started jobs are rendered as JSON.
pub(crate) fn render_envelope(envelope: &Value, format: Option<&str>) -> ApiResult<Rendered> {
    let is_answer = envelope["error"].is_null() && envelope["data"]["job_id"].is_null();
    match format {
        Some("csv") if is_answer => Ok(("text/csv", render_csv(envelope)?)),
        Some("yaml") => {
            let text = serde_yaml_ng::to_string(envelope).map_err(|error| internal(&error))?;
            Ok(("application/yaml", text))
        }
        _ => Ok(("application/json", serde_json::to_string(envelope).map_err(|error| internal(&error))?)),
    }
}

fn internal(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ApiErrorKind::Internal, error.to_string())
}

fn render_csv(envelope: &Value) -> ApiResult<String> {
    let data = &envelope["data"];
    let (verb, form) = (envelope["verb"].as_str().unwrap_or_default(), envelope["form"].as_str().unwrap_or_default());
    let all: Vec<(&String, &Vec<Value>)> =
        data.as_object().into_iter().flatten().filter_map(|it| Some((it.0, it.1.as_array()?))).collect();
    if !has_table(verb, form) || all.is_empty() {
        return Err(no_table_error(if verb.is_empty() { "the answer" } else { verb }));
    }
    let comment = comment_line(envelope);
    if data["schema"] == "Table" {
        let tables = data["objects"].as_array().into_iter().flatten();
        let tables: Vec<String> = tables.map(write_table).collect::<ApiResult<_>>()?;
        return Ok(format!("{comment}{}", tables.join("\n")));
    }
    if let (Some(columns), Some(rows)) = (data["columns"].as_array(), data["rows"].as_array()) {
        let rows = rows.iter().map(|it| it.as_array().into_iter().flatten().map(cell_text).collect());
        return Ok(format!(
            "{comment}{}",
            write_rows(std::iter::once(columns.iter().map(cell_text).collect()).chain(rows))?
        ));
    }
    let holds = |kind: fn(&Value) -> bool| all.iter().filter(move |it| it.1.iter().any(kind)).copied().collect();
    let mut lists: Vec<(&String, &Vec<Value>)> = holds(Value::is_object);
    if lists.is_empty() && verb == "DELTA" {
        // For a watched list, write its added and removed items, which are texts instead of objects.
        lists = holds(Value::is_string);
    }
    Ok(format!("{comment}{}", write_lists(&lists)?))
}

/// Returns the first line of a CSV: the id, the confidence, the coverage, the next offset if there is one, and the unknowns
/// as JSON, e.g. `# id=r-1, confidence=0.9, coverage=1.0, unknowns=[]`.
fn comment_line(envelope: &Value) -> String {
    let fields = ["id", "confidence", "coverage"].map(|it| format!("{it}={}", cell_text(&envelope[it])));
    let unknowns = envelope["unknowns"].as_array().into_iter().flatten();
    let more = unknowns.filter(|it| it["type"] == "more_objects").find_map(|it| it["detail"].as_str());
    let told: Vec<&str> = fields.iter().map(String::as_str).chain(more).collect();
    // JSON has no line breaks, so the comment stays one line.
    format!("# {}, unknowns={}\n", told.join(", "), envelope["unknowns"])
}

/// Writes lists of objects as rows under one common header.
fn write_lists(lists: &[(&String, &Vec<Value>)]) -> ApiResult<String> {
    let objects = || lists.iter().flat_map(|it| it.1).filter_map(Value::as_object);
    let known: BTreeSet<&str> = objects().flat_map(|it| it.keys()).map(String::as_str).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let own = objects().flat_map(|it| it.keys()).map(String::as_str).filter(|it| !LEADING_COLUMNS.contains(it));
    let mut columns: Vec<&str> =
        LEADING_COLUMNS.into_iter().filter(|it| known.contains(it)).chain(own.filter(|it| seen.insert(it))).collect();
    if columns.is_empty() && !lists.is_empty() {
        columns.push("text");
    }
    let several = lists.len() > 1;
    let row = |name: &str, values: Vec<String>| {
        several.then(|| name.to_string()).into_iter().chain(values).collect::<Vec<String>>()
    };
    let head = row("list", columns.iter().map(|it| it.to_string()).collect());
    let rows = lists.iter().flat_map(|(name, list)| {
        list.iter().map(|object| row(name, columns.iter().map(|it| cell_of_column(object, it)).collect()))
    });
    write_rows(std::iter::once(head).filter(|it| !it.is_empty()).chain(rows))
}

/// Returns the cell of an object in a column; lines are written as `first-last`.
fn cell_of_column(object: &Value, column: &str) -> String {
    let value = if object.is_object() { &object[column] } else { object };
    match (column, &value[0], &value[1]) {
        ("lines" | "bytes", Value::Number(first), Value::Number(last)) => format!("{first}-{last}"),
        _ => cell_text(value),
    }
}

/// Writes a table from a document, with the location of the table at the start of each row.
fn write_table(object: &Value) -> ApiResult<String> {
    let cells = |row: &Value| row.as_array().into_iter().flatten().map(cell_text).collect::<Vec<_>>();
    let place: Vec<String> = LEADING_COLUMNS.iter().map(|it| cell_of_column(object, it)).collect();
    let head: Vec<String> = LEADING_COLUMNS.iter().map(|it| it.to_string()).chain(cells(&object["headers"])).collect();
    let rows = object["rows"].as_array().into_iter().flatten();
    write_rows(std::iter::once(head).chain(rows.map(|it| place.iter().cloned().chain(cells(it)).collect())))
}

fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn write_rows(rows: impl Iterator<Item = Vec<String>>) -> ApiResult<String> {
    let mut writer = ::csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in rows {
        let safe = row.into_iter().map(|it| if is_formula(&it) { format!("'{it}") } else { it });
        writer.write_record(safe).map_err(|error| internal(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| internal(&error))?;
    String::from_utf8(bytes).map_err(|error| internal(&error))
}

/// Returns whether a spreadsheet would execute a cell as a formula. Some spreadsheets ignore white space before a
/// formula. A number with a sign is not a formula.
fn is_formula(cell: &str) -> bool {
    cell.starts_with(['=', '@', '+', '-', '\t', '\r', '\n']) && !cell.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(verb: &str, form: Option<&str>, data: Value) -> Value {
        json!({"id": "r-1", "verb": verb, "form": form, "confidence": 0.9, "coverage": 1.0, "error": null,
            "unknowns": [{"type": "more_objects", "count": 3, "detail": "go on at offset 1"}], "data": data})
    }

    fn check(envelope: &Value, rows: &str) {
        let unknowns = r#"[{"type":"more_objects","count":3,"detail":"go on at offset 1"}]"#;
        let expected =
            format!("# id=r-1, confidence=0.9, coverage=1.0, go on at offset 1, unknowns={unknowns}\n{rows}");
        assert_eq!(render_envelope(envelope, Some("csv")).unwrap(), ("text/csv", expected));
    }

    #[test]
    fn document_tables_become_csv_with_place() {
        let tables = json!([
            {"file": 7, "page": 2, "headers": ["a", "b"], "rows": [["1", "x, y"]]},
            {"file": 8, "lines": [3, 5], "headers": [], "rows": [["1"], ["2"]]},
        ]);
        check(
            &told("EXTRACT", None, json!({"schema": "Table", "objects": tables})),
            "file,page,lines,a,b\n7,2,,1,\"x, y\"\n\nfile,page,lines\n8,,3-5,1\n8,,3-5,2\n",
        );
    }

    #[test]
    fn lists_become_csv_with_place_columns_first() {
        let list = json!([{"text": "=1+1", "lines": [1, 2], "file": 3}, {"file": 4, "page": 9, "more": true}]);
        check(
            &told("DETECT", Some("warnings"), json!({"count": 1, "warnings": list})),
            "file,page,lines,text,more\n3,,1-2,'=1+1,\n4,9,,,true\n",
        );
        let two = json!({"added": [{"file": 1}], "removed": [], "modified": [{"file": 2, "changes": 3}]});
        check(&told("DELTA", None, two), "list,file,changes\nadded,1,\nmodified,2,3\n");
        check(
            &told(
                "SUMMARIZE",
                Some("comparison-matrix"),
                json!({"columns": ["file", "year"], "rows": [[1, 2020], [2, null]]}),
            ),
            "file,year\n1,2020\n2,\n",
        );
        let watched = json!({"file": 1, "added": ["One, two"], "removed": ["Three"]});
        check(&told("DELTA", None, watched), "list,text\nadded,\"One, two\"\nremoved,Three\n");
        check(&told("EXTRACT", None, json!({"schema": "Quote", "count": 0, "objects": []})), "");
    }

    #[test]
    fn comment_of_csv_has_every_unknown_in_one_line() {
        let mut told = told("EXTRACT", None, json!({"schema": "Quote", "count": 0, "objects": []}));
        let unknowns = json!([
            {"type": "no_objects", "count": 2, "files": [3, 4]},
            {"type": "vanished_folder", "count": 1, "detail": "/a\nb, \"c\""},
        ]);
        told["unknowns"] = unknowns.clone();
        let text = render_envelope(&told, Some("csv")).unwrap().1;
        let (comment, rest) = text.split_once('\n').unwrap();
        let (_, given) = comment.split_once("unknowns=").unwrap();
        assert_eq!((serde_json::from_str::<Value>(given).unwrap(), rest), (unknowns, ""), "{text}");
        told["unknowns"] = json!([]);
        assert!(render_envelope(&told, Some("csv")).unwrap().1.ends_with("coverage=1.0, unknowns=[]\n"));
    }

    #[test]
    fn csv_escapes_formulas_and_keeps_signed_numbers() {
        let cells =
            ["+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "=1", "\t=1", "\r=1", "\n=1", "- an item", "+", "-inf"];
        let numbers = ["-1", "+1.5", "-1e3", "", "a=b", "2024-01-31", "3-5"];
        let list = |them: &[&str]| them.iter().map(|it| json!({"text": it})).collect::<Vec<Value>>();
        let rows = |them: &[&str]| -> Vec<String> {
            let told = told("DETECT", Some("warnings"), json!({"warnings": list(them)}));
            let text = render_envelope(&told, Some("csv")).unwrap().1;
            let mut reader = ::csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
            reader.records().map(|it| it.unwrap()[0].to_string()).collect()
        };
        assert_eq!(rows(&cells), cells.map(|it| format!("'{it}")));
        assert_eq!(rows(&numbers), numbers);
    }

    #[test]
    fn csv_without_table_is_rejected_and_job_is_json() {
        let inputs = told("SUMMARIZE", Some("decision-inputs"), json!({"options": ["a"]}));
        assert_eq!(render_envelope(&inputs, Some("csv")).unwrap_err().kind, ApiErrorKind::OutOfRange);
        assert_eq!(
            render_envelope(&told("INGEST", None, json!({"job_id": "j-1"})), Some("csv")).unwrap().0,
            "application/json"
        );
    }

    #[test]
    fn yaml_round_trips_to_json() {
        let odd =
            json!({"a": "yes", "b": "1.0", "c": "# no comment", "d": "two\nlines: here\n", "e": ["- x", ""], "f": 1.0});
        let envelope = told("EXTRACT", None, odd);
        let (media_type, text) = render_envelope(&envelope, Some("yaml")).unwrap();
        assert_eq!(media_type, "application/yaml");
        assert_eq!(serde_yaml_ng::from_str::<Value>(&text).unwrap(), envelope);
    }
}
