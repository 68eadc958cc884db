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

const OBJECTIVE: Field =
    optional_field("objective", LONG_TEXT, "purpose of the answer in plain words, by which vic chooses the method");

const INGEST: Verb = Verb {
    name: "INGEST",
    when: "first, to read folders, files or web pages and to get a session on which other verbs work",
    never: "change, move or send files, or read anything but the given paths and URLs",
    refuses: "none or several of paths, urls and session; refetch_failed without session; urls in privacy mode local_only",
    forms: &[form(
        "",
        "reads documents into a new session",
        &[
            optional_field("paths", FieldKind::Texts(1_000), "absolute paths of folders and files"),
            optional_field("urls", FieldKind::Texts(1_000), "web pages to download, if the privacy mode allows it"),
            optional_field(
                "mode",
                FieldKind::Choice(&["minimal", "full"]),
                "full (default) stores texts and metadata; minimal stores metadata only",
            ),
            optional_field("refetch_failed", FieldKind::Flag, "tries again what failed in the session"),
        ],
    )],
};

const EXTRACT: Verb = Verb {
    name: "EXTRACT",
    when: "to get exact objects (code, tables, quotes, ...) with file, page or lines, bytes and confidence",
    never: "interpret, summarise or complete: what is not in the text is not in the answer",
    refuses: "unknown schema; a filter that the schema does not have; filters of a wrong type",
    forms: &[form(
        "",
        "returns the objects of one schema",
        &[
            required_field("schema", FieldKind::Choice(SCHEMA_NAMES), "the kind of objects to extract"),
            optional_field("filters", FieldKind::SchemaFilters, "conditions that the objects must meet"),
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
            "maps the spellings of a concept, or of names, to one spelling",
            &[optional_field("concept", LONG_TEXT, "the concept, e.g. neural network; names when absent")],
        ),
        form(
            "dates",
            "maps dates to ISO 8601",
            &[optional_field("format", FieldKind::Choice(&["iso8601", "json", "yaml", "csv"]), "iso8601 (default)")],
        ),
        form(
            "versions",
            "maps version numbers to MAJOR.MINOR.PATCH",
            &[optional_field("package", SHORT_TEXT, "only versions of this package")],
        ),
        form(
            "code",
            "removes differences in code that have no meaning, e.g. in spacing",
            &[
                optional_field("language", SHORT_TEXT, "only code in this language"),
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
                required_field("doc_a", FieldKind::File, "the older document"),
                required_field("doc_b", FieldKind::File, "the newer document"),
            ],
        ),
        form(
            "consensus",
            "lists statements on which documents agree",
            &[
                required_field("field", SHORT_TEXT, "the kind of statement, e.g. recommendation"),
                optional_field(
                    "threshold",
                    FieldKind::Number(0.0, 1.0),
                    "fraction of the documents that must agree; 0.8 when absent",
                ),
            ],
        ),
        form(
            "contradictions",
            "lists statements that contradict each other",
            &[required_field("field", SHORT_TEXT, "the kind of statement, e.g. best-practice")],
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
                            "maximum number of groups; 5 when absent",
                        ),
                        optional_field(
                            "min_size",
                            FieldKind::Whole(1, 10_000),
                            "minimum number of documents in a group",
                        ),
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
                        ),
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
            "ranks documents and cited works by authority",
            &[optional_field("rank_by", FieldKind::Choice(RANK_CRITERIA), "citations (default) or pagerank")],
        ),
        form(
            "influence",
            "finds what builds on a document",
            &[required_field("source", FieldKind::File, "a document")],
        ),
        form(
            "freshness",
            "lists documents by age",
            &[optional_field("baseline_date", FieldKind::Moment, "older documents are marked stale")],
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
            "scores documents by citations",
            &[optional_field("criteria", FieldKind::Choice(RANK_CRITERIA), "citations (default) or pagerank")],
        ),
        form(
            "freshness",
            "scores documents by date",
            &[optional_field("baseline_date", FieldKind::Moment, "date to count ages from (default: newest document)")],
        ),
        form("coverage", "scores the coverage of a topic", &[required_field("topic", LONG_TEXT, "e.g. transformers")]),
        form(
            "confidence",
            "scores an earlier result",
            &[required_field("extraction", SHORT_TEXT, "the id of the result")],
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
        "lists the documents that match a filter",
        &[required_field("filter", FieldKind::Filter, "conditions with = != < > <= >=, AND, OR, NOT, parentheses")],
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
            optional_field("since", FieldKind::Moment, "lists files changed at or after this time"),
            optional_field(
                "baseline",
                FieldKind::Baseline,
                "the number of a session or the id of a result to compare with",
            ),
            optional_field(
                "only",
                FieldKind::Choice(&["added", "removed", "modified", "new-contradictions"]),
                "with baseline: only changes of this kind",
            ),
            optional_field("watch", FieldKind::File, "compares one file with its earlier version"),
            optional_field(
                "field",
                SHORT_TEXT,
                "with watch, what to compare: content (default), headings, tables, size, title, or any other field",
            ),
        ],
    )],
};

const SUMMARIZE: Verb = Verb {
    name: "SUMMARIZE",
    when: "to get the inputs of a decision, a timeline or a matrix as structures",
    never: "write prose, judge or advise",
    refuses: "decision-inputs without question; a matrix without items or schema; coverage without topic",
    forms: &[
        form("coverage", "lists where a topic is treated", &[required_field("topic", LONG_TEXT, "e.g. transformers")]),
        form(
            "decision-inputs",
            "lists the options of a decision with evidence",
            &[required_field("question", LONG_TEXT, "the decision, e.g. Which library?")],
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
                required_field("items", FieldKind::Files(100), "the documents"),
                required_field("schema", FieldKind::Texts(50), "columns: metadata fields, or keys in the documents"),
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
            optional_field("id", SHORT_TEXT, "the id of a result"),
            optional_field("extraction_id", SHORT_TEXT, "the id of an EXTRACT result"),
            optional_field("detection_id", SHORT_TEXT, "the id of a DETECT result"),
            optional_field("url_id", FieldKind::File, "a document of the session or view, to explain how it was read"),
        ],
    )],
};
