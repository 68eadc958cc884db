//! Graph data: the part that one source (a file, a folder, an import) contributes, and the requests.

use serde::{Deserialize, Serialize};

/// Relation from a fact to the context ("world") in which it holds.
pub const IN_CONTEXT: &str = "in_context";
/// Relation from a fact to the time at which it holds.
pub const AT_TIME: &str = "at_time";

/// Source of an edge: a chunk and a byte range, in the file if the format has such positions, else in the chunk's text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEvidence {
    /// The chunk.
    #[serde(rename = "c")]
    pub chunk_id: String,
    /// First byte.
    #[serde(rename = "s")]
    pub start: u32,
    /// One past the last byte.
    #[serde(rename = "e")]
    pub end: u32,
}

/// An entity as one source states it. Several sources may state the same entity; it exists as long as one of them does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Unique key among all entities, e.g. `Submit.FN.001` or `folder:/home/ada`.
    #[serde(rename = "k")]
    pub key: String,
    /// Schema of its type; empty for none.
    #[serde(rename = "s", default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// Type, e.g. `File`.
    #[serde(rename = "t")]
    pub entity_type: String,
    /// Name.
    #[serde(rename = "n")]
    pub name: String,
    /// Further attributes.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
    /// The preferred number, used if it is free.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Whether it is a fact: an instance of a relation, with one edge per field.
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub fact: bool,
}

/// A directed edge. Its ends are given by key or alias; it appears once both exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// Schema of its relation; empty for none.
    #[serde(rename = "s", default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// Label, e.g. `links_to`.
    #[serde(rename = "r")]
    pub relation: String,
    /// Key of the source.
    #[serde(rename = "x")]
    pub source: String,
    /// Key of the target.
    #[serde(rename = "y")]
    pub target: String,
    /// Confidence, 0 to 1.
    #[serde(rename = "c")]
    pub confidence: f32,
    /// Where it was found.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<GraphEvidence>,
    /// Further attributes.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
    /// Key of the fact from which it was derived.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
}

/// The contribution of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphPart {
    /// Entities.
    #[serde(rename = "n", default)]
    pub nodes: Vec<GraphNode>,
    /// Edges.
    #[serde(rename = "e", default)]
    pub edges: Vec<GraphEdge>,
    /// Aliases of its entities, which edges of any source may use: alias, then key.
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<(String, String)>,
    /// Definitions of types and relations.
    #[serde(rename = "m", default, skip_serializing_if = "Vec::is_empty")]
    pub schemas: Vec<GraphSchema>,
}

/// Types and relations of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSchema {
    /// Its name; `NAME.T` is its type `T`.
    pub name: String,
    /// Its types.
    #[serde(default)]
    pub types: Vec<GraphType>,
    /// Its relations.
    #[serde(default)]
    pub relations: Vec<GraphRelation>,
}

/// A type of entity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphType {
    /// Its name.
    pub name: String,
    /// Supertypes in the same schema; every entity of this type has them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supertypes: Vec<String>,
}

/// A relation and the types of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphRelation {
    /// Its name.
    pub name: String,
    /// Its fields in order.
    #[serde(default)]
    pub fields: Vec<GraphField>,
    /// The field where a traversal starts; the first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// The field where a traversal ends; the second when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_field: Option<String>,
    /// `symmetric`, `functional`, `key(a, b)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
}

impl GraphRelation {
    /// Returns the start and end fields of a traversal, if the relation has two.
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
    /// Its name.
    pub name: String,
    /// Type of its values.
    #[serde(rename = "type")]
    pub field_type: String,
}

/// A source of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSource {
    /// Its unique name: `file:12`, `folder:/home/ada`, `import:plan#0`.
    pub name: String,
    /// The absolute path that decides who may access it; empty for imports, which belong to the owner.
    pub path: String,
    /// Version of the input; a different version rebuilds the part.
    pub version: String,
}

/// File format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    /// JSON: nodes, edges, facts, schemas.
    Json,
    /// Lines of the form `A -io-> B`.
    Text,
    /// `proposals.json`, version 1.
    Proposals,
}

/// A graph to import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphImport {
    /// Its name; an import with the same name is replaced.
    pub name: String,
    /// Its format.
    pub format: GraphFormat,
    /// The text of the file.
    pub text: String,
}

/// A query in AxQL or `query_ir_v1`; exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphQuestion {
    /// AxQL.
    pub axql: Option<String>,
    /// `query_ir_v1`.
    pub ir: Option<serde_json::Value>,
    /// Return the query with the types added by the schema, instead of running it.
    pub elaborate: bool,
    /// Also return the plan.
    pub explain: bool,
}

/// A change to validate, and to apply if all of it is valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphChange {
    /// Its format: [`GraphFormat::Json`] or [`GraphFormat::Text`].
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
    /// Names, keys or numbers of the start entities; the whole graph when empty.
    pub around: Vec<String>,
    /// Maximum distance from them, in edges.
    pub hops: Option<u32>,
    /// Only entities of these types.
    pub types: Vec<String>,
    /// Only edges of these relations.
    pub relations: Vec<String>,
    /// Maximum number of entities.
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
    /// Graphviz.
    Dot,
    /// A self-contained HTML page with a drawing.
    Html,
}

/// A request to the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphRequest {
    /// Calls a tool of the registry.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments, an object.
        args: serde_json::Value,
    },
    /// Runs a query.
    Query(GraphQuestion),
    /// Imports a graph.
    Import(GraphImport),
    /// Deletes an import.
    Forget {
        /// The name of the import.
        name: String,
    },
    /// Validates a change, and applies it if requested.
    Apply(GraphChange),
    /// Draws or exports a part; the reply is `{text, nodes, edges, truncated}`.
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
