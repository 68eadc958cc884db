//! The management calls of the corpus API: views, jobs, stored results, help and schemas. They take no common fields.

use crate::verbs::verb::{
    FORMATS, Field, FieldKind, LONG_TEXT, SHORT_TEXT, Verb, form, optional_field, required_field,
};

const FORMAT: Field = optional_field("format", FieldKind::Choice(&["json", "yaml"]), "json (default) or yaml");
const NAME: Field = required_field("name", SHORT_TEXT, "name of the view");
const ID: Field = required_field("id", SHORT_TEXT, "id from an earlier answer");

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
                    optional_field("filter", FieldKind::Filter, "condition on metadata that documents must meet"),
                    optional_field("files", FieldKind::Files(10_000), "files, given by id or path"),
                    optional_field("urls", FieldKind::Files(10_000), "another name for files"),
                    optional_field("session", FieldKind::Whole(1, i64::MAX), "id of an INGEST session"),
                    optional_field("since", FieldKind::Moment, "with filter: only files changed since this time"),
                    optional_field("auto_update", FieldKind::Flag, "with filter: adds new files that match"),
                    FORMAT,
                ],
            ),
            form("list", "lists views and sessions", &[FORMAT]),
            form("show", "shows a view and its documents", &[NAME, FORMAT]),
            form(
                "delete",
                "deletes a view, or a session with its stored texts",
                &[
                    optional_field("name", SHORT_TEXT, "name of a view"),
                    optional_field("session", FieldKind::Whole(1, i64::MAX), "id of a session to delete instead"),
                    FORMAT,
                ],
            ),
        ],
    },
    Verb {
        name: "JOB",
        when: "after an answer with a job_id, to get the state of the job, or to cancel it",
        never: "wait until the job ends",
        refuses: "an unknown job id, or the id of a job started with another key",
        forms: &[form(
            "",
            "returns the state of a job",
            &[ID, optional_field("cancel", FieldKind::Flag, "cancels the job"), FORMAT],
        )],
    },
    Verb {
        name: "RESULT",
        when: "to get an earlier answer again, exactly as it was",
        never: "run the request again",
        refuses: "an unknown result id",
        forms: &[form(
            "",
            "returns an earlier answer",
            &[ID, optional_field("format", FieldKind::Choice(FORMATS), "json (default), yaml or csv")],
        )],
    },
    Verb {
        name: "HELP",
        when: "to choose a verb, or to learn how to call it",
        never: "answer questions about documents",
        refuses: "a verb or form that does not exist",
        forms: &[form(
            "",
            "returns a help text",
            &[
                optional_field("verb", SHORT_TEXT, "a verb, or `fields` for the fields of QUERY"),
                optional_field("form", LONG_TEXT, "a form of the verb"),
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
            "returns the JSON Schemas of request and response",
            &[optional_field("verb", SHORT_TEXT, "a verb; all verbs when absent"), FORMAT],
        )],
    },
];
