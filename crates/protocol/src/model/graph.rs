//! The graph as it is handed over: what one source (a file, a folder, an import) says of it, and what can be asked.

use serde::{Deserialize, Serialize};

/// Relation from a fact to the context ("world") that it holds in.
pub const IN_CONTEXT: &str = "in_context";
/// Relation from a fact to the time that it holds at.
pub const AT_TIME: &str = "at_time";

/// Where an edge comes from: a chunk, and the bytes of the file where it has such places, else of the chunk's text.
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

/// An entity as a source states it. Several sources may state the same one; it lives as long as one of them does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Names it among all entities, e.g. `Submit.FN.001` or `folder:/home/ada`.
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
    /// The number it should get, if that is free.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Whether it is a fact: an instance of a relation, with one edge a field.
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    pub fact: bool,
}

/// A directed edge. Its ends are named by key or alias; it appears once both exist.
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
    /// How sure it is, 0 to 1.
    #[serde(rename = "c")]
    pub confidence: f32,
    /// Where it was found.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<GraphEvidence>,
    /// Further attributes.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
    /// Key of the fact that it was derived from.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<String>,
}

/// What one source says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphPart {
    /// Entities.
    #[serde(rename = "n", default)]
    pub nodes: Vec<GraphNode>,
    /// Edges.
    #[serde(rename = "e", default)]
    pub edges: Vec<GraphEdge>,
    /// Other names of its entities, as edges of any source may use them: alias, then key.
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<(String, String)>,
    /// What types and relations mean.
    #[serde(rename = "m", default, skip_serializing_if = "Vec::is_empty")]
    pub schemas: Vec<GraphSchema>,
}

/// Types and relations of one name space.
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
    /// Types of the same schema that every such entity has too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supertypes: Vec<String>,
}

/// A relation and what its fields hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphRelation {
    /// Its name.
    pub name: String,
    /// Its fields in order.
    #[serde(default)]
    pub fields: Vec<GraphField>,
    /// The field that a traversal comes from; the first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// The field that a traversal goes to; the second when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_field: Option<String>,
    /// `symmetric`, `functional`, `key(a, b)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<String>,
}

impl GraphRelation {
    /// Returns the fields that a traversal goes between, if there are two.
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
    /// Type of what it holds.
    #[serde(rename = "type")]
    pub field_type: String,
}

/// A source of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSource {
    /// Names it: `file:12`, `folder:/home/ada`, `import:plan#0`.
    pub name: String,
    /// The absolute path that decides who may know of it; empty for imports, which are the owner's.
    pub path: String,
    /// What it was made of; another version is made anew.
    pub version: String,
}

/// The form of a graph in a file.
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

/// A graph to take in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphImport {
    /// What it is called; an import of the same name is replaced.
    pub name: String,
    /// Its form.
    pub format: GraphFormat,
    /// The file's text.
    pub text: String,
}

/// A question in AxQL or `query_ir_v1`; exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphQuestion {
    /// AxQL.
    pub axql: Option<String>,
    /// `query_ir_v1`.
    pub ir: Option<serde_json::Value>,
    /// Answer with the query and what the schema adds to it, instead of running it.
    pub elaborate: bool,
    /// Answer with the plan too.
    pub explain: bool,
}

/// A change to be checked, and made when all of it may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphChange {
    /// Its form: [`GraphFormat::Json`] or [`GraphFormat::Text`].
    pub format: GraphFormat,
    /// Nodes and edges to add.
    pub text: String,
    /// Make it, when nothing speaks against it. Otherwise it is only checked.
    pub write: bool,
}

/// A part of the graph to draw or to hand out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphExtent {
    /// Names, keys or numbers of entities to begin at; none for everything.
    pub around: Vec<String>,
    /// Edges to walk away from them.
    pub hops: Option<u32>,
    /// Only entities of these types.
    pub types: Vec<String>,
    /// Only edges of these relations.
    pub relations: Vec<String>,
    /// Most entities.
    pub limit: Option<u32>,
}

/// How a graph is drawn or handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphShape {
    /// JSON: nodes and edges, which [`GraphFormat::Json`] takes in again.
    Json,
    /// Lines of the form `A -io-> B`.
    Text,
    /// Graphviz.
    Dot,
    /// A page with a picture that needs nothing else.
    Html,
}

/// Everything that can be asked of the graph.
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
    /// Answers a query.
    Query(GraphQuestion),
    /// Takes a graph in.
    Import(GraphImport),
    /// Forgets an import.
    Forget {
        /// What it is called.
        name: String,
    },
    /// Checks a change, and makes it if told so.
    Apply(GraphChange),
    /// Draws or hands out a part; the reply is `{text, nodes, edges, truncated}`.
    Draw(GraphShape, GraphExtent),
}

impl GraphRequest {
    /// Says whether it changes the graph.
    pub fn writes(&self) -> bool {
        match self {
            GraphRequest::Import(_) | GraphRequest::Forget { .. } => true,
            GraphRequest::Apply(change) => change.write,
            GraphRequest::Tool { .. } | GraphRequest::Query(_) | GraphRequest::Draw(..) => false,
        }
    }
}
