//! The part of the daemon's API that the web page needs besides [`crate::serve::Service`].

use crate::error::Result;
use crate::model::{
    CompleteRequest, Completion, Counts, CountsRequest, FolderList, FoldersRequest, ForgetSearches, Marks,
    MarksRequest, ModelList, PagePreview, PageRequest, PastSearches, Picture, PictureRequest, RootCheck,
    RootCheckRequest, SearchNote, SettingChange, SettingList,
};

/// Operations for the web page. Each fails with the [`crate::error::ErrorCode`] that fits the problem.
#[async_trait::async_trait]
pub trait UiService: Send + Sync + 'static {
    /// Returns which words of some texts match a question.
    async fn marks(&self, request: MarksRequest) -> Result<Marks>;

    /// Returns completions of a question that is being typed.
    async fn complete(&self, request: CompleteRequest) -> Result<Completion>;

    /// Counts the files that match a question by type, folder, date, size, language and owner.
    async fn counts(&self, request: CountsRequest) -> Result<Counts>;

    /// Returns the size of a page of a PDF, or of an image, and the places of the words of a question on it.
    async fn page(&self, request: PageRequest) -> Result<PagePreview>;

    /// Returns the picture of a page of a PDF, or of an image.
    async fn picture(&self, request: PictureRequest) -> Result<Picture>;

    /// Lists the folders in a folder, which need not be below a root.
    async fn folders(&self, request: FoldersRequest) -> Result<FolderList>;

    /// Looks what indexing a folder would read and leave out, without indexing it.
    async fn check_root(&self, request: RootCheckRequest) -> Result<RootCheck>;

    /// Returns all settings.
    async fn settings(&self) -> Result<SettingList>;

    /// Changes a setting in `config.toml`.
    async fn change_setting(&self, change: SettingChange) -> Result<SettingList>;

    /// Returns the known embedding models, and which one fits the languages of the index.
    async fn models(&self) -> Result<ModelList>;

    /// Returns the remembered searches of the caller.
    async fn past_searches(&self) -> Result<PastSearches>;

    /// Remembers or saves a search of the caller.
    async fn remember_search(&self, note: SearchNote) -> Result<PastSearches>;

    /// Deletes remembered searches of the caller.
    async fn forget_searches(&self, which: ForgetSearches) -> Result<PastSearches>;

    /// Checks that a file may be opened in the program of the user's desktop, and returns its path on disk.
    async fn openable_file(&self, path: &str) -> Result<std::path::PathBuf>;
}
