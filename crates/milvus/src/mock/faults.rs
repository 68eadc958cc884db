//! What goes wrong, call by call.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status as GrpcStatus};

use crate::generated::common::Status;

/// The version that the mock states until a test sets another.
const VERSION: &str = "v2.5.4";

/// What a call meets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Fault {
    /// gRPC reports this instead of a reply.
    Grpc(Code, String),
    /// The reply carries this status; nothing is done.
    Status {
        /// The code since Milvus 2.3, such as 101 for a collection that is not loaded.
        code: i32,
        /// The code of older servers.
        error_code: i32,
        /// The text.
        reason: String,
        /// Whether the server advises another attempt.
        retriable: bool,
    },
    /// The call is done after this time.
    Delay(Duration),
    /// The connection breaks, and nothing is done.
    DropConnection,
    /// The call is done, and then the connection breaks: the client cannot know that it is done.
    LoseReply,
    /// The call is done, and its reply has another shape.
    Malformed(Malformed),
}

impl Fault {
    /// A status with a code since Milvus 2.3 that is not retriable.
    pub fn code(code: i32, reason: &str) -> Self {
        Self::Status { code, error_code: 1, reason: reason.to_string(), retriable: false }
    }
}

/// A shape that no reply may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The status is missing.
    NoStatus,
    /// The results or the schema are missing.
    NoResults,
    /// The last field is missing.
    NoField,
    /// The first field has a row more than the others.
    Ragged,
    /// The fields say that they have another type.
    OtherType,
    /// Scores and vectors are not numbers.
    NotFinite,
}

#[derive(Debug)]
pub(super) struct Faults {
    next: HashMap<String, VecDeque<Fault>>,
    pub(super) always: HashMap<String, Fault>,
    pub(super) calls: HashMap<String, usize>,
    pub(super) read_only: bool,
    pub(super) overloaded: bool,
    pub(super) token: Option<String>,
    pub(super) version: String,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            next: HashMap::new(),
            always: HashMap::new(),
            calls: HashMap::new(),
            read_only: false,
            overloaded: false,
            token: None,
            version: VERSION.to_string(),
        }
    }
}

impl Faults {
    pub(super) fn add(&mut self, method: &str, times: usize, fault: &Fault) {
        let queue = self.next.entry(method.to_string()).or_default();
        queue.extend(std::iter::repeat_n(fault.clone(), times));
    }

    pub(super) fn clear(&mut self) {
        self.next.clear();
        self.always.clear();
        self.read_only = false;
        self.overloaded = false;
    }

    /// Counts a call, and says what it meets.
    pub(super) fn meet(&mut self, method: &str, metadata: &MetadataMap) -> Result<Option<Fault>, GrpcStatus> {
        *self.calls.entry(method.to_string()).or_default() += 1;
        if let Some(token) = &self.token {
            let sent = metadata.get("authorization").and_then(|value| value.to_str().ok());
            if sent != Some(STANDARD.encode(token).as_str()) {
                let text = "auth check failure, please check username and password are correct";
                return Err(GrpcStatus::unauthenticated(text));
            }
        }
        if let Some(fault) = self.next.get_mut(method).and_then(VecDeque::pop_front) {
            return Ok(Some(fault));
        }
        if let Some(fault) = self.always.get(method) {
            return Ok(Some(fault.clone()));
        }
        let is_write = matches!(method, "Upsert" | "Delete");
        if self.read_only && is_write {
            let reason = "quota exceeded[reason=access has been disabled by the administrator]".to_string();
            return Ok(Some(Fault::Status { code: 9, error_code: 48, reason, retriable: false }));
        }
        if self.overloaded && (is_write || matches!(method, "Query" | "Search")) {
            let reason = "rate limit exceeded".to_string();
            return Ok(Some(Fault::Status { code: 8, error_code: 49, reason, retriable: true }));
        }
        Ok(None)
    }
}

/// An error of the server, as its reply carries it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    code: i32,
    error_code: i32,
    reason: &'static str,
}

impl Refusal {
    pub(super) const NO_COLLECTION: Self = Self { code: 100, error_code: 4, reason: "collection not found" };
    pub(super) const NOT_LOADED: Self = Self { code: 101, error_code: 1, reason: "collection not loaded" };
    pub(super) const NO_INDEX: Self = Self { code: 700, error_code: 25, reason: "index not found" };
    pub(super) const INVALID: Self = Self { code: 1100, error_code: 5, reason: "invalid parameter" };
    pub(super) const NO_ALIAS: Self = Self { code: 1600, error_code: 1, reason: "alias not found" };
    pub(super) const NAME_TAKEN: Self = Self { code: 1602, error_code: 1, reason: "alias already exist" };
    pub(super) const COLLECTION_EXISTS: Self =
        Self { code: 65535, error_code: 1, reason: "create duplicate collection with different parameters" };

    pub(super) fn status(self) -> Status {
        let Self { code, error_code, reason } = self;
        Status { code, error_code, reason: reason.to_string(), ..Default::default() }
    }
}
