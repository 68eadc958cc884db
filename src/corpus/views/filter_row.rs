//! The row of a file that filters read.

use crate::catalog::{Cell, Column, PredicateRow};
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::{FieldSource, FieldType, FieldValue, Filter, FilterField};
use crate::model::ContentHash;

/// A row for filters: the requested columns, and the facts of its content.
pub(crate) struct FilterRow<'a> {
    pub(crate) row: &'a PredicateRow,
    pub(crate) columns: &'a [Column],
    pub(crate) facts: Option<&'a Facts>,
}

impl FilterRow<'_> {
    /// The value of a field.
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

    /// The content hash.
    pub(crate) fn hash(&self) -> Option<ContentHash> {
        self.row.cells.iter().find_map(|it| if let Cell::Hash(hash) = it { Some(*hash) } else { None })
    }
}

/// The columns that these filters need; the hash stands for facts.
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
