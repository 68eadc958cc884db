//! Which error a status of the server means, and whether the call is worth another attempt.
//!
//! The codes are those of `pkg/util/merr/errors.go` of Milvus, except that Milvus Lite 3 uses some of them otherwise: 1 is
//! any error there, and 6 a wrong argument. Servers before 2.3 fill `error_code` only, from an older list.

use tonic::{Code, Status as GrpcStatus};

use crate::error::{ErrorKind, clean};
use crate::generated::common::Status;

/// An error, and what may help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) retry: Retry,
}

/// What may make the next attempt succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    Never,
    Later,
    AfterLoad,
}

impl Failure {
    fn never(kind: ErrorKind) -> Self {
        Self { kind, retry: Retry::Never }
    }

    fn later(kind: ErrorKind) -> Self {
        Self { kind, retry: Retry::Later }
    }
}

/// The names that an error may quote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) call: &'static str,
    /// The collection, alias or index of the call. Empty if it has none.
    pub(crate) name: &'a str,
    pub(crate) is_lite: bool,
}

/// The error that a status in a reply means; `None` if the call succeeded.
pub(crate) fn failure_of_status(status: &Status, subject: Subject) -> Option<Failure> {
    if status.code == 0 && status.error_code == 0 {
        return None;
    }
    let text = if status.reason.is_empty() { &status.detail } else { &status.reason };
    let message = clean(text);
    let found = if status.code == 0 {
        of_legacy_code(status.error_code, &message, subject)
    } else if subject.is_lite {
        of_lite_code(status.code, &message, subject)
    } else {
        of_code(status.code, &message, subject)
    };
    let code = if status.code == 0 { status.error_code } else { status.code };
    Some(found.unwrap_or_else(|| {
        let retry = if status.retriable { Retry::Later } else { Retry::Never };
        Failure { kind: ErrorKind::Server { code, message }, retry }
    }))
}

fn of_code(code: i32, message: &str, subject: Subject) -> Option<Failure> {
    let text = message.to_string();
    let name = subject.name.to_string();
    Some(match code {
        1 | 2 | 901 | 902 => Failure::later(ErrorKind::Unreachable(text)),
        4 | 8 | 12 => Failure::later(ErrorKind::Overloaded(text)),
        // A quota of memory or disk, and also the switch by which an administrator forbids writes.
        9 if is_forbidden(message) => Failure::never(ErrorKind::Denied(text)),
        3 | 7 | 9 | 11 | 102 | 300 => Failure::never(ErrorKind::Overloaded(text)),
        108 => Failure::never(ErrorKind::Denied(text)),
        10 => Failure::never(ErrorKind::Unsupported(subject.call.to_string())),
        100 => Failure::never(ErrorKind::NotFound(format!("collection `{name}`"))),
        101 | 103 | 106 | 201 | 202 | 401 | 503 => {
            Failure { kind: ErrorKind::NotLoaded(name), retry: Retry::AfterLoad }
        }
        700 => Failure::never(ErrorKind::NotFound(format!("index of `{name}`"))),
        1600 => Failure::never(ErrorKind::NotFound(format!("alias `{name}`"))),
        800 | 1700 => Failure::never(ErrorKind::NotFound(format!("such object: {text}"))),
        701 | 1100 | 1101 => Failure::never(ErrorKind::Invalid(text)),
        1102 => Failure::never(ErrorKind::TooLarge(text)),
        1400 => Failure::never(ErrorKind::Unauthenticated),
        1401 => Failure::never(ErrorKind::Denied(text)),
        10001 => Failure::never(ErrorKind::TimedOut),
        _ => return None,
    })
}

/// Milvus Lite: `adapter/grpc/errors.py` of version 3.2.2.
fn of_lite_code(code: i32, message: &str, subject: Subject) -> Option<Failure> {
    match code {
        6 => Some(Failure::never(ErrorKind::Invalid(message.to_string()))),
        // It has no code of its own for an alias.
        100 if message.starts_with("alias") => of_code(1600, message, subject),
        100 | 101 | 700 => of_code(code, message, subject),
        _ => None,
    }
}

/// The enum `ErrorCode` of `common.proto`.
fn of_legacy_code(code: i32, message: &str, subject: Subject) -> Option<Failure> {
    let text = message.to_string();
    Some(match code {
        3 => Failure::never(ErrorKind::Denied(text)),
        4 | 28 => Failure::never(ErrorKind::NotFound(format!("collection `{}`", subject.name))),
        5..=11 | 22 | 23 => Failure::never(ErrorKind::Invalid(text)),
        24 | 52..=55 => Failure::never(ErrorKind::Overloaded(text)),
        25 => Failure::never(ErrorKind::NotFound(format!("index of `{}`", subject.name))),
        45 | 46 => Failure { kind: ErrorKind::NotLoaded(subject.name.to_string()), retry: Retry::AfterLoad },
        48 => Failure::never(ErrorKind::Denied(text)),
        49 => Failure::later(ErrorKind::Overloaded(text)),
        2 | 56 | 57 | 100 => Failure::later(ErrorKind::Unreachable(text)),
        // Milvus 2.2 has this as the text of an unexpected error.
        1 if is_not_loaded(message) => {
            Failure { kind: ErrorKind::NotLoaded(subject.name.to_string()), retry: Retry::AfterLoad }
        }
        _ => return None,
    })
}

fn is_forbidden(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("disabled") || message.contains("force deny")
}

fn is_not_loaded(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("not loaded") || message.contains("has not been loaded")
}

/// The error that gRPC reports instead of a reply.
pub(crate) fn failure_of_grpc(status: &GrpcStatus, subject: Subject) -> Failure {
    let text = clean(status.message());
    match status.code() {
        Code::Unauthenticated => Failure::never(ErrorKind::Unauthenticated),
        Code::PermissionDenied => Failure::never(ErrorKind::Denied(text)),
        Code::Unimplemented => Failure::never(ErrorKind::Unsupported(subject.call.to_string())),
        Code::DeadlineExceeded => Failure::never(ErrorKind::TimedOut),
        Code::ResourceExhausted | Code::OutOfRange if is_size(&text) => Failure::never(ErrorKind::TooLarge(text)),
        Code::ResourceExhausted => Failure::later(ErrorKind::Overloaded(text)),
        Code::Unavailable => Failure::later(ErrorKind::Unreachable(reason(status, text))),
        // A connection that breaks during a call has one of several codes, but always an error of the transport below.
        Code::Unknown | Code::Internal | Code::Cancelled if std::error::Error::source(status).is_some() => {
            Failure::later(ErrorKind::Unreachable(reason(status, text)))
        }
        code => Failure::never(ErrorKind::Server { code: code as i32, message: text }),
    }
}

fn is_size(message: &str) -> bool {
    message.contains("too large") || message.contains("larger than max")
}

/// The text of the innermost error: the outer ones say only that there was an error.
fn reason(status: &GrpcStatus, text: String) -> String {
    let mut innermost: Option<&dyn std::error::Error> = std::error::Error::source(status);
    while let Some(next) = innermost.and_then(std::error::Error::source) {
        innermost = Some(next);
    }
    innermost.map_or(text, |error| clean(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32, error_code: i32, reason: &str, is_lite: bool) -> Failure {
        let status = Status { code, error_code, reason: reason.to_string(), ..Default::default() };
        failure_of_status(&status, Subject { call: "Search", name: "c", is_lite }).unwrap()
    }

    #[test]
    fn code_of_the_server_gives_kind_and_retry() {
        assert_eq!(of(101, 0, "", false).retry, Retry::AfterLoad);
        assert_eq!(of(8, 49, "slow down", false).retry, Retry::Later);
        assert!(matches!(of(9, 48, "quota exceeded[reason=memory]", false).kind, ErrorKind::Overloaded(_)));
        assert!(matches!(of(9, 48, "access has been disabled", false).kind, ErrorKind::Denied(_)));
        assert_eq!(of(100, 4, "", false).kind, ErrorKind::NotFound("collection `c`".into()));
        assert!(matches!(of(65535, 1, "boom", false).kind, ErrorKind::Server { code: 65535, .. }));
    }

    #[test]
    fn code_1_is_not_retried_on_lite() {
        assert_eq!(of(1, 1, "already exists", true).retry, Retry::Never);
        assert_eq!(of(1, 1, "service not ready", false).retry, Retry::Later);
        assert!(matches!(of(6, 6, "bad filter", true).kind, ErrorKind::Invalid(_)));
    }

    #[test]
    fn old_server_without_code_is_understood() {
        assert_eq!(of(0, 49, "rate", false).retry, Retry::Later);
        assert_eq!(of(0, 1, "collection 1 has not been loaded to memory", false).retry, Retry::AfterLoad);
        assert!(failure_of_status(&Status::default(), Subject { call: "", name: "", is_lite: false }).is_none());
    }

    #[test]
    fn limit_of_a_message_is_not_a_limit_of_the_rate() {
        let subject = Subject { call: "Query", name: "", is_lite: false };
        let of = |status: GrpcStatus| failure_of_grpc(&status, subject);
        let large = [
            GrpcStatus::out_of_range("Error, decoded message length too large: found 70 bytes, the limit is: 64 bytes"),
            GrpcStatus::resource_exhausted("grpc: received message larger than max (70 vs. 64)"),
        ];
        assert!(large.into_iter().all(|status| matches!(of(status).kind, ErrorKind::TooLarge(_))));
        assert_eq!(of(GrpcStatus::resource_exhausted("rate")).retry, Retry::Later);
    }

    #[test]
    fn unimplemented_is_never_retried() {
        let subject = Subject { call: "Flush", name: "", is_lite: false };
        let failure = failure_of_grpc(&GrpcStatus::unimplemented("no"), subject);
        assert_eq!(failure, Failure::never(ErrorKind::Unsupported("Flush".into())));
    }
}
