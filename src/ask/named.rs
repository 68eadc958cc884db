//! The name leg: finds files by their own names and by inner names (attachments, members of archives, sheets), with or
//! without text. [`super::fuse`] defines the weight of a name beside text.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat};
use serde_json::json;

use crate::ask::fuse::{self, Fused, Weights};
use crate::ask::hit::{self, Found};
use crate::ask::present::compared;
use crate::ask::retrieve::LEG_DEPTH;
use crate::ask::{Asker, Question, excerpt};
use crate::catalog::{NameWord, Named, name_words};
use crate::error::Result;
use crate::index::{Served, blocking};
use crate::model::{ChunkId, Contents, FileFilter, FileId, FileKind, FileRecord, FileState};
use crate::store::FileSet;

/// Most files without text that compete by name with relevant passages.
const NAMED_FILES: usize = 3;
/// Share of the question that names must hold for a file with text to be found by name alone.
const LEAST_SHARE: f32 = 0.3;
/// The same share for a file without text, which has no other evidence.
const LEAST_WITHOUT_TEXT: f32 = 0.5;
/// Most inner names that a hit lists.
const MOST_SHOWN: usize = 20;

/// The result of the name leg.
#[derive(Default)]
pub(super) struct Names {
    words: Vec<NameWord>,
    /// Best first.
    named: Vec<Named>,
}

impl Names {
    /// Returns the share of the question's words that the names of a file hold.
    pub(super) fn share(&self, file: FileId) -> Option<f32> {
        self.of(file).map(|it| it.share)
    }

    fn of(&self, file: FileId) -> Option<&Named> {
        self.named.iter().find(|it| it.file_id == file)
    }

    /// Returns the words that the names of a file hold.
    fn held(&self, named: &Named) -> Vec<String> {
        named.held.iter().map(|it| self.words[*it].whole.clone()).collect()
    }

    /// Returns the files with at least this share in their names, best first.
    fn best(&self, least: f32) -> Vec<FileId> {
        self.named.iter().filter(|it| it.share >= least).map(|it| it.file_id).collect()
    }
}

impl Asker {
    /// Searches the names of these files for the words of a question.
    pub(super) async fn names(&self, question: &Question, files: &FileSet) -> Result<Names> {
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
            let named = catalog.named(&words, among, LEG_DEPTH)?;
            Ok(Names { words, named })
        })
        .await
    }

    /// Adds files with text that only their names found, each with its passage nearest to the question. Raises the scores of
    /// all files by their names.
    pub(super) async fn add_named(
        &self,
        served: &Served,
        question: &Question,
        query: Option<&[f32]>,
        names: &Names,
        fused: &mut Vec<Fused>,
    ) -> Result<()> {
        let known: HashSet<FileId> = fused.iter().map(|it| it.file_id).collect();
        let mut missing = names.best(LEAST_SHARE);
        missing.truncate(compared(question.limit));
        missing.retain(|it| !known.contains(it));
        missing.sort_unstable();
        if !missing.is_empty() && question.plan.l1_threshold.is_none() {
            fused.extend(self.nearest_passages(served, query, missing).await?);
        }
        fuse::lift_named(fused, |file| names.share(file));
        Ok(())
    }

    /// Returns one passage of each of these files: the nearest, or the first read if there are no vectors.
    async fn nearest_passages(&self, served: &Served, query: Option<&[f32]>, files: Vec<FileId>) -> Result<Vec<Fused>> {
        let (count, set) = (files.len(), FileSet::Only(Arc::new(files.clone())));
        let near = match query {
            Some(query) => self.nearest(served, query, &set, LEG_DEPTH, count).await?,
            None => Vec::new(),
        };
        let mut found = fuse::fuse(&[], &near, &[], &Weights::default());
        // These ranks count only few files, so they are dropped.
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
        found.extend(any.into_iter().map(|(file, (_, chunk))| Fused::of(file, chunk)));
        Ok(found)
    }

    /// Returns hits of files without text: those with enough of the question in their names. With a metadata filter, also files
    /// that pass it, as far as the limit allows.
    pub(super) async fn without_text(
        &self,
        question: &Question,
        names: &Names,
        hits: usize,
        speaks: bool,
    ) -> Result<Vec<Found>> {
        let room = question.limit.saturating_sub(hits);
        let most = if speaks { NAMED_FILES } else { room.max(NAMED_FILES) };
        let mut found = self.called(question, names, LEAST_WITHOUT_TEXT).await?;
        found.retain(|it| it.record.state != FileState::Indexed && it.record.chunks == 0);
        found.truncate(most);
        if question.filter.asks_nothing() || !question.terms.shown().is_empty() {
            return Ok(found);
        }
        for state in [FileState::Skipped, FileState::Failed, FileState::Pending] {
            let filter = FileFilter { state: Some(state), ..question.filter.clone() };
            let (catalog, room) = (self.catalog.clone(), room.saturating_sub(found.len()));
            if room == 0 {
                break;
            }
            // Files found by name may come again, so the search asks for that many more.
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

    /// Returns hits of files with at least this share of the question in their names.
    pub(super) async fn called(&self, question: &Question, names: &Names, least: f32) -> Result<Vec<Found>> {
        let ids = names.best(least);
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let catalog = self.catalog.clone();
        let records = blocking(move || catalog.records(&ids)).await?;
        let hit = |record: &FileRecord| {
            let named = names.of(record.id)?;
            let score = f64::from(fuse::name_score(named.share));
            Some(hit::from_name(question, record, &names.held(named), score))
        };
        Ok(records.iter().filter_map(hit).collect())
    }

    /// Adds the matched names to each hit, and for mail the sent date and the attachments.
    pub(super) async fn tell_names(&self, names: &Names, hits: &mut [Found]) -> Result<()> {
        let is_told = |it: &Found| it.record.kind == FileKind::Mail || names.of(it.record.id).is_some();
        let ids: Vec<FileId> = hits.iter().filter(|it| is_told(it)).map(|it| it.record.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let catalog = self.catalog.clone();
        let contents = blocking(move || catalog.contents(&ids)).await?;
        let none = Contents::default();
        for found in hits.iter_mut().filter(|it| is_told(it)) {
            let inside = contents.get(&found.record.id).unwrap_or(&none);
            if let Some(named) = names.of(found.record.id) {
                tell_name(found, &names.held(named), inside);
            }
            if found.record.kind == FileKind::Mail {
                tell_mail(found, inside);
            }
        }
        Ok(())
    }
}

fn tell_name(found: &mut Found, held: &[String], inside: &Contents) {
    let holds = |name: &&String| {
        let words = name_words(name);
        held.iter().any(|it| words.iter().any(|word| word.whole.starts_with(it) || word.parts.contains(it)))
    };
    let inner: Vec<&String> = inside.names.iter().filter(holds).take(MOST_SHOWN).collect();
    let mut facts = Vec::new();
    if found.evidence.is_some() {
        facts.push(format!("the name holds {}", held.join(", ")));
    }
    if !inner.is_empty() {
        let names: Vec<String> = inner.iter().map(|it| format!("`{it}`")).collect();
        facts.push(format!("in it: {}", names.join(", ")));
        found.hit.metadata.insert("inner_names".into(), json!(inner));
    }
    found.hit.metadata.insert("name_words".into(), json!(held));
    tell(found, &facts);
}

fn tell_mail(found: &mut Found, inside: &Contents) {
    if let Some((first, last)) = inside.sent_ns {
        let day = |it: i64| DateTime::from_timestamp_nanos(it).to_rfc3339_opts(SecondsFormat::Secs, true);
        let value = if first == last { json!(day(first)) } else { json!([day(first), day(last)]) };
        found.hit.metadata.insert("mail_date".into(), value);
    }
    if !inside.names.is_empty() {
        let attached: Vec<&String> = inside.names.iter().take(MOST_SHOWN).collect();
        found.hit.metadata.insert("attachments".into(), json!(attached));
        let names: Vec<&str> = attached.iter().map(|it| it.as_str()).collect();
        tell(found, &[format!("attached: {}", names.join(", "))]);
    }
}

fn tell(found: &mut Found, facts: &[String]) {
    for fact in facts {
        let reasoning = &mut found.hit.reasoning;
        reasoning.push_str(if reasoning.is_empty() { "" } else { "; " });
        reasoning.push_str(fact);
    }
}
