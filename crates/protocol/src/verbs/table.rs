//! The eleven verbs of the corpus API, with their forms and fields.

use crate::verbs::objects::SCHEMA_NAMES;
use crate::verbs::verb::{Field, FieldKind, LONG_TEXT, SHORT_TEXT, Verb, form, optional_field, required_field};

/// Every verb. The list is fixed for this version of the API.
pub const VERBS: &[Verb] =
    &[INGEST, EXTRACT, NORMALIZE, COMPARE, DETECT, TRACE, SCORE, QUERY, DELTA, SUMMARIZE, EXPLAIN_FAILURE];

/// Names of the [`VERBS`], in the same order.
pub const VERB_NAMES: &[&str] = &[
    "INGEST",
    "EXTRACT",
    "NORMALIZE",
    "COMPARE",
    "DETECT",
    "TRACE",
    "SCORE",
    "QUERY",
    "DELTA",
    "SUMMARIZE",
    "EXPLAIN_FAILURE",
];

/// Criteria by which documents can be ranked for authority.
pub const RANK_CRITERIA: &[&str] = &["citations", "pagerank"];

const OBJECTIVE: Field = optional_field("objective", LONG_TEXT, "what the answer is for");

const TOPIC: Field = required_field("topic", LONG_TEXT, "e.g. transformers").or_named(&["query", "q", "subject"]);

const INGEST: Verb = Verb {
    name: "INGEST",
    when: "first, to read folders, files or web pages into a session for the other verbs",
    never: "change, move or send files, or read anything but the given paths and URLs",
    refuses: "none or several of paths, urls and session; refetch_failed without session; urls in privacy mode local_only",
    forms: &[form(
        "",
        "reads documents into a new session",
        &[
            optional_field("paths", FieldKind::Texts(1_000), "absolute paths of folders and files")
                .or_named(&["path", "folder", "file", "files"]),
            optional_field("urls", FieldKind::Texts(1_000), "web pages").or_named(&["url", "pages"]),
            optional_field(
                "mode",
                FieldKind::Choice(&["minimal", "full"]),
                "full (default) stores texts too; minimal only metadata",
            ),
            optional_field("refetch_failed", FieldKind::Flag, "tries again what failed in the session"),
        ],
    )],
};

const EXTRACT: Verb = Verb {
    name: "EXTRACT",
    when: "to get exact objects (code, tables, quotes, ...) with file, page or lines, bytes and confidence",
    never: "interpret, summarise or complete; what is not in the text is not in the answer",
    refuses: "unknown schema; filters that the schema does not have",
    forms: &[form(
        "",
        "returns the objects of one schema",
        &[
            required_field("schema", FieldKind::Choice(SCHEMA_NAMES), "what to pull").or_named(&["schema_name"]),
            optional_field("filters", FieldKind::SchemaFilters, "those of the schema: help EXTRACT Table")
                .or_named(&["filter"]),
        ],
    )],
};

const NORMALIZE: Verb = Verb {
    name: "NORMALIZE",
    when: "to learn which spellings mean the same thing before you count or compare",
    never: "change files, or guess which number is the day and which the month: such dates are reported as unknowns",
    refuses: "a missing form; entities with a concept that has only punctuation; an unknown style",
    forms: &[
        form(
            "entities",
            "spellings of a concept, or of names",
            &[optional_field("concept", LONG_TEXT, "e.g. neural network").or_named(&["entity", "term", "name"])],
        ),
        form(
            "dates",
            "maps dates to ISO 8601",
            &[optional_field("format", FieldKind::Choice(&["iso8601", "json", "yaml", "csv"]), "iso8601 (default)")],
        ),
        form(
            "versions",
            "versions as MAJOR.MINOR.PATCH",
            &[optional_field("package", SHORT_TEXT, "only of this package").or_named(&["name", "library"])],
        ),
        form(
            "code",
            "removes differences in code that have no meaning, e.g. in spacing",
            &[
                optional_field("language", SHORT_TEXT, "only this language").or_named(&["lang"]),
                optional_field("style", FieldKind::Choice(&["plain", "black"]), "plain (default), or black for Python"),
            ],
        ),
    ],
};

const COMPARE: Verb = Verb {
    name: "COMPARE",
    when: "to enumerate differences and agreements between documents",
    never: "say which side is right",
    refuses: "a missing form; versions without doc_a and doc_b, or with one document twice; threshold outside 0 to 1",
    forms: &[
        form(
            "versions",
            "lists every difference between two documents",
            &[
                required_field("doc_a", FieldKind::File, "the older").or_named(&["a", "file_a", "old"]),
                required_field("doc_b", FieldKind::File, "the newer").or_named(&["b", "file_b", "new"]),
            ],
        ),
        form(
            "consensus",
            "lists statements on which documents agree",
            &[
                required_field("field", SHORT_TEXT, "e.g. recommendation").or_named(&["topic"]),
                optional_field(
                    "threshold",
                    FieldKind::Number(0.0, 1.0),
                    "fraction of the documents that must agree; 0.8 when absent",
                ),
            ],
        ),
        form(
            "contradictions",
            "statements that exclude each other",
            &[required_field("field", SHORT_TEXT, "e.g. best-practice").or_named(&["topic"])],
        ),
        form(
            "approaches",
            "lists arguments for and against each approach",
            &[optional_field("schema", FieldKind::Choice(&["pros-cons"]), "pros-cons (default), the only schema")],
        ),
    ],
};

const DETECT: Verb = Verb {
    name: "DETECT",
    when: "to learn which documents to read closely: groups, warnings, gaps, outliers, trends",
    never: "explain why; the answer always names its method",
    refuses: "an objective that fits another form; a constraint that the form does not have",
    forms: &[
        form(
            "clusters",
            "finds groups of similar documents",
            &[
                OBJECTIVE,
                optional_field(
                    "constraints",
                    FieldKind::Object(&[
                        optional_field(
                            "max_clusters",
                            FieldKind::Whole(1, 1_000),
                            "at most so many groups; 5 when absent",
                        )
                        .or_named(&["k"]),
                        optional_field("min_size", FieldKind::Whole(1, 10_000), "smaller groups are left out"),
                    ]),
                    "bounds",
                ),
            ],
        ),
        form(
            "warnings",
            "finds sentences that warn the reader",
            &[
                OBJECTIVE,
                optional_field(
                    "constraints",
                    FieldKind::Object(&[optional_field(
                        "min_strength",
                        FieldKind::Choice(&["low", "medium", "high"]),
                        "minimum strength of a warning; low when absent",
                    )]),
                    "bounds",
                ),
            ],
        ),
        form(
            "gaps",
            "finds documents without content that is expected in them",
            &[
                OBJECTIVE,
                optional_field(
                    "constraints",
                    FieldKind::Object(&[
                        optional_field(
                            "expected_topics",
                            FieldKind::Texts(100),
                            "topics that every document should have",
                        )
                        .or_named(&["topics"]),
                        optional_field(
                            "min_share",
                            FieldKind::Number(0.0, 1.0),
                            "without expected_topics: a section is expected if this fraction of documents has it",
                        ),
                    ]),
                    "bounds",
                ),
            ],
        ),
        form(
            "anomalies",
            "finds documents with unusual numbers",
            &[
                OBJECTIVE,
                optional_field(
                    "constraints",
                    FieldKind::Object(&[
                        optional_field("field", SHORT_TEXT, "a numeric field of documents, e.g. citation_count"),
                        optional_field(
                            "threshold",
                            FieldKind::Number(0.5, 100.0),
                            "minimum robust z score of an anomaly; 3.5 when absent",
                        ),
                    ]),
                    "bounds",
                ),
            ],
        ),
        form(
            "trends",
            "finds what changes with time",
            &[
                OBJECTIVE,
                optional_field(
                    "constraints",
                    FieldKind::Object(&[
                        optional_field("field", SHORT_TEXT, "a numeric field of documents, or a kind of statement"),
                        optional_field("period", FieldKind::Choice(&["month", "year"]), "interval; year when absent"),
                    ]),
                    "bounds",
                ),
            ],
        ),
    ],
};

const TRACE: Verb = Verb {
    name: "TRACE",
    when: "to see which documents cite or link to each other, or build on each other",
    never: "invent links: every edge names the text from which it was made",
    refuses: "influence without source; a source that is not in the view",
    forms: &[
        form(
            "citations",
            "returns documents and cited works, with the citations between them",
            &[optional_field(
                "format",
                FieldKind::Choice(&["graph", "json", "yaml", "csv"]),
                "graph (default): nodes and edges",
            )],
        ),
        form(
            "authority",
            "nodes by rank",
            &[optional_field("rank_by", FieldKind::Choice(RANK_CRITERIA), "citations (default) or pagerank")
                .or_named(&["criteria"])],
        ),
        form(
            "influence",
            "what builds on a document",
            &[required_field("source", FieldKind::File, "the document")
                .or_named(&["file", "path", "doc", "document", "url_id"])],
        ),
        form(
            "freshness",
            "nodes by age",
            &[optional_field("baseline_date", FieldKind::Moment, "what is older is stale").or_named(&["date"])],
        ),
    ],
};

const SCORE: Verb = Verb {
    name: "SCORE",
    when: "to weigh documents or an earlier result by stated criteria",
    never: "judge truth; every score names the counts from which it was computed",
    refuses: "coverage without topic; confidence without extraction; an unknown result id",
    forms: &[
        form(
            "authority",
            "by citations",
            &[optional_field("criteria", FieldKind::Choice(RANK_CRITERIA), "citations (default) or pagerank")
                .or_named(&["rank_by"])],
        ),
        form(
            "freshness",
            "by date",
            &[optional_field("baseline_date", FieldKind::Moment, "the newest document when absent")
                .or_named(&["date"])],
        ),
        form("coverage", "by how much of a topic is there", &[TOPIC]),
        form(
            "confidence",
            "of an earlier result",
            &[required_field("extraction", SHORT_TEXT, "the id of a result").or_named(&[
                "id",
                "extraction_id",
                "result_id",
                "result",
            ])],
        ),
    ],
};

const QUERY: Verb = Verb {
    name: "QUERY",
    when: "to select documents by metadata before reading any",
    never: "search texts: it knows metadata only, not what a text says",
    refuses: "fields that do not exist; values of a wrong type; conditions about meaning",
    forms: &[form(
        "",
        "lists documents",
        &[required_field("filter", FieldKind::Filter, "AND, OR, NOT, = != < > <= >=, parentheses")
            .or_named(&["query", "q", "where", "filters"])],
    )],
};

const DELTA: Verb = Verb {
    name: "DELTA",
    when: "to see only what changed since a time or a session",
    never: "repeat what stayed the same",
    refuses: "none or several of `since`, `baseline` and `watch`; `only` without `baseline`; `field` without `watch`",
    forms: &[form(
        "",
        "lists what was added, removed and modified",
        &[
            optional_field("since", FieldKind::Moment, "files changed at or after this moment")
                .or_named(&["after", "from"]),
            optional_field("baseline", FieldKind::Baseline, "a session or result to compare with"),
            optional_field(
                "only",
                FieldKind::Choice(&["added", "removed", "modified", "new-contradictions"]),
                "with baseline: only changes of this kind",
            ),
            optional_field("watch", FieldKind::File, "one file").or_named(&["file", "path", "doc"]),
            optional_field("field", SHORT_TEXT, "with watch: content (default), headings, tables, title or another"),
        ],
    )],
};

const SUMMARIZE: Verb = Verb {
    name: "SUMMARIZE",
    when: "to get the inputs of a decision, a timeline or a matrix as structures",
    never: "write prose, judge or advise",
    refuses: "decision-inputs without question; a matrix without items or schema; coverage without topic",
    forms: &[
        form("coverage", "where a topic is treated", &[TOPIC]),
        form(
            "decision-inputs",
            "options with evidence",
            &[required_field("question", LONG_TEXT, "e.g. Which library?").or_named(&["query", "q"])],
        ),
        form(
            "timeline",
            "lists dated events in order",
            &[optional_field(
                "field",
                FieldKind::Choice(&["published_at", "modified", "mentioned"]),
                "the date to use; published_at when absent",
            )],
        ),
        form(
            "comparison-matrix",
            "makes a table of documents (rows) and fields (columns)",
            &[
                required_field("items", FieldKind::Files(100), "the documents").or_named(&[
                    "files",
                    "documents",
                    "docs",
                ]),
                required_field("schema", FieldKind::Texts(50), "fields: facts, or keys that the documents state")
                    .or_named(&["fields", "columns"]),
            ],
        ),
    ],
};

const EXPLAIN_FAILURE: Verb = Verb {
    name: "EXPLAIN_FAILURE",
    when: "after an answer with low confidence or partial coverage, or a refusal, to learn what to fix",
    never: "run the explained request again",
    refuses: "neither a result nor a document; an unknown result id; the id of another verb's result",
    forms: &[form(
        "",
        "lists the issues of a result, and requests that fix them",
        &[
            optional_field("verb", FieldKind::Choice(VERB_NAMES), "the verb of the result"),
            optional_field("id", SHORT_TEXT, "of any result").or_named(&["result_id", "result"]),
            optional_field("extraction_id", SHORT_TEXT, "of an EXTRACT"),
            optional_field("detection_id", SHORT_TEXT, "of a DETECT"),
            optional_field("url_id", FieldKind::File, "a document of a session or view")
                .or_named(&["file", "path", "doc", "document"]),
        ],
    )],
};
