//! Pictures of pages for the preview of the web page. A worker process draws a page in the jail; the last pages are kept.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::catalog::EvidenceCache;
use crate::daemon::page_frames::find_frames;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::{PoolSettings, SkillJob, Tools, WorkerPool, has_slides, kind_of_name};
use crate::index;
use crate::model::{
    ContentHash, Document, ExtractLimits, FileKind, FileRecord, MEMBER_SEPARATOR, PagePreview, PageRequest, Picture,
    PictureRequest, display_path,
};
use crate::skills::{DrawnPage, PAGE_PICTURE};

/// Seconds that a worker may take for a page.
const PAGE_SECONDS: u32 = 10;

/// Memory of the worker in MiB, in addition to the file: a page of 12 million pixels in four forms.
const WORKER_MIB: u32 = 256;

/// Default width of a picture in pixels, and the widest one.
const DEFAULT_WIDTH: u32 = 1_200;
const MAX_WIDTH: u32 = 2_400;
const MIN_WIDTH: u32 = 100;

/// Number of pages that are kept. A picture of a page has some 200 KB.
const KEPT_PAGES: usize = 12;

/// How often idle workers are looked for.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum length of the name of an archive member in bytes: it is part of the job that is sent to the worker.
const MAX_MEMBER_BYTES: usize = 4 << 10;

/// Identifies a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PageKey {
    content: ContentHash,
    member: Option<String>,
    page: u32,
    width: u32,
}

/// A file that was opened for its preview.
pub(super) struct PreviewFile {
    pub(super) record: FileRecord,
    /// The archive member or attachment to show; `None` for the file itself.
    pub(super) member: Option<String>,
    pub(super) file: File,
    pub(super) content: ContentHash,
}

impl PreviewFile {
    /// Returns the path of the file or member as users see it.
    fn shown_path(&self) -> String {
        let path = display_path(&self.record.absolute()).into_owned();
        match &self.member {
            Some(member) => format!("{path}{MEMBER_SEPARATOR}{member}"),
            None => path,
        }
    }

    /// Returns whether pages of the file or member can be drawn.
    fn has_pictures(&self) -> bool {
        let (kind, name) = match &self.member {
            Some(member) if member.len() > MAX_MEMBER_BYTES => return false,
            Some(member) => (kind_of_name(member), member.clone()),
            None => (self.record.kind, self.file_name()),
        };
        matches!(kind, FileKind::Pdf | FileKind::Image) || has_slides(&name)
    }

    fn file_name(&self) -> String {
        self.record.found.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn key(&self, page: Option<u32>, width: Option<u32>) -> PageKey {
        let (page, width) = (page.unwrap_or(1), picture_width(width));
        PageKey { content: self.content, member: self.member.clone(), page, width }
    }
}

/// Draws pages, and keeps the last ones.
pub(crate) struct Previews {
    pool: Arc<WorkerPool>,
    pdfium: Option<PathBuf>,
    evidence: Arc<EvidenceCache>,
    kept: Mutex<VecDeque<(PageKey, Arc<DrawnPage>)>>,
}

impl Previews {
    /// Makes previews with a worker process of their own, so that a person does not wait for OCR or for an index job.
    pub(crate) fn new(
        program: PathBuf,
        models: &ModelStore,
        limits: &ExtractLimits,
        evidence: Arc<EvidenceCache>,
    ) -> Previews {
        let pdfium = models.library("pdfium").ok();
        let tools = Tools { pdfium: pdfium.clone(), ocr: None };
        let limits = ExtractLimits { memory_mib: WORKER_MIB, seconds: PAGE_SECONDS, ..limits.clone() };
        let pool = Arc::new(WorkerPool::new(program, PoolSettings { workers: 1, limits, tools, skills: true }));
        Previews { pool, pdfium, evidence, kept: Mutex::default() }
    }

    /// Ends the worker when it is idle, as long as the daemon runs.
    pub(crate) fn end_idle_workers_loop(&self) -> impl Future<Output = ()> + Send + use<> {
        let pool = Arc::downgrade(&self.pool);
        async move {
            loop {
                tokio::time::sleep(IDLE_INTERVAL).await;
                let Some(pool) = pool.upgrade() else { return };
                pool.end_idle_workers();
            }
        }
    }

    /// Returns the size of a page, and the places of the words of a question on it.
    pub(super) async fn page(&self, file: PreviewFile, request: PageRequest) -> Result<PagePreview> {
        let number = request.page.unwrap_or(1);
        let (path, key) = (file.shown_path(), file.key(request.page, request.width));
        // OCR reads whole files only, so that it knows nothing about a member.
        let read_by_ocr = file.member.is_none().then_some(file.content);
        let drawn = self.draw(file, key).await?;
        let evidence = self.evidence.clone();
        let query_string: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("path", &path)
            .append_pair("page", &number.to_string())
            .finish();
        let picture = format!("/v1/page/picture?{query_string}");
        index::blocking(move || {
            let read_by_ocr = read_by_ocr.filter(|_| drawn.words.is_empty());
            let read_by_ocr = read_by_ocr.map(|it| evidence.get_all(it)).unwrap_or_default();
            let read_by_ocr: Vec<Document> = read_by_ocr.into_iter().map(|it| it.1).collect();
            let found = find_frames(&drawn.words, &read_by_ocr, number, &request);
            Ok(PagePreview {
                page: number,
                pages: drawn.pages,
                width: drawn.width,
                height: drawn.height,
                frames: found.words,
                quote_frames: found.quote,
                words_from: found.words_from,
                simplified: drawn.simplified,
                picture,
            })
        })
        .await
    }

    /// Returns the picture of a page.
    pub(super) async fn picture(&self, file: PreviewFile, request: &PictureRequest) -> Result<Picture> {
        let key = file.key(request.page, request.width);
        let drawn = self.draw(file, key).await?;
        index::blocking(move || Ok(Picture { jpeg: drawn.jpeg() })).await
    }

    async fn draw(&self, file: PreviewFile, key: PageKey) -> Result<Arc<DrawnPage>> {
        if !file.has_pictures() {
            let text = "only PDFs, images and slides (PPTX) have pictures of pages";
            return Err(Error::invalid(text).hint("read the text of the file"));
        }
        if let Some(kept) = self.kept().iter().find(|it| it.0 == key) {
            return Ok(kept.1.clone());
        }
        let (path, name) = (file.shown_path(), file.file_name());
        let job = SkillJob {
            skill: PAGE_PICTURE.into(),
            pages: Some(vec![key.page]),
            seconds: PAGE_SECONDS,
            width: Some(key.width),
            member: file.member,
            tools: Tools { pdfium: self.pdfium.clone(), ocr: None },
            ..SkillJob::default()
        };
        let document = self
            .pool
            .run_skill(file.file, &name, job)
            .await
            .map_err(|failure| no_picture(&path, &format!("{}: {}", failure.reason.name(), failure.detail)))?;
        let drawn = DrawnPage::unpack(&document).map(Arc::new);
        let drawn = drawn.ok_or_else(|| no_picture(&path, "the worker sent none"))?;
        let mut kept = self.kept();
        kept.push_front((key, drawn.clone()));
        kept.truncate(KEPT_PAGES);
        Ok(drawn)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(PageKey, Arc<DrawnPage>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the width of a picture within its bounds.
fn picture_width(wanted: Option<u32>) -> u32 {
    wanted.unwrap_or(DEFAULT_WIDTH).clamp(MIN_WIDTH, MAX_WIDTH)
}

fn no_picture(path: &str, why: &str) -> Error {
    let text = format!("the picture of `{path}` cannot be made: {why}");
    Error::new(ErrorCode::FailedPrecondition, text).hint("read the text of the file instead")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::samples;

    fn preview_file(name: &str, member: Option<&str>) -> PreviewFile {
        let content = ContentHash([1; 32]);
        let record = samples::indexed_file(Path::new("/w"), name, kind_of_name(name), content);
        PreviewFile { record, member: member.map(String::from), file: tempfile::tempfile().unwrap(), content }
    }

    #[test]
    fn pages_and_slides_have_pictures_also_in_archives_and_mails() {
        for (name, member, expected) in [
            ("a.pdf", None, true),
            ("a.png", None, true),
            ("a.pptx", None, true),
            ("a.odp", None, false),
            ("a.zip", None, false),
            ("a.zip", Some("b/c.pdf"), true),
            ("a.eml", Some("scan.JPG"), true),
            ("a.tar", Some("b.zip!/talk.pptx"), true),
            ("a.zip", Some("c.txt"), false),
        ] {
            assert_eq!(preview_file(name, member).has_pictures(), expected, "{name} {member:?}");
        }
        let long = format!("{}.pdf", "x".repeat(MAX_MEMBER_BYTES));
        assert!(!preview_file("a.zip", Some(&long)).has_pictures());
    }

    #[test]
    fn path_of_a_member_names_archive_and_member() {
        assert!(preview_file("a.zip", Some("b.pdf")).shown_path().ends_with("a.zip!/b.pdf"));
    }
}
