//! Turns fused files into the hits of a search: reads their passages and records, reranks the files by wording, moves
//! near-duplicates to the end, and checks each file on disk.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::NaiveDate;

use crate::ask::asker::Asker;
use crate::ask::citation::{self, CitationStatus, FILE_CHECK_TIMEOUT};
use crate::ask::date_order::{self, DateSource, DatedFile};
use crate::ask::fuse::{FusedFile, Weights};
use crate::ask::hit::{self, Passage, RankedHit};
use crate::ask::question::Question;
use crate::ask::rerank::{PassageWords, QuestionWords};
use crate::ask::{excerpt, near_duplicates, rerank};
use crate::error::{ErrorCode, Result};
use crate::index::ServingTable;
use crate::model::{ChunkId, FileId, FileRecord, StoredChunk, Tier};

/// Timeout of the first check of an answer's files. If an indexed folder (root) does not respond, vic detects that after
/// nine seconds. So when this timeout expires, the second check already skips the files of that folder.
const FIRST_CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of files checked beyond the hit limit, as replacements for files that are gone or are copies of other files.
const EXTRA_FILES: usize = 10;
/// Minimum number of files that are reranked by wording. More files did not improve the order (measured).
const MIN_RERANKED_FILES: usize = 30;
/// Maximum number of passages read from each of the `MAX_QUOTED_FILES` best files, because any passage may contain the
/// answer.
const MAX_PASSAGES_OF_BEST: usize = 16;
/// Number of best hits that keep their passages, so that an answer can quote them.
pub(super) const MAX_QUOTED_FILES: usize = 4;
/// Maximum number of passages of each file that are compared with the wording of the question.
const MAX_PASSAGES_PER_FILE: usize = 5;

/// Stored passages by file id and chunk id.
type PassageMap = HashMap<(FileId, ChunkId), StoredChunk>;

/// The hits that passed the check on disk, with the changed files and the number of missing files.
#[derive(Default)]
struct CheckedFiles {
    found: Vec<RankedHit>,
    /// Paths of files that have changed since they were indexed.
    changed: Vec<String>,
    gone: usize,
    /// Whether a write replaced passages during the search, so that the search must be repeated.
    is_stale: bool,
    /// Weight of each content word of the question, higher for rarer words; the keys are those of `word_runs::word_key`.
    word_weights: HashMap<String, f32>,
}

/// The hits to show, best first.
pub(super) struct PresentedHits {
    pub(super) found: Vec<RankedHit>,
    /// Whether a write replaced passages after they were found and before they were read. Files whose passages are missing
    /// are left out.
    pub(super) is_stale: bool,
    /// Weight of each content word of the question, higher for rarer words; the keys are those of `word_runs::word_key`.
    pub(super) word_weights: HashMap<String, f32>,
}

impl Asker {
    /// Builds the hits, best first, and adds warnings about files that are gone or changed.
    pub(super) async fn build_hits(
        &self,
        served: &ServingTable,
        question: &Question,
        fused: Vec<FusedFile>,
        warnings: &mut Vec<String>,
    ) -> Result<PresentedHits> {
        let top: Vec<FusedFile> = fused.into_iter().take(reranked_count(question.limit)).collect();
        let looked = match self.read_and_check(served, question, top.clone(), FIRST_CHECK_TIMEOUT).await {
            // Retries once: a root that does not respond has been detected by now, so its files are left out.
            Err(error) if error.code == ErrorCode::Unavailable => {
                self.read_and_check(served, question, top, FILE_CHECK_TIMEOUT).await?
            }
            looked => looked?,
        };
        if looked.gone > 0 {
            let gone = looked.gone;
            warnings.push(format!(
                "{gone} matching files were left out: they no longer exist, or their folder is unavailable"
            ));
        }
        let old =
            |path: &String| format!("`{path}` has changed since it was indexed; the shown passage may be outdated");
        warnings.extend(looked.changed.iter().map(old));
        Ok(PresentedHits { found: looked.found, is_stale: looked.is_stale, word_weights: looked.word_weights })
    }

    async fn read_and_check(
        &self,
        served: &ServingTable,
        question: &Question,
        mut top: Vec<FusedFile>,
        most: Duration,
    ) -> Result<CheckedFiles> {
        let best = top.iter().take(MAX_QUOTED_FILES).flat_map(|it| it.chunks().take(MAX_PASSAGES_OF_BEST));
        let best = best.map(|it| (it.file_id, it.chunk_id.clone()));
        let wanted: Vec<(FileId, ChunkId)> =
            best.chain(top.iter().skip(MAX_QUOTED_FILES).flat_map(passage_keys)).collect();
        let version = served.store.version();
        let chunks = served.store.chunks(&wanted).await?;
        let (catalog, question, store) = (self.catalog.clone(), question.clone(), served.store.clone());
        // Reads the catalog records inside this blocking call, because a separate call would cost one more switch of
        // threads.
        crate::index::blocking_with_timeout(most, move || {
            let ids: Vec<FileId> = top.iter().map(|it| it.file_id).collect();
            let records = catalog.records(&ids)?.into_iter().map(|it| (it.id, it)).collect();
            let chunks: PassageMap = chunks.into_iter().map(|it| ((it.file_id, it.chunk.id.clone()), it)).collect();
            // Marks the result as stale if passages were replaced meanwhile: the catalog may then describe a newer version
            // of a file, and the check on disk would report its old passages as unchanged.
            let is_torn = store.version() != version || wanted.iter().any(|it| !chunks.contains_key(it));
            let compared = rerank(&question, &mut top, &records, &chunks);
            if question.plan.requires_l2 {
                show_l2_evidence(&question, &mut top, &records, &chunks);
            }
            let dates = order_by_date(&question, &mut top, &records, &chunks);
            // If the limit leaves space for all files, their order stays.
            if top.len() > question.limit {
                near_duplicates::demote_copies(&mut top, &records, &chunks);
            }
            Ok(CheckedFiles {
                is_stale: is_torn,
                word_weights: compared.weights,
                ..check_files(&question, &top, &records, &chunks, &compared.scores, &dates)
            })
        })
        .await
    }
}

/// Checks the files on disk, best first, until there are enough hits to rerank and to show.
fn check_files(
    question: &Question,
    top: &[FusedFile],
    records: &HashMap<FileId, FileRecord>,
    chunks: &PassageMap,
    scores: &HashMap<(FileId, ChunkId), f32>,
    dates: &HashMap<FileId, (NaiveDate, DateSource)>,
) -> CheckedFiles {
    let mut looked = CheckedFiles::default();
    for fused in top {
        let key = (fused.file_id, fused.chunk_id.clone());
        let (Some(record), Some(stored)) = (records.get(&fused.file_id), chunks.get(&key)) else { continue };
        if looked.found.len() == question.limit.max(question.reranked_hits) {
            break;
        }
        let standing = citation::check_passage(record, &stored.chunk.anchor, stored.chunk.body());
        match standing {
            CitationStatus::Gone => {
                looked.gone += 1;
                continue;
            }
            CitationStatus::Changed => looked.changed.push(hit::shown_path(record, None)),
            CitationStatus::Verified | CitationStatus::Unchanged => (),
        }
        let words = words_in_file(question, record, fused, chunks);
        let mut found = hit::from_chunk(question, record, &stored.chunk, fused, words, standing);
        if let (Some(wanted), Some(date)) = (question.plan.date_order, dates.get(&record.id)) {
            date_order::describe(&mut found.hit, wanted, *date, question.explain);
        }
        let may_be_quoted = looked.found.len() < MAX_QUOTED_FILES.max(question.reranked_hits);
        if let Some(evidence) = found.evidence.as_mut().filter(|_| may_be_quoted) {
            evidence.passages = quotable_passages(fused, chunks, scores);
        }
        looked.found.push(found);
    }
    looked
}

/// Puts the newest or the oldest of equally relevant files first, if the question asks for it. Returns the dates of the
/// compared files. The places keep their scores, so that the scores still fall from hit to hit.
fn order_by_date(
    question: &Question,
    files: &mut Vec<FusedFile>,
    records: &HashMap<FileId, FileRecord>,
    chunks: &PassageMap,
) -> HashMap<FileId, (NaiveDate, DateSource)> {
    let Some(wanted) = question.plan.date_order else { return HashMap::new() };
    let dated: Vec<DatedFile> = files
        .iter()
        .map(|file| {
            let Some(record) = records.get(&file.file_id) else { return DatedFile::new(file.score, 0, "", 0, &[]) };
            let chunks_of = passage_keys(file).filter_map(|key| chunks.get(&key));
            let passages: Vec<(&str, usize)> =
                chunks_of.map(|it| (it.chunk.text.as_str(), it.chunk.body_start as usize)).collect();
            let name = record.found.path.file_name().unwrap_or_default().to_string_lossy();
            let words = words_in_file(question, record, file, chunks);
            DatedFile::new(file.score, words, &name, record.found.modified_ns, &passages)
        })
        .collect();
    let ordered = date_order::order_by_date(&dated, wanted);
    let dates = ordered.dates.iter().map(|(index, date)| (files[*index].file_id, *date)).collect();
    let scores: Vec<f32> = files.iter().map(|it| it.score).collect();
    *files =
        ordered.order.iter().zip(scores).map(|(index, score)| FusedFile { score, ..files[*index].clone() }).collect();
    dates
}

/// Returns the passages of a file that an answer may quote, best first.
fn quotable_passages(fused: &FusedFile, chunks: &PassageMap, scores: &HashMap<(FileId, ChunkId), f32>) -> Vec<Passage> {
    let passage = |it: &FusedFile| {
        let key = (it.file_id, it.chunk_id.clone());
        let chunk = chunks.get(&key)?.chunk.clone();
        Some(Passage { chunk, nearness: it.nearness(), score: scores.get(&key).copied().unwrap_or(it.score) })
    };
    let mut passages: Vec<Passage> = fused.chunks().take(MAX_PASSAGES_OF_BEST).filter_map(passage).collect();
    passages.sort_by(|a, b| b.score.total_cmp(&a.score));
    passages
}

/// Returns how many of the question's words are in the path or in any of the best passages of a file. Counts over all
/// these texts together, because one passage may name the signer of a contract and another its subject.
fn words_in_file(question: &Question, record: &FileRecord, fused: &FusedFile, chunks: &PassageMap) -> usize {
    let mut text = record.found.path.to_string_lossy().into_owned();
    for stored in passage_keys(fused).filter_map(|key| chunks.get(&key)) {
        text.push('\n');
        text.push_str(&stored.chunk.text);
    }
    excerpt::words_present(&question.words, &text).len()
}

/// Returns the number of files to rerank: at least `MIN_RERANKED_FILES`; the best of them become hits.
pub(super) fn reranked_count(limit: usize) -> usize {
    MIN_RERANKED_FILES.max(limit + EXTRA_FILES)
}

/// Returns file id and chunk id of the best passages of a file.
pub(super) fn passage_keys(fused: &FusedFile) -> impl Iterator<Item = (FileId, ChunkId)> {
    fused.chunks().take(MAX_PASSAGES_PER_FILE).map(|it| (it.file_id, it.chunk_id.clone()))
}

/// If a skill (e.g. OCR) found text in a file, makes the hit show this text instead of its best passage. Of several such
/// texts, shows the one with most words of the question, not counting words in the file's path: `who signed the idr
/// contract` should show the signature in `idr-contract.pdf`, not the title.
fn show_l2_evidence(
    question: &Question,
    files: &mut [FusedFile],
    records: &HashMap<FileId, FileRecord>,
    chunks: &PassageMap,
) {
    for file in files {
        let Some(record) = records.get(&file.file_id) else { continue };
        let named = excerpt::words_present(&question.words, &record.found.path.to_string_lossy());
        let rest: Vec<String> = question.words.iter().filter(|it| !named.contains(&it.as_str())).cloned().collect();
        let mut best: Option<((usize, Reverse<usize>), ChunkId)> = None;
        for key in passage_keys(file) {
            let Some(found) = chunks.get(&key).filter(|it| it.chunk.tier == Tier::L2) else { continue };
            let body = found.chunk.body();
            // Of two texts with equally many words, prefers the shorter: a signature block rather than the whole page.
            let merit = (excerpt::words_present(&rest, body).len(), Reverse(body.len()));
            if best.as_ref().is_none_or(|(most, _)| merit > *most) {
                best = Some((merit, key.1));
            }
        }
        if let Some((_, chunk_id)) = best {
            file.show_chunk(&chunk_id);
        }
    }
}

/// The result of comparing passages with the wording of the question.
#[derive(Default)]
struct RerankResult {
    /// The score of each passage, from keyword search, vector search and wording.
    scores: HashMap<(FileId, ChunkId), f32>,
    /// Weight of each content word of the question among these passages.
    weights: HashMap<String, f32>,
}

/// Raises the scores of files whose passages have the wording of the question, makes each file show its best passage, and
/// sorts the files again.
fn rerank(
    question: &Question,
    files: &mut [FusedFile],
    records: &HashMap<FileId, FileRecord>,
    chunks: &PassageMap,
) -> RerankResult {
    let Some(text) = question.text() else { return RerankResult::default() };
    let wording = QuestionWords::parse(&question.plan.raw_user_text, text);
    let read = |key: (FileId, ChunkId)| {
        let (chunk, record) = (&chunks.get(&key)?.chunk, records.get(&key.0)?);
        let name = record.found.path.file_name().unwrap_or_default().to_string_lossy();
        let title = format!("{} {name}", &chunk.text[..chunk.body_start as usize]);
        Some((key, wording.read_passage(&chunk.text, &title)))
    };
    let readings: HashMap<(FileId, ChunkId), PassageWords> =
        files.iter().flat_map(passage_keys).filter_map(read).collect();
    let weights = wording.word_weights(readings.values());
    let mut scores = HashMap::new();
    for file in files.iter_mut() {
        let mut best = 0.0f32;
        let mut shown: Option<(f32, ChunkId)> = None;
        for passage in file.chunks().take(MAX_PASSAGES_PER_FILE) {
            let key = (passage.file_id, passage.chunk_id.clone());
            let Some(reading) = readings.get(&key) else { continue };
            let merit = wording.wording_merit(&weights, reading, rerank::PASSAGE_STRENGTH);
            let own = rerank::boost_score(passage.own_score(&Weights::of_passages()), merit);
            best = best.max(wording.wording_merit(&weights, reading, rerank::FILE_STRENGTH));
            if shown.as_ref().is_none_or(|(it, _)| own > *it) {
                shown = Some((own, key.1.clone()));
            }
            scores.insert(key, own);
        }
        file.score = rerank::boost_score(file.score, best);
        if let Some((_, shown)) = shown {
            file.show_chunk(&shown);
        }
    }
    files.sort_by(|a, b| b.score.total_cmp(&a.score));
    demote_stubs(files, &wording, chunks, &readings);
    RerankResult { scores, weights: wording.keys().map(str::to_string).zip(weights).collect() }
}

/// Moves files that are only a stub behind the files whose text has the words of the question, among the first files. A file
/// that is named as asked is no stub. How many files are reranked depends on the limit; a stub that moved behind all of them
/// would have another place with each limit.
fn demote_stubs(
    files: &mut [FusedFile],
    wording: &QuestionWords,
    chunks: &PassageMap,
    readings: &HashMap<(FileId, ChunkId), PassageWords>,
) {
    const COMPARED_FILES: usize = 10;
    let is_stub = |file: &FusedFile| {
        let is_named = file.name_share.is_some_and(|it| it >= 1.0);
        let passage = chunks.get(&(file.file_id, file.chunk_id.clone()));
        let says_nothing = |it: &StoredChunk| {
            let (above, body) = it.chunk.text.split_at(it.chunk.body_start as usize);
            wording.is_stub(above, body)
        };
        file.other_chunks.is_empty() && !is_named && passage.is_some_and(says_nothing)
    };
    let compared = files.len().min(COMPARED_FILES);
    let first = &mut files[..compared];
    let stubs: HashSet<FileId> = first.iter().filter(|it| is_stub(it)).map(|it| it.file_id).collect();
    let has_words =
        |it: &FusedFile| passage_keys(it).any(|key| readings.get(&key).is_some_and(PassageWords::has_words));
    let Some(last) = first.iter().rposition(|it| !stubs.contains(&it.file_id) && has_words(it)) else { return };
    let least = first[last].score;
    for stub in first[..last].iter_mut().filter(|it| stubs.contains(&it.file_id)) {
        stub.score = least;
    }
    first[..=last].sort_by_key(|it| stubs.contains(&it.file_id));
}
