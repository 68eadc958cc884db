//! Calls about whole collections.

use std::time::Duration;

use prost::Message;
use tokio::time::Instant;

use crate::Result;
use crate::client::{Call, Client, Stub};
use crate::collection_schema::{self, Collection, Schema};
use crate::generated::common::ConsistencyLevel;
use crate::generated::milvus::{
    CreateCollectionRequest, DescribeCollectionRequest, DropCollectionRequest, HasCollectionRequest,
    ShowCollectionsRequest,
};

impl Client {
    /// Whether there is a collection or an alias with this name.
    ///
    /// # Errors
    ///
    /// The errors of a call, within `read_timeout`.
    pub async fn has_collection(&self, name: &str) -> Result<bool> {
        let request = HasCollectionRequest { collection_name: name.to_string(), ..Default::default() };
        let send = |mut stub: Stub, request| async move { stub.has_collection(request).await };
        Ok(self.call(self.reading("HasCollection", name), request, send).await?.value)
    }

    /// The names of all collections, in the order of the server.
    ///
    /// # Errors
    ///
    /// The errors of a call, within `read_timeout`.
    pub async fn list_collections(&self) -> Result<Vec<String>> {
        let send = |mut stub: Stub, request| async move { stub.show_collections(request).await };
        let call = self.reading("ShowCollections", "");
        Ok(self.call(call, ShowCollectionsRequest::default(), send).await?.collection_names)
    }

    /// Describes the collection with this name or alias, and waits at most `wait`: the first request for a collection makes
    /// Milvus Lite read all its rows.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, `Malformed` if the reply has no schema, and the errors of a call.
    pub async fn describe_collection(&self, name: &str, wait: Duration) -> Result<Collection> {
        let request = DescribeCollectionRequest { collection_name: name.to_string(), ..Default::default() };
        let call = Call { name: "DescribeCollection", subject: name, deadline: Instant::now() + wait, loads: false };
        let send = |mut stub: Stub, request| async move { stub.describe_collection(request).await };
        let reply = self.call(call, request, send).await?;
        let schema = reply.schema.ok_or_else(|| self.origin(call.name).malformed("the schema is missing"))?;
        // Milvus 2.3.5 repeats the alias of the request in the reply; the schema has the name.
        let name = if schema.name.is_empty() { reply.collection_name } else { schema.name };
        Ok(Collection {
            name,
            id: reply.collection_id,
            description: schema.description,
            fields: schema.fields.into_iter().map(collection_schema::field_from_proto).collect(),
            aliases: reply.aliases,
            properties: collection_schema::unpair(reply.properties),
        })
    }

    /// Creates a collection with one shard; a read sees the session's own writes unless it asks for something else.
    ///
    /// # Errors
    ///
    /// `Invalid` if the server refuses the schema, `Server` if the name is taken, and the errors of a call, within
    /// `write_timeout`.
    pub async fn create_collection(&self, schema: &Schema) -> Result<()> {
        let request = CreateCollectionRequest {
            collection_name: schema.name.clone(),
            schema: collection_schema::to_proto(schema).encode_to_vec(),
            shards_num: 1,
            consistency_level: ConsistencyLevel::Session as i32,
            properties: collection_schema::pairs(&schema.properties),
            ..Default::default()
        };
        let send = |mut stub: Stub, request| async move { stub.create_collection(request).await };
        self.call(self.writing("CreateCollection", &schema.name), request, send).await.map(drop)
    }

    /// Deletes a collection with its rows. Move its aliases first: some versions of the server refuse otherwise.
    ///
    /// # Errors
    ///
    /// `NotFound` on Milvus Lite if there is none (the full server succeeds then), and the errors of a call, within
    /// `write_timeout`.
    pub async fn drop_collection(&self, name: &str) -> Result<()> {
        let request = DropCollectionRequest { collection_name: name.to_string(), ..Default::default() };
        let send = |mut stub: Stub, request| async move { stub.drop_collection(request).await };
        self.loaded().remove(name);
        self.call(self.writing("DropCollection", name), request, send).await.map(drop)
    }
}
