//! The calls of the mock.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;
use tonic::{Request, Response, Status as GrpcStatus};

use super::answer::{Answer, found, nearest};
use super::faults::{Fault, Malformed, Refusal};
use super::server_state::{ServerState, State};
use crate::convert;
use crate::error::Origin;
use crate::generated::common::{IndexState, LoadState, ServerInfo, Status};
use crate::generated::milvus::milvus_service_server::MilvusService;
use crate::generated::milvus::*;
use crate::generated::schema::{CollectionSchema, LongArray};
use crate::version::Version;

type Served<T> = Result<Response<T>, GrpcStatus>;

pub(super) struct Service {
    pub(super) shared: Arc<ServerState>,
}

impl Service {
    /// Serves one call, with what it meets.
    async fn run<Q, R: Answer>(
        &self,
        method: &'static str,
        request: Request<Q>,
        work: impl FnOnce(&mut State, Q) -> Result<R, Refusal>,
    ) -> Served<R> {
        let (metadata, _, request) = request.into_parts();
        let fault = self.shared.state().faults.meet(method, &metadata)?;
        match &fault {
            Some(Fault::Grpc(code, text)) => return Err(GrpcStatus::new(*code, text.clone())),
            Some(Fault::Status { code, error_code, reason, retriable }) => {
                let (code, error_code, retriable, reason) = (*code, *error_code, *retriable, reason.clone());
                return Ok(Response::new(R::of(Status { code, error_code, retriable, reason, ..Default::default() })));
            }
            Some(Fault::Delay(time)) => tokio::time::sleep(*time).await,
            Some(Fault::DropConnection) => return Err(self.lose()),
            Some(Fault::LoseReply | Fault::Malformed(_)) | None => {}
        }
        let worked = work(&mut self.shared.state(), request);
        let mut reply = worked.unwrap_or_else(|refusal| R::of(refusal.status()));
        match fault {
            Some(Fault::LoseReply) => return Err(self.lose()),
            Some(Fault::Malformed(Malformed::NoStatus)) => reply.set_status(None),
            Some(Fault::Malformed(shape)) => reply.malform(shape),
            _ => {}
        }
        Ok(Response::new(reply))
    }

    fn lose(&self) -> GrpcStatus {
        self.shared.front.drop_connections();
        GrpcStatus::aborted("the connection is gone")
    }
}

fn done<R: Answer>() -> R {
    R::of(Status::default())
}

#[tonic::async_trait]
impl MilvusService for Service {
    async fn connect(&self, request: Request<ConnectRequest>) -> Served<ConnectResponse> {
        self.run("Connect", request, |state, _| {
            let info = ServerInfo { build_tags: state.faults.version.clone(), ..Default::default() };
            Ok(ConnectResponse { server_info: Some(info), ..done() })
        })
        .await
    }

    async fn get_version(&self, request: Request<GetVersionRequest>) -> Served<GetVersionResponse> {
        self.run("GetVersion", request, |state, _| {
            Ok(GetVersionResponse { version: state.faults.version.clone(), ..done() })
        })
        .await
    }

    async fn check_health(&self, request: Request<CheckHealthRequest>) -> Served<CheckHealthResponse> {
        self.run("CheckHealth", request, |_, _| Ok(CheckHealthResponse { is_healthy: true, ..done() })).await
    }

    async fn create_collection(&self, request: Request<CreateCollectionRequest>) -> Served<Status> {
        self.run("CreateCollection", request, |state, request| {
            let schema = CollectionSchema::decode(request.schema.as_slice()).map_err(|_| Refusal::INVALID)?;
            state.store.create(request.collection_name, schema, request.properties)?;
            Ok(done())
        })
        .await
    }

    async fn drop_collection(&self, request: Request<DropCollectionRequest>) -> Served<Status> {
        self.run("DropCollection", request, |state, request| {
            state.store.drop_collection(&request.collection_name);
            Ok(done())
        })
        .await
    }

    async fn has_collection(&self, request: Request<HasCollectionRequest>) -> Served<BoolResponse> {
        self.run("HasCollection", request, |state, request| {
            Ok(BoolResponse { value: state.store.find(&request.collection_name).is_ok(), ..done() })
        })
        .await
    }

    async fn describe_collection(
        &self,
        request: Request<DescribeCollectionRequest>,
    ) -> Served<DescribeCollectionResponse> {
        self.run("DescribeCollection", request, |state, request| {
            let found = state.store.find(&request.collection_name)?;
            Ok(DescribeCollectionResponse {
                schema: Some(found.schema.clone()),
                collection_id: found.id,
                collection_name: found.name.clone(),
                aliases: state.store.aliases_of(&found.name),
                properties: found.properties.clone(),
                shards_num: 1,
                ..done()
            })
        })
        .await
    }

    async fn show_collections(&self, request: Request<ShowCollectionsRequest>) -> Served<ShowCollectionsResponse> {
        self.run("ShowCollections", request, |state, _| {
            let collection_ids = state.store.stored().map(|collection| collection.id).collect();
            Ok(ShowCollectionsResponse { collection_names: state.store.names(), collection_ids, ..done() })
        })
        .await
    }

    async fn create_index(&self, request: Request<CreateIndexRequest>) -> Served<Status> {
        self.run("CreateIndex", request, |state, request| {
            let polls = state.store.unusual.polls;
            let collection = state.store.find_mut(&request.collection_name)?;
            if !collection.has_field(&request.field_name) {
                return Err(Refusal::INVALID);
            }
            collection.indexes.insert(request.field_name, request.extra_params);
            collection.polls = polls;
            Ok(done())
        })
        .await
    }

    async fn describe_index(&self, request: Request<DescribeIndexRequest>) -> Served<DescribeIndexResponse> {
        self.run("DescribeIndex", request, |state, request| {
            let collection = state.store.find_mut(&request.collection_name)?;
            if collection.indexes.is_empty() {
                return Err(Refusal::NO_INDEX);
            }
            let index_state = if collection.is_built() { IndexState::Finished } else { IndexState::InProgress };
            let describe = |(field, params): (&String, &Vec<_>)| IndexDescription {
                index_name: format!("_default_{field}"),
                field_name: field.clone(),
                params: params.clone(),
                state: index_state as i32,
                ..Default::default()
            };
            Ok(DescribeIndexResponse {
                index_descriptions: collection.indexes.iter().map(describe).collect(),
                ..done()
            })
        })
        .await
    }

    async fn load_collection(&self, request: Request<LoadCollectionRequest>) -> Served<Status> {
        self.run("LoadCollection", request, |state, request| {
            let polls = state.store.unusual.polls;
            let collection = state.store.find_mut(&request.collection_name)?;
            if !collection.is_indexed() {
                return Err(Refusal::NO_INDEX);
            }
            collection.polls = if collection.loaded { 0 } else { polls };
            collection.loaded = true;
            Ok(done())
        })
        .await
    }

    async fn get_load_state(&self, request: Request<GetLoadStateRequest>) -> Served<GetLoadStateResponse> {
        self.run("GetLoadState", request, |state, request| {
            let load_state = match state.store.find_mut(&request.collection_name) {
                Err(_) => LoadState::NotExist,
                Ok(collection) if !collection.loaded => LoadState::NotLoad,
                Ok(collection) => {
                    if collection.is_built() {
                        LoadState::Loaded
                    } else {
                        LoadState::Loading
                    }
                }
            };
            Ok(GetLoadStateResponse { state: load_state as i32, ..done() })
        })
        .await
    }

    async fn upsert(&self, request: Request<UpsertRequest>) -> Served<MutationResult> {
        self.run("Upsert", request, |state, request| {
            let names: Vec<_> = request.fields_data.iter().map(|field| field.field_name.clone()).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let origin = Origin { address: "".into(), call: "Upsert" };
            let rows = convert::to_rows(request.fields_data, &names, None, origin).map_err(|_| Refusal::INVALID)?;
            if rows.len() != request.num_rows as usize {
                return Err(Refusal::INVALID);
            }
            let mut timestamp = state.store.upsert(&request.collection_name, rows.columns())?;
            if Version::parse(&state.faults.version).is_lite() {
                timestamp = 0;
            }
            Ok(MutationResult { timestamp, upsert_cnt: request.num_rows.into(), acknowledged: true, ..done() })
        })
        .await
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Served<MutationResult> {
        self.run("Delete", request, |state, request| {
            if request.expr.is_empty() {
                return Err(Refusal::INVALID);
            }
            let (mut timestamp, count) = state.store.delete(&request.collection_name, &request.expr)?;
            let version = Version::parse(&state.faults.version);
            if version.is_lite() || version.numbers() < Some((2, 4, 0)) {
                timestamp = 0;
            }
            let delete_cnt = i64::try_from(count).unwrap_or(i64::MAX);
            Ok(MutationResult { timestamp, delete_cnt, acknowledged: true, ..done() })
        })
        .await
    }

    async fn flush(&self, request: Request<FlushRequest>) -> Served<FlushResponse> {
        self.run("Flush", request, |state, request| {
            let polls = state.store.unusual.polls;
            let mut reply: FlushResponse = done();
            for name in request.collection_names {
                let collection = state.store.find_mut(&name)?;
                collection.polls = polls;
                let segments = LongArray { data: vec![collection.id] };
                reply.coll_flush_ts.insert(collection.name.clone(), collection.id.unsigned_abs());
                reply.coll_seg_i_ds = HashMap::from([(collection.name.clone(), segments)]);
            }
            Ok(reply)
        })
        .await
    }

    async fn get_flush_state(&self, request: Request<GetFlushStateRequest>) -> Served<GetFlushStateResponse> {
        self.run("GetFlushState", request, |state, request| {
            let flushed = state.store.find_mut(&request.collection_name)?.is_built();
            Ok(GetFlushStateResponse { flushed, ..done() })
        })
        .await
    }

    async fn query(&self, request: Request<QueryRequest>) -> Served<QueryResults> {
        self.run("Query", request, |state, request| found(&mut state.store, request)).await
    }

    async fn search(&self, request: Request<SearchRequest>) -> Served<SearchResults> {
        self.run("Search", request, |state, request| nearest(&mut state.store, request)).await
    }

    async fn create_alias(&self, request: Request<CreateAliasRequest>) -> Served<Status> {
        self.run("CreateAlias", request, |state, request| {
            state.store.set_alias(&request.alias, &request.collection_name, false)?;
            Ok(done())
        })
        .await
    }

    async fn alter_alias(&self, request: Request<AlterAliasRequest>) -> Served<Status> {
        self.run("AlterAlias", request, |state, request| {
            state.store.set_alias(&request.alias, &request.collection_name, true)?;
            Ok(done())
        })
        .await
    }

    async fn drop_alias(&self, request: Request<DropAliasRequest>) -> Served<Status> {
        self.run("DropAlias", request, |state, request| {
            state.store.drop_alias(&request.alias);
            Ok(done())
        })
        .await
    }

    async fn describe_alias(&self, request: Request<DescribeAliasRequest>) -> Served<DescribeAliasResponse> {
        self.run("DescribeAlias", request, |state, request| {
            let collection = state.store.alias(&request.alias)?.to_string();
            Ok(DescribeAliasResponse { alias: request.alias, collection, ..done() })
        })
        .await
    }

    async fn list_aliases(&self, request: Request<ListAliasesRequest>) -> Served<ListAliasesResponse> {
        self.run("ListAliases", request, |state, request| {
            let collection_name = state.store.find(&request.collection_name)?.name.clone();
            Ok(ListAliasesResponse { aliases: state.store.aliases_of(&collection_name), collection_name, ..done() })
        })
        .await
    }
}
