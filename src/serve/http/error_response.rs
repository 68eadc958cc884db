//! Error responses of the HTTP API. All have the body `{"error": {"code", "message", "field", "hint"}}`.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::{Error, ErrorCode};
use crate::proto::grpc_status;

/// An HTTP error response: status, error code, error, and one additional header.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    status: StatusCode,
    code: &'static str,
    /// Boxed, so that [`crate::serve::http::state::Reply`] is small, because most replies are not errors.
    error: Box<Error>,
    header: Option<(header::HeaderName, HeaderValue)>,
}

/// Value of `Retry-After` in seconds if the daemon is busy.
pub(crate) const BUSY_RETRY_SECONDS: u64 = 1;

impl From<Error> for ErrorResponse {
    fn from(error: Error) -> ErrorResponse {
        let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // If the error gives no wait, uses [`BUSY_RETRY_SECONDS`] for an exhausted resource, which is usually free again
        // after a second.
        let said = error.retry_after.map(|it| it.as_secs() + u64::from(it.subsec_nanos() > 0));
        let wait = said.or((error.code == ErrorCode::ResourceExhausted).then_some(BUSY_RETRY_SECONDS));
        let header = wait.map(|it| (header::RETRY_AFTER, it.into()));
        ErrorResponse { status, code: error.code.name(), error: Box::new(error), header }
    }
}

impl ErrorResponse {
    /// 401: the key is missing or invalid; the response does not say which.
    pub(crate) fn unauthenticated() -> ErrorResponse {
        let error = Error::new(ErrorCode::PermissionDenied, "this daemon requires a key")
            .hint("send `Authorization: Bearer KEY`; `vic bridge` on the daemon's machine shows where it is stored");
        let challenge = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        ErrorResponse {
            status: StatusCode::UNAUTHORIZED,
            code: "unauthenticated",
            error: Box::new(error),
            header: Some(challenge),
        }
    }

    /// 401: the code of a login is not valid.
    pub(crate) fn login_refused(error: Error) -> ErrorResponse {
        ErrorResponse { error: Box::new(error), header: None, ..ErrorResponse::unauthenticated() }
    }

    /// 401: a request of the web page without a session.
    pub(crate) fn no_session() -> ErrorResponse {
        let error = Error::new(ErrorCode::PermissionDenied, "there is no session, or it has ended")
            .hint("run `vic ui`, or log in with a key");
        ErrorResponse { error: Box::new(error), header: None, ..ErrorResponse::unauthenticated() }
    }

    /// 401: the key was revoked, or the session ended, while the request was running.
    pub(crate) fn revoked() -> ErrorResponse {
        let refusal = ErrorResponse::unauthenticated();
        let error = Error::new(
            ErrorCode::PermissionDenied,
            "the key was revoked or no longer grants this access, or the session has ended",
        )
        .hint("ask the owner of the daemon for a new key, or run `vic ui`");
        ErrorResponse { error: Box::new(error), ..refusal }
    }

    /// 429: a key exceeded its rate limit at an address; the client may retry after `wait`.
    pub(crate) fn rate_limited(limit: u32, wait: Duration) -> ErrorResponse {
        let message = format!("more than {limit} requests in 60 seconds");
        ErrorResponse::retry_later(message, wait, "VIC_BRIDGE_RATE_LIMIT_PER_MIN sets the limit")
    }

    /// 429: a page exceeded the rate limit of its session.
    pub(crate) fn page_rate_limited(limit: u32, wait: Duration) -> ErrorResponse {
        ErrorResponse::retry_later(format!("more than {limit} requests in 60 seconds"), wait, "close other pages")
    }

    /// 429: an address exceeded the rate limit of requests without a key.
    pub(crate) fn public_rate_limited(rate: u32, wait: Duration) -> ErrorResponse {
        let message = format!("more than {rate} requests per second without a key");
        ErrorResponse::retry_later(message, wait, "poll at most once a second, or send a key")
    }

    /// 429: an address sent too many invalid keys.
    pub(crate) fn too_many_invalid_keys(wait: Duration) -> ErrorResponse {
        ErrorResponse::retry_later(
            "too many invalid keys".into(),
            wait,
            "`vic bridge` shows where the valid key is stored",
        )
    }

    fn retry_later(message: String, wait: Duration, hint: &str) -> ErrorResponse {
        let seconds = (wait.as_millis().div_ceil(1_000)).max(1) as u64;
        let hint = format!("try again in {seconds} s; {hint}");
        let error = Error::new(ErrorCode::ResourceExhausted, message).hint(hint).retry_after(wait);
        ErrorResponse { header: Some((header::RETRY_AFTER, seconds.into())), ..ErrorResponse::from(error) }
    }

    /// 415: the body is not declared as JSON.
    pub(crate) fn media_type() -> ErrorResponse {
        let error = Error::invalid("unsupported media type of the body").hint("send `content-type: application/json`");
        ErrorResponse {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            code: "unsupported_media_type",
            error: Box::new(error),
            header: None,
        }
    }

    /// Returns whether this is the error for a body that is too large.
    pub(crate) fn is_payload_too_large(&self) -> bool {
        self.status == StatusCode::PAYLOAD_TOO_LARGE
    }

    /// 413: the body is larger than `limit` bytes.
    pub(crate) fn payload_too_large(limit: usize) -> ErrorResponse {
        let error = Error::new(ErrorCode::ResourceExhausted, format!("the body is longer than {limit} bytes"))
            .hint("VIC_BRIDGE_MAX_BODY_BYTES sets the limit");
        ErrorResponse {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            code: "payload_too_large",
            error: Box::new(error),
            header: None,
        }
    }

    /// 408: the body was not complete within `limit`.
    pub(crate) fn request_timeout(limit: Duration) -> ErrorResponse {
        let message = format!("the body was not complete after {} s", limit.as_secs());
        let error = Error::new(ErrorCode::DeadlineExceeded, message).hint("send the whole body at once");
        ErrorResponse {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "request_timeout",
            error: Box::new(error),
            header: None,
        }
    }

    /// 405: the path does not support this method; axum adds the header with the supported methods.
    pub(crate) fn method_not_allowed() -> ErrorResponse {
        let error = Error::invalid("this path does not support this method").hint("`GET /` lists paths and methods");
        ErrorResponse {
            status: StatusCode::METHOD_NOT_ALLOWED,
            code: "method_not_allowed",
            error: Box::new(error),
            header: None,
        }
    }

    /// Converts the error to a gRPC response. A 403 is also set as the HTTP status, because browsers and other
    /// intermediaries read only that.
    pub(crate) fn into_grpc(self) -> Response {
        let status = match self.status {
            StatusCode::UNAUTHORIZED => tonic::Status::unauthenticated(self.error.message.clone()),
            _ => grpc_status::from_error((*self.error).clone()),
        };
        let mut response = status.into_http::<axum::body::Body>();
        if self.status == StatusCode::FORBIDDEN {
            *response.status_mut() = self.status;
        }
        // Replaces the header if the gRPC status has set one of the same name.
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// Returns the error without status and header, for a response that has already started.
    pub(crate) fn into_error(self) -> Error {
        *self.error
    }

    /// Returns the JSON body of the response.
    pub(crate) fn body(&self) -> serde_json::Value {
        let Error { message, field, hint, .. } = &*self.error;
        json!({"error": {"code": self.code, "message": message, "field": field, "hint": hint}})
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.header);
        response
    }
}
