//! The corpus API for one caller: the services that it uses, the caller's identity, and the files that the caller may see.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::corpus::document::loader::{CorpusServices, DocumentLoader};
use crate::corpus::running_jobs::Jobs;
use crate::model::{Principal, Scope};

/// The corpus API for one caller, limited to the caller's files. Cheap to clone.
#[derive(Clone)]
pub struct CorpusApi {
    pub(super) reader: Arc<DocumentLoader>,
    pub(super) scope: Scope,
    /// Identity of the caller.
    pub(super) holder: Principal,
    pub(super) jobs: Arc<Jobs>,
    /// Permit of the job that uses this API; `None` outside jobs. A computation keeps a clone of the permit until it ends,
    /// even if its job is cancelled, so that starting and cancelling jobs does not run several computations at once.
    pub(super) job_permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl CorpusApi {
    /// Creates the API for the owner of the daemon, who sees all files.
    pub fn new(parts: CorpusServices) -> CorpusApi {
        let (reader, jobs) = (Arc::new(DocumentLoader::new(parts)), Arc::new(Jobs::new()));
        CorpusApi { reader, scope: Scope::All, holder: Principal::Owner, jobs, job_permit: None }
    }

    /// Returns the API for a caller who sees only the files in `scope`.
    #[must_use]
    pub fn scoped_to(&self, scope: Scope, holder: Principal) -> CorpusApi {
        CorpusApi { scope, holder, ..self.clone() }
    }

    /// Returns the owner under which the database stores views, sessions, results and jobs: the hash of the caller's key, so
    /// that the holder of another key does not see them, or an empty string for the owner of the daemon.
    pub(super) fn storage_owner(&self) -> String {
        match &self.holder {
            Principal::Owner => String::new(),
            Principal::Key(hash) => hash.to_string(),
        }
    }
}
