//! Opens a file in the program of the user's desktop. Only a session that `vic ui` opened on this machine may do that, and
//! only for documents: never for programs, scripts or files that a program would run.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use tokio::process::Command;

use crate::config::plugin_environment;
use crate::error::{Error, ErrorCode, Result};
use crate::model::PathRequest;
use crate::serve::auth::sessions::{DesktopVariables, Session};
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState};
use crate::serve::validate;

/// How long the opening program may run before the response: an error comes at once, and a viewer may run for hours.
const ERROR_WAIT: Duration = Duration::from_secs(3);

/// `POST /ui/open`: opens a file in the program of the user's desktop.
pub(crate) async fn open(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    session: Option<Extension<Session>>,
    request: Request,
) -> Reply {
    let desktop = session.and_then(|it| it.0.desktop).ok_or_else(|| {
        Error::new(ErrorCode::PermissionDenied, "only a session that `vic ui` opened on this machine opens files")
    })?;
    let PathRequest { path } = body::parse_json(&bridge, request).await?;
    validate::path("path", &path)?;
    let path = caller.service().openable_file(&path).await?;
    run_opener(&path, &desktop).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Starts `xdg-open`, and returns its error if it fails at once.
async fn run_opener(path: &Path, desktop: &DesktopVariables) -> Result<()> {
    let opener = find_program("xdg-open").ok_or_else(|| {
        Error::new(ErrorCode::FailedPrecondition, "this machine has no `xdg-open`, which opens files")
            .hint("install the package `xdg-utils`")
    })?;
    let mut command = Command::new(opener);
    command.arg(path).env_clear().envs(plugin_environment()).envs(desktop);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/").process_group(0);
    let mut child = command.spawn().map_err(|error| Error::internal(format!("cannot start `xdg-open`: {error}")))?;
    match tokio::time::timeout(ERROR_WAIT, child.wait()).await {
        Ok(Ok(status)) if !status.success() => {
            Err(Error::new(ErrorCode::FailedPrecondition, format!("`xdg-open` failed with {status}"))
                .hint("check which program opens files of this type"))
        }
        Ok(Ok(_)) => Ok(()),
        // The viewer goes on; a task waits for its end.
        Err(_) => {
            tokio::spawn(async move { child.wait().await });
            Ok(())
        }
        Ok(Err(error)) => Err(Error::internal(format!("cannot wait for `xdg-open`: {error}"))),
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = plugin_environment().into_iter().find(|it| it.0 == "PATH")?.1;
    std::env::split_paths(&path).map(|it| it.join(name)).find(|it| it.is_file())
}
