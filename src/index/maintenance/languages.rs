//! Records the languages of files that were indexed by an older vic.

use std::collections::BTreeMap;

use vic_words::Language;

use crate::error::Result;
use crate::index::blocking;
use crate::index::state::IndexState;
use crate::model::{FileId, StoredChunk};

/// Number of files whose passages are read at once.
const BATCH_FILES: usize = 100;
/// Number of passages that tell the language of a file.
const LANGUAGE_PASSAGES: usize = 4;

/// Returns the language of the first passages of a file, if their words tell it. `texts` are all passages in order.
pub(in crate::index) fn language_of<'t>(texts: impl Iterator<Item = &'t str>) -> Option<Language> {
    vic_words::passages_language(texts.take(LANGUAGE_PASSAGES))
}

impl IndexState {
    /// Records the language of each indexed file that has none recorded.
    pub(in crate::index) async fn fill_languages(&self) {
        if let Err(error) = self.fill_languages_in_batches().await {
            tracing::warn!(%error, "the languages of some files are not known; the next start tries again");
        }
    }

    async fn fill_languages_in_batches(&self) -> Result<()> {
        let mut after = FileId::default();
        while !self.shutdown.is_cancelled() {
            let catalog = self.catalog.clone();
            let files = blocking(move || catalog.without_language(after, BATCH_FILES)).await?;
            let Some(last) = files.last() else { return Ok(()) };
            after = *last;
            let mut passages = BTreeMap::<FileId, Vec<StoredChunk>>::new();
            files.iter().for_each(|it| passages.entry(*it).or_default().clear());
            for stored in self.tables.serving().store.chunks_of(files).await? {
                passages.entry(stored.file_id).or_default().push(stored);
            }
            let catalog = self.catalog.clone();
            blocking(move || {
                let languages: Vec<_> = passages.into_iter().map(|(file, it)| (file, language_of_file(it))).collect();
                catalog.set_languages(&languages)
            })
            .await?;
        }
        Ok(())
    }
}

fn language_of_file(mut passages: Vec<StoredChunk>) -> Option<Language> {
    passages.sort_by_key(|it| it.chunk.ordinal);
    language_of(passages.iter().map(|it| it.chunk.text.as_str()))
}
