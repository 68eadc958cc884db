//! The schemas of EXTRACT: the fields and filters of their objects.

use crate::verbs::{Kind, ObjectSchema, WORD, field};

/// The schemas of EXTRACT.
pub const SCHEMAS: &[ObjectSchema] = &[
    ObjectSchema {
        name: "Code",
        fields: &[("language", "string?"), ("context", "string"), ("line_numbers", "array?"), ("text", "string")],
        filters: &[
            field("language", WORD, "e.g. python"),
            field("min_lines", Kind::Whole(1, 1_000_000), "at least so many lines"),
        ],
    },
    ObjectSchema {
        name: "Definition",
        fields: &[("term", "string"), ("definition_text", "string"), ("source_context", "string")],
        filters: &[field("term", WORD, "only of this term")],
    },
    ObjectSchema {
        name: "Table",
        fields: &[("headers", "array"), ("rows", "array"), ("caption", "string?")],
        filters: &[
            field("header", WORD, "only tables with this column"),
            field("min_rows", Kind::Whole(0, 1_000_000), "at least so many rows"),
            field("min_columns", Kind::Whole(1, 10_000), "at least so many columns"),
        ],
    },
    ObjectSchema {
        name: "Quote",
        fields: &[("text", "string"), ("author", "string?"), ("context", "string"), ("word_count", "integer")],
        filters: &[
            field("min_words", Kind::Whole(1, 100_000), "at least so many words"),
            field("author", WORD, "only of this author"),
        ],
    },
    ObjectSchema {
        name: "Methodology",
        fields: &[("section_text", "string"), ("approach", "string?"), ("tools_mentioned", "array")],
        filters: &[field("approach", WORD, "e.g. experimental"), field("tool", WORD, "only with this tool")],
    },
    ObjectSchema {
        name: "Citation",
        fields: &[("number", "integer?"), ("text", "string"), ("context", "string"), ("doi", "string?")],
        filters: &[field("number", Kind::Whole(0, 1_000_000), "only of this number")],
    },
    ObjectSchema {
        name: "Reference",
        fields: &[("index", "string"), ("full_text", "string"), ("doi", "string?"), ("arxiv_id", "string?")],
        filters: &[
            field("doi", WORD, "only with this DOI"),
            field("arxiv_id", WORD, "only with this arXiv id"),
            field("year", Kind::Whole(1000, 3000), "only of this year"),
        ],
    },
];

/// The names of [`SCHEMAS`], in their order.
pub const SCHEMA_NAMES: &[&str] = &["Code", "Definition", "Table", "Quote", "Methodology", "Citation", "Reference"];
