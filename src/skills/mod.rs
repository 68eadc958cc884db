//! Skills: deep processing of single files, i.e. page layout, OCR of images, and description by a vision model.
//!
//! A skill turns a file into evidence: a [`Document`] whose blocks have a position on the page. [`Skills`] runs skills on
//! the best hits of a question, within a time budget, in separate worker processes, and caches the results by content.
//! [`crate::index::Index::add_evidence`] writes them to the index. [`HANDLERS`] lists the code that runs inside the
//! worker; start there, then read `layout` for page layout and [`ocr`] for images.

pub mod ocr;
mod worker;
pub mod layout;
mod crash_counter;
mod page_picture;
mod pdf_file;
mod slides;
mod problem;
mod vision;

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;

use crate::catalog::{EvidenceCache, EvidenceKey, WITHOUT_TEXT_LAYER};
use crate::embed::models::ModelStore;
use crate::error::Result;
use crate::extract::{PoolSettings, SkillJob, Tools, WorkerPool};
use crate::files;
use crate::index::{StatBefore, blocking, blocking_at_file, ocr_tools};
use crate::llm::LlmClient;
use crate::model::{
    ContentHash, Document, ExtractFailure, ExtractLimits, FileId, FileKind, FileRecord, PrivacyMode, Reason,
};
use crate::skills::problem::to_problem;
use crate::skills::vision::VisionModel;

pub(crate) use crate::skills::page_picture::{DrawnPage, PAGE_PICTURE};
pub use crate::skills::problem::SkillProblem;
pub use crate::skills::worker::HANDLERS;

/// Default time budget for all skills of one question: about as long as a person waits for an answer.
const DEFAULT_BUDGET: Duration = Duration::from_secs(20);
/// Number of files processed at the same time; each uses all CPU cores while a page is read.
const CONCURRENT_FILES: usize = 2;
/// Number of worker processes: one for the index and one for questions, so that neither waits for the other.
const WORKERS: usize = 2;
/// Memory limit of a worker in MiB, in addition to the size of its file; the limit for text extraction does not apply.
/// Holds the models, a page of 16 million pixels, and the tensors of the networks. A scan takes 320 MiB, the largest
/// image 460.
const WORKER_MIB: u32 = 512;
/// Name of the skill that finds the structure of PDF pages: tables, facts, signatures, headings.
pub const PDF_LAYOUT: &str = "pdf_layout";
/// Name of the skill that reads text in images by OCR.
pub const OCR_IMAGE: &str = "ocr_image";
/// Name of the skill that sends the image of a page to a vision model.
pub const VISION: &str = "vision";
/// Version of the skills, part of the cache key of results; raise it when the same file would yield other evidence.
const VERSION: &str = "1";

/// The result of a skill for one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Name of the skill.
    pub skill: String,
    /// The blocks that the skill found, each with page and region; may be empty.
    pub document: Document,
    /// Whether the result comes from the cache.
    pub cached: bool,
}

/// The results of all skills for a question.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Evidence with the file that it comes from, in the order of the requested files and skills.
    pub found: Vec<(FileId, Evidence)>,
    /// Problems, one sentence each, with a hint if there is one; without duplicates.
    pub warnings: Vec<String>,
}

/// Runs skills on files. Cheap to clone.
#[derive(Clone)]
pub struct Skills {
    pool: Arc<WorkerPool>,
    evidence: Arc<EvidenceCache>,
    models: ModelStore,
    vision: Option<VisionModel>,
    budget: Duration,
}

/// Returns the settings of the worker pool in which skills run.
pub fn pool_settings(models: &ModelStore, limits: &ExtractLimits) -> PoolSettings {
    let tools = ocr_tools(models).unwrap_or_else(|_| Tools { pdfium: models.library("pdfium").ok(), ocr: None });
    let limits = ExtractLimits { memory_mib: WORKER_MIB, ..limits.clone() };
    PoolSettings { workers: WORKERS, limits, tools, skills: true }
}

impl Skills {
    /// Creates a runner that uses a pool with the settings of [`pool_settings`].
    pub fn new(pool: Arc<WorkerPool>, evidence: Arc<EvidenceCache>, models: ModelStore) -> Skills {
        Skills { pool, evidence, models, vision: None, budget: DEFAULT_BUDGET }
    }

    /// Sets the time budget for the skills of one question.
    #[must_use]
    pub fn with_budget(self, budget: Duration) -> Skills {
        Skills { budget, ..self }
    }

    /// Returns the time budget for the skills of one question.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// Makes the skill `vision` use this model, with images of at most `max_image_bytes`.
    #[must_use]
    pub fn with_vision(mut self, llm: LlmClient, max_image_bytes: u64) -> Skills {
        self.vision = Some(VisionModel::new(llm, max_image_bytes));
        self
    }

    /// Returns whether a skill can find anything in a file of this kind and state.
    pub fn applies(&self, skill: &str, record: &FileRecord) -> bool {
        let unread_pages = record.detail.contains(WITHOUT_TEXT_LAYER) || record.reason == Some(Reason::NoText);
        match (skill, record.kind) {
            (PDF_LAYOUT, FileKind::Pdf) | (OCR_IMAGE, FileKind::Image) => true,
            (OCR_IMAGE, FileKind::Pdf) => unread_pages,
            (VISION, FileKind::Image | FileKind::Pdf) => self.vision.is_some(),
            _ => false,
        }
    }

    /// Runs the skills on the files, in this order, within `budget` for all of them. Cached results return at once. Files
    /// to which a skill does not apply are skipped silently. `privacy` is the privacy mode of the question.
    pub async fn run_all(
        &self,
        files: &[FileRecord],
        skills: &[String],
        privacy: PrivacyMode,
        budget: Duration,
    ) -> Findings {
        let end = Instant::now() + budget;
        // Clones the records, because a future that borrows its arguments cannot be sent to another thread here.
        let jobs: Vec<(FileRecord, String)> = files
            .iter()
            .flat_map(|file| self.skills_to_run(file, skills).map(move |skill| (file.clone(), skill.to_string())))
            .collect();
        let runs = jobs.into_iter().map(|(file, skill)| async move {
            let left = end.saturating_duration_since(Instant::now());
            (file.id, self.run(&skill, &file, privacy, left).await)
        });
        let mut findings = Findings::default();
        let mut results = futures::stream::iter(runs).buffered(CONCURRENT_FILES);
        while let Some((file_id, result)) = results.next().await {
            let problem = match result {
                Ok(evidence) => {
                    let file = files.iter().find(|it| it.id == file_id);
                    let problem = self.unread_warning(&evidence, file).or_else(|| withheld_warning(&evidence, file));
                    findings.found.push((file_id, evidence));
                    problem
                }
                Err(SkillProblem(sentence)) => Some(sentence),
            };
            findings.warnings.extend(problem.filter(|it| !findings.warnings.contains(it)));
        }
        findings
    }

    /// Returns the skills to run on a file. OCR is left out for a PDF if the layout skill runs, which reads its images
    /// too.
    fn skills_to_run<'a>(&'a self, file: &'a FileRecord, skills: &'a [String]) -> impl Iterator<Item = &'a str> + 'a {
        let layout = skills.iter().any(|it| it == PDF_LAYOUT);
        let repeated = move |skill: &str| skill == OCR_IMAGE && file.kind == FileKind::Pdf && layout;
        skills.iter().map(String::as_str).filter(move |skill| self.applies(skill, file) && !repeated(skill))
    }

    /// Runs one skill on one file, unless the result is cached.
    ///
    /// # Errors
    /// A [`SkillProblem`] for the warnings of the answer: a model is missing, the file cannot be read, or there was not
    /// enough time.
    pub async fn run(
        &self,
        skill: &str,
        record: &FileRecord,
        privacy: PrivacyMode,
        budget: Duration,
    ) -> Result<Evidence, SkillProblem> {
        let end = Instant::now() + budget;
        let shown = record.found.path.display().to_string();
        let Some(hash) = record.hash else {
            return Err(SkillProblem(format!(
                "`{shown}` is not indexed yet, so `{skill}` skipped it; ask again later"
            )));
        };
        let version = match (&self.vision, skill) {
            (Some(eye), VISION) => eye.version(),
            _ => VERSION.to_string(),
        };
        let key = EvidenceKey { hash, skill: skill.to_string(), version };
        let before = self.cached_result(&key).await;
        if let Some(document) = before.as_ref().filter(|it| it.pages_without_text.is_empty()) {
            return Ok(Evidence { skill: skill.to_string(), document: document.clone(), cached: true });
        }
        if let Some(why) = self.reason_to_skip(&key).await {
            return Err(SkillProblem(format!("`{skill}` skips `{shown}` for a day, or until the file changes: {why}")));
        }
        let pages = before.as_ref().map(|it| it.pages_without_text.clone());
        let mut document = self.run_worker(record, &key, pages, budget).await?;
        if let (Some(eye), VISION) = (&self.vision, skill) {
            let left = end.saturating_duration_since(Instant::now());
            document = eye.describe(&shown, &document, privacy, left, self.pool.redaction()).await?;
        }
        if let Some(before) = before {
            document = merge_documents(before, document);
        }
        // Does not cache an incomplete vision result, so that the next question starts again.
        if skill != VISION || !document.truncated {
            self.cache_result(key, document.clone()).await;
        }
        Ok(Evidence { skill: skill.to_string(), document, cached: false })
    }

    /// Runs the part of a skill that must run in a worker process, and returns its result.
    async fn run_worker(
        &self,
        record: &FileRecord,
        key: &EvidenceKey,
        pages: Option<Vec<u32>>,
        budget: Duration,
    ) -> Result<Document, SkillProblem> {
        let (skill, shown) = (key.skill.as_str(), record.found.path.display().to_string());
        let late = || SkillProblem(format!("`{skill}` had no time left for `{shown}`; ask again to continue"));
        if let (Some(eye), VISION, FileKind::Image) = (&self.vision, skill, record.kind) {
            eye.check_size(&shown, record.found.size)?;
        }
        let tools = self.load_tools(skill).await?;
        // Gives the worker a limit in whole seconds, which it reaches before `budget` ends, so that it can return partial
        // results.
        let seconds = u32::try_from(budget.as_secs()).unwrap_or(u32::MAX);
        if seconds == 0 {
            return Err(late());
        }
        let (file, before) = open_unchanged(record, key.hash)
            .await
            .map_err(|why| SkillProblem(format!("cannot read `{shown}`: {why}")))?;
        let name = record.found.path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let job = SkillJob { skill: skill.to_string(), pages, seconds, tools, ..SkillJob::default() };
        match tokio::time::timeout(budget, self.pool.run_skill(file, &name, job)).await {
            Err(_) => Err(late()),
            // Rejects the result if the file was written meanwhile, because it would be cached under the hash of the
            // old content.
            Ok(Ok(_)) if before.check_unchanged(record).await.ok().flatten() != Some(true) => {
                Err(SkillProblem(format!("`{shown}` was written to while `{skill}` read it")))
            }
            Ok(Ok(document)) => Ok(document),
            Ok(Err(failure)) => {
                let problem = match failure.reason {
                    Reason::Timeout => late(),
                    _ => SkillProblem(format!("`{skill}` cannot read `{shown}`: {}", describe_failure(&failure))),
                };
                self.record_failure(key, failure, seconds).await;
                Err(problem)
            }
        }
    }

    /// Records a failure of a worker, if it was a crash or timeout.
    async fn record_failure(&self, key: &EvidenceKey, failure: ExtractFailure, seconds: u32) {
        let (cache, key) = (self.evidence.clone(), key.clone());
        let kept = blocking(move || {
            crash_counter::record_failure(&cache, &key, &failure, seconds);
            Ok(())
        });
        // Ignores an error, because the cache logs its own errors.
        kept.await.ok();
    }

    /// Returns why a skill skips a file; `None` if it does not.
    async fn reason_to_skip(&self, key: &EvidenceKey) -> Option<String> {
        let (cache, key) = (self.evidence.clone(), key.clone());
        let strikes = blocking(move || Ok(crash_counter::recent_crashes(&cache, &key))).await.ok()?;
        let last = strikes.last()?;
        (strikes.len() >= crash_counter::MAX_CRASHES)
            .then(|| format!("its worker failed {} times, last: {last}", strikes.len()))
    }

    async fn cached_result(&self, key: &EvidenceKey) -> Option<Document> {
        let (cache, key) = (self.evidence.clone(), key.clone());
        blocking(move || Ok(cache.get(&key))).await.ok().flatten()
    }

    async fn cache_result(&self, key: EvidenceKey, document: Document) {
        let cache = self.evidence.clone();
        let kept = blocking(move || {
            cache.put(&key, &document);
            Ok(())
        });
        // Ignores an error, because the cache logs its own errors.
        kept.await.ok();
    }

    /// Returns the models that a skill needs. Without OCR models, layout still works on pages with text; vision uses its
    /// own model.
    async fn load_tools(&self, skill: &str) -> Result<Tools, SkillProblem> {
        let models = self.models.clone();
        let tools = blocking(move || {
            let pdfium = models.library("pdfium");
            Ok((ocr_tools(&models), pdfium))
        });
        let (with_ocr, pdfium) = tools.await.map_err(|error| to_problem(&error))?;
        match (with_ocr, pdfium) {
            (Ok(tools), _) => Ok(tools),
            (Err(error), _) if skill == OCR_IMAGE => Err(to_problem(&error)),
            (Err(_), Err(error)) if skill == PDF_LAYOUT => Err(to_problem(&error)),
            (Err(_), pdfium) => Ok(Tools { pdfium: pdfium.ok(), ocr: None }),
        }
    }

    /// Returns the warning about pages left unread for lack of models or time; `None` if all were read.
    fn unread_warning(&self, evidence: &Evidence, file: Option<&FileRecord>) -> Option<String> {
        let left = evidence.document.pages_without_text.len();
        if left == 0 {
            return None;
        }
        if let Err(error) = ocr_tools(&self.models) {
            return Some(to_problem(&error).0);
        }
        Some(format!(
            "`{}` had no time for {left} pages of `{}`; ask again to continue",
            evidence.skill,
            shown_path(file)
        ))
    }
}

/// Returns the warning that the text from a vision model was withheld; `None` if it was not.
fn withheld_warning(evidence: &Evidence, file: Option<&FileRecord>) -> Option<String> {
    let why = vision::why_withheld(&evidence.document).filter(|_| evidence.skill == VISION)?;
    Some(format!("the vision model's text for `{}` was dropped: {why}", shown_path(file)))
}

fn shown_path(file: Option<&FileRecord>) -> String {
    file.map(|it| it.found.path.display().to_string()).unwrap_or_default()
}

/// Merges the previous, partial result of a skill with the result for the pages that it had no time for.
fn merge_documents(before: Document, now: Document) -> Document {
    let mut blocks = before.blocks;
    blocks.extend(now.blocks);
    blocks.sort_by_key(|it| it.anchor.page);
    let problems = before.problems.into_iter().chain(now.problems).collect();
    let title = before.title.or(now.title);
    let mut merged = Document { blocks, problems, title, words: before.words, ..now };
    merged.add_words(now.words);
    merged
}

/// Opens a file if it still has the indexed content; otherwise returns why not.
async fn open_unchanged(record: &FileRecord, hash: ContentHash) -> Result<(File, StatBefore), String> {
    let (root, path) = (record.root.clone(), record.found.path.clone());
    let opened = blocking_at_file(record, move || {
        Ok(match files::open_beneath(&root, &path) {
            Ok(file) => {
                let before = StatBefore::new(&file);
                let is_known = files::hash(&file).is_ok_and(|now| now == hash);
                if is_known { Ok((file, before)) } else { Err("it has changed since it was indexed".to_string()) }
            }
            Err(files::OpenProblem::Gone) => Err("it no longer exists".to_string()),
            Err(files::OpenProblem::Bad(failure)) => Err(failure.reason.name().to_string()),
        })
    });
    opened.await.map_err(|error| error.message)?.unwrap_or_else(|| Err("the disk does not answer".to_string()))
}

/// The reason of a failure, with its detail if it has one.
fn describe_failure(failure: &ExtractFailure) -> String {
    let (reason, detail) = (failure.reason.name(), &failure.detail);
    if detail.is_empty() { reason.to_string() } else { format!("{reason}: {detail}") }
}

#[cfg(test)]
mod tests;
