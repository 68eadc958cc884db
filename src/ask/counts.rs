//! Counts the files that match a question, for the filters of the web page.

use std::collections::HashSet;

use crate::ask::asker::Asker;
use crate::ask::index_state::SearchFolder;
use crate::ask::search_legs::{begun_word_leg, keyword_leg};
use crate::ask::terms;
use crate::error::Result;
use crate::model::{AskRequest, Counts, CountsRequest, FileFilter, FileId};

/// Number of best matching chunks whose files are counted.
const COUNTED_CHUNKS: usize = 10_000;

impl Asker {
    /// Counts the files that have a word of the question in text or name, or all that pass its filters if it has no words.
    ///
    /// # Errors
    /// The request is invalid, or the index cannot be read.
    pub async fn counts(&self, request: CountsRequest) -> Result<Counts> {
        let folder = self.resolve_search_folder(request.warehouse_root.as_deref()).await;
        if request.query.trim().is_empty() {
            let filter = self.file_filter(&request.filters, folder.as_ref().map(SearchFolder::path))?;
            return self.count_matching(filter).await;
        }
        let question = AskRequest {
            query: request.query,
            filters: request.filters,
            words_only: true,
            plain_words: request.plain_words,
            ..AskRequest::default()
        };
        let question = self.plan(question, folder.as_ref().map(SearchFolder::path)).await?;
        if let Some(text) = question.text() {
            let files = self.allowed_files(&question.filter).await?;
            let served = self.index.serving();
            let files = terms::filter_files(&*served.store, &self.catalog, files, &question.terms).await?;
            let languages = self.languages.current(&self.catalog).await;
            let (chunks, begun, names) = tokio::join!(
                keyword_leg(&served, text, &languages, &files, COUNTED_CHUNKS),
                begun_word_leg(&served, text, &files, COUNTED_CHUNKS),
                self.search_names(&question, &files),
            );
            let (chunks, names) = (chunks?, names?);
            let complete = chunks.len().max(begun.len()) < COUNTED_CHUNKS;
            let mut ids: HashSet<FileId> = chunks.into_iter().chain(begun).map(|it| it.file_id).collect();
            ids.extend(names.file_ids());
            let catalog = self.catalog.clone();
            let mail_dates = question.filter.mail_dates;
            let counts = crate::index::blocking(move || catalog.counts_of(&ids, mail_dates)).await?;
            return Ok(Counts { complete, ..counts });
        }
        self.count_matching(question.filter).await
    }

    async fn count_matching(&self, filter: FileFilter) -> Result<Counts> {
        let catalog = self.catalog.clone();
        crate::index::blocking(move || catalog.counts(&filter)).await
    }
}
