//! The management calls of the corpus API: views, jobs, stored results, help and schemas. They take no common fields.

use crate::verbs::verb::{
    FORMATS, Field, FieldKind, LONG_TEXT, SHORT_TEXT, Verb, WAIT_MS, form, optional_field, required_field,
};

const FORMAT: Field = optional_field("format", FieldKind::Choice(&["json", "yaml"]), "json (default) or yaml");
const NAME: Field = required_field("name", SHORT_TEXT, "its name").or_named(&["view"]);

/// Every management call. The field `action` selects the form of VIEW.
pub const MANAGEMENT_CALLS: &[Verb] = &[
    Verb {
        name: "VIEW",
        when: "to work on the same part of the documents more than once",
        never: "copy, change or delete documents",
        refuses: "a name that exists; none or several of filter, files and session; a filter that cannot be parsed",
        forms: &[
            form(
                "create",
                "saves a filter, files or a session under a name",
                &[
                    NAME,
                    optional_field("filter", FieldKind::Filter, "over metadata, as of QUERY")
                        .or_named(&["query", "where"]),
                    optional_field("files", FieldKind::Files(10_000), "the documents")
                        .or_named(&["documents", "paths"]),
                    optional_field("urls", FieldKind::Files(10_000), "another name for files"),
                    optional_field("session", FieldKind::Whole(1, i64::MAX), "of an ingest run")
                        .or_named(&["session_id"]),
                    optional_field("since", FieldKind::Moment, "with filter: changed since").or_named(&["after"]),
                    optional_field("auto_update", FieldKind::Flag, "with filter: follows the index")
                        .or_named(&["dynamic"]),
                    FORMAT,
                ],
            ),
            form("list", "lists views and sessions", &[FORMAT]),
            form("show", "shows a view and its documents", &[NAME, FORMAT]),
            form(
                "delete",
                "deletes a view, or a session with its stored texts",
                &[
                    optional_field("name", SHORT_TEXT, "a view").or_named(&["view"]),
                    optional_field("session", FieldKind::Whole(1, i64::MAX), "a session instead")
                        .or_named(&["session_id"]),
                    FORMAT,
                ],
            ),
        ],
    },
    Verb {
        name: "JOB",
        when: "after an answer with a job_id, to learn where the job stands, or to end it",
        never: "wait for the end, except for wait_ms",
        refuses: "an id that was never given, or of a job that another key began",
        forms: &[form(
            "",
            "says where a job stands",
            &[
                required_field("id", SHORT_TEXT, "of the job, j-...").or_named(&["job_id", "job"]),
                optional_field("cancel", FieldKind::Flag, "ends it"),
                WAIT_MS,
                FORMAT,
            ],
        )],
    },
    Verb {
        name: "RESULT",
        when: "to get an earlier answer again, exactly as it was",
        never: "run the request again",
        refuses: "an unknown result id",
        forms: &[form(
            "",
            "gives an earlier answer",
            &[
                required_field("id", SHORT_TEXT, "of the answer, r-...").or_named(&["result_id", "result"]),
                optional_field("format", FieldKind::Choice(FORMATS), "as of the verb"),
            ],
        )],
    },
    Verb {
        name: "HELP",
        when: "to choose a verb, or to learn how to ask it",
        never: "answer questions about documents",
        refuses: "a verb, form or schema that does not exist",
        forms: &[form(
            "",
            "returns a help text",
            &[
                optional_field(
                    "verb",
                    SHORT_TEXT,
                    "a verb; or `fields`, those of QUERY; or `common`, those of all verbs",
                )
                .or_named(&["topic", "name"]),
                optional_field("form", LONG_TEXT, "a form of it, or a schema of EXTRACT").or_named(&["schema"]),
                FORMAT,
            ],
        )],
    },
    Verb {
        name: "SCHEMA",
        when: "to validate requests and answers by program",
        never: "validate anything itself",
        refuses: "a verb that does not exist",
        forms: &[form(
            "",
            "gives JSON Schemas of request and response",
            &[optional_field("verb", SHORT_TEXT, "all when absent").or_named(&["name"]), FORMAT],
        )],
    },
];
