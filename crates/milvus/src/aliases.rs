//! Calls about aliases: second names of collections, which move in one step.

use crate::Result;
use crate::client::{Client, Stub};
use crate::error::ErrorKind;
use crate::generated::milvus::{
    AlterAliasRequest, CreateAliasRequest, DescribeAliasRequest, DropAliasRequest, ListAliasesRequest,
};

impl Client {
    /// Creates an alias of a collection.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such collection, `Server` if the alias exists, and the errors of a call, within
    /// `write_timeout`.
    pub async fn create_alias(&self, alias: &str, collection: &str) -> Result<()> {
        let request =
            CreateAliasRequest { collection_name: collection.into(), alias: alias.into(), ..Default::default() };
        let send = |mut stub: Stub, request| async move { stub.create_alias(request).await };
        self.call(self.writing("CreateAlias", collection), request, send).await.map(drop)
    }

    /// Moves an alias to another collection, in one step: each later request goes to the new one.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such alias or collection, and the errors of a call, within `write_timeout`.
    pub async fn alter_alias(&self, alias: &str, collection: &str) -> Result<()> {
        let request =
            AlterAliasRequest { collection_name: collection.into(), alias: alias.into(), ..Default::default() };
        let send = |mut stub: Stub, request| async move { stub.alter_alias(request).await };
        let call = self.writing("AlterAlias", collection);
        match self.call(call, request, send).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound(what) if what.starts_with("alias")) => {
                Err(self.origin(call.name).error(ErrorKind::NotFound(format!("alias `{alias}`"))))
            }
            reply => reply.map(drop),
        }
    }

    /// Removes an alias.
    ///
    /// # Errors
    ///
    /// The errors of a call, within `write_timeout`. Servers differ on an alias that does not exist.
    pub async fn drop_alias(&self, alias: &str) -> Result<()> {
        let request = DropAliasRequest { alias: alias.into(), ..Default::default() };
        let send = |mut stub: Stub, request| async move { stub.drop_alias(request).await };
        self.call(self.writing("DropAlias", alias), request, send).await.map(drop)
    }

    /// The collection of an alias.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such alias, and the errors of a call, within `read_timeout`.
    pub async fn describe_alias(&self, alias: &str) -> Result<String> {
        let request = DescribeAliasRequest { alias: alias.into(), ..Default::default() };
        let call = self.reading("DescribeAlias", alias);
        let send = |mut stub: Stub, request| async move { stub.describe_alias(request).await };
        let reply = self.call(call, request, send).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound(_) => self.origin(call.name).error(ErrorKind::NotFound(format!("alias `{alias}`"))),
            _ => error,
        })?;
        if reply.collection.is_empty() {
            return Err(self.origin(call.name).malformed("the name of the collection is missing"));
        }
        Ok(reply.collection)
    }

    /// The aliases of a collection.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such collection, and the errors of a call, within `read_timeout`.
    pub async fn list_aliases(&self, collection: &str) -> Result<Vec<String>> {
        let request = ListAliasesRequest { collection_name: collection.into(), ..Default::default() };
        let send = |mut stub: Stub, request| async move { stub.list_aliases(request).await };
        Ok(self.call(self.reading("ListAliases", collection), request, send).await?.aliases)
    }
}
