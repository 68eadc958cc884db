//! `Asker`: the catalog, index, skills and models that answer questions, limited to the files that one caller may see.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ask::answer::CosineScaleCache;
use crate::ask::citation::{self, FILE_CHECK_TIMEOUT};
use crate::ask::corpus_languages::CorpusLanguages;
use crate::ask::file_filter;
use crate::ask::model_rerank::ModelReranking;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::egress::redact_hosts;
use crate::error::Result;
use crate::index::Index;
use crate::llm::{self, LlmClient, Task};
use crate::model::{Anchor, FileFilter, L0Filters, PrivacyMode, Redaction, Scope};
use crate::planner::Planner;
use crate::skills::Skills;
use crate::store::FileSet;

/// Answers questions from the index. Clones are cheap and share the catalog and the index.
#[derive(Clone)]
pub struct Asker {
    pub(super) catalog: Catalog,
    pub(super) index: Index,
    pub(super) skills: Skills,
    pub(super) librarian: Planner,
    /// The language model that writes the summary, if one is configured.
    pub(super) llm: Option<LlmClient>,
    pub(super) privacy: PrivacyMode,
    /// Which secrets are redacted in text that is read from a file on disk while answering.
    pub(super) redaction: Redaction,
    pub(super) default_root: Option<PathBuf>,
    pub(super) db_path: PathBuf,
    pub(super) scales: CosineScaleCache,
    pub(super) languages: CorpusLanguages,
    /// The model that reranks the best hits, if one is configured.
    pub(super) reranking: Option<ModelReranking>,
    /// The files that the caller may see; all other files are hidden from the caller.
    pub(super) scope: Scope,
}

impl Asker {
    /// Creates an asker over an index, with the configured model and default folder.
    ///
    /// # Errors
    /// The address of the configured model server is invalid.
    pub fn new(config: &Config, catalog: Catalog, index: Index, skills: Skills) -> Result<Asker> {
        Ok(Asker {
            catalog,
            index,
            skills,
            librarian: Planner::open(config)?,
            llm: llm::open(config, Task::Reasoning)?,
            privacy: config.privacy_mode,
            redaction: config.limits.redaction,
            default_root: config.warehouse_root.clone(),
            db_path: config.db_path.clone(),
            scales: CosineScaleCache::default(),
            languages: CorpusLanguages::default(),
            reranking: ModelReranking::from_config(config),
            scope: Scope::All,
        })
    }

    /// Returns an asker limited to the files of a scope.
    pub fn with_scope(&self, scope: Scope) -> Asker {
        Asker { scope, ..self.clone() }
    }

    /// Returns whether a passage is still at the same location in a file of the caller's scope. Verbatim text is read from
    /// the file again and compared; for other formats, size and modification time must be unchanged.
    pub async fn passage_is_current(&self, path: &Path, anchor: &Anchor, passage: &str) -> bool {
        let (catalog, scope) = (self.catalog.clone(), self.scope.clone());
        let (path, anchor, passage) = (path.to_path_buf(), anchor.clone(), passage.to_string());
        let looked = crate::index::blocking_with_timeout(FILE_CHECK_TIMEOUT, move || {
            let record = crate::index::find_record(&catalog, &scope, &path)?;
            Ok(citation::passage_is_current(&record, &anchor, &passage))
        });
        looked.await.unwrap_or(false)
    }

    /// Replaces server addresses in a message, unless the caller may see all files. Logs the message if one was replaced.
    pub(super) fn redact_addresses(&self, text: &str) -> String {
        if self.scope.is_all() {
            return text.to_string();
        }
        let told = redact_hosts::hide_in_text(text);
        if told != text {
            tracing::warn!("a server failed during a question: {text}");
        }
        told.into_owned()
    }

    /// Builds the file filter from the request's filters, the searched folder and the scope.
    pub(super) fn file_filter(&self, filters: &L0Filters, root: Option<&Path>) -> Result<FileFilter> {
        Ok(FileFilter { scope: self.scope.clone(), ..file_filter::resolve(filters, root)? })
    }

    /// Returns the files that pass the metadata filter. The keyword and vector searches search only in these files.
    pub(super) async fn allowed_files(&self, filter: &FileFilter) -> Result<FileSet> {
        if filter.is_empty() {
            return Ok(FileSet::All);
        }
        let (catalog, filter) = (self.catalog.clone(), filter.clone());
        let ids = crate::index::blocking(move || catalog.select_part(&filter)).await?;
        Ok(ids.map_or(FileSet::All, |it| FileSet::Only(Arc::new(it))))
    }
}
