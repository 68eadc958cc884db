//! The fields that filters may name, and their aliases.

use crate::catalog::Column;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};

/// The type of a filter field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    Text,
    Number,
    Flag,
    Moment,
}

/// Where the value of a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldSource {
    /// A column of the catalog, known for every file.
    Catalog(Column),
    /// A fact found in the document's text, known once the document was parsed.
    Fact(&'static str),
}

/// A field that a filter may compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterField {
    pub(crate) name: &'static str,
    pub(crate) kind: FieldType,
    pub(crate) origin: FieldSource,
}

const fn column(name: &'static str, kind: FieldType, column: Column) -> FilterField {
    FilterField { name, kind, origin: FieldSource::Catalog(column) }
}

const fn fact(name: &'static str, kind: FieldType) -> FilterField {
    FilterField { name, kind, origin: FieldSource::Fact(name) }
}

/// Every filter field.
pub(crate) const FILTER_FIELDS: &[FilterField] = &[
    column("path", FieldType::Text, Column::Path),
    column("name", FieldType::Text, Column::Name),
    column("extension", FieldType::Text, Column::Extension),
    column("size", FieldType::Number, Column::Size),
    column("modified", FieldType::Moment, Column::Modified),
    column("kind", FieldType::Text, Column::Kind),
    column("media_type", FieldType::Text, Column::MediaType),
    column("state", FieldType::Text, Column::State),
    column("reason", FieldType::Text, Column::Reason),
    column("owner", FieldType::Text, Column::Owner),
    column("chunks", FieldType::Number, Column::Chunks),
    fact("content_type", FieldType::Text),
    fact("title", FieldType::Text),
    fact("author", FieldType::Text),
    fact("domain_type", FieldType::Text),
    fact("published_at", FieldType::Moment),
    fact("year", FieldType::Number),
    fact("word_count", FieldType::Number),
    fact("page_count", FieldType::Number),
    fact("heading_count", FieldType::Number),
    fact("citation_count", FieldType::Number),
    fact("reference_count", FieldType::Number),
    fact("code_count", FieldType::Number),
    fact("table_count", FieldType::Number),
    fact("quote_count", FieldType::Number),
    fact("definition_count", FieldType::Number),
    fact("link_count", FieldType::Number),
    fact("has_abstract", FieldType::Flag),
    fact("has_code_examples", FieldType::Flag),
    fact("has_methodology", FieldType::Flag),
];

/// Other names of fields, as (alias, name).
const ALIASES: &[(&str, &str)] = &[
    ("citations", "citation_count"),
    ("references", "reference_count"),
    ("pages", "page_count"),
    ("words", "word_count"),
    ("type", "content_type"),
    ("ext", "extension"),
    ("date", "published_at"),
];

/// Returns a field by its name or alias.
pub(crate) fn field_by_name(name: &str) -> Option<&'static FilterField> {
    let name = name.to_lowercase();
    let name = ALIASES.iter().find(|it| it.0 == name).map_or(name.as_str(), |it| it.1);
    FILTER_FIELDS.iter().find(|it| it.name == name)
}

/// Returns the name of a numeric field of documents, given by its name or alias; any other field is an error.
pub(crate) fn numeric_field(field: &str) -> ApiResult<&'static str> {
    match field_by_name(field) {
        Some(known)
            if known.kind == FieldType::Number
                && (matches!(known.origin, FieldSource::Fact(_)) || known.name == "size") =>
        {
            Ok(known.name)
        }
        Some(known) => {
            Err(ApiError::new(ApiErrorKind::TypeError, format!("`{}` is not a numeric field of documents", known.name))
                .field("constraints.field"))
        }
        None => {
            let names: Vec<&str> =
                FILTER_FIELDS.iter().filter(|it| it.kind == FieldType::Number).map(|it| it.name).collect();
            Err(ApiError::unknown_name(ApiErrorKind::UnknownField, "numeric field of documents", field, &names)
                .field("constraints.field"))
        }
    }
}
