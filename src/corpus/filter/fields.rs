//! The fields of filters and their aliases.

use crate::catalog::Column;

/// The type of a filter field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Number,
    Flag,
    Moment,
}

/// The source of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A catalog column, known for every file.
    Catalog(Column),
    /// A fact, known once the document was parsed.
    Fact(&'static str),
}

/// A filter field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) kind: Type,
    pub(crate) origin: Origin,
}

const fn column(name: &'static str, kind: Type, column: Column) -> Known {
    Known { name, kind, origin: Origin::Catalog(column) }
}

const fn fact(name: &'static str, kind: Type) -> Known {
    Known { name, kind, origin: Origin::Fact(name) }
}

/// Every filter field.
pub(crate) const FIELDS: &[Known] = &[
    column("path", Type::Text, Column::Path),
    column("name", Type::Text, Column::Name),
    column("extension", Type::Text, Column::Extension),
    column("size", Type::Number, Column::Size),
    column("modified", Type::Moment, Column::Modified),
    column("kind", Type::Text, Column::Kind),
    column("media_type", Type::Text, Column::MediaType),
    column("state", Type::Text, Column::State),
    column("reason", Type::Text, Column::Reason),
    column("owner", Type::Text, Column::Owner),
    column("chunks", Type::Number, Column::Chunks),
    fact("content_type", Type::Text),
    fact("title", Type::Text),
    fact("author", Type::Text),
    fact("domain_type", Type::Text),
    fact("published_at", Type::Moment),
    fact("year", Type::Number),
    fact("word_count", Type::Number),
    fact("page_count", Type::Number),
    fact("heading_count", Type::Number),
    fact("citation_count", Type::Number),
    fact("reference_count", Type::Number),
    fact("code_count", Type::Number),
    fact("table_count", Type::Number),
    fact("quote_count", Type::Number),
    fact("definition_count", Type::Number),
    fact("link_count", Type::Number),
    fact("has_abstract", Type::Flag),
    fact("has_code_examples", Type::Flag),
    fact("has_methodology", Type::Flag),
];

/// Aliases of fields.
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
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    let name = name.to_lowercase();
    let name = ALIASES.iter().find(|it| it.0 == name).map_or(name.as_str(), |it| it.1);
    FIELDS.iter().find(|it| it.name == name)
}
