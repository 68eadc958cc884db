//! Converts errors of the client into errors of vic, each with its cure.

use vic_milvus::ErrorKind;

use crate::error::{Error, ErrorCode};

/// Converts an error of the client.
pub(super) fn from_client(error: vic_milvus::Error) -> Error {
    let (code, hint) = code_and_hint(error.kind());
    Error::new(code, error.to_string()).hint(hint)
}

fn code_and_hint(kind: &ErrorKind) -> (ErrorCode, &'static str) {
    match kind {
        ErrorKind::Unreachable(_) => {
            (ErrorCode::Unavailable, "check that the server of VIC_MILVUS_URI runs, and its address and certificate")
        }
        ErrorKind::Unauthenticated => {
            (ErrorCode::PermissionDenied, "set VIC_MILVUS_TOKEN to the server's token or `user:password`")
        }
        ErrorKind::Denied(_) => (
            ErrorCode::PermissionDenied,
            "give the user of VIC_MILVUS_TOKEN the right to read and write, and end read-only mode",
        ),
        ErrorKind::NotFound(_) => {
            (ErrorCode::FailedPrecondition, "restart the daemon: it creates the collection and fills it again")
        }
        ErrorKind::NotLoaded(_) => (ErrorCode::Unavailable, "wait until the server has loaded the collection"),
        ErrorKind::Unsupported(_) => (ErrorCode::FailedPrecondition, "use Milvus 2.3 or newer, or milvus-lite 3"),
        ErrorKind::Overloaded(_) => (ErrorCode::ResourceExhausted, "give the server more memory or disk, or wait"),
        ErrorKind::TimedOut => (ErrorCode::DeadlineExceeded, "check the load of the server"),
        ErrorKind::TooLarge(_) | ErrorKind::Invalid(_) => (ErrorCode::Internal, "report this as a bug of vic"),
        _ => (ErrorCode::Unavailable, "look into the log of the server"),
    }
}
