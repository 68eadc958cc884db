//! Serves the graph API over gRPC: converts messages to and from [`GraphRequest`], and calls the service of the caller.

use tonic::{Request, Response, Status};

use crate::error::Error;
use crate::graph::tools;
use crate::model::GraphRequest;
use crate::proto::{grpc_status, wire};
use crate::serve::grpc::vic::split_request;

/// The gRPC service `Graph`.
pub(crate) struct GraphAdapter;

type Reply = Result<Response<wire::GraphReply>, Status>;

async fn respond<T: TryInto<GraphRequest, Error = Error>>(request: Request<T>) -> Reply {
    let (service, request) = split_request(request)?;
    let answer = async {
        let answer = service.graph(request.try_into()?).await?;
        serde_json::to_string(&answer).map_err(Error::internal)
    };
    answer.await.map(|json| Response::new(wire::GraphReply { json })).map_err(grpc_status::from_error)
}

#[tonic::async_trait]
impl wire::graph_server::Graph for GraphAdapter {
    async fn list_graph_tools(
        &self,
        _: Request<wire::ListGraphToolsRequest>,
    ) -> Result<Response<wire::ListGraphToolsResponse>, Status> {
        let tool = |it: crate::model::ToolSpec| wire::GraphTool {
            name: it.name,
            description: it.description,
            parameters_json: it.parameters.to_string(),
        };
        Ok(Response::new(wire::ListGraphToolsResponse { tools: tools::specs().into_iter().map(tool).collect() }))
    }

    async fn call_graph_tool(&self, request: Request<wire::CallGraphToolRequest>) -> Reply {
        respond(request).await
    }

    async fn query_graph(&self, request: Request<wire::QueryGraphRequest>) -> Reply {
        respond(request).await
    }

    async fn import_graph(&self, request: Request<wire::ImportGraphRequest>) -> Reply {
        respond(request).await
    }

    async fn forget_graph(&self, request: Request<wire::ForgetGraphRequest>) -> Reply {
        respond(request).await
    }

    async fn apply_graph(&self, request: Request<wire::ApplyGraphRequest>) -> Reply {
        respond(request).await
    }

    async fn draw_graph(&self, request: Request<wire::DrawGraphRequest>) -> Reply {
        respond(request).await
    }
}
