//! Finds typed objects in documents, one file per schema. An object is a part of the text, copied without interpretation,
//! with its exact location and a confidence that states how clearly the document marks it.

mod citation;
mod code;
mod definition;
mod doi_links;
mod methodology;
mod object;
mod quote;
mod reference;
mod table;
mod term;
mod html_terms;

use crate::corpus::document::passages::SourceDocument;
use crate::model::Redaction;
use crate::secrets::{redact_json, redact_json_rows};

pub(crate) use crate::corpus::objects::object::{Object, Objects};

/// Finds the objects of every schema. Redacts secrets in them again, because some objects are copied from the raw file.
pub(crate) fn find_objects(source: &SourceDocument, redaction: Redaction) -> Objects {
    let mut found = Objects::from([
        ("Code".to_string(), code::find_code(source)),
        ("Definition".into(), definition::find_definitions(source)),
        ("Table".into(), table::find_tables(source)),
        ("Quote".into(), quote::find_quotes(source)),
        ("Methodology".into(), methodology::find_methodology(source)),
        ("Citation".into(), citation::find_citations(source)),
        ("Reference".into(), reference::find_references(source)),
    ]);
    for value in found.values_mut().flatten().flat_map(|it| it.fields.values_mut()) {
        redact_json(value, redaction);
    }
    for Object { fields, .. } in found.get_mut("Table").into_iter().flatten() {
        let heads = fields.get("headers").cloned().unwrap_or_default();
        if let Some(rows) = fields.get_mut("rows") {
            redact_json_rows(&heads, rows, redaction);
        }
    }
    found
}
