//! The one error type of all of vic, and the only place that maps an error to a gRPC code, an HTTP status or an exit code.
//!
//! An unreadable file is not an error but a [`crate::model::FileState`] with a reason. An [`Error`] stops a request.

use std::fmt;
use std::path::Path;
use std::time::Duration;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed. Add a variant only if callers must handle it differently from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The request itself is wrong: unknown option, bad value, or a path that is not a folder.
    InvalidArgument,
    /// The named path, root, job or model does not exist.
    NotFound,
    /// Another process or request holds a required resource, e.g. the data directory.
    Locked,
    /// The state of vic does not allow the request, e.g. nothing is indexed, or the data has a newer format.
    FailedPrecondition,
    /// The operating system or the privacy mode forbids the request.
    PermissionDenied,
    /// Memory, a quota or a queue is full; trying again later can help.
    ResourceExhausted,
    /// The disk is full, or free space is below the configured reserve. The user must free space.
    StorageFull,
    /// The daemon or a backend cannot be reached; trying again can help.
    Unavailable,
    /// The caller or a signal stopped the request.
    Cancelled,
    /// The request took longer than its limit.
    DeadlineExceeded,
    /// Stored data is damaged or a checksum does not match.
    DataLoss,
    /// Any other error, caused by a defect of vic.
    Internal,
}

impl ErrorCode {
    /// Every error code. The README lists their [`ErrorCode::exit_code`]s.
    pub const ALL: [ErrorCode; 12] = [
        ErrorCode::InvalidArgument,
        ErrorCode::NotFound,
        ErrorCode::Locked,
        ErrorCode::FailedPrecondition,
        ErrorCode::PermissionDenied,
        ErrorCode::ResourceExhausted,
        ErrorCode::StorageFull,
        ErrorCode::Unavailable,
        ErrorCode::Cancelled,
        ErrorCode::DeadlineExceeded,
        ErrorCode::DataLoss,
        ErrorCode::Internal,
    ];

    /// Returns the snake_case name used by HTTP and MCP.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::InvalidArgument => "invalid_argument",
            ErrorCode::NotFound => "not_found",
            ErrorCode::Locked => "locked",
            ErrorCode::FailedPrecondition => "failed_precondition",
            ErrorCode::PermissionDenied => "permission_denied",
            ErrorCode::ResourceExhausted => "resource_exhausted",
            ErrorCode::StorageFull => "storage_full",
            ErrorCode::Unavailable => "unavailable",
            ErrorCode::Cancelled => "cancelled",
            ErrorCode::DeadlineExceeded => "deadline_exceeded",
            ErrorCode::DataLoss => "data_loss",
            ErrorCode::Internal => "internal",
        }
    }

    /// Returns the code with this name.
    pub fn from_name(name: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the gRPC status code.
    pub fn grpc_code(self) -> tonic::Code {
        match self {
            ErrorCode::InvalidArgument => tonic::Code::InvalidArgument,
            ErrorCode::NotFound => tonic::Code::NotFound,
            ErrorCode::Locked => tonic::Code::Aborted,
            ErrorCode::FailedPrecondition => tonic::Code::FailedPrecondition,
            ErrorCode::PermissionDenied => tonic::Code::PermissionDenied,
            ErrorCode::ResourceExhausted | ErrorCode::StorageFull => tonic::Code::ResourceExhausted,
            ErrorCode::Unavailable => tonic::Code::Unavailable,
            ErrorCode::Cancelled => tonic::Code::Cancelled,
            ErrorCode::DeadlineExceeded => tonic::Code::DeadlineExceeded,
            ErrorCode::DataLoss => tonic::Code::DataLoss,
            ErrorCode::Internal => tonic::Code::Internal,
        }
    }

    /// Returns the first code with this [`ErrorCode::grpc_code`]; unknown codes are [`ErrorCode::Internal`].
    pub fn from_grpc(code: tonic::Code) -> ErrorCode {
        ErrorCode::ALL.into_iter().find(|it| it.grpc_code() == code).unwrap_or(ErrorCode::Internal)
    }

    /// Returns the HTTP status code.
    pub fn http_status(self) -> u16 {
        match self {
            ErrorCode::InvalidArgument => 400,
            ErrorCode::PermissionDenied => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::Locked => 409,
            ErrorCode::FailedPrecondition => 412,
            ErrorCode::ResourceExhausted => 429,
            ErrorCode::Cancelled => 499,
            ErrorCode::DataLoss | ErrorCode::Internal => 500,
            ErrorCode::Unavailable => 503,
            ErrorCode::DeadlineExceeded => 504,
            ErrorCode::StorageFull => 507,
        }
    }

    /// Returns the exit code of `vic` and `vicd`: 0 is success, 1 a defect, 2 wrong usage (as in clap), and so on.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorCode::Internal => 1,
            ErrorCode::InvalidArgument => 2,
            ErrorCode::NotFound => 3,
            ErrorCode::Unavailable => 4,
            ErrorCode::Locked => 5,
            ErrorCode::FailedPrecondition => 6,
            ErrorCode::PermissionDenied => 7,
            ErrorCode::ResourceExhausted | ErrorCode::StorageFull => 8,
            ErrorCode::DeadlineExceeded => 9,
            ErrorCode::DataLoss => 10,
            ErrorCode::Cancelled => 130,
        }
    }
}

/// Hint for an input or output error of a disk.
pub const DISK_ERROR_HINT: &str =
    "nothing was changed: the disk could not be read or written; check `dmesg` and the disk, then start vic again";

/// A failed request: one lowercase sentence with the path or value in backticks, and where possible a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The error code, by which callers decide what to do.
    pub code: ErrorCode,
    /// What happened, in one sentence: lowercase, no final period.
    pub message: String,
    /// What the user can do about the error, e.g. a command to type.
    pub hint: Option<String>,
    /// Name of the invalid field of the request, e.g. `filters.min_size`.
    pub field: Option<String>,
    /// Time to wait before a retry, if the component that rejected the request reported one.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// Creates an error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), hint: None, field: None, retry_after: None }
    }

    /// Creates an [`ErrorCode::InvalidArgument`] error.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::InvalidArgument, message)
    }

    /// Creates an [`ErrorCode::NotFound`] error.
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorCode::NotFound, message)
    }

    /// Creates an [`ErrorCode::Internal`] error from any other error.
    pub fn internal(error: impl fmt::Display) -> Error {
        Error::new(ErrorCode::Internal, error.to_string())
    }

    /// Sets what the user can do about the error.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the name of the invalid field of the request.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Error {
        self.field = Some(field.into());
        self
    }

    /// Sets the time to wait before a retry.
    #[must_use]
    pub fn retry_after(mut self, wait: impl Into<Option<Duration>>) -> Error {
        self.retry_after = wait.into();
        self
    }

    /// Returns the message and the hint in one line.
    pub fn message_with_hint(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |cure| format!("{}; {cure}", self.message))
    }

    /// Returns the message with the hint in parentheses, for models and lists.
    pub fn one_line(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.message.clone(), |hint| format!("{} ({hint})", self.message))
    }

    /// Converts an operating system error on `path`; the code tells missing, forbidden, full disk and other errors apart.
    pub fn io(action: &str, path: &Path, error: &std::io::Error) -> Error {
        use std::io::ErrorKind;
        let message = format!("cannot {action} `{}`: {error}", path.display());
        match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorCode::NotFound, message),
            ErrorKind::PermissionDenied => Error::new(ErrorCode::PermissionDenied, message)
                .hint(format!("check the permissions of `{}`", path.display())),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::new(ErrorCode::StorageFull, message)
                .hint("free some disk space, or point VIC_DATA_DIR at a larger disk"),
            ErrorKind::ReadOnlyFilesystem => Error::new(ErrorCode::PermissionDenied, message)
                .hint("point VIC_DATA_DIR at a disk that can be written to"),
            ErrorKind::TimedOut => Error::new(ErrorCode::DeadlineExceeded, message),
            ErrorKind::ArgumentListTooLong => Error::new(ErrorCode::InvalidArgument, message)
                .hint("a program argument may have at most 128 KiB; pass the data in a file"),
            // Report a name that is too long as not found: the file system cannot hold such a name, so no file has it.
            _ if matches!(error.raw_os_error(), Some(libc::ENAMETOOLONG | libc::ELOOP)) => {
                Error::new(ErrorCode::NotFound, message)
            }
            _ if error.raw_os_error() == Some(libc::EIO) => {
                Error::new(ErrorCode::Unavailable, message).hint(DISK_ERROR_HINT)
            }
            _ => Error::new(ErrorCode::Internal, message),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Adds the action and the path to the error of a file operation.
pub trait IoContext<T> {
    /// Converts the error to `cannot <action> <path>: <error>` with the matching code.
    fn io_context(self, action: &str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn io_context(self, action: &str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::io(action, path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_code_round_trips_grpc_and_name() {
        for code in ErrorCode::ALL {
            // gRPC has one code for both, so a full disk comes back as an exhausted resource.
            let told = if code == ErrorCode::StorageFull { ErrorCode::ResourceExhausted } else { code };
            assert_eq!(ErrorCode::from_grpc(code.grpc_code()), told);
            assert_eq!(ErrorCode::from_name(code.name()), Some(code));
        }
    }

    #[test]
    fn io_error_name_too_long_is_not_found() {
        let path = Path::new("/").join("x".repeat(1_000));
        let error = Error::io("read", &path, &path.metadata().unwrap_err());
        assert_eq!(error.code, ErrorCode::NotFound, "{error}");
    }

    #[test]
    fn code_names_are_distinct_snake_case() {
        let names: std::collections::BTreeSet<&str> = ErrorCode::ALL.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(names.iter().all(|name| name.chars().all(|it| it == '_' || it.is_ascii_lowercase())));
    }

    #[test]
    fn exit_codes_are_distinct_and_nonzero() {
        let mut codes: Vec<u8> = ErrorCode::ALL.iter().map(|it| it.exit_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        // One code fewer than variants: a full disk shares its exit code with other exhausted resources.
        assert_eq!(codes.len(), ErrorCode::ALL.len() - 1);
        assert_eq!(ErrorCode::StorageFull.exit_code(), ErrorCode::ResourceExhausted.exit_code());
        assert!(!codes.contains(&0));
    }

    // Case B8
    #[test]
    fn full_disk_maps_to_storage_full_with_hint() {
        let error = Error::io("write", Path::new("/x"), &std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(error.code, ErrorCode::StorageFull);
        assert!(error.hint.is_some());
    }

    #[test]
    fn read_only_or_failing_disk_is_not_internal() {
        for (number, code) in [(libc::EROFS, ErrorCode::PermissionDenied), (libc::EIO, ErrorCode::Unavailable)] {
            let error = Error::io("write", Path::new("/x"), &std::io::Error::from_raw_os_error(number));
            assert_eq!(error.code, code);
            assert!(error.hint.is_some());
        }
    }
}
