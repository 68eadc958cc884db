//! What a request is told that is not served: `{"error": {"code", "message", "field", "hint"}}`, whatever went wrong.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::{Error, ErrorCode};
use crate::proto::grpc_status;

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    /// Boxed: a reply carries it, and most replies are none.
    error: Box<Error>,
    header: Option<(header::HeaderName, HeaderValue)>,
}

/// When to come back to a daemon that is busy or full.
pub(crate) const RETRY: u64 = 1;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Whoever refused may have said it; a moment is what whatever is full here takes.
        let said = error.retry_after.map(|it| it.as_secs() + u64::from(it.subsec_nanos() > 0));
        let wait = said.or((error.code == ErrorCode::ResourceExhausted).then_some(RETRY));
        let header = wait.map(|it| (header::RETRY_AFTER, it.into()));
        Refusal { status, code: error.code.name(), error: Box::new(error), header }
    }
}

impl Refusal {
    /// 401: the key is missing or wrong; which of the two is not said.
    pub(crate) fn key() -> Refusal {
        let error = Error::new(ErrorCode::PermissionDenied, "this daemon asks for a key")
            .hint("send `Authorization: Bearer KEY`; on its machine `vic bridge` says where the key lies");
        let challenge = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Refusal {
            status: StatusCode::UNAUTHORIZED,
            code: "unauthenticated",
            error: Box::new(error),
            header: Some(challenge),
        }
    }

    /// 401: the key was revoked while it was answered.
    pub(crate) fn revoked() -> Refusal {
        let refusal = Refusal::key();
        let error = Error::new(ErrorCode::PermissionDenied, "the key opens this no more")
            .hint("ask the owner of the daemon for another one");
        Refusal { error: Box::new(error), ..refusal }
    }

    /// 429: too many requests of one key at one address; the next may come after `wait`.
    pub(crate) fn rate(limit: u32, wait: Duration) -> Refusal {
        let message = format!("more than {limit} requests in 60 seconds");
        Refusal::wait(message, wait, "VIC_BRIDGE_RATE_LIMIT_PER_MIN sets the limit")
    }

    /// 429: too many requests of one address to what is open to all.
    pub(crate) fn strangers(rate: u32, wait: Duration) -> Refusal {
        let message = format!("more than {rate} requests in a second without a key");
        Refusal::wait(message, wait, "once a second is enough; with a key there is no such limit")
    }

    /// 429: too many wrong keys of one address.
    pub(crate) fn guesses(wait: Duration) -> Refusal {
        Refusal::wait("too many wrong keys".into(), wait, "`vic bridge` says where the right one lies")
    }

    fn wait(message: String, wait: Duration, hint: &str) -> Refusal {
        let seconds = (wait.as_millis().div_ceil(1_000)).max(1) as u64;
        let hint = format!("try again in {seconds} s; {hint}");
        let error = Error::new(ErrorCode::ResourceExhausted, message).hint(hint).retry_after(wait);
        Refusal { header: Some((header::RETRY_AFTER, seconds.into())), ..Refusal::from(error) }
    }

    /// 415: a body that is no JSON.
    pub(crate) fn media_type() -> Refusal {
        let error =
            Error::invalid("the body is of a kind that is not taken").hint("send `content-type: application/json`");
        Refusal {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            code: "unsupported_media_type",
            error: Box::new(error),
            header: None,
        }
    }

    /// Says whether the body is longer than allowed.
    pub(crate) fn is_size(&self) -> bool {
        self.status == StatusCode::PAYLOAD_TOO_LARGE
    }

    /// 413: the body is longer than allowed.
    pub(crate) fn size(limit: usize) -> Refusal {
        let error = Error::new(ErrorCode::ResourceExhausted, format!("the body is longer than {limit} bytes"))
            .hint("VIC_BRIDGE_MAX_BODY_BYTES sets the limit");
        Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            code: "payload_too_large",
            error: Box::new(error),
            header: None,
        }
    }

    /// 408: the body did not come within `limit`.
    pub(crate) fn slow(limit: Duration) -> Refusal {
        let message = format!("the body was not complete after {} s", limit.as_secs());
        let error = Error::new(ErrorCode::DeadlineExceeded, message).hint("send the whole body at once");
        Refusal { status: StatusCode::REQUEST_TIMEOUT, code: "request_timeout", error: Box::new(error), header: None }
    }

    /// 405: the path exists, but not for this method; axum adds which it is for.
    pub(crate) fn method() -> Refusal {
        let error = Error::invalid("this path does not take that method").hint("`GET /` lists paths and methods");
        Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            code: "method_not_allowed",
            error: Box::new(error),
            header: None,
        }
    }

    /// The same for a client of gRPC, which reads a status of its own. What stands in between, such as a browser, reads
    /// that of HTTP where one was meant for it.
    pub(crate) fn into_grpc(self) -> Response {
        let status = match self.status {
            StatusCode::UNAUTHORIZED => tonic::Status::unauthenticated(self.error.message.clone()),
            _ => grpc_status::from_error((*self.error).clone()),
        };
        let mut response = status.into_http::<axum::body::Body>();
        if self.status == StatusCode::FORBIDDEN {
            *response.status_mut() = self.status;
        }
        // In the place of what the status said of the same, not beside it.
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// Why, for what has no other way to tell it.
    pub(crate) fn into_error(self) -> Error {
        *self.error
    }

    /// The text that tells it.
    pub(crate) fn body(&self) -> serde_json::Value {
        let Error { message, field, hint, .. } = &*self.error;
        json!({"error": {"code": self.code, "message": message, "field": field, "hint": hint}})
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.header);
        response
    }
}
