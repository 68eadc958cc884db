//! The error of a rejected request: a type from a closed list, one message, and suggested actions.

use serde_json::{Value, json};
use strsim::jaro_winkler;

use crate::error::{Error, ErrorCode};

/// Least similarity at which a name counts as a typo of another.
const CLOSE: f64 = 0.75;

/// The type of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    UnknownVerb,
    UnknownForm,
    UnknownField,
    UnknownSchema,
    UnknownView,
    UnknownSession,
    UnknownFile,
    UnknownResult,
    MissingField,
    TypeError,
    OutOfRange,
    Ambiguous,
    InvalidFilter,
    SemanticFilter,
    EmptyView,
    VanishedFolder,
    MetadataOnly,
    TooManyDocuments,
    AlreadyExists,
    Forbidden,
    Unavailable,
    Internal,
}

impl Cause {
    /// Every type.
    pub(crate) const ALL: [Cause; 21] = [
        Cause::UnknownVerb,
        Cause::UnknownForm,
        Cause::UnknownField,
        Cause::UnknownSchema,
        Cause::UnknownView,
        Cause::UnknownSession,
        Cause::UnknownFile,
        Cause::UnknownResult,
        Cause::MissingField,
        Cause::TypeError,
        Cause::OutOfRange,
        Cause::Ambiguous,
        Cause::InvalidFilter,
        Cause::SemanticFilter,
        Cause::EmptyView,
        Cause::VanishedFolder,
        Cause::TooManyDocuments,
        Cause::AlreadyExists,
        Cause::Forbidden,
        Cause::Unavailable,
        Cause::Internal,
    ];

    /// Its name in the envelope.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::UnknownVerb => "unknown_verb",
            Cause::UnknownForm => "unknown_form",
            Cause::UnknownField => "unknown_field",
            Cause::UnknownSchema => "unknown_schema",
            Cause::UnknownView => "unknown_view",
            Cause::UnknownSession => "unknown_session",
            Cause::UnknownFile => "unknown_file",
            Cause::UnknownResult => "unknown_result",
            Cause::MissingField => "missing_field",
            Cause::TypeError => "type_error",
            Cause::OutOfRange => "out_of_range",
            Cause::Ambiguous => "ambiguous_request",
            Cause::InvalidFilter => "invalid_filter",
            Cause::SemanticFilter => "semantic_filter",
            Cause::EmptyView => "empty_view",
            Cause::VanishedFolder => "vanished_folder",
            Cause::MetadataOnly => "metadata_only",
            Cause::TooManyDocuments => "too_many_documents",
            Cause::AlreadyExists => "already_exists",
            Cause::Forbidden => "forbidden",
            Cause::Unavailable => "unavailable",
            Cause::Internal => "internal",
        }
    }

    fn code(self) -> ErrorCode {
        match self {
            Cause::UnknownView
            | Cause::UnknownSession
            | Cause::UnknownFile
            | Cause::UnknownResult
            | Cause::VanishedFolder => ErrorCode::NotFound,
            Cause::EmptyView | Cause::MetadataOnly | Cause::TooManyDocuments | Cause::AlreadyExists => {
                ErrorCode::FailedPrecondition
            }
            Cause::Forbidden => ErrorCode::PermissionDenied,
            Cause::Unavailable => ErrorCode::Unavailable,
            Cause::Internal => ErrorCode::Internal,
            _ => ErrorCode::InvalidArgument,
        }
    }
}

/// The error of a rejected request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    pub(crate) actions: Vec<String>,
    pub(crate) code: ErrorCode,
}

/// The result of a step of the corpus API.
pub(crate) type Outcome<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Refusal {
        Refusal { cause, message: message.into(), field: None, actions: Vec::new(), code: cause.code() }
    }

    /// Sets the field that is wrong.
    pub(crate) fn field(mut self, field: impl Into<String>) -> Refusal {
        self.field = Some(field.into());
        self
    }

    /// Adds a suggested action.
    pub(crate) fn action(mut self, action: impl Into<String>) -> Refusal {
        self.actions.push(action.into());
        self
    }

    /// An unknown name, with the nearest known name, or all known names if none is near.
    pub(crate) fn unknown(cause: Cause, what: &str, name: &str, known: &[&str]) -> Refusal {
        let shown: String = name.chars().take(40).collect();
        let refusal = Refusal::new(cause, format!("there is no {what} `{shown}`"));
        match nearest(name, known) {
            Some(near) => refusal.action(format!("did you mean `{near}`?")),
            None if known.is_empty() => refusal,
            None => refusal.action(format!("use one of: {}", known.join(", "))),
        }
    }

    /// The error object of the envelope.
    pub(crate) fn value(&self) -> Value {
        // An error always suggests at least one action.
        let help = ["`help` and `schema` say what the verb takes".to_string()];
        let actions = if self.actions.is_empty() { &help[..] } else { &self.actions };
        json!({
            "type": self.cause.name(),
            "message": self.message,
            "field": self.field,
            "suggested_actions": actions,
        })
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let cause = match error.code {
            ErrorCode::NotFound => Cause::UnknownFile,
            ErrorCode::PermissionDenied => Cause::Forbidden,
            ErrorCode::InvalidArgument => Cause::TypeError,
            ErrorCode::Internal | ErrorCode::DataLoss => Cause::Internal,
            _ => Cause::Unavailable,
        };
        Refusal {
            cause,
            message: error.message,
            field: error.field,
            actions: error.hint.into_iter().collect(),
            code: error.code,
        }
    }
}

/// Returns the known name that was probably meant.
pub(crate) fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let folded = name.to_lowercase().replace('-', "_");
    let score = |it: &&str| jaro_winkler(&folded, &it.to_lowercase().replace('-', "_"));
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)).then(b.cmp(a)))?;
    (score(&best) >= CLOSE).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typo_and_rejects_nonsense() {
        let known = ["EXTRACT", "COMPARE", "DETECT", "EXPLAIN_FAILURE"];
        assert_eq!(nearest("extrct", &known), Some("EXTRACT"));
        assert_eq!(nearest("explain-failures", &known), Some("EXPLAIN_FAILURE"));
        assert_eq!(nearest("zzz", &known), None);
    }
}
