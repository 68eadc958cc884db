//! The graph calls of the gRPC client.

use serde_json::Value;

use crate::client::{Client, into_reply};
use crate::error::{Error, Result};
use crate::model::{GraphChange, GraphImport, GraphRequest, ToolSpec};
use crate::proto::convert::graph;
use crate::proto::wire;

impl Client {
    /// Sends a request about the knowledge graph and returns its result as JSON.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn graph(&self, request: GraphRequest) -> Result<Value> {
        if let GraphRequest::Import(GraphImport { text, .. }) | GraphRequest::Apply(GraphChange { text, .. }) = &request
        {
            graph::check_size(text.len() as u64, "the graph")?;
        }
        let mut stub = self.graph.clone();
        let answer = match request {
            GraphRequest::Tool { name, args } => {
                stub.call_graph_tool(wire::CallGraphToolRequest { name, args_json: args.to_string() }).await
            }
            GraphRequest::Query(question) => stub.query_graph(wire::QueryGraphRequest::from(question)).await,
            GraphRequest::Import(it) => {
                let format = wire::GraphFormat::from(it.format).into();
                stub.import_graph(wire::ImportGraphRequest { name: it.name, format, text: it.text }).await
            }
            GraphRequest::Forget { name } => stub.forget_graph(wire::ForgetGraphRequest { name }).await,
            GraphRequest::Apply(it) => {
                let format = wire::GraphFormat::from(it.format).into();
                stub.apply_graph(wire::ApplyGraphRequest { format, text: it.text, write: it.write }).await
            }
            GraphRequest::Draw(shape, extent) => stub.draw_graph(graph::draw_request(shape, extent)).await,
        };
        serde_json::from_str(&into_reply(answer)?.json).map_err(Error::internal)
    }

    /// Lists the tools with which a model can query the graph.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn graph_tools(&self) -> Result<Vec<ToolSpec>> {
        let tools = into_reply(self.graph.clone().list_graph_tools(wire::ListGraphToolsRequest {}).await)?.tools;
        tools.into_iter().map(ToolSpec::try_from).collect()
    }
}
