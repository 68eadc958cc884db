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
    /// The permit of the running job, if this API runs one. A computation holds the permit to its end, even if its job was
    /// cancelled, so that a caller cannot run more at the same time by starting and cancelling jobs.
    pub(super) job_permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl CorpusApi {
    /// Creates the API for the owner.
    pub fn new(parts: CorpusServices) -> CorpusApi {
        let (reader, jobs) = (Arc::new(DocumentLoader::new(parts)), Arc::new(Jobs::new()));
        CorpusApi { reader, scope: Scope::All, holder: Principal::Owner, jobs, job_permit: None }
    }

    /// Returns the API for a caller who sees only the files in `scope`.
    #[must_use]
    pub fn scoped_to(&self, scope: Scope, holder: Principal) -> CorpusApi {
        CorpusApi { scope, holder, ..self.clone() }
    }

    /// Returns the key under which the views, sessions and results of this scope are stored.
    pub(super) fn storage_owner(&self) -> String {
        match &self.scope {
            Scope::All => String::new(),
            Scope::Folders(folders) => {
                let mut names: Vec<String> = folders.iter().map(|it| it.to_string_lossy().into_owned()).collect();
                names.sort();
                names.join("\n")
            }
        }
    }
}
