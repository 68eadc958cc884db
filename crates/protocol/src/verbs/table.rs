//! The eleven verbs.

use crate::verbs::{Field, Kind, NAMES, RANKS, SCHEMA_NAMES, TEXT, Verb, WORD, field, form, needed};

const OBJECTIVE: Field = field("objective", TEXT, "what the answer is for, in plain words; vic chooses the method");

pub(super) const INGEST: Verb = Verb {
    name: "INGEST",
    when: "before anything else, to bring folders, files or pages in and to get a session to work on",
    never: "it never changes, moves or sends files, and reads nothing outside the given places",
    refuses: "no source or two kinds of source; refetch_failed without session; URLs in local_only",
    forms: &[form(
        "",
        "brings documents in",
        &[
            field("paths", Kind::Texts(1_000), "absolute paths of folders and files"),
            field("urls", Kind::Texts(1_000), "pages, through the egress gate"),
            field(
                "mode",
                Kind::Choice(&["minimal", "full"]),
                "full (default) keeps texts too; minimal keeps metadata only",
            ),
            field("refetch_failed", Kind::Flag, "tries the failures of the session again"),
        ],
    )],
};

pub(super) const EXTRACT: Verb = Verb {
    name: "EXTRACT",
    when: "to get exact objects (code, tables, quotes, ...) with file, page or lines, bytes and confidence",
    never: "it does not interpret, summarise or complete; what is not in the text is not in the answer",
    refuses: "unknown schema; a filter that the schema does not have; filters of a wrong type",
    forms: &[form(
        "",
        "gives typed objects",
        &[
            needed("schema", Kind::Choice(SCHEMA_NAMES), "what to pull"),
            field("filters", Kind::SchemaFilters, "conditions on the objects"),
        ],
    )],
};

pub(super) const NORMALIZE: Verb = Verb {
    name: "NORMALIZE",
    when: "to learn which spellings are the same thing before you count or compare",
    never: "it does not change files, and does not guess between day and month: such dates are unknowns",
    refuses: "a missing form; entities with a concept of punctuation only; an unknown style",
    forms: &[
        form("entities", "spellings of a concept, or of names", &[field("concept", TEXT, "e.g. neural network")]),
        form(
            "dates",
            "dates as ISO 8601",
            &[field("format", Kind::Choice(&["iso8601", "json", "yaml", "csv"]), "iso8601 (default)")],
        ),
        form("versions", "versions as MAJOR.MINOR.PATCH", &[field("package", WORD, "only of this package")]),
        form(
            "code",
            "code without differences that mean nothing",
            &[
                field("language", WORD, "only this language"),
                field("style", Kind::Choice(&["plain", "black"]), "plain (default), or black for Python"),
            ],
        ),
    ],
};

pub(super) const COMPARE: Verb = Verb {
    name: "COMPARE",
    when: "to enumerate differences and agreements between documents",
    never: "it does not say which side is right",
    refuses: "a missing form; versions without doc_a and doc_b, or with one document twice; threshold outside 0 to 1",
    forms: &[
        form(
            "versions",
            "every difference between two documents",
            &[needed("doc_a", Kind::File, "the older"), needed("doc_b", Kind::File, "the newer")],
        ),
        form(
            "consensus",
            "statements on which documents agree",
            &[
                needed("field", WORD, "e.g. recommendation"),
                field("threshold", Kind::Number(0.0, 1.0), "share of documents that must agree; 0.8 when absent"),
            ],
        ),
        form("contradictions", "statements that exclude each other", &[needed("field", WORD, "e.g. best-practice")]),
        form(
            "approaches",
            "what speaks for and against each approach",
            &[field("schema", Kind::Choice(&["pros-cons"]), "pros-cons (default)")],
        ),
    ],
};

pub(super) const DETECT: Verb = Verb {
    name: "DETECT",
    when: "to learn where to look harder: groups, warnings, gaps, outliers, trends",
    never: "it does not explain why; the method that was used is always named",
    refuses: "an objective that fits another form; a constraint that the form does not have",
    forms: &[
        form(
            "clusters",
            "groups of documents",
            &[
                OBJECTIVE,
                field(
                    "constraints",
                    Kind::Object(&[
                        field("max_clusters", Kind::Whole(1, 1_000), "at most so many groups; 5 when absent"),
                        field("min_size", Kind::Whole(1, 10_000), "smaller groups are left out"),
                    ]),
                    "bounds",
                ),
            ],
        ),
        form(
            "warnings",
            "cautionary sentences",
            &[
                OBJECTIVE,
                field(
                    "constraints",
                    Kind::Object(&[field("min_strength", Kind::Choice(&["low", "medium", "high"]), "low when absent")]),
                    "bounds",
                ),
            ],
        ),
        form(
            "gaps",
            "expected content that is missing",
            &[
                OBJECTIVE,
                field(
                    "constraints",
                    Kind::Object(&[
                        field("expected_topics", Kind::Texts(100), "topics that every document should have"),
                        field("min_share", Kind::Number(0.0, 1.0), "without topics: sections that this share has"),
                    ]),
                    "bounds",
                ),
            ],
        ),
        form(
            "anomalies",
            "documents that differ",
            &[
                OBJECTIVE,
                field(
                    "constraints",
                    Kind::Object(&[
                        field("field", WORD, "a number of each document, e.g. citation_count"),
                        field("threshold", Kind::Number(0.5, 100.0), "robust z score; 3.5 when absent"),
                    ]),
                    "bounds",
                ),
            ],
        ),
        form(
            "trends",
            "what changes with time",
            &[
                OBJECTIVE,
                field(
                    "constraints",
                    Kind::Object(&[
                        field("field", WORD, "a number of each document, or a kind of statement"),
                        field("period", Kind::Choice(&["month", "year"]), "year when absent"),
                    ]),
                    "bounds",
                ),
            ],
        ),
    ],
};

pub(super) const TRACE: Verb = Verb {
    name: "TRACE",
    when: "to see who cites, links or builds on whom",
    never: "it does not invent links: every edge points at the text that makes it",
    refuses: "influence without source; a source that the view does not hold",
    forms: &[
        form(
            "citations",
            "documents and works with their citations",
            &[field("format", Kind::Choice(&["graph", "json", "yaml", "csv"]), "graph (default): nodes and edges")],
        ),
        form("authority", "nodes by rank", &[field("rank_by", Kind::Choice(RANKS), "citations (default) or pagerank")]),
        form("influence", "what builds on a document", &[needed("source", Kind::File, "the document")]),
        form("freshness", "nodes by age", &[field("baseline_date", Kind::Moment, "what is older is stale")]),
    ],
};

pub(super) const SCORE: Verb = Verb {
    name: "SCORE",
    when: "to weigh documents or an earlier result by stated criteria",
    never: "it does not judge truth; every score names the counts it was made of",
    refuses: "coverage without topic; confidence without extraction; an id that was never given",
    forms: &[
        form("authority", "by citations", &[field("criteria", Kind::Choice(RANKS), "citations (default) or pagerank")]),
        form("freshness", "by date", &[field("baseline_date", Kind::Moment, "the newest document when absent")]),
        form("coverage", "by how much of a topic is there", &[needed("topic", TEXT, "e.g. transformers")]),
        form("confidence", "of an earlier result", &[needed("extraction", WORD, "the id of a result")]),
    ],
};

pub(super) const QUERY: Verb = Verb {
    name: "QUERY",
    when: "to filter documents by metadata before reading any",
    never: "it knows metadata only; what a text argues or introduces is not asked here",
    refuses: "fields that do not exist; values of a wrong type; conditions about meaning",
    forms: &[form(
        "",
        "lists documents",
        &[needed("filter", Kind::Filter, "AND, OR, NOT, = != < > <= >=, parentheses")],
    )],
};

pub(super) const DELTA: Verb = Verb {
    name: "DELTA",
    when: "to see only what changed since a time or a session",
    never: "it does not repeat what stayed the same",
    refuses: "none or several of since, baseline and watch; only without baseline; field without watch",
    forms: &[form(
        "",
        "added, removed, modified",
        &[
            field("since", Kind::Moment, "files changed at or after this moment"),
            field("baseline", Kind::Baseline, "the number of a session or the id of a result to compare with"),
            field(
                "only",
                Kind::Choice(&["added", "removed", "modified", "new-contradictions"]),
                "with baseline: this alone",
            ),
            field("watch", Kind::File, "one file"),
            field("field", WORD, "with watch: content (default), headings, tables, size, title, or any other field"),
        ],
    )],
};

pub(super) const SUMMARIZE: Verb = Verb {
    name: "SUMMARIZE",
    when: "to get the inputs of a decision, a timeline or a matrix as structures",
    never: "it never writes prose, never judges and never advises",
    refuses: "decision-inputs without question; a matrix without items or schema; coverage without topic",
    forms: &[
        form("coverage", "where a topic is treated", &[needed("topic", TEXT, "e.g. transformers")]),
        form("decision-inputs", "options with evidence", &[needed("question", TEXT, "e.g. Which library?")]),
        form(
            "timeline",
            "dated events in order",
            &[field("field", Kind::Choice(&["published_at", "modified", "mentioned"]), "published_at when absent")],
        ),
        form(
            "comparison-matrix",
            "documents by fields",
            &[
                needed("items", Kind::Files(100), "the documents"),
                needed("schema", Kind::Texts(50), "fields: facts, or keys that the documents state"),
            ],
        ),
    ],
};

pub(super) const EXPLAIN_FAILURE: Verb = Verb {
    name: "EXPLAIN_FAILURE",
    when: "after a low confidence, a partial coverage or a refusal, to learn what to fix",
    never: "it does not repeat the work",
    refuses: "no result and no document; an id that was never given; an id of another verb",
    forms: &[form(
        "",
        "issues with what to do",
        &[
            field("verb", Kind::Choice(NAMES), "the verb of the result"),
            field("id", WORD, "the id of a result"),
            field("extraction_id", WORD, "the id of an EXTRACT"),
            field("detection_id", WORD, "the id of a DETECT"),
            field("url_id", Kind::File, "a document of a session or view"),
        ],
    )],
};
