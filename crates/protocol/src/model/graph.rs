//! Data of the knowledge graph: what one source (a file, a folder, an import) contributes, and the requests.

use serde::{Deserialize, Serialize};

/// The grammar of AxQL with examples, on one screen: at most 40 lines of 80 columns.
pub const AXQL_HELP: &str = include_str!("axql_help.txt");

/// Relation from a fact to the context ("world") in which it holds.
pub const IN_CONTEXT: &str = "in_context";
/// Relation from a fact to the time at which it holds.
pub const AT_TIME: &str = "at_time";

/// Evidence of an edge: a byte range of a chunk, counted in the file if the format has byte positions, else in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEvidence {
    /// Id of the chunk.
    #[serde(rename = "c")]
    pub chunk_id: String,
    /// Offset of the first byte.
    #[serde(rename = "s")]
    pub start: u32,
    /// Offset one past the last byte.
    #[serde(rename = "e")]
    pub end: u32,
}

/// An entity as one source states it. If several sources state an entity, it exists until the last of them is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Unique key among all entities, e.g. `Submit.FN.001` or `folder:/home/ada`.
    #[serde(rename = "k")]
    pub key: String,
    /// Name of the schema that defines the entity's type; empty for none.
    #[serde(rename = "s", default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// Type of the entity, e.g. `File`.
    #[serde(rename = "t")]
    pub entity_type: String,
    /// Name of the entity.
    #[serde(rename = "n")]
    pub name: String,
    /// Further attributes of the entity, as (name, value).
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
    /// The preferred id of the entity, used if it is free.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Whether the entity is a fact: an instance of a relation, with one edge per field.
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub fact: bool,
}

/// A directed edge between two entities, each given by key or alias; the edge appears once both entities exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// Name of the schema that defines the edge's relation; empty for none.
    #[serde(rename = "s", default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// Name of the relation, e.g. `links_to`.
    #[serde(rename = "r")]
    pub relation: String,
    /// Key or alias of the entity where the edge starts.
    #[serde(rename = "x")]
    pub source: String,
    /// Key or alias of the entity where the edge ends.
    #[serde(rename = "y")]
    pub target: String,
    /// Confidence that the edge is true, 0 to 1.
    #[serde(rename = "c")]
    pub confidence: f32,
    /// Where the edge was found in a file.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<GraphEvidence>,
    /// Further attributes of the edge, as (name, value).
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
    /// Key of the fact from which the edge was derived.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
}

/// What one source contributes to the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphPart {
    /// Entities of the source.
    #[serde(rename = "n", default)]
    pub nodes: Vec<GraphNode>,
    /// Edges of the source.
    #[serde(rename = "e", default)]
    pub edges: Vec<GraphEdge>,
    /// Aliases of the source's entities, which edges of any source may use, as (alias, key).
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<(String, String)>,
    /// Types and relations that the source defines.
    #[serde(rename = "m", default, skip_serializing_if = "Vec::is_empty")]
    pub schemas: Vec<GraphSchema>,
}

/// Types and relations of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSchema {
    /// Name of the schema; `NAME.T` is its type `T`.
    pub name: String,
    /// Types of the schema.
    #[serde(default)]
    pub types: Vec<GraphType>,
    /// Relations of the schema.
    #[serde(default)]
    pub relations: Vec<GraphRelation>,
}

/// A type of entity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphType {
    /// Name of the type.
    pub name: String,
    /// Supertypes in the same schema; an entity of this type is an entity of each of them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supertypes: Vec<String>,
}

/// A relation and the types of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphRelation {
    /// Name of the relation.
    pub name: String,
    /// Fields of the relation, in order.
    #[serde(default)]
    pub fields: Vec<GraphField>,
    /// The field where a traversal of the relation starts; if absent, the first field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// The field where a traversal of the relation ends; if absent, the second field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_field: Option<String>,
    /// Constraints of the relation: `symmetric`, `functional`, `key(a, b)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
}

impl GraphRelation {
    /// Returns the fields where a traversal of the relation starts and ends; `None` if the relation lacks either field.
    pub fn endpoints(&self) -> Option<(&GraphField, &GraphField)> {
        let named = |name: &Option<String>, position: usize| match name {
            Some(name) => self.fields.iter().find(|it| it.name == *name),
            None => self.fields.get(position),
        };
        Some((named(&self.source_field, 0)?, named(&self.target_field, 1)?))
    }
}

/// A field of a relation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphField {
    /// Name of the field.
    pub name: String,
    /// Type of the field's values.
    #[serde(rename = "type")]
    pub field_type: String,
}

/// A source that contributes to the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSource {
    /// Unique name of the source: `file:12`, `folder:/home/ada`, `import:plan#0`.
    pub name: String,
    /// The absolute path by which access to the source is decided; empty for imports, which only the owner can access.
    pub path: String,
    /// Version of the source's content; if the version changes, the source's contribution is rebuilt.
    pub version: String,
}

/// File format of a graph to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    /// JSON with nodes, edges, facts and schemas.
    Json,
    /// Lines of the form `A -io-> B`.
    Text,
    /// The format of `proposals.json`, version 1: proposed entities and relations with their confidence.
    Proposals,
}

/// A graph to import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphImport {
    /// Name of the import; an earlier import with the same name is replaced.
    pub name: String,
    /// Format of `text`.
    pub format: GraphFormat,
    /// Content of the file to import.
    pub text: String,
}

/// A graph query. Exactly one of `axql` and `ir` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphQuestion {
    /// The query in the language AxQL.
    pub axql: Option<String>,
    /// The query in the JSON format `query_ir_v1`.
    pub ir: Option<serde_json::Value>,
    /// Return the query with the types added by the schema, instead of running it.
    pub elaborate: bool,
    /// Also return the plan by which the query is executed.
    pub explain: bool,
}

/// A change to the graph, applied only if all of it is valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphChange {
    /// Format of `text`: [`GraphFormat::Json`] or [`GraphFormat::Text`].
    pub format: GraphFormat,
    /// Nodes and edges to add.
    pub text: String,
    /// Apply the change if it is valid; otherwise only validate it.
    pub write: bool,
}

/// A part of the graph to draw or export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphExtent {
    /// Names, keys or ids of the entities to start from; the whole graph if empty.
    pub around: Vec<String>,
    /// Maximum distance from the start entities, in edges.
    pub hops: Option<u32>,
    /// Only entities of these types.
    pub types: Vec<String>,
    /// Only edges of these relations.
    pub relations: Vec<String>,
    /// Maximum number of entities in the output.
    pub limit: Option<u32>,
}

/// Output format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphShape {
    /// JSON: nodes and edges, as [`GraphFormat::Json`] imports them.
    Json,
    /// Lines of the form `A -io-> B`.
    Text,
    /// The DOT language of Graphviz.
    Dot,
    /// A self-contained HTML page with a drawing.
    Html,
}

/// A request to the knowledge graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphRequest {
    /// Calls a tool of the graph's tool registry.
    Tool {
        /// Name of the tool.
        name: String,
        /// Arguments of the tool, as a JSON object.
        args: serde_json::Value,
    },
    /// Runs a query on the graph.
    Query(GraphQuestion),
    /// Imports a graph.
    Import(GraphImport),
    /// Deletes an import.
    Forget {
        /// Name of the import to delete.
        name: String,
    },
    /// Validates a change, and applies it if requested.
    Apply(GraphChange),
    /// Draws or exports a part of the graph; the reply is `{text, nodes, edges, truncated}`.
    Draw(GraphShape, GraphExtent),
}

impl GraphRequest {
    /// Returns whether the request changes the graph.
    pub fn writes(&self) -> bool {
        match self {
            GraphRequest::Import(_) | GraphRequest::Forget { .. } => true,
            GraphRequest::Apply(change) => change.write,
            GraphRequest::Tool { .. } | GraphRequest::Query(_) | GraphRequest::Draw(..) => false,
        }
    }
}
