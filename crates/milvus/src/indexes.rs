//! Calls about indexes, and about collections in memory.

use std::time::Duration;

use tokio::time::Instant;

use crate::Result;
use crate::client::{Call, Client, Stub};
use crate::collection_schema::pair;
use crate::error::{ErrorKind, clean};
use crate::generated::common::{IndexState, LoadState};
use crate::generated::milvus::{
    CreateIndexRequest, DescribeIndexRequest, GetLoadStateRequest, IndexDescription, LoadCollectionRequest,
};
use crate::search::{Metric, json_object};

/// The interval between two questions about a build: short for a small one, and little load during a long one.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// How to index a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParams {
    /// The type of the index, such as `HNSW`, `SPARSE_INVERTED_INDEX` or `INVERTED`.
    pub index_type: String,
    /// The similarity of vectors. `None` for numbers and text.
    pub metric: Option<Metric>,
    /// The numbers of the type, such as `M` and `efConstruction`.
    pub params: Vec<(String, i64)>,
}

impl IndexParams {
    /// An index without numbers.
    pub fn new(index_type: impl Into<String>, metric: Option<Metric>) -> Self {
        Self { index_type: index_type.into(), metric, params: Vec::new() }
    }

    /// Adds a number of the type.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: i64) -> Self {
        self.params.push((name.into(), value));
        self
    }
}

impl Client {
    /// Indexes a field, and waits at most `wait` until the index is built.
    ///
    /// # Errors
    ///
    /// `Invalid` or `Server` if the server refuses or fails to build the index, `TimedOut` if it is not done in time (the
    /// server goes on), and the errors of a call.
    pub async fn create_index(&self, collection: &str, field: &str, index: &IndexParams, wait: Duration) -> Result<()> {
        let mut extra_params = vec![pair("index_type", &index.index_type)];
        extra_params.extend(index.metric.map(|metric| pair("metric_type", metric.name())));
        if !index.params.is_empty() {
            extra_params.push(pair("params", json_object(&index.params)));
        }
        let request = CreateIndexRequest {
            collection_name: collection.into(),
            field_name: field.into(),
            extra_params,
            ..Default::default()
        };
        let deadline = Instant::now() + wait;
        let call = Call { name: "CreateIndex", subject: collection, deadline, loads: false };
        self.call(call, request, |mut stub: Stub, request| async move { stub.create_index(request).await }).await?;
        self.wait_until_indexed(collection, field, deadline).await
    }

    async fn wait_until_indexed(&self, collection: &str, field: &str, deadline: Instant) -> Result<()> {
        let mut poll = FIRST_POLL;
        loop {
            let found = self.describe_index(collection, field, deadline).await?;
            match IndexState::try_from(found.state) {
                Ok(IndexState::Finished) => return Ok(()),
                Ok(IndexState::Failed) => {
                    let message = clean(&found.index_state_fail_reason);
                    return Err(self.origin("DescribeIndex").error(ErrorKind::Server { code: 0, message }));
                }
                _ => self.pause(&mut poll, deadline, "CreateIndex").await?,
            }
        }
    }

    async fn describe_index(&self, collection: &str, field: &str, deadline: Instant) -> Result<IndexDescription> {
        let request =
            DescribeIndexRequest { collection_name: collection.into(), field_name: field.into(), ..Default::default() };
        let call = Call { name: "DescribeIndex", subject: collection, deadline, loads: false };
        let send = |mut stub: Stub, request| async move { stub.describe_index(request).await };
        let reply = self.call(call, request, send).await?;
        // Milvus ignores the name of the field, and describes all indexes.
        let found = reply.index_descriptions.into_iter().find(|index| index.field_name == field);
        found.ok_or_else(|| self.origin(call.name).error(ErrorKind::NotFound(format!("index of the field `{field}`"))))
    }

    /// Whether a field has an index, built or not.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such collection, and the errors of a call, within `read_timeout`.
    pub async fn has_index(&self, collection: &str, field: &str) -> Result<bool> {
        let deadline = self.reading("DescribeIndex", collection).deadline;
        match self.describe_index(collection, field, deadline).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound(what) if what.starts_with("index")) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Loads a collection into the memory of the server, and waits at most `wait` until it can be searched. It needs an
    /// index of each vector.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, `TimedOut` if it is not loaded in time (the server goes on), `Overloaded` if the
    /// server has no memory for it, and the errors of a call.
    pub async fn load_collection(&self, name: &str, wait: Duration) -> Result<()> {
        self.load_until(name, Instant::now() + wait).await
    }

    pub(crate) async fn load_until(&self, name: &str, deadline: Instant) -> Result<()> {
        let request = LoadCollectionRequest { collection_name: name.into(), replica_number: 1, ..Default::default() };
        let call = Call { name: "LoadCollection", subject: name, deadline, loads: false };
        self.call(call, request, |mut stub: Stub, request| async move { stub.load_collection(request).await }).await?;
        let mut poll = FIRST_POLL;
        while !self.is_loaded_until(name, deadline).await? {
            self.pause(&mut poll, deadline, call.name).await?;
        }
        self.loaded().add(name);
        Ok(())
    }

    async fn is_loaded_until(&self, name: &str, deadline: Instant) -> Result<bool> {
        let request = GetLoadStateRequest { collection_name: name.into(), ..Default::default() };
        let call = Call { name: "GetLoadState", subject: name, deadline, loads: false };
        let send = |mut stub: Stub, request| async move { stub.get_load_state(request).await };
        match LoadState::try_from(self.call(call, request, send).await?.state) {
            Ok(LoadState::NotExist) => {
                Err(self.origin(call.name).error(ErrorKind::NotFound(format!("collection `{name}`"))))
            }
            state => Ok(state == Ok(LoadState::Loaded)),
        }
    }

    /// Waits before the next question.
    pub(crate) async fn pause(&self, poll: &mut Duration, deadline: Instant, call: &'static str) -> Result<()> {
        if Instant::now() + *poll >= deadline {
            return Err(self.origin(call).error(ErrorKind::TimedOut));
        }
        tokio::time::sleep(*poll).await;
        *poll = (*poll * 2).min(LONGEST_POLL);
        Ok(())
    }
}
