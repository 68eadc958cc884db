//! Serves the files of the web page, which are part of the program, and sets the headers that keep its content apart from
//! other pages.

use std::collections::HashMap;
use std::io::Write;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use include_dir::Dir;

use crate::error::Error;
use crate::serve::http::error_response::ErrorResponse;

/// What a browser may load and run in the page: only files of this server, no inline code, no frame around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
#[derive(Debug)]
struct Asset {
    content: &'static [u8],
    /// Hash of the content, for `ETag`.
    tag: String,
    /// The content, compressed by gzip.
    gzip: Vec<u8>,
}

/// The files of the page by path.
#[derive(Debug, Default)]
pub(crate) struct Assets(HashMap<&'static str, Asset>);

impl Assets {
    /// Prepares the files of a folder, which is part of the program.
    pub(crate) fn new(folder: &'static Dir<'static>) -> Assets {
        let mut assets = Assets::default();
        assets.add_folder(folder);
        assets
    }

    /// Returns the response to a request for the file at `path`, relative to the folder.
    pub(crate) fn response(&self, path: &str, headers: &HeaderMap) -> Response {
        let name = if path.is_empty() || VIEWS.contains(&path) { "index.html" } else { path };
        let Some(asset) = self.0.get(name) else {
            return ErrorResponse::from(Error::not_found(format!("no such path `/ui/{path}`"))).into_response();
        };
        let known = headers.get(header::IF_NONE_MATCH);
        if known.is_some_and(|it| it.as_bytes() == asset.tag.as_bytes()) {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        // The browser asks each time whether a file has changed, because a new version of vic serves it at the same address.
        let described = [
            (header::CONTENT_TYPE, media_type(name)),
            (header::ETAG, asset.tag.as_str()),
            (header::CACHE_CONTROL, "no-cache"),
            (header::VARY, "accept-encoding"),
        ];
        let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
        match encodings.is_some_and(|it| it.contains("gzip")) {
            true => (described, [(header::CONTENT_ENCODING, "gzip")], asset.gzip.clone()).into_response(),
            false => (described, asset.content).into_response(),
        }
    }

    fn add_folder(&mut self, folder: &'static Dir<'static>) {
        for file in folder.files() {
            let content = file.contents();
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing into memory does not fail.
            let gzip = encoder.write_all(content).and_then(|()| encoder.finish()).unwrap_or_default();
            let tag = format!("\"{}\"", &blake3::hash(content).to_hex()[..32]);
            self.0.extend(file.path().to_str().map(|it| (it, Asset { content, tag, gzip })));
        }
        folder.dirs().for_each(|it| self.add_folder(it));
    }
}

/// Views of the page. Their addresses all return the same document, which shows the view.
const VIEWS: [&str; 5] = ["status", "setup", "settings", "graph", "corpus"];

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|it| it.1) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// Middleware that adds headers to every response: browsers must not guess its type, frame it, send its address to others,
/// or keep it, unless the handler allows that.
pub(crate) async fn add_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
