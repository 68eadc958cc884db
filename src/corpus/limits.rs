//! Limits of the number of documents per call, and of what is stored for an owner.

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};

/// Maximum documents of a call that is answered while the client waits. A call on more documents becomes a job.
pub(super) const MAX_SYNC_DOCUMENTS: usize = 100;

/// Maximum documents of a call that becomes a job by itself. A call on more documents must set `async`.
pub(super) const MAX_DOCUMENTS_WITHOUT_ASYNC: usize = 5_000;

/// Whether the caller waits for the answer or a job computes it; determines the maximum number of documents.
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

/// Checks that an owner has fewer than `most` stored items of a kind, so that one more can be stored.
pub(super) fn check_limit(what: &str, kept: usize, most: usize, cure: &str) -> ApiResult<()> {
    if kept < most {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorKind::OutOfRange, format!("there are already {kept} {what}, the maximum")).action(cure))
}
