//! The error of a rejected request: a type from a fixed list, one message, and suggested actions.

use serde_json::{Value, json};
use strsim::jaro_winkler;

use crate::corpus::text::words::truncate_to_line;
use crate::error::{Error, ErrorCode};

/// Minimum similarity at which an unknown name is treated as a misspelling of a known one.
const MIN_SIMILARITY: f64 = 0.75;

/// Declares all error types in one table, from which the enum, the list of types and their names are generated.
macro_rules! error_kinds {
    ($($kind:ident => $name:literal,)*) => {
        /// The type of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum ApiErrorKind {
            $($kind,)*
        }

        impl ApiErrorKind {
            /// Every error type.
            pub(crate) const ALL: &[ApiErrorKind] = &[$(ApiErrorKind::$kind,)*];

            /// Returns the name of the type in the envelope.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(ApiErrorKind::$kind => $name,)*
                }
            }
        }
    };
}

error_kinds! {
    UnknownVerb => "unknown_verb",
    UnknownForm => "unknown_form",
    UnknownField => "unknown_field",
    UnknownSchema => "unknown_schema",
    UnknownView => "unknown_view",
    UnknownSession => "unknown_session",
    UnknownFile => "unknown_file",
    UnknownResult => "unknown_result",
    MissingField => "missing_field",
    TypeError => "type_error",
    OutOfRange => "out_of_range",
    Ambiguous => "ambiguous_request",
    InvalidFilter => "invalid_filter",
    SemanticFilter => "semantic_filter",
    EmptyView => "empty_view",
    VanishedFolder => "vanished_folder",
    MetadataOnly => "metadata_only",
    TooManyDocuments => "too_many_documents",
    AlreadyExists => "already_exists",
    Forbidden => "forbidden",
    Unavailable => "unavailable",
    Internal => "internal",
}

impl ApiErrorKind {
    fn code(self) -> ErrorCode {
        match self {
            ApiErrorKind::UnknownView
            | ApiErrorKind::UnknownSession
            | ApiErrorKind::UnknownFile
            | ApiErrorKind::UnknownResult
            | ApiErrorKind::VanishedFolder => ErrorCode::NotFound,
            ApiErrorKind::EmptyView
            | ApiErrorKind::MetadataOnly
            | ApiErrorKind::TooManyDocuments
            | ApiErrorKind::AlreadyExists => ErrorCode::FailedPrecondition,
            ApiErrorKind::Forbidden => ErrorCode::PermissionDenied,
            ApiErrorKind::Unavailable => ErrorCode::Unavailable,
            ApiErrorKind::Internal => ErrorCode::Internal,
            _ => ErrorCode::InvalidArgument,
        }
    }
}

/// The error of a rejected request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) kind: ApiErrorKind,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    pub(crate) actions: Vec<String>,
    pub(crate) code: ErrorCode,
}

/// The result of a step of the corpus API.
pub(crate) type ApiResult<T> = std::result::Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(kind: ApiErrorKind, message: impl Into<String>) -> ApiError {
        ApiError { kind, message: message.into(), field: None, actions: Vec::new(), code: kind.code() }
    }

    /// Sets the name of the invalid field.
    pub(crate) fn field(mut self, field: impl Into<String>) -> ApiError {
        self.field = Some(field.into());
        self
    }

    /// Adds a suggested action.
    pub(crate) fn action(mut self, action: impl Into<String>) -> ApiError {
        self.actions.push(action.into());
        self
    }

    /// Creates the error for an unknown name; it suggests the nearest known name, or all known names if none is similar.
    pub(crate) fn unknown_name(cause: ApiErrorKind, what: &str, name: &str, known: &[&str]) -> ApiError {
        let shown = truncate_to_line(name, 40);
        ApiError::new(cause, format!("there is no {what} `{shown}`")).suggest(name, known)
    }

    /// Creates the error for an unknown part, such as a field of a form, with the same suggestions as
    /// [`ApiError::unknown_name`].
    pub(crate) fn unknown_part(
        cause: ApiErrorKind,
        (whole, part): (&str, &str),
        name: &str,
        known: &[&str],
    ) -> ApiError {
        let shown = truncate_to_line(name, 40);
        ApiError::new(cause, format!("{whole} has no {part} `{shown}`")).suggest(name, known)
    }

    fn suggest(self, name: &str, known: &[&str]) -> ApiError {
        match nearest_name(name, known) {
            Some(near) => self.action(format!("did you mean `{near}`?")),
            None if known.is_empty() => self,
            None => self.action(format!("use one of: {}", known.join(", "))),
        }
    }

    /// Returns the error as the JSON object of the envelope.
    pub(crate) fn value(&self) -> Value {
        // Suggest the help if the error has no action, because every error suggests at least one.
        let help = ["see `help` or `schema` for the fields of the verb".to_string()];
        let actions = if self.actions.is_empty() { &help[..] } else { &self.actions };
        json!({
            "type": self.kind.name(),
            "message": self.message,
            "field": self.field,
            "suggested_actions": actions,
        })
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let cause = match error.code {
            ErrorCode::NotFound => ApiErrorKind::UnknownFile,
            ErrorCode::PermissionDenied => ApiErrorKind::Forbidden,
            ErrorCode::InvalidArgument => ApiErrorKind::TypeError,
            ErrorCode::Internal | ErrorCode::DataLoss => ApiErrorKind::Internal,
            _ => ApiErrorKind::Unavailable,
        };
        ApiError {
            kind: cause,
            message: error.message,
            field: error.field,
            actions: error.hint.into_iter().collect(),
            code: error.code,
        }
    }
}

/// Returns the known name that is most similar to a misspelt one.
pub(crate) fn nearest_name<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let folded = name.to_lowercase().replace('-', "_");
    let score = |it: &&str| jaro_winkler(&folded, &it.to_lowercase().replace('-', "_"));
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)).then(b.cmp(a)))?;
    (score(&best) >= MIN_SIMILARITY).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typo_and_rejects_nonsense() {
        let known = ["EXTRACT", "COMPARE", "DETECT", "EXPLAIN_FAILURE"];
        assert_eq!(nearest_name("extrct", &known), Some("EXTRACT"));
        assert_eq!(nearest_name("explain-failures", &known), Some("EXPLAIN_FAILURE"));
        assert_eq!(nearest_name("zzz", &known), None);
    }
}
