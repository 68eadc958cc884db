//! Stores and loads the results of verbs: for each its id, its envelope and its request.

use serde_json::{Value, json};

use crate::catalog::{CorpusStore, StoredResult};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::output_budget::{self, TokenRuler};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::api::{envelope, validate};
use crate::corpus::context::CorpusApi;
use crate::corpus::outcome::CallReply;
use crate::corpus::text::words::truncate_to_line;
use crate::error::{Error, Result};
use crate::index::blocking;

/// Maximum bytes stored of a rejected request.
const MAX_STORED_REQUEST_BYTES: usize = 4 << 10;

/// Maximum characters stored of an unknown verb; every real verb is shorter.
const MAX_VERB_CHARS: usize = 40;

impl CorpusApi {
    pub(super) fn error_envelope(&self, id: Option<&str>, verb: &str, refusal: &ApiError) -> Value {
        envelope::wrap_error(id, &truncate_to_line(verb, MAX_VERB_CHARS), &Value::Null, self.short_error(refusal))
    }

    /// Returns the error as JSON, shortened to its token limit.
    pub(super) fn short_error(&self, refusal: &ApiError) -> Value {
        output_budget::limit_error(refusal, TokenRuler(&*self.reader.parts.embedder.token_counter()))
    }

    pub(super) async fn store_error(
        &self,
        id: String,
        verb: &str,
        asked: &Value,
        refusal: ApiError,
    ) -> Result<CallReply> {
        let envelope = self.error_envelope(Some(&id), verb, &refusal);
        let result =
            StoredResult { request: bounded_request(asked), envelope: envelope.to_string(), ..Default::default() };
        self.store_result(id, result).await?;
        Ok((envelope, Some(refusal.code), false))
    }

    async fn store_result(&self, id: String, result: StoredResult) -> Result<bool> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        blocking(move || reader.parts.book.put_result(&owner, &id, &result)).await
    }

    /// Wraps an answer in its envelope and stores it, with the list of the documents that it used.
    pub(super) async fn store_answer(
        &self,
        request: &ValidRequest,
        id: &str,
        (view, coverage): (&Value, f64),
        documents: String,
        answer: &Answer,
    ) -> Result<Value> {
        let mut envelope = envelope::wrap_answer(id, request.verb.name, request.form.name, view, coverage, answer);
        let counter = self.reader.parts.embedder.token_counter();
        let (verbose, offset) = (request.flag("verbose"), request.page().1);
        let (id, request) = (id.to_string(), request.canonical().to_string());
        let mut envelope = blocking(move || {
            envelope::shorten(&mut envelope, verbose, offset, TokenRuler(&*counter));
            Ok(envelope)
        })
        .await?;
        if !self.store_result(id, StoredResult { request, envelope: envelope.to_string(), documents }).await?
            && let Some(unknowns) = envelope["unknowns"].as_array_mut()
        {
            let told =
                Unknown::new("result_not_kept", 1).detail("the answer is too large to store, so its id cannot be used");
            unknowns.push(told.value());
        }
        Ok(envelope)
    }

    /// Loads a stored result.
    pub(super) async fn stored_result(&self, id: &str) -> ApiResult<Option<StoredResult>> {
        let (reader, owner, id) = (self.reader.clone(), self.storage_owner(), id.to_string());
        Ok(blocking(move || reader.parts.book.result(&owner, &id)).await?)
    }
}

/// Parses JSON from the database.
pub(super) fn parse_stored(text: &str) -> ApiResult<Value> {
    serde_json::from_str(text).map_err(|error| ApiError::from(Error::internal(error)))
}

/// Returns the id of a result: a hash of the request and of the state of the documents that it was asked about.
pub(super) fn hash_result_id(request: &Value, state: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.to_string().as_bytes()).update(&[0]).update(state.as_bytes());
    format!("r-{}", &hasher.finalize().to_hex()[..16])
}

/// Returns a request as text, to be stored together with its error. A request of more than 4 KiB is replaced by an object
/// with its first 4 KiB and the field `cut`.
pub(super) fn bounded_request(asked: &Value) -> String {
    let text = asked.to_string();
    if text.len() <= MAX_STORED_REQUEST_BYTES {
        return text;
    }
    let verb = asked["verb"].as_str().map(|it| truncate_to_line(it, MAX_VERB_CHARS));
    let beginning = &text[..text.floor_char_boundary(MAX_STORED_REQUEST_BYTES)];
    json!({"verb": verb, "cut": true, "bytes": text.len(), "beginning": beginning}).to_string()
}

/// Returns the error for an unknown result id; it states how long results are kept.
pub(super) fn unknown_result(id: &str, field: &str) -> ApiError {
    let shown = truncate_to_line(id, 40);
    let error = ApiError::new(ApiErrorKind::UnknownResult, format!("there is no result `{shown}`")).field(field);
    if id.starts_with("j-") {
        return error.action("this is the id of a job: JOB gives the id of its result");
    }
    error.action("give the `id` of an envelope").action(format!("ask again: {}", CorpusStore::RESULT_RETENTION))
}

/// Returns the request of a stored result.
pub(super) fn stored_request(booked: &StoredResult) -> Option<ValidRequest> {
    let asked: Value = serde_json::from_str(&booked.request).ok()?;
    let mut fields = asked["fields"].as_object()?.clone();
    if let Some(form) = asked["form"].as_str().filter(|it| !it.is_empty()) {
        fields.insert("form".into(), form.into());
    }
    validate::validate_request(asked["verb"].as_str()?, fields).ok()
}
