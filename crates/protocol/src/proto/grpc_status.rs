//! Converts [`Error`] to a gRPC status and back; hint, field and retry time travel in the trailers.

use std::time::Duration;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::error::{Error, ErrorCode};

/// Trailer that contains the hint. Binary, because a hint may contain any path, and text trailers must be ASCII.
const HINT: &str = "vic-hint-bin";

/// Trailer that contains the name of the invalid field. Binary, because a name may contain any characters.
const FIELD: &str = "vic-field-bin";

/// Trailer that contains the error code's name, if several codes share a gRPC code, and for internal errors; see [`whose`].
const CODE: &str = "vic-code";

/// Trailer that contains the seconds to wait before a retry, with the same name as the HTTP header.
const RETRY_AFTER: &str = "retry-after";

/// Trailer that contains the milliseconds to wait before a retry, only if known.
const RETRY_AFTER_MS: &str = "vic-retry-after-ms";

/// Maximum size of a hint, in bytes; a longer one is truncated, because trailers count against the peer's header limit,
/// often 16 KiB.
const MAX_HINT: usize = 2 << 10;

/// Maximum size of a message in bytes; a longer one is truncated. Like a hint, it counts against the header limit, and
/// percent-encoding may triple its size.
const MAX_MESSAGE: usize = 2 << 10;

/// Converts an error to a gRPC status.
pub fn from_error(error: Error) -> Status {
    let mut metadata = MetadataMap::new();
    if let Some(hint) = &error.hint {
        metadata.insert_bin(HINT, MetadataValue::from_bytes(shorten(hint, MAX_HINT).as_bytes()));
    }
    if let Some(field) = &error.field {
        metadata.insert_bin(FIELD, MetadataValue::from_bytes(shorten(field, MAX_HINT).as_bytes()));
    }
    if ErrorCode::from_grpc(error.code.grpc_code()) != error.code || error.code == ErrorCode::Internal {
        metadata.insert(CODE, MetadataValue::from_static(error.code.name()));
    }
    // If an exhausted resource gives no retry time, suggest a second: it is usually free again by then.
    let moment = (error.code == ErrorCode::ResourceExhausted).then_some(Duration::from_secs(1));
    if let Some(wait) = error.retry_after.or(moment) {
        metadata.insert(RETRY_AFTER, MetadataValue::from(wait.as_millis().div_ceil(1_000).max(1) as u64));
    }
    if let Some(wait) = error.retry_after {
        metadata.insert(RETRY_AFTER_MS, MetadataValue::from(wait.as_millis() as u64));
    }
    Status::with_metadata(error.code.grpc_code(), shorten(&error.message, MAX_MESSAGE), metadata)
}

/// Converts tonic's `INTERNAL` for a message that cannot be decoded to `INVALID_ARGUMENT`, because the caller caused it.
/// Internal errors of vic itself are kept; they carry the code trailer.
pub fn whose<B: Default>(response: http::Response<B>) -> http::Response<B> {
    match response.extensions().get::<Status>() {
        Some(status) if status.code() == Code::Internal && !status.metadata().contains_key(CODE) => {
            from_error(Error::invalid(format!("the message cannot be read: {}", status.message()))).into_http()
        }
        _ => response,
    }
}

/// Converts a gRPC status to an error, also a status of the transport that [`from_error`] did not create.
pub fn into_error(status: &Status) -> Error {
    let code = match status.code() {
        // tonic uses this code for a message above its size limit, which is the caller's fault.
        Code::OutOfRange => ErrorCode::InvalidArgument,
        Code::Unimplemented => ErrorCode::FailedPrecondition,
        Code::Unauthenticated => ErrorCode::PermissionDenied,
        code => {
            let named = status.metadata().get(CODE).and_then(|it| ErrorCode::from_name(it.to_str().ok()?));
            named.filter(|it| it.grpc_code() == code).unwrap_or_else(|| ErrorCode::from_grpc(code))
        }
    };
    let trailer = |name: &str| {
        let bytes = status.metadata().get_bin(name)?.to_bytes().ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let hint = match trailer(HINT) {
        Some(hint) => Some(hint),
        None if status.code() == Code::Unimplemented => {
            Some("the running vicd has another version: run `vic daemon stop`, then try again".into())
        }
        None => None,
    };
    let message = match status.message() {
        "" => status.code().description().to_ascii_lowercase(),
        message => message.into(),
    };
    let wait = status.metadata().get(RETRY_AFTER_MS).and_then(|it| it.to_str().ok()?.parse().ok());
    Error { code, message, hint, field: trailer(FIELD), retry_after: wait.map(Duration::from_millis) }
}

/// Truncates a text to at most `max` bytes, at a character boundary.
fn shorten(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: Error) {
        assert_eq!(into_error(&from_error(error.clone())), error);
    }

    #[test]
    fn errors_round_trip_with_message_and_hint() {
        for code in ErrorCode::ALL {
            check(Error::new(code, "cannot read `/tmp/ä\u{1b}\n`").hint("try `größer`"));
            check(Error::new(code, "no cure"));
            check(Error::new(code, "no cure").field("filters.größe"));
            check(Error::new(code, "busy").retry_after(Duration::from_millis(1_500)));
        }
    }

    // Case D12
    #[test]
    fn undecodable_message_is_invalid_argument() {
        let code = |status: Status| Status::from_header_map(whose(status.into_http::<()>()).headers()).unwrap().code();
        assert_eq!(code(Status::internal("failed to decode Protobuf message")), Code::InvalidArgument);
        assert_eq!(code(from_error(Error::internal("a defect"))), Code::Internal);
        assert_eq!(code(from_error(Error::not_found("no such job"))), Code::NotFound);
    }

    #[test]
    fn transport_status_becomes_error() {
        for (status, code) in [
            (Status::out_of_range("too large"), ErrorCode::InvalidArgument),
            (Status::unimplemented("no such method"), ErrorCode::FailedPrecondition),
            (Status::unknown(""), ErrorCode::Internal),
        ] {
            let error = into_error(&status);
            assert_eq!(error.code, code);
            assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn long_texts_are_cut_at_char_boundary() {
        let error = into_error(&from_error(Error::invalid("ä".repeat(5_000)).hint("ö".repeat(5_000))));
        assert_eq!(error.message.len(), MAX_MESSAGE);
        assert_eq!(error.hint.unwrap().len(), MAX_HINT);
    }
}
