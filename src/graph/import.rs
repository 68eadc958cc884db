//! JSON to what a source says: nodes, edges, facts, schemas.
//!
//! ```json
//! {"nodes": [{"id": 0, "type": "Node", "name": "a", "attributes": {"size": "3"}}],
//!  "edges": [{"source": 0, "target": "b", "type": "rel_0", "confidence": 0.9}],
//!  "facts": [{"relation": "Parent", "fields": {"child": "Carol", "parent": "Bob"}, "contexts": ["CensusData"]}],
//!  "schemas": [{"name": "Fam", "types": [{"name": "Person"}], "relations": []}]}
//! ```
//!
//! A node is named by its number, its key (a text as `id`), or its name where no other node of the import has it. Edges may
//! also name entities by the keys that they have in the graph already.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::graph::codes;
use crate::model::{AT_TIME, GraphEdge, GraphEvidence, GraphNode, GraphPart, GraphRelation, GraphSchema, IN_CONTEXT};

/// Edges of one part: what is replaced and read at a time.
const PART_EDGES: usize = 20_000;
/// Type of a context that nobody described.
const CONTEXT: &str = "Context";
/// Type of a time that nobody described.
const TIME: &str = "Time";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    edges: Vec<Edge>,
    #[serde(default)]
    facts: Vec<Fact>,
    #[serde(default)]
    schemas: Vec<GraphSchema>,
}

/// How a node is named.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u32),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    id: Option<Id>,
    key: Option<String>,
    #[serde(alias = "entity_type")]
    r#type: Option<String>,
    #[serde(default)]
    schema: String,
    name: Option<String>,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    #[serde(default)]
    fact: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edge {
    source: Id,
    target: Id,
    #[serde(alias = "relation")]
    r#type: String,
    #[serde(default)]
    schema: String,
    confidence: Option<f32>,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    evidence: Option<Evidence>,
    /// The fact that it was derived from.
    fact: Option<Id>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Evidence {
    chunk_id: String,
    #[serde(default)]
    start: u32,
    #[serde(default)]
    end: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    id: Option<Id>,
    relation: String,
    #[serde(default)]
    schema: String,
    fields: serde_json::Map<String, Value>,
    #[serde(default)]
    contexts: Vec<String>,
    #[serde(default)]
    times: Vec<String>,
    confidence: Option<f32>,
}

/// Reads a graph that is to be called `name`, in parts of bounded size.
///
/// # Errors
/// `InvalidArgument` naming what is wrong and where.
pub(crate) fn read(name: &str, text: &str) -> Result<Vec<GraphPart>> {
    let deserializer = &mut serde_json::Deserializer::from_str(text);
    let file: File = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let place = error.path().to_string();
        Error::invalid(format!("`{place}` of the graph cannot be read: {}", error.inner())).field(place)
    })?;
    let mut importer = Importer::new(name, &file);
    let mut nodes: Vec<&Node> = file.nodes.iter().collect();
    // Numbers are given in their order, so that each node gets the one it asks for.
    nodes.sort_by_key(|it| if let Some(Id::Number(number)) = it.id { number } else { u32::MAX });
    nodes.into_iter().try_for_each(|it| importer.node(it))?;
    for (number, edge) in file.edges.iter().enumerate() {
        importer.edge(edge).map_err(|it| it.field(format!("edges[{number}]")))?;
    }
    for (number, fact) in file.facts.iter().enumerate() {
        importer.fact(number, fact).map_err(|it| it.field(format!("facts[{number}]")))?;
    }
    let mut part = importer.part;
    part.schemas = file.schemas;
    Ok(cut(part))
}

/// Cuts a part into several, the nodes in the first.
pub(crate) fn cut(mut part: GraphPart) -> Vec<GraphPart> {
    let mut rest = std::mem::take(&mut part.edges);
    let mut parts = vec![part];
    while !rest.is_empty() {
        let tail = rest.split_off(rest.len().min(PART_EDGES));
        match parts.as_mut_slice() {
            [first] if first.edges.is_empty() => first.edges = rest,
            _ => parts.push(GraphPart { edges: rest, ..GraphPart::default() }),
        }
        rest = tail;
    }
    parts
}

struct Importer<'a> {
    name: &'a str,
    schemas: &'a [GraphSchema],
    keys: HashSet<String>,
    /// Keys by number.
    numbers: HashMap<u32, String>,
    /// Keys by name; none when several have it.
    names: HashMap<String, Option<String>>,
    part: GraphPart,
}

impl<'a> Importer<'a> {
    fn new(name: &'a str, file: &'a File) -> Importer<'a> {
        let mut importer = Importer {
            name,
            schemas: &file.schemas,
            keys: HashSet::new(),
            numbers: HashMap::new(),
            names: HashMap::new(),
            part: GraphPart::default(),
        };
        for node in &file.nodes {
            let key = importer.key_of(node);
            importer.keys.insert(key.clone());
            if let Some(Id::Number(number)) = node.id {
                importer.numbers.insert(number, key.clone());
            }
            let name = node.name.clone().unwrap_or_else(|| key.clone());
            let several = importer.names.contains_key(&name);
            importer.names.insert(name, (!several).then_some(key));
        }
        importer
    }

    fn key_of(&self, node: &Node) -> String {
        match (&node.key, &node.id) {
            (Some(key), _) => key.clone(),
            (None, Some(Id::Text(key))) => key.clone(),
            (None, Some(Id::Number(number))) => format!("{}#{number}", self.name),
            (None, None) => node.name.clone().unwrap_or_default(),
        }
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let key = self.key_of(node);
        if key.is_empty() {
            return Err(Error::invalid("a node has neither `id` nor `key` nor `name`").field("nodes"));
        }
        let (name, coded) = codes::read(&key);
        let entity_type = node.r#type.clone().unwrap_or_else(|| coded.to_string());
        let schema = if node.schema.is_empty() { self.schema_of(&entity_type) } else { node.schema.clone() };
        let name = node.name.clone().unwrap_or_else(|| name.to_string());
        self.part.nodes.push(GraphNode {
            attributes: attributes(&node.attributes).map_err(|it| it.field(format!("nodes.{key}")))?,
            id: if let Some(Id::Number(number)) = node.id { Some(number) } else { None },
            fact: node.fact,
            key,
            schema,
            entity_type,
            name,
        });
        Ok(())
    }

    /// The schema of the import that alone has such a type or relation.
    fn schema_of(&self, name: &str) -> String {
        let has = |it: &&GraphSchema| {
            it.types.iter().any(|it| it.name == name) || it.relations.iter().any(|it| it.name == name)
        };
        let mut schemas = self.schemas.iter().filter(has);
        match (schemas.next(), schemas.next()) {
            (Some(one), None) => one.name.clone(),
            _ => String::new(),
        }
    }

    fn find(&self, id: &Id) -> Result<String> {
        match id {
            Id::Number(number) => {
                self.numbers.get(number).cloned().ok_or_else(|| {
                    Error::invalid(format!("found the number {number}, which no node of this graph has"))
                })
            }
            Id::Text(text) if self.keys.contains(text) => Ok(text.clone()),
            Id::Text(text) => match self.names.get(text) {
                Some(Some(key)) => Ok(key.clone()),
                Some(None) => {
                    Err(Error::invalid(format!("several nodes are called `{text}`")).hint("name it by its id"))
                }
                // It may be an entity that is in the graph already.
                None => Ok(text.clone()),
            },
        }
    }

    fn edge(&mut self, edge: &Edge) -> Result<()> {
        let schema = if edge.schema.is_empty() { self.schema_of(&edge.r#type) } else { edge.schema.clone() };
        let evidence = edge.evidence.as_ref();
        let made = GraphEdge {
            schema,
            relation: edge.r#type.clone(),
            source: self.find(&edge.source)?,
            target: self.find(&edge.target)?,
            confidence: confidence(edge.confidence)?,
            evidence: evidence.map(|it| GraphEvidence { chunk_id: it.chunk_id.clone(), start: it.start, end: it.end }),
            attributes: attributes(&edge.attributes)?,
            fact: edge.fact.as_ref().map(|it| self.find(it)).transpose()?,
        };
        self.part.edges.push(made);
        Ok(())
    }

    /// A fact node, an edge for each field, its contexts and times, and the edge between its two endpoints.
    fn fact(&mut self, number: usize, fact: &Fact) -> Result<()> {
        let key = match &fact.id {
            Some(Id::Text(key)) => key.clone(),
            Some(Id::Number(number)) => format!("{}#{number}", self.name),
            None => format!("{}#fact-{number}", self.name),
        };
        let schema = if fact.schema.is_empty() { self.schema_of(&fact.relation) } else { fact.schema.clone() };
        let mut fields: Vec<(String, String)> = Vec::new();
        for (field, value) in &fact.fields {
            let id = Id::deserialize(value)
                .map_err(|_| Error::invalid(format!("field `{field}` names no entity: found {value}")))?;
            fields.push((field.clone(), self.find(&id)?));
        }
        let shown: Vec<String> = fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
        self.keys.insert(key.clone());
        self.part.nodes.push(GraphNode {
            key: key.clone(),
            schema: schema.clone(),
            entity_type: fact.relation.clone(),
            name: format!("{}({})", fact.relation, shown.join(", ")),
            id: if let Some(Id::Number(number)) = fact.id { Some(number) } else { None },
            fact: true,
            ..GraphNode::default()
        });
        let confidence = confidence(fact.confidence)?;
        let edge = |relation: &str, target: String| GraphEdge {
            relation: relation.into(),
            source: key.clone(),
            target,
            confidence,
            ..GraphEdge::default()
        };
        let mut edges: Vec<GraphEdge> = fields.iter().map(|(field, value)| edge(field, value.clone())).collect();
        for (relation, described, names) in [(IN_CONTEXT, CONTEXT, &fact.contexts), (AT_TIME, TIME, &fact.times)] {
            for name in names {
                edges.push(edge(relation, self.world(described, name)?));
            }
        }
        if let Some((source, target)) = self.endpoints(&schema, &fact.relation, &fields) {
            let fact_key = Some(key.clone());
            edges.push(GraphEdge { schema, source, fact: fact_key, ..edge(&fact.relation, target) });
        }
        self.part.edges.extend(edges);
        Ok(())
    }

    /// The key of a context or time, which is made when it is not there.
    fn world(&mut self, described: &str, name: &str) -> Result<String> {
        if self.names.contains_key(name) {
            return self.find(&Id::Text(name.into()));
        }
        let key = format!("{}:{name}", described.to_lowercase());
        let node =
            GraphNode { key: key.clone(), entity_type: described.into(), name: name.into(), ..GraphNode::default() };
        self.names.insert(name.into(), Some(key.clone()));
        self.part.nodes.push(node);
        Ok(key)
    }

    /// What the two endpoint fields hold: those that the schema names, else the first two.
    fn endpoints(&self, schema: &str, relation: &str, fields: &[(String, String)]) -> Option<(String, String)> {
        let signature = self.schemas.iter().find(|it| it.name == schema);
        let signature = signature.and_then(|it| it.relations.iter().find(|it| it.name == relation));
        let held = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
        match signature.and_then(GraphRelation::endpoints) {
            Some((source, target)) => Some((held(&source.name)?, held(&target.name)?)),
            None => match fields {
                [(_, source), (_, target), ..] => Some((source.clone(), target.clone())),
                _ => None,
            },
        }
    }
}

fn confidence(stated: Option<f32>) -> Result<f32> {
    match stated.unwrap_or(1.0) {
        it if (0.0..=1.0).contains(&it) => Ok(it),
        it => Err(Error::invalid(format!("the confidence {it} is not between 0 and 1"))),
    }
}

/// Attributes as texts; what has parts is refused.
pub(super) fn attributes(map: &BTreeMap<String, Value>) -> Result<Vec<(String, String)>> {
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((key.clone(), value.to_string())),
        _ => Err(Error::invalid(format!("attribute `{key}` is no text, number or truth value"))),
    };
    map.iter().map(text).collect()
}
