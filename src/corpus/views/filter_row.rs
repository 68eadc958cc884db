//! The metadata of one file that filters compare.

use crate::catalog::{Cell, Column, PredicateRow};
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::{FieldSource, FieldType, FieldValue, Filter, FilterField};
use crate::model::ContentHash;

/// The metadata of one file: the requested catalog columns, and the facts (counts, flags, dates) found in its text.
pub(crate) struct FilterRow<'a> {
    pub(crate) row: &'a PredicateRow,
    pub(crate) columns: &'a [Column],
    pub(crate) facts: Option<&'a Facts>,
}

impl FilterRow<'_> {
    /// Returns the value of a filter field.
    pub(crate) fn value_of(&self, field: &'static FilterField) -> Option<FieldValue> {
        let column = match field.origin {
            FieldSource::Fact(name) => return self.facts?.value_of(name),
            FieldSource::Catalog(column) => column,
        };
        let at = self.columns.iter().position(|it| *it == column)?;
        match (&self.row.cells[at], field.kind) {
            (Cell::Text(text), _) => Some(FieldValue::Text(text.clone())),
            (Cell::Number(number), FieldType::Moment) => Some(FieldValue::Moment(*number)),
            (Cell::Number(number), _) => Some(FieldValue::Number(*number as f64)),
            (Cell::Absent | Cell::Hash(_), _) => None,
        }
    }

    /// Returns the content hash of the file.
    pub(crate) fn hash(&self) -> Option<ContentHash> {
        self.row.cells.iter().find_map(|it| if let Cell::Hash(hash) = it { Some(*hash) } else { None })
    }
}

/// Returns the catalog columns that these filters need. For a filter on facts, this is the content hash, by which the facts
/// of a file are looked up.
pub(crate) fn needed_columns(filters: &[Filter]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for field in filters.iter().flat_map(|it| it.fields()) {
        let column = match field.origin {
            FieldSource::Catalog(column) => column,
            FieldSource::Fact(_) => Column::Hash,
        };
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}
