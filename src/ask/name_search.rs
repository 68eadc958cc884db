//! Name search: finds files, with or without text, by their file names and by inner names (attachments, members of archives,
//! sheets). [`crate::ask::fuse`] defines how much a name counts beside text.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat};
use serde_json::json;

use crate::ask::asker::Asker;
use crate::ask::excerpt;
use crate::ask::fuse::{self, FusedFile, Weights};
use crate::ask::hit::{self, Evidence, RankedHit};
use crate::ask::hit_builder::reranked_count;
use crate::ask::question::Question;
use crate::ask::search_legs::LEG_DEPTH;
use crate::catalog::{NameMatch, NameWord, name_words};
use crate::error::Result;
use crate::index::{ServingTable, blocking};
use crate::model::{ChunkId, Contents, FileFilter, FileId, FileKind, FileRecord, FileState};
use crate::store::FileSet;

/// Maximum number of hits that are files without text, found by name, if other hits are relevant passages.
const MAX_FILES_WITHOUT_TEXT: usize = 3;
/// Minimum fraction of the question's words in the names of a file with text, for the file to be found by name alone.
const MIN_NAME_SHARE: f32 = 0.3;
/// Minimum fraction for a file without text: higher than `MIN_NAME_SHARE`, because such a file has no other evidence.
const MIN_NAME_SHARE_WITHOUT_TEXT: f32 = 0.5;
/// Maximum number of names inside a file (of attachments, archive members, sheets) that a hit lists; more are left out.
const MAX_INNER_NAMES: usize = 20;

/// Headers at the beginning of the text of a message, as the reader of mails writes them.
const MAIL_HEADERS: [&str; 6] = ["Subject", "From", "To", "Cc", "Date", "Attachments"];

/// The files that name search found.
#[derive(Default)]
pub(super) struct NameMatches {
    words: Vec<NameWord>,
    /// Matching files, best first.
    matches: Vec<NameMatch>,
}

impl NameMatches {
    /// Returns the fraction of the question's words that the names of a file contain; `None` if the file was not found.
    pub(super) fn share(&self, file: FileId) -> Option<f32> {
        self.get(file).map(|it| it.share)
    }

    /// Returns the files whose names have enough of the question's words.
    pub(super) fn file_ids(&self) -> Vec<FileId> {
        self.files_above(MIN_NAME_SHARE)
    }

    fn get(&self, file: FileId) -> Option<&NameMatch> {
        self.matches.iter().find(|it| it.file_id == file)
    }

    /// Returns the words of the question that the names of a file contain.
    fn matched_words(&self, named: &NameMatch) -> Vec<String> {
        named.matched_words.iter().map(|it| self.words[*it].whole.clone()).collect()
    }

    /// Returns the files whose names contain at least this fraction of the question's words, best first.
    fn files_above(&self, least: f32) -> Vec<FileId> {
        self.matches.iter().filter(|it| it.share >= least).map(|it| it.file_id).collect()
    }
}

impl Asker {
    /// Searches the names of `files` for the words of a question.
    pub(super) async fn search_names(&self, question: &Question, files: &FileSet) -> Result<NameMatches> {
        let mut words = name_words(question.text().unwrap_or(&question.plan.raw_user_text));
        if words.iter().any(|it| !excerpt::is_function_word(&it.whole)) {
            words.retain(|it| !excerpt::is_function_word(&it.whole));
        }
        let mut seen = HashSet::new();
        words.retain(|it| seen.insert(it.whole.clone()));
        let (catalog, files) = (self.catalog.clone(), files.clone());
        blocking(move || {
            let among = match &files {
                FileSet::All => None,
                FileSet::Only(files) => Some(files.as_slice()),
            };
            let named = catalog.find_by_name(&words, among, LEG_DEPTH)?;
            Ok(NameMatches { words, matches: named })
        })
        .await
    }

    /// Adds files with text that only name search found, each with its passage nearest to the question, then raises the
    /// scores of all files by the words in their names.
    pub(super) async fn add_name_matches(
        &self,
        served: &ServingTable,
        question: &Question,
        vector: (Option<&[f32]>, &Weights),
        names: &NameMatches,
        fused: &mut Vec<FusedFile>,
    ) -> Result<()> {
        let known: HashSet<FileId> = fused.iter().map(|it| it.file_id).collect();
        let mut missing = names.files_above(MIN_NAME_SHARE);
        missing.truncate(reranked_count(question.limit));
        missing.retain(|it| !known.contains(it));
        missing.sort_unstable();
        if !missing.is_empty() && question.plan.l1_threshold.is_none() {
            fused.extend(self.nearest_passages(served, vector, missing).await?);
        }
        fuse::boost_named_files(fused, |file| names.share(file));
        Ok(())
    }

    /// Returns one passage of each of these files: the nearest to the question, or the first one if the file has no vectors.
    async fn nearest_passages(
        &self,
        served: &ServingTable,
        (query, weights): (Option<&[f32]>, &Weights),
        files: Vec<FileId>,
    ) -> Result<Vec<FusedFile>> {
        let (count, set) = (files.len(), FileSet::Only(Arc::new(files.clone())));
        let near = match query {
            Some(query) => self.vector_leg_files(served, query, &set, LEG_DEPTH, count).await?,
            None => Vec::new(),
        };
        let mut found = fuse::fuse(&[], &near, &[], weights);
        // Removes the vector ranks, because they rank only these few files and not all files.
        found.iter_mut().for_each(|it| it.vector = None);
        let mut rest = files;
        rest.retain(|it| !found.iter().any(|found| found.file_id == *it));
        let mut any: HashMap<FileId, (u32, ChunkId)> = HashMap::new();
        let wanted = rest.len();
        let rest = FileSet::Only(Arc::new(rest));
        served
            .store
            .scan(&rest, &mut |it| {
                let (ordinal, id) = (it.chunk.ordinal, it.chunk.id);
                let first = any.entry(it.file_id).or_insert_with(|| (ordinal, id.clone()));
                if ordinal < first.0 {
                    *first = (ordinal, id);
                }
                any.len() < wanted
            })
            .await?;
        found.extend(any.into_iter().map(|(file, (_, chunk))| FusedFile::without_legs(file, chunk)));
        Ok(found)
    }

    /// Returns hits for files without text whose names contain enough of the question. With a metadata filter, adds files
    /// that pass the filter, as far as the limit allows.
    pub(super) async fn hits_without_text(
        &self,
        question: &Question,
        names: &NameMatches,
        hits: usize,
        speaks: bool,
    ) -> Result<Vec<RankedHit>> {
        let room = question.limit.saturating_sub(hits);
        let most = if speaks { MAX_FILES_WITHOUT_TEXT } else { room.max(MAX_FILES_WITHOUT_TEXT) };
        let mut found = self.hits_by_name(question, names, MIN_NAME_SHARE_WITHOUT_TEXT).await?;
        found.retain(|it| it.record.state != FileState::Indexed && it.record.chunks == 0);
        found.truncate(most);
        if question.filter.is_only_scope() || !question.terms.describe().is_empty() {
            return Ok(found);
        }
        for state in [FileState::Skipped, FileState::Failed, FileState::Pending] {
            let filter = FileFilter { state: Some(state), ..question.filter.clone() };
            let (catalog, room) = (self.catalog.clone(), room.saturating_sub(found.len()));
            if room == 0 {
                break;
            }
            // Asks for `found.len()` more records, because the result may repeat the files found by name.
            let most = room + found.len();
            let (records, _) = blocking(move || catalog.search(&filter, most, 0)).await?;
            for record in records {
                if found.len() < most && record.chunks == 0 && !found.iter().any(|it| it.record.id == record.id) {
                    found.push(hit::from_filter(question, &record));
                }
            }
        }
        Ok(found)
    }

    /// Returns hits for the files whose names contain at least this fraction of the question's words.
    pub(super) async fn hits_by_name(
        &self,
        question: &Question,
        names: &NameMatches,
        least: f32,
    ) -> Result<Vec<RankedHit>> {
        let ids = names.files_above(least);
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let catalog = self.catalog.clone();
        let records = blocking(move || catalog.records(&ids)).await?;
        let hit = |record: &FileRecord| {
            let named = names.get(record.id)?;
            let score = f64::from(fuse::name_score(named.share));
            Some(hit::from_name(question, record, &names.matched_words(named), score))
        };
        Ok(records.iter().filter_map(hit).collect())
    }

    /// Adds the matched names to the metadata and reasoning of each hit, and for mail the subject, the sender, the sent date
    /// and the attachments.
    pub(super) async fn annotate_names(&self, names: &NameMatches, hits: &mut [RankedHit]) -> Result<()> {
        let is_told = |it: &RankedHit| it.record.kind == FileKind::Mail || names.get(it.record.id).is_some();
        let ids: Vec<FileId> = hits.iter().filter(|it| is_told(it)).map(|it| it.record.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let catalog = self.catalog.clone();
        let contents = blocking(move || catalog.inner_contents(&ids)).await?;
        let none = Contents::default();
        for found in hits.iter_mut().filter(|it| is_told(it)) {
            let inside = contents.get(&found.record.id).unwrap_or(&none);
            if let Some(named) = names.get(found.record.id) {
                annotate_name_match(found, &names.matched_words(named), inside);
            }
            if found.record.kind == FileKind::Mail {
                annotate_mail(found, inside);
            }
        }
        Ok(())
    }
}

fn annotate_name_match(found: &mut RankedHit, held: &[String], inside: &Contents) {
    let holds = |name: &&String| {
        let words = name_words(name);
        held.iter().any(|it| words.iter().any(|word| word.whole.starts_with(it) || word.parts.contains(it)))
    };
    let inner: Vec<&String> = inside.names.iter().filter(holds).take(MAX_INNER_NAMES).collect();
    let mut facts = Vec::new();
    if found.evidence.is_some() {
        facts.push(format!("the name holds {}", held.join(", ")));
    }
    if !inner.is_empty() {
        let names: Vec<String> = inner.iter().map(|it| format!("`{it}`")).collect();
        facts.push(format!("matching names inside the file: {}", names.join(", ")));
        found.hit.metadata.insert("inner_names".into(), json!(inner));
    }
    found.hit.metadata.insert("name_words".into(), json!(held));
    append_reasoning(found, &facts);
}

/// Returns the value of a header of the message in which a passage lies, if its chunk has the headers: the lines before the
/// first one that is no header. Later lines that look like headers belong to a forwarded mail.
fn mail_header(evidence: &Evidence, header: &str) -> Option<String> {
    let (chunk, places) = (&evidence.chunk, evidence.chunk.places());
    let mut at = chunk.body_start as usize;
    let lines = chunk.body().split_inclusive('\n').map(|line| {
        at += line.len();
        (line.trim_end(), at - line.len())
    });
    let of_message = lines.filter(|(line, at)| places.anchor_at(*at..at + line.len()).part == evidence.anchor.part);
    let mut headers =
        of_message.take_while(|(line, _)| line.split_once(": ").is_some_and(|(key, _)| MAIL_HEADERS.contains(&key)));
    headers.find_map(|(line, _)| Some(line.strip_prefix(header)?.strip_prefix(": ")?.trim().to_string()))
}

fn annotate_mail(found: &mut RankedHit, inside: &Contents) {
    let header = |name| found.evidence.as_deref().and_then(|it| mail_header(it, name));
    // A later passage of a long message lacks the headers. A file of one message has one subject and one sender.
    let (title, sender) = (header("Subject").or_else(|| inside.subject.clone()), header("From"));
    let only_author = <&[String; 1]>::try_from(inside.authors.as_slice()).ok().map(|[it]| it.clone());
    for (key, value) in [("title", title), ("author", only_author.or(sender))] {
        found.hit.metadata.extend(value.map(|it| (key.to_string(), json!(it))));
    }
    if let Some((first, last)) = inside.sent_ns {
        let day = |it: i64| DateTime::from_timestamp_nanos(it).to_rfc3339_opts(SecondsFormat::Secs, true);
        let value = if first == last { json!(day(first)) } else { json!([day(first), day(last)]) };
        found.hit.metadata.insert("mail_date".into(), value);
    }
    if !inside.names.is_empty() {
        let attached: Vec<&String> = inside.names.iter().take(MAX_INNER_NAMES).collect();
        found.hit.metadata.insert("attachments".into(), json!(attached));
        let names: Vec<&str> = attached.iter().map(|it| it.as_str()).collect();
        append_reasoning(found, &[format!("attached: {}", names.join(", "))]);
    }
}

fn append_reasoning(found: &mut RankedHit, facts: &[String]) {
    for fact in facts {
        let reasoning = &mut found.hit.reasoning;
        reasoning.push_str(if reasoning.is_empty() { "" } else { "; " });
        reasoning.push_str(fact);
    }
}
