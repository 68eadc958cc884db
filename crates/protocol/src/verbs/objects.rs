//! The object schemas of the verb EXTRACT: which fields each kind of object has, and by which filters it can be selected.

use crate::verbs::verb::{Field, FieldKind, LONG_TEXT, SHORT_TEXT, optional_field};

/// One object schema of EXTRACT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectSchema {
    /// Name of the schema, e.g. `Table`.
    pub name: &'static str,
    /// Fields of the schema's objects with their JSON types, in addition to location and confidence; an object may lack a
    /// field whose type ends with `?`.
    pub fields: &'static [(&'static str, &'static str)],
    /// Filters for the schema's objects, in addition to [`ANY_FILTERS`].
    pub filters: &'static [Field],
    /// What the schema finds, in a few words.
    pub about: &'static str,
    /// Sample value of `filters` as JSON.
    pub sample: &'static str,
}

/// Filters for the objects of every schema.
pub const ANY_FILTERS: &[Field] = &[
    optional_field("file", FieldKind::File, "only of this file").or_named(&["path", "file_id", "doc"]),
    optional_field("content_type", SHORT_TEXT, "only of documents of this type"),
    optional_field("min_confidence", FieldKind::Number(0.0, 1.0), "at least this sure").or_named(&["confidence"]),
    optional_field("contains", LONG_TEXT, "only objects that hold this text, in any case").or_named(&["text"]),
];

/// Every object schema of EXTRACT.
pub const SCHEMAS: &[ObjectSchema] = &[
    ObjectSchema {
        name: "Code",
        fields: &[("language", "string?"), ("context", "string"), ("line_numbers", "array?"), ("text", "string")],
        filters: &[
            optional_field("language", SHORT_TEXT, "e.g. python").or_named(&["lang"]),
            optional_field("min_lines", FieldKind::Whole(1, 1_000_000), "at least so many lines"),
        ],
        about: "blocks and listings of code",
        sample: r#"{"language":"python"}"#,
    },
    ObjectSchema {
        name: "Definition",
        fields: &[("term", "string"), ("definition_text", "string"), ("source_context", "string")],
        filters: &[optional_field("term", SHORT_TEXT, "only of this term")],
        about: "terms with what they mean",
        sample: r#"{"term":"transformer"}"#,
    },
    ObjectSchema {
        name: "Table",
        fields: &[("headers", "array"), ("rows", "array"), ("caption", "string?")],
        filters: &[
            optional_field("header", SHORT_TEXT, "only tables with this column").or_named(&["column", "headers"]),
            optional_field("min_rows", FieldKind::Whole(0, 1_000_000), "at least so many rows"),
            optional_field("min_columns", FieldKind::Whole(1, 10_000), "at least so many columns"),
        ],
        about: "tables with their cells",
        sample: r#"{"header":"price","min_rows":2}"#,
    },
    ObjectSchema {
        name: "Quote",
        fields: &[("text", "string"), ("author", "string?"), ("context", "string"), ("word_count", "integer")],
        filters: &[
            optional_field("min_words", FieldKind::Whole(1, 100_000), "only quotes with at least this many words"),
            optional_field("author", SHORT_TEXT, "only quotes of this author"),
        ],
        about: "quotations, with their author if given",
        sample: r#"{"min_words":10}"#,
    },
    ObjectSchema {
        name: "Methodology",
        fields: &[("section_text", "string"), ("approach", "string?"), ("tools_mentioned", "array")],
        filters: &[
            optional_field("approach", SHORT_TEXT, "e.g. experimental"),
            optional_field("tool", SHORT_TEXT, "only with this tool").or_named(&["tools"]),
        ],
        about: "sections on how a work was done",
        sample: r#"{"approach":"survey"}"#,
    },
    ObjectSchema {
        name: "Citation",
        fields: &[("number", "integer?"), ("text", "string"), ("context", "string"), ("doi", "string?")],
        filters: &[optional_field("number", FieldKind::Whole(0, 1_000_000), "only of this number")],
        about: "citations in the running text",
        sample: r#"{"number":3}"#,
    },
    ObjectSchema {
        name: "Reference",
        fields: &[("index", "string"), ("full_text", "string"), ("doi", "string?"), ("arxiv_id", "string?")],
        filters: &[
            optional_field("doi", SHORT_TEXT, "only the reference with this DOI"),
            optional_field("arxiv_id", SHORT_TEXT, "only the reference with this arXiv id"),
            optional_field("year", FieldKind::Whole(1000, 3000), "only references of this year"),
        ],
        about: "entries of lists of references",
        sample: r#"{"year":2020}"#,
    },
];

/// Names of the [`SCHEMAS`], in the same order.
pub const SCHEMA_NAMES: &[&str] = &["Code", "Definition", "Table", "Quote", "Methodology", "Citation", "Reference"];
