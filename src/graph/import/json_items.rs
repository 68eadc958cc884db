//! Converts the items of a JSON graph file to nodes and edges, and resolves the references between items.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::graph::import::json_reader::{Edge, Evidence, Fact, Id, Node, text_attributes};
use crate::graph::import::parts::{PART_ITEMS, TakePart};
use crate::graph::semantic_id;
use crate::model::{AT_TIME, GraphEdge, GraphEvidence, GraphNode, GraphPart, GraphRelation, GraphSchema, IN_CONTEXT};

/// Type of the node that is created for a context if the file has no node for it.
const CONTEXT: &str = "Context";
/// Type of the node that is created for a time if the file has no node for it.
const TIME: &str = "Time";

/// Collects nodes and edges in a part, and passes the part on when it is full.
pub(super) struct Importer<'a> {
    name: &'a str,
    schemas: Vec<GraphSchema>,
    keys: HashSet<Arc<str>>,
    /// Key of each node that has a number.
    numbers: HashMap<u32, Arc<str>>,
    /// Key of the node with each name; `None` if several nodes have this name.
    names: HashMap<Arc<str>, Option<Arc<str>>>,
    part: GraphPart,
    /// Whether a part has been passed to `take`; even an empty graph is passed on as one part.
    has_handed_over: bool,
    take: TakePart<'a>,
}

impl<'a> Importer<'a> {
    pub(super) fn new(name: &'a str, schemas: Vec<GraphSchema>, nodes: &[Node], take: TakePart<'a>) -> Importer<'a> {
        let mut importer = Importer {
            name,
            part: GraphPart { schemas: schemas.clone(), ..GraphPart::default() },
            schemas,
            keys: HashSet::new(),
            numbers: HashMap::new(),
            names: HashMap::new(),
            has_handed_over: false,
            take,
        };
        for node in nodes {
            let key: Arc<str> = importer.key_of(node).into();
            importer.keys.insert(key.clone());
            if let Some(Id::Number(number)) = node.id {
                importer.numbers.insert(number, key.clone());
            }
            let name = node.name.as_deref().filter(|it| **it != *key).map_or_else(|| key.clone(), Arc::from);
            let several = importer.names.contains_key(&name);
            importer.names.insert(name, (!several).then_some(key));
        }
        importer
    }

    /// Adds the nodes in the order of their numbers in the file, so that each gets its number; nodes without a number are
    /// added last.
    pub(super) fn add_nodes(&mut self, mut nodes: Vec<Node>) -> Result<()> {
        nodes.sort_by_key(|it| if let Some(Id::Number(number)) = it.id { number } else { u32::MAX });
        for node in nodes {
            self.add_node(node)?;
            self.hand_on_when_full()?;
        }
        Ok(())
    }

    pub(super) fn hand_on_when_full(&mut self) -> Result<()> {
        match self.part.edges.len().max(self.part.nodes.len()) >= PART_ITEMS {
            true => self.hand_on(),
            false => Ok(()),
        }
    }

    /// Passes the last part to `take`, unless it is empty and not the only one.
    pub(super) fn finish(mut self) -> Result<()> {
        let is_empty = self.part.edges.is_empty() && self.part.nodes.is_empty();
        if is_empty && self.has_handed_over { Ok(()) } else { self.hand_on() }
    }

    fn hand_on(&mut self) -> Result<()> {
        self.has_handed_over = true;
        (self.take)(std::mem::take(&mut self.part))
    }

    fn key_of(&self, node: &Node) -> String {
        match (&node.key, &node.id) {
            (Some(key), _) => key.clone(),
            (None, Some(Id::Text(key))) => key.clone(),
            (None, Some(Id::Number(number))) => format!("{}#{number}", self.name),
            (None, None) => node.name.clone().unwrap_or_default(),
        }
    }

    fn add_node(&mut self, node: Node) -> Result<()> {
        let key = self.key_of(&node);
        if key.is_empty() {
            return Err(Error::invalid("a node has neither `id` nor `key` nor `name`").field("nodes"));
        }
        let (name, coded) = semantic_id::split_id(&key);
        let entity_type = node.r#type.unwrap_or_else(|| coded.to_string());
        let schema = if node.schema.is_empty() { self.schema_of(&entity_type) } else { node.schema };
        let name = node.name.unwrap_or_else(|| name.to_string());
        self.part.nodes.push(GraphNode {
            attributes: text_attributes(&node.attributes).map_err(|it| it.field(format!("nodes.{key}")))?,
            id: if let Some(Id::Number(number)) = node.id { Some(number) } else { None },
            fact: node.fact,
            key,
            schema,
            entity_type,
            name,
        });
        Ok(())
    }

    /// Returns the schema of the import that declares this type or relation; empty if there is none or several.
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

    /// Resolves the reference in a field to the key of a node.
    fn resolve(&self, field: &str, id: &Id) -> Result<String> {
        let found = match id {
            Id::Number(number) => self.numbers.get(number).map(|it| it.to_string()).ok_or_else(|| {
                Error::invalid(format!("found the number {number}, but no node of this graph has this id"))
            }),
            Id::Text(text) => self.resolve_name(text),
        };
        found.map_err(|error| error.field(field))
    }

    fn resolve_name(&self, text: &str) -> Result<String> {
        if text.trim().is_empty() {
            return Err(Error::invalid("is empty, but must name a node"));
        }
        if self.keys.contains(text) {
            return Ok(text.to_string());
        }
        match self.names.get(text) {
            Some(Some(key)) => Ok(key.to_string()),
            Some(None) => Err(Error::invalid(format!("several nodes are named `{text}`")).hint("use the node's id")),
            // Keeps an unknown text as a key, because it may be an entity that already is in the graph.
            None => Ok(text.to_string()),
        }
    }

    pub(super) fn add_edge(&mut self, edge: Edge) -> Result<()> {
        let schema = if edge.schema.is_empty() { self.schema_of(&edge.r#type) } else { edge.schema };
        let evidence = |Evidence { chunk_id, start, end }| GraphEvidence { chunk_id, start, end };
        let made = GraphEdge {
            schema,
            source: self.resolve("source", &edge.source)?,
            target: self.resolve("target", &edge.target)?,
            relation: require_label("type", edge.r#type)?,
            confidence: confidence(edge.confidence)?,
            evidence: edge.evidence.map(evidence),
            attributes: text_attributes(&edge.attributes)?,
            fact: edge.fact.as_ref().map(|it| self.resolve("fact", it)).transpose()?,
        };
        self.part.edges.push(made);
        Ok(())
    }

    /// Adds a fact: a node, an edge for each field, context and time, and the edge between the two endpoints of the fact.
    pub(super) fn add_fact(&mut self, number: usize, fact: Fact) -> Result<()> {
        let relation = require_label("relation", fact.relation)?;
        let key = match &fact.id {
            Some(Id::Text(key)) => key.clone(),
            Some(Id::Number(number)) => format!("{}#{number}", self.name),
            None => format!("{}#fact-{number}", self.name),
        };
        if key.is_empty() {
            return Err(Error::invalid("is empty, but must name the fact").field("id"));
        }
        let schema = if fact.schema.is_empty() { self.schema_of(&relation) } else { fact.schema };
        let fields = self.fields(fact.fields)?;
        let shown: Vec<String> = fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
        self.keys.insert(key.as_str().into());
        self.part.nodes.push(GraphNode {
            key: key.clone(),
            schema: schema.clone(),
            entity_type: relation.clone(),
            name: format!("{relation}({})", shown.join(", ")),
            id: if let Some(Id::Number(number)) = fact.id { Some(number) } else { None },
            fact: true,
            ..GraphNode::default()
        });
        let confidence = confidence(fact.confidence)?;
        let edge = |label: &str, target: String| GraphEdge {
            relation: label.into(),
            source: key.clone(),
            target,
            confidence,
            ..GraphEdge::default()
        };
        let mut edges: Vec<GraphEdge> = fields.iter().map(|(field, value)| edge(field, value.clone())).collect();
        for (label, described, names) in [(IN_CONTEXT, CONTEXT, &fact.contexts), (AT_TIME, TIME, &fact.times)] {
            for name in names {
                edges.push(edge(label, self.context_or_time(described, name)?));
            }
        }
        if let Some((source, target)) = self.endpoints(&schema, &relation, &fields) {
            let fact_key = Some(key.clone());
            edges.push(GraphEdge { schema, source, fact: fact_key, ..edge(&relation, target) });
        }
        self.part.edges.extend(edges);
        Ok(())
    }

    /// Resolves the values of the fields of a fact to the keys of nodes.
    fn fields(&self, fields: serde_json::Map<String, Value>) -> Result<Vec<(String, String)>> {
        let read = |(field, value): (String, Value)| -> Result<(String, String)> {
            let id = Id::deserialize(&value)
                .map_err(|_| Error::invalid(format!("field `{field}` is not the id or name of an entity: {value}")))?;
            let key = self.resolve(&format!("fields.{field}"), &id)?;
            Ok((field, key))
        };
        fields.into_iter().map(read).collect()
    }

    /// Returns the key of a context or time with this name; adds a node for it if the file has none.
    fn context_or_time(&mut self, described: &str, name: &str) -> Result<String> {
        if self.names.contains_key(name) {
            return self.resolve_name(name);
        }
        let key = format!("{}:{name}", described.to_lowercase());
        let node =
            GraphNode { key: key.clone(), entity_type: described.into(), name: name.into(), ..GraphNode::default() };
        self.names.insert(name.into(), Some(key.as_str().into()));
        self.part.nodes.push(node);
        Ok(key)
    }

    /// Returns the values of the two endpoint fields: those that the schema declares, else the first two fields.
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

/// Returns an error if the type or relation in a field is empty.
fn require_label(field: &str, text: String) -> Result<String> {
    match text.trim().is_empty() {
        true => Err(Error::invalid("is empty, but must name a relation").field(field)),
        false => Ok(text),
    }
}

fn confidence(stated: Option<f32>) -> Result<f32> {
    match stated.unwrap_or(1.0) {
        it if (0.0..=1.0).contains(&it) => Ok(it),
        it => Err(Error::invalid(format!("the confidence {it} is not between 0 and 1"))),
    }
}
