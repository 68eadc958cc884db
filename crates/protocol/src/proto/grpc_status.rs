//! [`Error`] to gRPC status and back, with its hint.

use std::time::Duration;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::error::{Error, ErrorCode};

/// Trailer with the cure. Binary, because a hint may hold any path and text trailers are ASCII.
const HINT: &str = "vic-hint-bin";

/// Trailer with the name of the field that is wrong. Binary for the same reason.
const FIELD: &str = "vic-field-bin";

/// Trailer with the name of the code, where that of gRPC stands for several, and where it is a defect: see [`whose`].
const CODE: &str = "vic-code";

/// Trailer with the seconds after which it makes sense to try again, named as in HTTP.
const RETRY_AFTER: &str = "retry-after";

/// Trailer with the milliseconds, only where the wait is known.
const RETRY_AFTER_MS: &str = "vic-retry-after-ms";

/// Longest hint that is sent, in bytes: trailers count against the peer's header limit, 16 KiB with many of them.
const MAX_HINT: usize = 2 << 10;

/// Longest message that is sent, in bytes, for the same reason; percent-encoding may triple it.
const MAX_MESSAGE: usize = 2 << 10;

/// Returns the status that carries the error.
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
    // A moment is what whatever is full here takes; others have said it themselves.
    let moment = (error.code == ErrorCode::ResourceExhausted).then_some(Duration::from_secs(1));
    if let Some(wait) = error.retry_after.or(moment) {
        metadata.insert(RETRY_AFTER, MetadataValue::from(wait.as_millis().div_ceil(1_000).max(1) as u64));
    }
    if let Some(wait) = error.retry_after {
        metadata.insert(RETRY_AFTER_MS, MetadataValue::from(wait.as_millis() as u64));
    }
    Status::with_metadata(error.code.grpc_code(), shorten(&error.message, MAX_MESSAGE), metadata)
}

/// Says whose fault it is that a call failed. A message that cannot be read is the caller's, and tonic calls it internal as
/// if it were a defect; what vic itself calls a defect names its code.
pub fn whose<B: Default>(response: http::Response<B>) -> http::Response<B> {
    match response.extensions().get::<Status>() {
        Some(status) if status.code() == Code::Internal && !status.metadata().contains_key(CODE) => {
            from_error(Error::invalid(format!("the message cannot be read: {}", status.message()))).into_http()
        }
        _ => response,
    }
}

/// Returns the error that a status carries, also when it comes from the transport and not from [`from_error`].
pub fn into_error(status: &Status) -> Error {
    let code = match status.code() {
        // How tonic says that a message is larger than its limit.
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
            Some("the running vicd is of another version: `vic daemon stop`, then try again".into())
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

/// Cuts at a character boundary.
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
    fn every_code_keeps_message_and_hint() {
        for code in ErrorCode::ALL {
            check(Error::new(code, "cannot read `/tmp/ä\u{1b}\n`").hint("try `größer`"));
            check(Error::new(code, "no cure"));
            check(Error::new(code, "no cure").field("filters.größe"));
            check(Error::new(code, "busy").retry_after(Duration::from_millis(1_500)));
        }
    }

    #[test]
    fn a_message_that_cannot_be_read_is_the_fault_of_its_sender_and_a_defect_is_none() {
        let code = |status: Status| Status::from_header_map(whose(status.into_http()).headers()).unwrap().code();
        assert_eq!(code(Status::internal("failed to decode Protobuf message")), Code::InvalidArgument);
        assert_eq!(code(from_error(Error::internal("a defect"))), Code::Internal);
        assert_eq!(code(from_error(Error::not_found("no such job"))), Code::NotFound);
    }

    #[test]
    fn what_the_transport_says_is_understood() {
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
    fn long_texts_are_cut_between_characters() {
        let error = into_error(&from_error(Error::invalid("ä".repeat(5_000)).hint("ö".repeat(5_000))));
        assert_eq!(error.message.len(), MAX_MESSAGE);
        assert_eq!(error.hint.unwrap().len(), MAX_HINT);
    }
}
