//! Fused files to hits: passages and records fetched, runs of words lifted, copies folded, and each file looked at as it is
//! now.

use std::collections::HashMap;

use crate::ask::citation::{self, Standing};
use crate::ask::fuse::Fused;
use crate::ask::hit::{self, Found};
use crate::ask::{Asker, Question, fold, phrase};
use crate::error::Result;
use crate::index::Served;
use crate::model::{ChunkId, FileId, FileRecord, StoredChunk, Tier};

/// Files looked at beyond the limit, to fill the places of those that are gone or folded.
const SPARE_FILES: usize = 10;
/// Files whose passages are looked at for runs of the question's words.
const PHRASE_FILES: usize = 30;
/// Passages of one file that are looked at so.
const PHRASE_CHUNKS: usize = 5;

/// Passages by their keys.
type Passages = HashMap<(FileId, ChunkId), StoredChunk>;

/// What a look at the files gave.
#[derive(Default)]
struct Looked {
    found: Vec<Found>,
    /// Paths of files that changed since they were indexed.
    changed: Vec<String>,
    gone: usize,
}

impl Asker {
    /// Makes hits, best first, and says in `warnings` what is not as it was.
    pub(super) async fn present(
        &self,
        served: &Served,
        question: &Question,
        fused: Vec<Fused>,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Found>> {
        let mut top: Vec<Fused> = fused.into_iter().take(PHRASE_FILES.max(question.limit + SPARE_FILES)).collect();
        let wanted: Vec<(FileId, ChunkId)> = top.iter().flat_map(passages).collect();
        let (catalog, ids) = (self.catalog.clone(), top.iter().map(|it| it.file_id).collect::<Vec<_>>());
        let (chunks, records) =
            tokio::try_join!(served.store.chunks(&wanted), crate::index::blocking(move || catalog.records(&ids)))?;
        let chunks: Passages = chunks.into_iter().map(|it| ((it.file_id, it.chunk.id.clone()), it)).collect();
        let records: HashMap<FileId, FileRecord> = records.into_iter().map(|it| (it.id, it)).collect();
        prefer_phrases(&phrase::words(&question.plan.raw_user_text), &mut top, &chunks);
        if question.plan.requires_l2 {
            prefer_evidence(&mut top, &chunks);
        }
        fold::demote_copies(&mut top, &records, &chunks, question.limit);
        let question = question.clone();
        let looked = crate::index::blocking(move || Ok(look(&question, &top, &records, &chunks))).await?;
        if looked.gone > 0 {
            let gone = looked.gone;
            warnings.push(format!("{gone} files that match were left out: they are gone, or their folder is away"));
        }
        let old = |path: &String| format!("`{path}` has changed since it was indexed; its passage may be old");
        warnings.extend(looked.changed.iter().map(old));
        Ok(looked.found)
    }
}

/// Looks at each file until there are enough.
fn look(question: &Question, top: &[Fused], records: &HashMap<FileId, FileRecord>, chunks: &Passages) -> Looked {
    let mut looked = Looked::default();
    for fused in top {
        let key = (fused.file_id, fused.chunk_id.clone());
        let (Some(record), Some(stored)) = (records.get(&fused.file_id), chunks.get(&key)) else { continue };
        if looked.found.len() == question.limit {
            break;
        }
        let standing = citation::check(record, &stored.chunk.anchor, stored.chunk.body());
        match standing {
            Standing::Gone => {
                looked.gone += 1;
                continue;
            }
            Standing::Changed => looked.changed.push(record.found.path.display().to_string()),
            Standing::Verified | Standing::Unchanged => (),
        }
        looked.found.push(hit::from_chunk(question, record, &stored.chunk, fused, standing));
    }
    looked
}

/// The best passages of a file.
pub(super) fn passages(fused: &Fused) -> impl Iterator<Item = (FileId, ChunkId)> {
    let best = std::iter::once(fused).chain(&fused.other_chunks);
    best.take(PHRASE_CHUNKS).map(|it| (it.file_id, it.chunk_id.clone()))
}

/// Shows what a skill found in a file rather than its plain text, where both matched.
fn prefer_evidence(files: &mut [Fused], chunks: &Passages) {
    for file in files {
        let is_evidence = |key: &(FileId, ChunkId)| chunks.get(key).is_some_and(|it| it.chunk.tier == Tier::L2);
        let best = passages(file).find(is_evidence);
        if let Some((_, chunk_id)) = best {
            file.show(&chunk_id);
        }
    }
}

/// Lifts files that hold a run of the question's words, shows the passage that does, and sorts anew.
fn prefer_phrases(words: &[String], files: &mut [Fused], chunks: &Passages) {
    for file in files.iter_mut() {
        let base = file.score;
        for key in passages(file).collect::<Vec<_>>() {
            let Some(stored) = chunks.get(&key) else { continue };
            let lifted = phrase::lift(base, words, &stored.chunk.text);
            if lifted > file.score {
                file.score = lifted;
                file.show(&key.1);
            }
        }
    }
    files.sort_by(|a, b| b.score.total_cmp(&a.score));
}
