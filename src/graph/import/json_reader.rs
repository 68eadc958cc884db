//! Reads a graph file in JSON in several passes, one for each kind of item.
//!
//! Of a file with a million edges, only the text is in memory. Each pass builds the items of its kind one at a time and
//! skips the other kinds. A further pass over the text costs less than the memory of all edges at once.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::GraphSchema;

/// A reference to a node: its number, or its key or name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(u32),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) id: Option<Id>,
    pub(super) key: Option<String>,
    #[serde(alias = "entity_type")]
    pub(super) r#type: Option<String>,
    #[serde(default)]
    pub(super) schema: String,
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) fact: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edge {
    pub(super) source: Id,
    pub(super) target: Id,
    #[serde(alias = "relation")]
    pub(super) r#type: String,
    #[serde(default)]
    pub(super) schema: String,
    pub(super) confidence: Option<f32>,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, Value>,
    pub(super) evidence: Option<Evidence>,
    /// The fact that the edge was derived from.
    pub(super) fact: Option<Id>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Evidence {
    pub(super) chunk_id: String,
    #[serde(default)]
    pub(super) start: u32,
    #[serde(default)]
    pub(super) end: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fact {
    pub(super) id: Option<Id>,
    pub(super) relation: String,
    #[serde(default)]
    pub(super) schema: String,
    pub(super) fields: serde_json::Map<String, Value>,
    #[serde(default)]
    pub(super) contexts: Vec<String>,
    #[serde(default)]
    pub(super) times: Vec<String>,
    pub(super) confidence: Option<f32>,
}

/// The nodes and schemas of a file, which are read first because all other items refer to them.
#[derive(Default)]
pub(super) struct Head {
    pub(super) nodes: Vec<Node>,
    pub(super) schemas: Vec<GraphSchema>,
    /// Whether the file has a list of edges, so that a pass over the edges is needed; `has_facts` says the same of facts.
    pub(super) has_edges: bool,
    pub(super) has_facts: bool,
}

/// Callback that receives an item with its index in the list, and returns whether to continue.
type Sink<'a, T> = &'a mut dyn FnMut(usize, T) -> bool;

/// Reads the nodes and schemas of a file; checks that the rest is valid JSON.
pub(super) fn read_head(text: &str) -> Result<Head> {
    let mut head = Head::default();
    run_pass(text, Pass::Head(&mut head))?;
    Ok(head)
}

/// Passes every edge to `take`, until `take` fails.
pub(super) fn read_edges(text: &str, mut take: impl FnMut(usize, Edge) -> Result<()>) -> Result<()> {
    let mut taken = Ok(());
    let mut keep = |number, edge| {
        taken = take(number, edge);
        taken.is_ok()
    };
    let read = run_pass(text, Pass::Edges(&mut keep));
    taken.and(read)
}

/// Passes every fact to `take`, until `take` fails.
pub(super) fn read_facts(text: &str, mut take: impl FnMut(usize, Fact) -> Result<()>) -> Result<()> {
    let mut taken = Ok(());
    let mut keep = |number, fact| {
        taken = take(number, fact);
        taken.is_ok()
    };
    let read = run_pass(text, Pass::Facts(&mut keep));
    taken.and(read)
}

fn run_pass(text: &str, pass: Pass<'_>) -> Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let read = pass.deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track));
    read.and_then(|()| json.end()).map_err(|error| match track.path().to_string() {
        place if place == "." => Error::invalid(format!("cannot parse the graph: {error}")),
        place => Error::invalid(format!("cannot parse `{place}` of the graph: {error}")).field(place),
    })
}

/// The keys of the lists in a file.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(field_identifier, rename_all = "lowercase")]
enum List {
    Nodes,
    Edges,
    Facts,
    Schemas,
}

impl List {
    fn name(self) -> &'static str {
        match self {
            List::Nodes => "nodes",
            List::Edges => "edges",
            List::Facts => "facts",
            List::Schemas => "schemas",
        }
    }
}

/// The kind of items that a pass reads, and where it puts them.
enum Pass<'a> {
    Head(&'a mut Head),
    Edges(Sink<'a, Edge>),
    Facts(Sink<'a, Fact>),
}

impl<'de> DeserializeSeed<'de> for Pass<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pass<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the keys `nodes`, `edges`, `facts` and `schemas`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(list) = map.next_key::<List>()? {
            if seen.contains(&list) {
                return Err(A::Error::duplicate_field(list.name()));
            }
            seen.push(list);
            match (list, &mut self) {
                (List::Nodes, Pass::Head(head)) => head.nodes = map.next_value()?,
                (List::Schemas, Pass::Head(head)) => head.schemas = map.next_value()?,
                (List::Edges, Pass::Edges(take)) => map.next_value_seed(ListItems { take: &mut **take })?,
                (List::Facts, Pass::Facts(take)) => map.next_value_seed(ListItems { take: &mut **take })?,
                (list, pass) => {
                    if let Pass::Head(head) = pass {
                        head.has_edges |= list == List::Edges;
                        head.has_facts |= list == List::Facts;
                    }
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the items of a list one at a time, and passes each to `take`.
struct ListItems<'a, T> {
    take: Sink<'a, T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for ListItems<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListItems<'_, T> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(item) = list.next_element()? {
            if !(self.take)(number, item) {
                // Stops the parser; the caller returns the error of `take` instead of this one.
                return Err(A::Error::custom("refused"));
            }
            number += 1;
        }
        Ok(())
    }
}

/// Converts the values of attributes to texts; returns an error for nested values.
pub(super) fn text_attributes(map: &BTreeMap<String, Value>) -> Result<Vec<(String, String)>> {
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((key.clone(), value.to_string())),
        _ => Err(Error::invalid(format!("attribute `{key}` is not a string, number or boolean"))),
    };
    map.iter().map(text).collect()
}
