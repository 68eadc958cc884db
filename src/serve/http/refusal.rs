//! Error responses: `{"error": {"code", "message", "field", "hint"}}` in every case.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::{Error, ErrorCode};
use crate::proto::grpc_status;

/// An error response.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    /// Boxed to keep [`crate::serve::http::Reply`] small, as most replies are no errors.
    error: Box<Error>,
    header: Option<(header::HeaderName, HeaderValue)>,
}

/// Seconds to wait before a retry when the daemon is busy.
pub(crate) const RETRY: u64 = 1;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Without a given wait, an exhausted resource is usually free again after a second.
        let said = error.retry_after.map(|it| it.as_secs() + u64::from(it.subsec_nanos() > 0));
        let wait = said.or((error.code == ErrorCode::ResourceExhausted).then_some(RETRY));
        let header = wait.map(|it| (header::RETRY_AFTER, it.into()));
        Refusal { status, code: error.code.name(), error: Box::new(error), header }
    }
}

impl Refusal {
    /// 401: the key is missing or invalid, without telling which.
    pub(crate) fn key() -> Refusal {
        let error = Error::new(ErrorCode::PermissionDenied, "this daemon requires a key")
            .hint("send `Authorization: Bearer KEY`; on its machine, `vic bridge` shows where the key is stored");
        let challenge = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Refusal {
            status: StatusCode::UNAUTHORIZED,
            code: "unauthenticated",
            error: Box::new(error),
            header: Some(challenge),
        }
    }

    /// 401: the key was revoked during the request.
    pub(crate) fn revoked() -> Refusal {
        let refusal = Refusal::key();
        let error = Error::new(ErrorCode::PermissionDenied, "the key no longer grants this")
            .hint("ask the owner of the daemon for a new key");
        Refusal { error: Box::new(error), ..refusal }
    }

    /// 429: rate limit of a key at an address; retry after `wait`.
    pub(crate) fn rate(limit: u32, wait: Duration) -> Refusal {
        let message = format!("more than {limit} requests in 60 seconds");
        Refusal::wait(message, wait, "VIC_BRIDGE_RATE_LIMIT_PER_MIN sets the limit")
    }

    /// 429: rate limit of public requests of an address.
    pub(crate) fn strangers(rate: u32, wait: Duration) -> Refusal {
        let message = format!("more than {rate} requests per second without a key");
        Refusal::wait(message, wait, "poll at most once a second, or send a key")
    }

    /// 429: too many invalid keys of an address.
    pub(crate) fn guesses(wait: Duration) -> Refusal {
        Refusal::wait("too many invalid keys".into(), wait, "`vic bridge` shows where the valid key is stored")
    }

    fn wait(message: String, wait: Duration, hint: &str) -> Refusal {
        let seconds = (wait.as_millis().div_ceil(1_000)).max(1) as u64;
        let hint = format!("try again in {seconds} s; {hint}");
        let error = Error::new(ErrorCode::ResourceExhausted, message).hint(hint).retry_after(wait);
        Refusal { header: Some((header::RETRY_AFTER, seconds.into())), ..Refusal::from(error) }
    }

    /// 415: the body is not JSON.
    pub(crate) fn media_type() -> Refusal {
        let error = Error::invalid("unsupported media type of the body").hint("send `content-type: application/json`");
        Refusal {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            code: "unsupported_media_type",
            error: Box::new(error),
            header: None,
        }
    }

    /// Returns whether the body was too large.
    pub(crate) fn is_size(&self) -> bool {
        self.status == StatusCode::PAYLOAD_TOO_LARGE
    }

    /// 413: the body is too large.
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

    /// 408: the body was incomplete after `limit`.
    pub(crate) fn slow(limit: Duration) -> Refusal {
        let message = format!("the body was not complete after {} s", limit.as_secs());
        let error = Error::new(ErrorCode::DeadlineExceeded, message).hint("send the whole body at once");
        Refusal { status: StatusCode::REQUEST_TIMEOUT, code: "request_timeout", error: Box::new(error), header: None }
    }

    /// 405: the path does not support this method; axum adds the supported ones.
    pub(crate) fn method() -> Refusal {
        let error = Error::invalid("this path does not support this method").hint("`GET /` lists paths and methods");
        Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            code: "method_not_allowed",
            error: Box::new(error),
            header: None,
        }
    }

    /// Converts the error to a gRPC response. Intermediaries such as browsers read the HTTP status, so 403 is set there
    /// too.
    pub(crate) fn into_grpc(self) -> Response {
        let status = match self.status {
            StatusCode::UNAUTHORIZED => tonic::Status::unauthenticated(self.error.message.clone()),
            _ => grpc_status::from_error((*self.error).clone()),
        };
        let mut response = status.into_http::<axum::body::Body>();
        if self.status == StatusCode::FORBIDDEN {
            *response.status_mut() = self.status;
        }
        // Replaces the header of the same name that the status may have set.
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// Returns the error, where no response can be sent.
    pub(crate) fn into_error(self) -> Error {
        *self.error
    }

    /// Returns the JSON body.
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
