//! Limits of calls and of what is stored for an owner.

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};

/// Most documents of a call that is answered while the client waits. A larger view runs as a job.
pub(super) const MAX_SYNC_DOCUMENTS: usize = 100;

/// Most documents of a job that starts by itself. A larger view needs `async`.
pub(super) const MAX_DOCUMENTS_WITHOUT_ASYNC: usize = 5_000;

/// Whether the caller waits or the work runs in a job; this bounds the number of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkMode {
    CallerWaits,
    InJob,
}

pub(super) fn too_many_documents(documents: usize) -> ApiError {
    ApiError::new(ApiErrorKind::TooManyDocuments, format!("the view holds {documents} documents"))
        .field("async")
        .action("set `async` to run it as a job")
        .action("or name a smaller `view`")
}

/// Checks that an owner may store one more item.
pub(super) fn check_limit(what: &str, kept: usize, most: usize, cure: &str) -> ApiResult<()> {
    if kept < most {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorKind::OutOfRange, format!("there are {kept} {what}, which is the limit")).action(cure))
}
