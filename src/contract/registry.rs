//! The closed vocabulary: every verb with its forms, every form with its fields. The validator, the JSON Schemas, the help
//! and the command line are all made of these tables, so that they cannot disagree.

/// The version of the contract. Names, request fields and response fields change only with it.
pub const CONTRACT_VERSION: &str = "1.0";

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A text that is not empty, of at most so many characters.
    Text(usize),
    /// True or false.
    Flag,
    /// A whole number between bounds, both included.
    Whole(i64, i64),
    /// A number between bounds, both included.
    Number(f64, f64),
    /// One of these, in any case.
    Choice(&'static [&'static str]),
    /// An ISO 8601 date or date-time.
    Moment,
    /// A boolean filter over metadata.
    Filter,
    /// A file of the view: its number, or its path or the end of it.
    File,
    /// A state to compare with: the number of a session, or the id of a result.
    Baseline,
    /// At most so many texts.
    Texts(usize),
    /// At most so many files.
    Files(usize),
    /// An object with these fields and no others.
    Object(&'static [Field]),
    /// An object whose fields depend on the schema that is asked for.
    SchemaFilters,
}

/// One field of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name, in snake_case; on the command line with `-`.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether there is no request without it.
    pub required: bool,
    /// What it is for.
    pub about: &'static str,
}

/// One form of a verb; a verb without forms has one without a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Its name; empty for the only one.
    pub name: &'static str,
    /// What it gives.
    pub about: &'static str,
    /// Its fields, beside [`COMMON`].
    pub fields: &'static [Field],
}

/// One verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// When to use it.
    pub when: &'static str,
    /// What it does not do.
    pub never: &'static str,
    /// Which mistakes are refused.
    pub refuses: &'static str,
    /// Its forms.
    pub forms: &'static [Form],
    /// One request.
    pub request: &'static str,
    /// The `data` of its answer, cut short.
    pub response: &'static str,
}

/// One schema of EXTRACT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectSchema {
    /// Its name.
    pub name: &'static str,
    /// The fields of its objects with their JSON types, beside the place and the confidence.
    pub fields: &'static [(&'static str, &'static str)],
    /// What its objects can be filtered by, beside [`ANY_FILTERS`].
    pub filters: &'static [Field],
}

const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: false, about }
}

const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, required: true, about }
}

const fn form(name: &'static str, about: &'static str, fields: &'static [Field]) -> Form {
    Form { name, about, fields }
}

const TEXT: Kind = Kind::Text(500);
const WORD: Kind = Kind::Text(100);
const FORMATS: &[&str] = &["json", "yaml", "csv"];
/// Criteria by which an authority is measured.
pub(crate) const RANKS: &[&str] = &["citations", "pagerank"];

/// Fields of every request.
pub const COMMON: &[Field] = &[
    field("view", WORD, "a saved view; without view and session it is the whole warehouse"),
    field("session", Kind::Whole(1, i64::MAX), "the files of one ingest run, as they were"),
    field("format", Kind::Choice(FORMATS), "json (default), yaml, or csv for tables"),
    field("verbose", Kind::Flag, "lifts the limit on prose"),
    field("async", Kind::Flag, "returns a job id at once"),
    field("limit", Kind::Whole(1, 10_000), "most objects of a list; 100 when absent"),
    field("offset", Kind::Whole(0, 10_000_000), "objects to pass over"),
];

/// What the objects of every schema can be filtered by.
pub const ANY_FILTERS: &[Field] = &[
    field("file", Kind::File, "only of this file"),
    field("content_type", WORD, "only of documents of this type"),
    field("min_confidence", Kind::Number(0.0, 1.0), "at least this sure"),
    field("contains", TEXT, "only objects that hold this text, in any case"),
];

/// The schemas of EXTRACT.
pub const SCHEMAS: &[ObjectSchema] = &[
    ObjectSchema {
        name: "Code",
        fields: &[("language", "string"), ("context", "string"), ("line_numbers", "array"), ("text", "string")],
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
        fields: &[("headers", "array"), ("rows", "array"), ("caption", "string")],
        filters: &[
            field("header", WORD, "only tables with this column"),
            field("min_rows", Kind::Whole(0, 1_000_000), "at least so many rows"),
            field("min_columns", Kind::Whole(1, 10_000), "at least so many columns"),
        ],
    },
    ObjectSchema {
        name: "Quote",
        fields: &[("text", "string"), ("author", "string"), ("context", "string"), ("word_count", "integer")],
        filters: &[
            field("min_words", Kind::Whole(1, 100_000), "at least so many words"),
            field("author", WORD, "only of this author"),
        ],
    },
    ObjectSchema {
        name: "Methodology",
        fields: &[("section_text", "string"), ("approach", "string"), ("tools_mentioned", "array")],
        filters: &[field("approach", WORD, "e.g. experimental"), field("tool", WORD, "only with this tool")],
    },
    ObjectSchema {
        name: "Citation",
        fields: &[("number", "integer"), ("text", "string"), ("context", "string")],
        filters: &[field("number", Kind::Whole(0, 1_000_000), "only of this number")],
    },
    ObjectSchema {
        name: "Reference",
        fields: &[("index", "string"), ("full_text", "string"), ("doi", "string"), ("arxiv_id", "string")],
        filters: &[
            field("doi", WORD, "only with this DOI"),
            field("arxiv_id", WORD, "only with this arXiv id"),
            field("year", Kind::Whole(1000, 3000), "only of this year"),
        ],
    },
];

/// The names of [`SCHEMAS`], in their order.
pub const SCHEMA_NAMES: &[&str] = &["Code", "Definition", "Table", "Quote", "Methodology", "Citation", "Reference"];

const OBJECTIVE: Field = field("objective", TEXT, "what the answer is for, in plain words; vic chooses the method");

const INGEST: Verb = Verb {
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
    request: r#"{"paths":["/home/me/papers"],"mode":"full"}"#,
    response: r#"{"session":4,"files":31,"indexed":30,"failed":1}"#,
};

const EXTRACT: Verb = Verb {
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
    request: r#"{"view":"papers","schema":"Code","filters":{"language":"python"}}"#,
    response: r#"{"schema":"Code","count":1,"objects":[{"file":7,"lines":[12,19],"language":"python"}]}"#,
};

const NORMALIZE: Verb = Verb {
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
    request: r#"{"form":"dates","session":4}"#,
    response: r#"{"mapping":[{"original":"12 March 2024","canonical":"2024-03-12","count":3}]}"#,
};

const COMPARE: Verb = Verb {
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
    request: r#"{"form":"versions","doc_a":3,"doc_b":9}"#,
    response: r#"{"added":1,"removed":0,"modified":2,"changes":[{"op":"modified","section":"Setup"}]}"#,
};

const DETECT: Verb = Verb {
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
    request: r#"{"form":"clusters","objective":"group by topical similarity","constraints":{"max_clusters":5}}"#,
    response: r#"{"clusters":[{"label":["gauge","tide"],"files":[3,9],"confidence":0.71}]}"#,
};

const TRACE: Verb = Verb {
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
    request: r#"{"form":"citations","format":"graph"}"#,
    response: r#"{"nodes":[{"id":"f3","title":"Tides"}],"edges":[{"from":"f3","to":"f9","kind":"link"}]}"#,
};

const SCORE: Verb = Verb {
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
    request: r#"{"form":"freshness"}"#,
    response: r#"{"scores":[{"file":3,"score":0.8,"reasons":{"age_days":41}}],"distribution":{"median":0.5}}"#,
};

const QUERY: Verb = Verb {
    name: "QUERY",
    when: "to filter documents by metadata before reading any",
    never: "it knows metadata only; what a text argues or introduces is not asked here",
    refuses: "fields that do not exist; values of a wrong type; conditions about meaning",
    forms: &[form(
        "",
        "lists documents",
        &[needed("filter", Kind::Filter, "AND, OR, NOT, = != < > <= >=, parentheses")],
    )],
    request: r#"{"filter":"content_type=academic AND year>=2020"}"#,
    response: r#"{"count":2,"documents":[{"file":3,"path":"a.pdf"}]}"#,
};

const DELTA: Verb = Verb {
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
    request: r#"{"baseline":4}"#,
    response: r#"{"added":[12],"removed":[],"modified":[{"file":3,"sections":["Setup"]}]}"#,
};

const SUMMARIZE: Verb = Verb {
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
    request: r#"{"form":"timeline","field":"published_at"}"#,
    response: r#"{"events":[{"date":"2024-03-12","file":3}]}"#,
};

const EXPLAIN_FAILURE: Verb = Verb {
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
    request: r#"{"verb":"extract","extraction_id":"r-41c0ffee0badcafe"}"#,
    response: r#"{"verb":"extract","issues":[{"type":"incomplete_coverage"}],"fixable":true}"#,
};

/// Every verb. The list is closed.
pub const VERBS: &[Verb] =
    &[INGEST, EXTRACT, NORMALIZE, COMPARE, DETECT, TRACE, SCORE, QUERY, DELTA, SUMMARIZE, EXPLAIN_FAILURE];

/// The names of [`VERBS`], in their order.
pub const NAMES: &[&str] = &[
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

impl Verb {
    /// Returns the fields that one of its forms takes: its own first, then the common ones it does not have itself.
    pub fn fields(form: &'static Form) -> impl Iterator<Item = &'static Field> {
        let common = COMMON.iter().filter(|it| !form.fields.iter().any(|own| own.name == it.name));
        form.fields.iter().chain(common)
    }
}

/// Returns the verb of a name in any case, `-` and `_` alike.
pub fn verb(name: &str) -> Option<&'static Verb> {
    let name = name.trim().replace('-', "_");
    VERBS.iter().find(|it| it.name.eq_ignore_ascii_case(&name))
}

/// Returns the schema of a name in any case.
pub fn schema(name: &str) -> Option<&'static ObjectSchema> {
    SCHEMAS.iter().find(|it| it.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_is_closed_and_its_lists_agree() {
        let names: Vec<&str> = VERBS.iter().map(|it| it.name).collect();
        assert_eq!((names.as_slice(), names.len()), (NAMES, 11));
        let schemas: Vec<&str> = SCHEMAS.iter().map(|it| it.name).collect();
        assert_eq!(schemas, SCHEMA_NAMES);
        assert_eq!(verb("explain-failure").unwrap().name, "EXPLAIN_FAILURE");
        assert!(verb("search").is_none());
    }

    #[test]
    fn no_form_has_a_field_twice_and_every_verb_has_a_form() {
        for verb in VERBS {
            assert!(!verb.forms.is_empty());
            for form in verb.forms {
                let mut names: Vec<&str> = Verb::fields(form).map(|it| it.name).collect();
                names.sort_unstable();
                let all = names.len();
                names.dedup();
                assert_eq!(names.len(), all, "{} {}", verb.name, form.name);
            }
        }
    }
}
