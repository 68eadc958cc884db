//! The operations of the web page, with the checks of rights and admission for each.

use std::path::PathBuf;

use crate::config::DESKTOP_VARIABLES;
use crate::data_dir::keys::Right;
use crate::error::Result;
use crate::model::{
    CompleteRequest, Completion, Counts, CountsRequest, FolderList, FoldersRequest, ForgetSearches, Marks,
    MarksRequest, ModelList, PagePreview, PageRequest, PastSearches, Picture, PictureRequest, RootCheck,
    RootCheckRequest, SearchNote, SettingChange, SettingList,
};
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::auth::sessions::DesktopVariables;
use crate::serve::ui_service::UiService;

/// Maximum size of a variable of the desktop in bytes.
const MAX_VARIABLE_BYTES: usize = 4 << 10;

impl AuthorizedService {
    /// Makes a code that opens a session of the web page. Only for programs of this user on this machine.
    pub(crate) fn make_session_code(&self, desktop: DesktopVariables) -> Result<String> {
        self.require(Right::Local)?;
        let is_known = |name: &str, value: &str| DESKTOP_VARIABLES.contains(&name) && value.len() <= MAX_VARIABLE_BYTES;
        let desktop = desktop.into_iter().filter(|(name, value)| is_known(name, value)).collect();
        self.desk().sessions.make_code(desktop)
    }

    /// Ends every session of the web page; returns how many there were.
    pub(crate) fn end_all_sessions(&self) -> Result<usize> {
        self.require(Right::Own)?;
        Ok(self.desk().sessions.end_all())
    }
}

#[async_trait::async_trait]
impl UiService for AuthorizedService {
    async fn marks(&self, request: MarksRequest) -> Result<Marks> {
        self.require(Right::Read)?;
        self.desk().run_list(&self.holder(), self.inner().marks(request)).await
    }

    async fn complete(&self, request: CompleteRequest) -> Result<Completion> {
        self.require(Right::Read)?;
        self.desk().run_list(&self.holder(), self.inner().complete(request)).await
    }

    async fn counts(&self, request: CountsRequest) -> Result<Counts> {
        self.require(Right::Read)?;
        self.desk().run_list(&self.holder(), self.inner().counts(request)).await
    }

    async fn page(&self, request: PageRequest) -> Result<PagePreview> {
        self.require(Right::Read)?;
        self.desk().run_read(&self.holder(), self.inner().page(request)).await
    }

    async fn picture(&self, request: PictureRequest) -> Result<Picture> {
        self.require(Right::Read)?;
        self.desk().run_read(&self.holder(), self.inner().picture(request)).await
    }

    async fn folders(&self, request: FoldersRequest) -> Result<FolderList> {
        self.require(Right::Own)?;
        self.desk().run_list(&self.holder(), self.inner().folders(request)).await
    }

    async fn check_root(&self, request: RootCheckRequest) -> Result<RootCheck> {
        self.require(Right::Own)?;
        self.desk().run_list(&self.holder(), self.inner().check_root(request)).await
    }

    async fn settings(&self) -> Result<SettingList> {
        self.require(Right::Own)?;
        self.desk().run_list(&self.holder(), self.inner().settings()).await
    }

    async fn change_setting(&self, change: SettingChange) -> Result<SettingList> {
        self.require(Right::Own)?;
        self.desk().run_list(&self.holder(), self.inner().change_setting(change)).await
    }

    async fn models(&self) -> Result<ModelList> {
        self.require(Right::Own)?;
        self.desk().run_list(&self.holder(), self.inner().models()).await
    }

    async fn past_searches(&self) -> Result<PastSearches> {
        self.require(Right::Read)?;
        self.desk().run_list(&self.holder(), self.inner().past_searches()).await
    }

    async fn remember_search(&self, note: SearchNote) -> Result<PastSearches> {
        self.require(Right::Read)?;
        self.desk().run_list(&self.holder(), self.inner().remember_search(note)).await
    }

    async fn forget_searches(&self, which: ForgetSearches) -> Result<PastSearches> {
        self.require(Right::Read)?;
        self.desk().run_list(&self.holder(), self.inner().forget_searches(which)).await
    }

    async fn openable_file(&self, path: &str) -> Result<PathBuf> {
        self.require(Right::Own)?;
        self.desk().run_list(&self.holder(), self.inner().openable_file(path)).await
    }
}
