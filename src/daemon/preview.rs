//! Pictures of pages for the preview of the web page. A worker process draws a page in the jail; the last pages are kept.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::catalog::EvidenceCache;
use crate::daemon::page_frames::find_frames;
use crate::embed::models::ModelStore;
use crate::error::{Error, ErrorCode, Result};
use crate::extract::{PoolSettings, SkillJob, Tools, WorkerPool};
use crate::index;
use crate::model::{
    ContentHash, ExtractLimits, FileKind, FileRecord, PagePreview, PageRequest, Picture, PictureRequest, display_path,
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

/// Identifies a picture: content, page, width.
type PageKey = (ContentHash, u32, u32);

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
    pub(crate) async fn page(
        &self,
        record: &FileRecord,
        file: File,
        hash: ContentHash,
        request: &PageRequest,
    ) -> Result<PagePreview> {
        let number = request.page.unwrap_or(1);
        let drawn = self.draw(record, file, (hash, number, picture_width(request.width))).await?;
        let (evidence, request) = (self.evidence.clone(), request.clone());
        let path = display_path(&record.absolute()).into_owned();
        let query_string: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("path", &path)
            .append_pair("page", &number.to_string())
            .finish();
        let picture = format!("/v1/page/picture?{query_string}");
        index::blocking(move || {
            let read_by_ocr = match drawn.words.is_empty() {
                true => evidence.get_all(hash).into_iter().map(|it| it.1).collect(),
                false => Vec::new(),
            };
            let found = find_frames(&drawn.words, &read_by_ocr, number, &request);
            Ok(PagePreview {
                page: number,
                pages: drawn.pages,
                width: drawn.width,
                height: drawn.height,
                frames: found.words,
                quote_frames: found.quote,
                words_from: found.words_from,
                picture,
            })
        })
        .await
    }

    /// Returns the picture of a page.
    pub(crate) async fn picture(
        &self,
        record: &FileRecord,
        file: File,
        hash: ContentHash,
        request: &PictureRequest,
    ) -> Result<Picture> {
        let key = (hash, request.page.unwrap_or(1), picture_width(request.width));
        let drawn = self.draw(record, file, key).await?;
        index::blocking(move || Ok(Picture { jpeg: drawn.jpeg() })).await
    }

    async fn draw(&self, record: &FileRecord, file: File, key: PageKey) -> Result<Arc<DrawnPage>> {
        if !matches!(record.kind, FileKind::Pdf | FileKind::Image) {
            return Err(Error::invalid("only PDFs and images have pictures of pages").hint("read the text of the file"));
        }
        if let Some(kept) = self.kept().iter().find(|it| it.0 == key) {
            return Ok(kept.1.clone());
        }
        let name = record.found.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let job = SkillJob {
            skill: PAGE_PICTURE.into(),
            pages: Some(vec![key.1]),
            seconds: PAGE_SECONDS,
            width: Some(key.2),
            tools: Tools { pdfium: self.pdfium.clone(), ocr: None },
            ..SkillJob::default()
        };
        let document = self.pool.run_skill(file, &name, job).await.map_err(|failure| {
            no_picture(&record.absolute(), &format!("{}: {}", failure.reason.name(), failure.detail))
        })?;
        let drawn = DrawnPage::unpack(&document).map(Arc::new);
        let drawn = drawn.ok_or_else(|| no_picture(&record.absolute(), "the worker sent none"))?;
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

fn no_picture(path: &Path, why: &str) -> Error {
    let text = format!("the picture of `{}` cannot be made: {why}", display_path(path));
    Error::new(ErrorCode::FailedPrecondition, text).hint("read the text of the file instead")
}
