//! Conversions of graph requests between model and wire types.

use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::model::{
    GraphChange, GraphExtent, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphShape, ToolSpec,
};
use crate::proto::json::{self, MAX_JSON};
use crate::proto::wire;

impl TryFrom<wire::CallGraphToolRequest> for GraphRequest {
    type Error = Error;

    fn try_from(it: wire::CallGraphToolRequest) -> Result<GraphRequest> {
        let args = if it.args_json.is_empty() {
            Value::Object(serde_json::Map::new())
        } else {
            json::json_field("args_json", &it.args_json, MAX_JSON)?
        };
        Ok(GraphRequest::Tool { name: it.name, args })
    }
}

impl TryFrom<wire::QueryGraphRequest> for GraphRequest {
    type Error = Error;

    fn try_from(it: wire::QueryGraphRequest) -> Result<GraphRequest> {
        use wire::query_graph_request::Query;
        let mut question = GraphQuestion { elaborate: it.elaborate, explain: it.explain, ..GraphQuestion::default() };
        match it.query {
            Some(Query::Axql(text)) => question.axql = Some(text),
            Some(Query::IrJson(text)) => question.ir = Some(json::json_field("ir_json", &text, MAX_JSON)?),
            None => {}
        }
        Ok(GraphRequest::Query(question))
    }
}

impl TryFrom<wire::ImportGraphRequest> for GraphRequest {
    type Error = Error;

    fn try_from(it: wire::ImportGraphRequest) -> Result<GraphRequest> {
        let format = decode_format(it.format())?;
        Ok(GraphRequest::Import(GraphImport { name: it.name, format, text: it.text }))
    }
}

impl TryFrom<wire::ForgetGraphRequest> for GraphRequest {
    type Error = Error;

    fn try_from(it: wire::ForgetGraphRequest) -> Result<GraphRequest> {
        Ok(GraphRequest::Forget { name: it.name })
    }
}

impl TryFrom<wire::ApplyGraphRequest> for GraphRequest {
    type Error = Error;

    fn try_from(it: wire::ApplyGraphRequest) -> Result<GraphRequest> {
        let format = decode_format(it.format())?;
        Ok(GraphRequest::Apply(GraphChange { format, text: it.text, write: it.write }))
    }
}

impl TryFrom<wire::DrawGraphRequest> for GraphRequest {
    type Error = Error;

    fn try_from(it: wire::DrawGraphRequest) -> Result<GraphRequest> {
        let shape = match it.shape() {
            wire::GraphShape::Json => GraphShape::Json,
            wire::GraphShape::Text => GraphShape::Text,
            wire::GraphShape::Dot => GraphShape::Dot,
            wire::GraphShape::Html => GraphShape::Html,
            wire::GraphShape::Unspecified => return Err(Error::invalid("`shape` is missing").field("shape")),
        };
        let wire::DrawGraphRequest { around, hops, types, relations, limit, .. } = it;
        Ok(GraphRequest::Draw(shape, GraphExtent { around, hops, types, relations, limit }))
    }
}

fn decode_format(format: wire::GraphFormat) -> Result<GraphFormat> {
    match format {
        wire::GraphFormat::Json => Ok(GraphFormat::Json),
        wire::GraphFormat::Text => Ok(GraphFormat::Text),
        wire::GraphFormat::Proposals => Ok(GraphFormat::Proposals),
        wire::GraphFormat::Unspecified => Err(Error::invalid("`format` is missing").field("format")),
    }
}

impl From<GraphFormat> for wire::GraphFormat {
    fn from(it: GraphFormat) -> wire::GraphFormat {
        match it {
            GraphFormat::Json => wire::GraphFormat::Json,
            GraphFormat::Text => wire::GraphFormat::Text,
            GraphFormat::Proposals => wire::GraphFormat::Proposals,
        }
    }
}

impl From<GraphQuestion> for wire::QueryGraphRequest {
    fn from(it: GraphQuestion) -> wire::QueryGraphRequest {
        use wire::query_graph_request::Query;
        let ir = it.ir.map(|it| Query::IrJson(it.to_string()));
        wire::QueryGraphRequest { query: it.axql.map(Query::Axql).or(ir), elaborate: it.elaborate, explain: it.explain }
    }
}

impl TryFrom<wire::GraphTool> for ToolSpec {
    type Error = Error;

    fn try_from(it: wire::GraphTool) -> Result<ToolSpec> {
        let parameters = json::json_field("parameters_json", &it.parameters_json, MAX_JSON)?;
        Ok(ToolSpec { name: it.name, description: it.description, parameters })
    }
}

/// Maximum size of a graph import in bytes (64 MiB): enough for a million edges as JSON with little but source and target.
pub const MAX_GRAPH: usize = 64 << 20;
/// Bytes reserved for the other fields of the message, such as the import's name.
const MESSAGE_OVERHEAD: usize = 64 << 10;

/// Checks that a graph of this size, read from the file `place`, fits into a request.
///
/// # Errors
/// `ResourceExhausted`, with a hint to split the graph.
pub fn check_size(bytes: u64, place: &str) -> Result<()> {
    let most = (MAX_GRAPH - MESSAGE_OVERHEAD) as u64;
    if bytes <= most {
        return Ok(());
    }
    let text = format!("{place} has {bytes} bytes; the limit of one graph import is {most}");
    Err(Error::new(ErrorCode::ResourceExhausted, text).hint(
        "split it, and import each part with its own --name: edges may refer to nodes of other parts by their keys",
    ))
}

/// Builds the request to draw or export a part of the graph.
pub fn draw_request(shape: GraphShape, it: GraphExtent) -> wire::DrawGraphRequest {
    let shape = match shape {
        GraphShape::Json => wire::GraphShape::Json,
        GraphShape::Text => wire::GraphShape::Text,
        GraphShape::Dot => wire::GraphShape::Dot,
        GraphShape::Html => wire::GraphShape::Html,
    };
    let GraphExtent { around, hops, types, relations, limit } = it;
    wire::DrawGraphRequest { shape: shape.into(), around, hops, types, relations, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_json_field_is_rejected_by_name() {
        let long = "0".repeat(MAX_JSON + 1);
        let tool = wire::CallGraphToolRequest { name: "graph_query".into(), args_json: long.clone() };
        let query = Some(wire::query_graph_request::Query::IrJson(long));
        let query = wire::QueryGraphRequest { query, ..wire::QueryGraphRequest::default() };
        for (refused, field) in [(GraphRequest::try_from(tool), "args_json"), (query.try_into(), "ir_json")] {
            let error = refused.unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::ResourceExhausted, Some(field)), "{error}");
        }
    }
}
