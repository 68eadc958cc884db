//! The operations of the web page, as the daemon performs them.

use std::path::{Path, PathBuf};

use crate::ask;
use crate::config::{UserFolders, WalkConfig};
use crate::daemon::preview::PreviewFile;
use crate::daemon::service::Daemon;
use crate::embed::model_catalog::ModelKind;
use crate::embed::models::ModelStore;
use crate::embed::suggest_model;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::files::{self, Rules};
use crate::index;
use crate::model::{
    CompleteRequest, Completion, Counts, CountsRequest, FileFilter, FileKind, FolderEntry, FolderList, FoldersRequest,
    ForgetSearches, Marks, MarksRequest, ModelAdvice, ModelList, PagePreview, PageRequest, PastSearches, Picture,
    PictureRequest, RootCheck, RootCheckRequest, SearchNote, SettingChange, SettingList, display_path, parse_path,
};
use crate::planner::completion::{self, KnownValues};
use crate::serve::{Service, UiService};

/// Maximum number of folders in a list of folders.
const MAX_FOLDERS: usize = 1_000;

/// Maximum number of entries of a folder that are looked at.
const MAX_FOLDER_ENTRIES: usize = 20_000;

#[async_trait::async_trait]
impl UiService for Daemon {
    async fn marks(&self, request: MarksRequest) -> Result<Marks> {
        index::blocking(move || Ok(ask::find_marks(&request))).await
    }

    async fn complete(&self, request: CompleteRequest) -> Result<Completion> {
        if !completion::needs_values(&request) {
            return Ok(completion::complete(&request, &KnownValues::default()));
        }
        let (catalog, scope) = (self.catalog.clone(), self.scope.clone());
        index::blocking(move || {
            let counts = catalog.counts(&FileFilter { scope, ..FileFilter::default() })?;
            Ok(completion::complete(&request, &known_values(counts)))
        })
        .await
    }

    async fn counts(&self, mut request: CountsRequest) -> Result<Counts> {
        self.make_absolute(Vec::from_iter(request.warehouse_root.as_mut())).await?;
        self.asker.counts(request).await
    }

    async fn page(&self, request: PageRequest) -> Result<PagePreview> {
        let file = self.open_for_preview(&request.path).await?;
        self.ui.previews.page(file, request).await
    }

    async fn picture(&self, request: PictureRequest) -> Result<Picture> {
        let file = self.open_for_preview(&request.path).await?;
        self.ui.previews.picture(file, &request).await
    }

    async fn folders(&self, request: FoldersRequest) -> Result<FolderList> {
        let roots: Vec<PathBuf> = self.index.roots().await?.into_iter().map(|it| it.path).collect();
        let path = match request.path {
            Some(path) => parse_path(&path),
            None => UserFolders::load().ok().map(|it| it.home).filter(|it| it.is_dir()).unwrap_or(PathBuf::from("/")),
        };
        index::blocking_at_path(&path.clone(), &self.scope, move || list_folders(&path, &roots)).await
    }

    async fn check_root(&self, request: RootCheckRequest) -> Result<RootCheck> {
        let path = parse_path(&request.path);
        let rules = self.walk_rules(request.ignore)?;
        index::blocking_at_path(&path.clone(), &self.scope, move || {
            let path = path.canonicalize().io_context("find", &path)?;
            files::dry_run(&path, &rules, &request.words)
        })
        .await
    }

    async fn settings(&self) -> Result<SettingList> {
        let ui = self.ui.clone();
        index::blocking(move || ui.settings.list()).await
    }

    async fn change_setting(&self, change: SettingChange) -> Result<SettingList> {
        let (ui, index) = (self.ui.clone(), self.index.clone());
        index::blocking(move || ui.settings.change(&change, &index)).await
    }

    async fn models(&self) -> Result<ModelList> {
        let status = self.status().await?;
        let config = &self.ui.config;
        let store = ModelStore::new(config.model_dirs.clone());
        let suggestion = suggest_model(&store.entries()?, &config.embed.model, &status.languages);
        let suggestion = suggestion.map(|it| ModelAdvice { reason: it.sentence(), name: it.model });
        let mut models = Vec::new();
        for model in store.list()?.into_iter().filter(|it| it.kind == ModelKind::Embedding) {
            let command = match model.present {
                true => format!("vic models use {}", model.name),
                false => format!("vic models pull {0} && vic models use {0}", model.name),
            };
            let cost = (model.name != config.embed.model).then_some(status.chunks);
            let mut value = serde_json::to_value(&model).map_err(Error::internal)?;
            value["command"] = command.into();
            value["chunks_to_embed"] = cost.into();
            models.push(value);
        }
        Ok(ModelList { current: status.embed_model, models, suggestion, languages: status.languages })
    }

    async fn past_searches(&self) -> Result<PastSearches> {
        let (ui, holder) = (self.ui.clone(), self.holder.clone());
        index::blocking(move || ui.searches.list(&holder)).await
    }

    async fn remember_search(&self, note: SearchNote) -> Result<PastSearches> {
        let (ui, holder) = (self.ui.clone(), self.holder.clone());
        index::blocking(move || {
            ui.searches.add(&holder, &note, chrono::Utc::now().timestamp_millis())?;
            ui.searches.list(&holder)
        })
        .await
    }

    async fn forget_searches(&self, which: ForgetSearches) -> Result<PastSearches> {
        let (ui, holder) = (self.ui.clone(), self.holder.clone());
        index::blocking(move || {
            ui.searches.remove(&holder, &which)?;
            ui.searches.list(&holder)
        })
        .await
    }

    async fn openable_file(&self, path: &str) -> Result<PathBuf> {
        let (catalog, scope, named) = (self.catalog.clone(), self.scope.clone(), parse_path(path));
        index::blocking_at_path(&named.clone(), &self.scope, move || {
            let record = index::find_record(&catalog, &scope, &named)?;
            let path = record.absolute();
            let metadata = path.symlink_metadata().io_context("open", &path)?;
            match is_document(record.kind, &record.extension) && is_harmless(&metadata) {
                true => Ok(path),
                false => Err(Error::new(
                    ErrorCode::PermissionDenied,
                    format!("`{}` may be a program: vic opens only documents", path.display()),
                )
                .hint("open it in your file manager if you trust it")),
            }
        })
        .await
    }
}

impl Daemon {
    /// Returns rules of a walk that leaves out the daemon's own files. `ignore` replaces the globs that are in effect.
    fn walk_rules(&self, ignore: Option<Vec<String>>) -> Result<Rules> {
        let config = &self.ui.config;
        let ignore = ignore.unwrap_or_else(|| self.index.ignore());
        Ok(Rules::new(&WalkConfig { ignore, ..config.walk.clone() })?
            .excluding([config.data_dir.clone(), config.db_path.clone()]))
    }

    /// Returns why the file at a path below a root is not indexed, as an error; `None` if no rule leaves it out.
    pub(super) async fn explain_left_out(&self, path: &Path) -> Result<Option<Error>> {
        let roots: Vec<PathBuf> = self.index.roots().await?.into_iter().map(|it| it.path).collect();
        let rules = self.walk_rules(None)?;
        rules.set_roots(roots.clone());
        let (path, scope) = (path.to_path_buf(), self.scope.clone());
        index::blocking_at_path(&path.clone(), &self.scope, move || {
            // The entry itself may be a symbolic link, which no walk follows.
            let Some((parent, name)) = path.parent().zip(path.file_name()) else { return Ok(None) };
            let Ok(path) = parent.canonicalize().map(|it| it.join(name)) else { return Ok(None) };
            let root = roots.iter().filter(|it| path.starts_with(it)).max_by_key(|it| it.as_os_str().len());
            match root.filter(|_| scope.covers(&path)) {
                Some(root) => {
                    let relative = path.strip_prefix(root).unwrap_or(&path);
                    files::explain_left_out(root, &rules, relative, |it| scope.covers(it))
                }
                None => Ok(None),
            }
        })
        .await
    }

    /// Opens an indexed file for a preview of its pages, or of the pages of an archive member or attachment in it.
    async fn open_for_preview(&self, path: &str) -> Result<PreviewFile> {
        let (path, member, _) = self.resolve_name(path).await?;
        let (file, content) = self.open_indexed(&path).await?;
        let (catalog, scope) = (self.catalog.clone(), self.scope.clone());
        let record = index::blocking(move || index::find_record(&catalog, &scope, &path)).await?;
        Ok(PreviewFile { record, member, file, content })
    }
}

/// Returns the values to which operators complete.
fn known_values(counts: Counts) -> KnownValues {
    let mut known = KnownValues::default();
    for group in counts.groups {
        let values = group.values.into_iter();
        match group.name.as_str() {
            "type" => {
                known.extensions = values.filter(|it| it.value != ".").map(|it| (it.value, it.count)).collect();
            }
            "folder" => known.folders = values.map(|it| (it.label, it.count)).collect(),
            "language" => known.languages = values.map(|it| (it.value, it.count)).collect(),
            "person" => known.authors = values.map(|it| (it.value, it.count)).collect(),
            "owner" => known.owners = values.map(|it| (it.value, it.count)).collect(),
            _ => (),
        }
    }
    known
}

/// Lists the visible folders in a folder.
fn list_folders(path: &Path, roots: &[PathBuf]) -> Result<FolderList> {
    let path = path.canonicalize().io_context("find", path)?;
    let is_indexed = |it: &Path| roots.iter().any(|root| it.starts_with(root));
    let mut folders = Vec::new();
    for entry in path.read_dir().io_context("read", &path)?.flatten().take(MAX_FOLDER_ENTRIES) {
        let name = entry.file_name();
        // Follows links, because a user's folders may lie on another disk behind one.
        if name.as_encoded_bytes().starts_with(b".") || !entry.path().is_dir() {
            continue;
        }
        let below = entry.path();
        let indexed = is_indexed(&below);
        folders.push(FolderEntry {
            name: name.to_string_lossy().into_owned(),
            path: display_path(&below).into_owned(),
            indexed,
        });
        if folders.len() >= MAX_FOLDERS {
            break;
        }
    }
    folders
        .sort_unstable_by(|a, b| a.name.to_lowercase().cmp(&b.name.to_lowercase()).then_with(|| a.name.cmp(&b.name)));
    Ok(FolderList {
        parent: path.parent().map(|it| display_path(it).into_owned()),
        indexed: is_indexed(&path),
        path: display_path(&path).into_owned(),
        folders,
    })
}

/// Extensions of files that a program of the desktop shows. Not among them are the office formats whose purpose is macros
/// (`.docm`, `.xlsm`), pages that run scripts (HTML, SVG) and links (`.desktop`, `.url`).
const DOCUMENT_EXTENSIONS: &[&str] = &[
    "pdf", "txt", "md", "rst", "csv", "tsv", "log", "docx", "odt", "rtf", "xlsx", "ods", "pptx", "odp", "epub", "eml",
    "png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp", "heic", "mp3", "ogg", "flac", "wav", "mp4", "mkv",
    "webm",
];

/// Returns whether a file is a document by its content and its extension: a program named like a document is none.
fn is_document(kind: FileKind, extension: &str) -> bool {
    let is_shown = !matches!(kind, FileKind::Code | FileKind::Web | FileKind::Archive | FileKind::Other);
    is_shown && DOCUMENT_EXTENSIONS.contains(&extension)
}

/// Returns whether a file is a regular file without permission to execute it.
fn is_harmless(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.is_file() && metadata.mode() & 0o111 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_scripts_and_links_are_no_documents() {
        for (kind, extension, expected) in [
            (FileKind::Pdf, "pdf", true),
            (FileKind::Text, "txt", true),
            (FileKind::Image, "png", true),
            (FileKind::Media, "mp4", true),
            (FileKind::Text, "desktop", false),
            (FileKind::Code, "sh", false),
            (FileKind::Code, "txt", false),
            (FileKind::Other, "pdf", false),
            (FileKind::Web, "html", false),
            (FileKind::Spreadsheet, "xlsm", false),
            (FileKind::Other, "exe", false),
            (FileKind::Text, "", false),
        ] {
            assert_eq!(is_document(kind, extension), expected, "{extension}");
        }
    }

    #[test]
    fn folders_are_listed_by_name_without_files_and_hidden_ones() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["b", "A", ".c", "A/x"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::fs::write(dir.path().join("file"), "x").unwrap();
        let root = dir.path().canonicalize().unwrap().join("A");
        let list = list_folders(dir.path(), std::slice::from_ref(&root)).unwrap();
        let names: Vec<(&str, bool)> = list.folders.iter().map(|it| (it.name.as_str(), it.indexed)).collect();
        assert_eq!(names, [("A", true), ("b", false)]);
        assert!(!list.indexed && list.parent.is_some());
        assert!(list_folders(&dir.path().join("file"), &[]).is_err());
    }
}
