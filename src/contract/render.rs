//! Envelopes as JSON and YAML, tables as CSV.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::contract::refusal::{Cause, Outcome, Refusal};

/// A rendered answer and its media type.
pub(crate) type Rendered = (&'static str, String);

/// Renders an envelope. CSV is for answers that hold a table; an error is always JSON.
pub(crate) fn render(envelope: &Value, format: Option<&str>) -> Outcome<Rendered> {
    let internal = |error: &dyn std::fmt::Display| Refusal::new(Cause::Internal, error.to_string());
    match format {
        Some("csv") if envelope["error"].is_null() => Ok(("text/csv", csv(envelope)?)),
        Some("yaml") => {
            let text = serde_yaml_ng::to_string(envelope).map_err(|error| internal(&error))?;
            Ok(("application/yaml", text))
        }
        _ => Ok(("application/json", serde_json::to_string(envelope).map_err(|error| internal(&error))?)),
    }
}

fn csv(envelope: &Value) -> Outcome<String> {
    let data = &envelope["data"];
    if data["schema"] == "Table" {
        let tables = data["objects"].as_array().into_iter().flatten();
        let tables: Vec<String> = tables.map(table).collect::<Outcome<_>>()?;
        return Ok(tables.join("\n"));
    }
    let list = data
        .as_object()
        .and_then(|it| it.values().filter_map(Value::as_array).find(|it| it.iter().any(Value::is_object)));
    let Some(rows) = list else {
        return Err(Refusal::new(Cause::OutOfRange, "the answer holds no table")
            .field("format")
            .action("use json or yaml"));
    };
    let mut seen = BTreeSet::new();
    let columns: Vec<&String> = rows
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|it| it.keys())
        .filter(|it| seen.insert(it.as_str()))
        .collect();
    let head = columns.iter().map(|it| it.to_string()).collect::<Vec<_>>();
    written(
        std::iter::once(head).chain(rows.iter().map(|row| columns.iter().map(|it| cell(&row[it.as_str()])).collect())),
    )
}

/// One table as it stands in its document.
fn table(object: &Value) -> Outcome<String> {
    let cells = |row: &Value| row.as_array().into_iter().flatten().map(cell).collect::<Vec<_>>();
    let head = Some(cells(&object["headers"])).filter(|it| !it.is_empty());
    written(head.into_iter().chain(object["rows"].as_array().into_iter().flatten().map(cells)))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn written(rows: impl Iterator<Item = Vec<String>>) -> Outcome<String> {
    let internal = |error: &dyn std::fmt::Display| Refusal::new(Cause::Internal, error.to_string());
    let mut writer = ::csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in rows {
        // A spreadsheet would run what begins like a formula.
        let safe = row.into_iter().map(|it| if it.starts_with(['=', '@']) { format!("'{it}") } else { it });
        writer.write_record(safe).map_err(|error| internal(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| internal(&error))?;
    String::from_utf8(bytes).map_err(|error| internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_become_csv_as_they_stand_and_lists_with_their_columns() {
        let table = json!({"error": null, "data": {"schema": "Table", "objects": [{"headers": ["a", "b"], "rows": [["1", "x, y"]]}]}});
        assert_eq!(render(&table, Some("csv")).unwrap().1, "a,b\n1,\"x, y\"\n");
        let list = json!({"error": null, "data": {"count": 1, "list": [{"file": 3, "lines": [1, 2], "text": "=1+1"}]}});
        assert_eq!(render(&list, Some("csv")).unwrap().1, "file,lines,text\n3,\"[1,2]\",'=1+1\n");
        let none = json!({"error": null, "data": {"count": 1}});
        assert_eq!(render(&none, Some("csv")).unwrap_err().cause, Cause::OutOfRange);
        assert!(render(&none, Some("yaml")).unwrap().1.contains("count: 1"));
    }
}
