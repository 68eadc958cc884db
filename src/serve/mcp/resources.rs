//! Documents as MCP resources, with the URI `vic://file/` and the absolute path, percent-encoded. `file:///` URIs are
//! accepted too.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{JsonObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

use crate::error::{Error, Result};
use crate::model::{FileFilter, FileState, Place, Reading, display_path, display_relative};
use crate::serve::mcp::backend::Backend;
use crate::serve::mcp::{answers, cursor};

/// Maximum number of listed documents, newest first. Documents that are not listed can be read by their path.
const MAX_LISTED: u32 = 50;

/// Maximum number of characters of a document that are returned: about 10,000 tokens. The tool `read` returns the rest.
const MAX_CHARS: u64 = 40_000;

const PREFIX: &str = "vic://file";

/// Characters that the path in a URI contains unescaped, besides letters and digits.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Lists the most recently modified documents of the index as resources.
pub(crate) async fn newest_documents(backend: &dyn Backend) -> Result<Vec<Resource>> {
    let filter = FileFilter { state: Some(FileState::Indexed), ..FileFilter::default() };
    let files = backend.files(filter, MAX_LISTED, 0).await?.files;
    let resource = |file: &crate::model::FileRecord| {
        let name = display_relative(&file.root, &file.found.path, None);
        Resource::new(to_uri(&display_path(&file.absolute())), name)
            .with_mime_type(file.media_type.clone())
            .with_size(file.found.size)
    };
    Ok(files.iter().map(resource).collect())
}

/// Returns the URI template by which clients can read any document.
pub(crate) fn document_template() -> ResourceTemplate {
    ResourceTemplate::new("vic://file/{+path}", "document")
        .with_description("The text of a file below an indexed folder, by its absolute path without the first slash")
        .with_mime_type("text/plain")
}

/// Returns the beginning of a document, up to [`MAX_CHARS`] characters.
pub(crate) async fn read_document(backend: &dyn Backend, uri: &str) -> Result<ReadResourceResult> {
    let path = parse_uri(uri)?;
    let reading = Reading::from_document(&path, backend.read(&path, &Place::default()).await?, 0, MAX_CHARS);
    let mut text = answers::reading_text(&reading);
    if let Some(next) = reading.next_offset {
        let arguments = JsonObject::from_iter([("path".to_string(), path.into())]);
        let cursor = cursor::encode(&cursor::fingerprint("read", &arguments), next);
        let _ = write!(text, "\n\nmore: call `read` with this path and the cursor {cursor}");
    }
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]))
}

/// Returns the URI of a path. A path that is already a `file:///` URL is returned unchanged.
fn to_uri(path: &str) -> String {
    if path.starts_with("file:///") {
        return path.into();
    }
    format!("{PREFIX}{}", utf8_percent_encode(path, UNESCAPED))
}

fn parse_uri(uri: &str) -> Result<String> {
    let wrong = || {
        Error::invalid(format!("`{uri}` is not a document")).field("uri").hint("use `vic://file/` and an absolute path")
    };
    let local = ["vic://file/", "file:///", "file://localhost/"];
    let rest = local.into_iter().find_map(|it| uri.strip_prefix(it)).ok_or_else(wrong)?;
    let bytes: Vec<u8> = std::iter::once(b'/').chain(percent_decode_str(rest)).collect();
    if bytes.contains(&0) {
        return Err(wrong());
    }
    Ok(display_path(Path::new(OsStr::from_bytes(&bytes))).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_round_trips_through_uri() {
        for path in ["/w/plan.md", "/w/größe 1%/a#b?.pdf", "/w/a.zip!/b/c.txt"] {
            assert_eq!(super::parse_uri(&to_uri(path)).unwrap(), path);
        }
        assert_eq!(super::parse_uri("file:///w/a%20b").unwrap(), "/w/a b");
        for path in ["file:///w/a%E9", "vic://file/w/a%e9"] {
            assert_eq!(super::parse_uri(path).unwrap(), "file:///w/a%E9");
        }
        assert_eq!(to_uri("file:///w/a%E9"), "file:///w/a%E9");
    }

    #[test]
    fn foreign_uris_are_rejected() {
        for uri in ["http://x/y", "file://server/share", "vic://job/1", "/w/plan.md", "vic://file/%00"] {
            assert_eq!(super::parse_uri(uri).unwrap_err().field.as_deref(), Some("uri"), "{uri}");
        }
    }
}
