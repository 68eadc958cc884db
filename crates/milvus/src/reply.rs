//! The status that each reply carries.

use crate::generated::common::Status;
use crate::generated::milvus;

/// A reply with a status. `None` means that the server left it out, which no server does.
pub(crate) trait Reply {
    fn status(&self) -> Option<&Status>;
}

impl Reply for Status {
    fn status(&self) -> Option<&Status> {
        Some(self)
    }
}

macro_rules! reply {
    ($($name:ident),* $(,)?) => {$(
        impl Reply for milvus::$name {
            fn status(&self) -> Option<&Status> {
                self.status.as_ref()
            }
        }
    )*};
}

reply!(
    BoolResponse,
    CheckHealthResponse,
    ConnectResponse,
    DescribeAliasResponse,
    DescribeCollectionResponse,
    DescribeIndexResponse,
    FlushResponse,
    GetFlushStateResponse,
    GetLoadStateResponse,
    GetVersionResponse,
    ListAliasesResponse,
    MutationResult,
    QueryResults,
    SearchResults,
    ShowCollectionsResponse,
);
