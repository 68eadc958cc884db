//! Compiles a JSON Schema to nodes.

use std::collections::{BTreeMap, HashMap};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::model::llm::schema::MAX_PATTERNS;

/// Maximum nodes of a schema.
const MAX_NODES: usize = 10_000;
/// Maximum bytes of a pattern: when parsed, every two of them may be `\w`, which has seven hundred ranges.
const PATTERN_BYTES: usize = 4 << 10;
/// Maximum bytes of a compiled pattern.
const COMPILED_BYTES: usize = 256 << 10;
/// Bytes of a path that are kept: ten thousand nodes may lie below a name of a hundred KB.
const PLACE_BYTES: usize = 200;
/// Keywords without effect on validation.
const NOTES: [&str; 14] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "$anchor",
];

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Object,
    Array,
    Number,
    Integer,
    String,
}

impl Type {
    fn from_name(name: &str) -> Option<Type> {
        Some(match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "object" => Type::Object,
            "array" => Type::Array,
            "number" => Type::Number,
            "integer" => Type::Integer,
            "string" => Type::String,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "boolean",
            Type::Object => "object",
            Type::Array => "array",
            Type::Number => "number",
            Type::Integer => "integer",
            Type::String => "string",
        }
    }
}

/// A schema with its sub-schemas given as node indices. An absent keyword allows everything.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Rejects every value.
    pub(super) never: bool,
    pub(super) types: Vec<Type>,
    pub(super) allowed: Option<Vec<Value>>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) above: Option<f64>,
    pub(super) below: Option<f64>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<usize>,
    pub(super) max_length: Option<usize>,
    pub(super) pattern: Option<Regex>,
    pub(super) required: Vec<String>,
    pub(super) properties: BTreeMap<String, usize>,
    pub(super) patterns: Vec<(Regex, usize)>,
    pub(super) other_properties: Option<usize>,
    pub(super) names: Option<usize>,
    pub(super) min_properties: Option<usize>,
    pub(super) max_properties: Option<usize>,
    pub(super) first_items: Vec<usize>,
    pub(super) items: Option<usize>,
    pub(super) contains: Option<usize>,
    pub(super) min_items: Option<usize>,
    pub(super) max_items: Option<usize>,
    pub(super) unique: bool,
    pub(super) all_of: Vec<usize>,
    pub(super) any_of: Vec<usize>,
    pub(super) one_of: Vec<usize>,
    pub(super) not: Option<usize>,
}

/// A path in the schema and its problem.
pub(super) type Wrong = (String, String);

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Nodes refer to each other by index.
    pub(super) nodes: Vec<Node>,
    /// The index of the root node.
    pub(super) root: usize,
    /// The number of patterns.
    pub(super) patterns: usize,
}

/// Compiles a schema.
pub(super) fn compile(schema: &Value) -> Result<Compiled, Wrong> {
    let (nodes, known, open) = (Vec::new(), HashMap::new(), Vec::new());
    let mut compiler = Compiler { whole: schema, nodes, known, open, patterns: 0 };
    let root = compiler.node("#", schema)?;
    // Iterative instead of recursive: a chain of references may be arbitrarily long and would overflow the stack.
    while let Some(Open { at, place, schema }) = compiler.open.pop() {
        compiler.nodes[at] = compiler.read(&place, schema)?;
    }
    Ok(Compiled { nodes: compiler.nodes, root, patterns: compiler.patterns })
}

struct Compiler<'a> {
    whole: &'a Value,
    nodes: Vec<Node>,
    /// Nodes by schema address, so that a schema may refer to itself.
    known: HashMap<*const Value, usize>,
    /// Nodes with an index that are still to be compiled.
    open: Vec<Open<'a>>,
    patterns: usize,
}

struct Open<'a> {
    at: usize,
    place: String,
    schema: &'a Value,
}

impl<'a> Compiler<'a> {
    /// Returns the node of a schema, which is compiled later.
    fn node(&mut self, place: &str, schema: &'a Value) -> Result<usize, Wrong> {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(*known);
        }
        if self.nodes.len() >= MAX_NODES {
            return Err((place.into(), "the schema is too large".into()));
        }
        let at = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.insert(schema, at);
        self.open.push(Open { at, place: place.into(), schema });
        Ok(at)
    }

    fn read(&mut self, place: &str, schema: &'a Value) -> Result<Node, Wrong> {
        match schema {
            Value::Bool(allows) => Ok(Node { never: !allows, ..Node::default() }),
            Value::Object(map) => self.keywords(place, map),
            _ => Err((place.into(), "neither an object nor true or false".into())),
        }
    }

    fn keywords(&mut self, place: &str, map: &'a Map<String, Value>) -> Result<Node, Wrong> {
        let mut node = Node::default();
        for (keyword, value) in map {
            let at = below(place, keyword);
            let taken = self.value_keyword(&mut node, keyword, value, &at)?
                || self.object_keyword(&mut node, keyword, value, &at)?
                || self.array_keyword(&mut node, keyword, value, &at)?
                || self.combining_keyword(&mut node, keyword, value, &at)?
                || NOTES.contains(&keyword.as_str());
            if !taken {
                return Err((at, format!("`{}` is not supported", shortened(keyword))));
            }
        }
        Ok(node)
    }

    fn value_keyword(&mut self, node: &mut Node, keyword: &str, value: &Value, at: &str) -> Result<bool, Wrong> {
        match keyword {
            "type" => node.types = types(value, at)?,
            "enum" => node.allowed = Some(list(value, at)?.clone()),
            "const" => node.allowed = Some(vec![value.clone()]),
            "minimum" => node.minimum = Some(number(value, at)?),
            "maximum" => node.maximum = Some(number(value, at)?),
            "exclusiveMinimum" => node.above = Some(number(value, at)?),
            "exclusiveMaximum" => node.below = Some(number(value, at)?),
            "multipleOf" => match number(value, at)? {
                step if step > 0.0 => node.multiple_of = Some(step),
                _ => return Err((at.into(), "not above 0".into())),
            },
            "minLength" => node.min_length = Some(count(value, at)?),
            "maxLength" => node.max_length = Some(count(value, at)?),
            "pattern" => node.pattern = Some(self.pattern(value.as_str(), at)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn object_keyword(&mut self, node: &mut Node, keyword: &str, value: &'a Value, at: &str) -> Result<bool, Wrong> {
        match keyword {
            "required" => {
                let name = |it: &Value| it.as_str().map(String::from).ok_or_else(|| wrong(at, "not a list of names"));
                node.required = list(value, at)?.iter().map(name).collect::<Result<_, _>>()?;
            }
            "properties" => {
                for (name, it) in object(value, at)? {
                    node.properties.insert(name.clone(), self.node(&below(at, name), it)?);
                }
            }
            "patternProperties" => {
                for (name, it) in object(value, at)? {
                    let names = self.pattern(Some(name), at)?;
                    node.patterns.push((names, self.node(&below(at, name), it)?));
                }
            }
            "additionalProperties" => node.other_properties = Some(self.node(at, value)?),
            "propertyNames" => node.names = Some(self.node(at, value)?),
            "minProperties" => node.min_properties = Some(count(value, at)?),
            "maxProperties" => node.max_properties = Some(count(value, at)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn array_keyword(&mut self, node: &mut Node, keyword: &str, value: &'a Value, at: &str) -> Result<bool, Wrong> {
        match keyword {
            "items" => node.items = Some(self.node(at, value)?),
            "prefixItems" => node.first_items = self.nodes_of(value, at)?,
            "contains" => node.contains = Some(self.node(at, value)?),
            "minItems" => node.min_items = Some(count(value, at)?),
            "maxItems" => node.max_items = Some(count(value, at)?),
            "uniqueItems" => node.unique = value.as_bool().ok_or_else(|| wrong(at, "neither true nor false"))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn combining_keyword(&mut self, node: &mut Node, keyword: &str, value: &'a Value, at: &str) -> Result<bool, Wrong> {
        match keyword {
            "allOf" => {
                let all = self.nodes_of(value, at)?;
                node.all_of.extend(all);
            }
            "anyOf" => node.any_of = self.nodes_of(value, at)?,
            "oneOf" => node.one_of = self.nodes_of(value, at)?,
            "not" => node.not = Some(self.node(at, value)?),
            "$ref" => {
                let target = value.as_str().ok_or_else(|| wrong(at, "not a reference"))?;
                let found = target.strip_prefix('#').and_then(|it| self.whole.pointer(it));
                let found = found.ok_or_else(|| wrong(at, "refers to nothing in this schema"))?;
                let referred = self.node(shortened(target), found)?;
                node.all_of.push(referred);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Compiles a pattern. Patterns cost time before the first value is checked, so their number and size are limited.
    fn pattern(&mut self, text: Option<&str>, at: &str) -> Result<Regex, Wrong> {
        let text = text.ok_or_else(|| wrong(at, "not a pattern"))?;
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err((at.into(), format!("more than {MAX_PATTERNS} patterns")));
        }
        if text.len() > PATTERN_BYTES {
            return Err((at.into(), format!("a pattern of more than {PATTERN_BYTES} bytes")));
        }
        RegexBuilder::new(text).size_limit(COMPILED_BYTES).build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => wrong(at, "a pattern that is too large once compiled"),
            _ => wrong(at, "an invalid pattern"),
        })
    }

    fn nodes_of(&mut self, value: &'a Value, at: &str) -> Result<Vec<usize>, Wrong> {
        let all = list(value, at)?;
        if all.is_empty() {
            return Err(wrong(at, "an empty list"));
        }
        all.iter().enumerate().map(|(number, it)| self.node(&below(at, &number.to_string()), it)).collect()
    }
}

fn wrong(at: &str, what: &str) -> Wrong {
    (at.into(), what.into())
}

/// Appends a name to a path, up to the length limit.
fn below(place: &str, name: &str) -> String {
    if place.len() >= PLACE_BYTES {
        return place.into();
    }
    let name = shortened(name).replace('~', "~0").replace('/', "~1");
    format!("{place}/{name}")
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(PLACE_BYTES)]
}

fn list<'a>(value: &'a Value, at: &str) -> Result<&'a Vec<Value>, Wrong> {
    value.as_array().ok_or_else(|| wrong(at, "not a list"))
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, Wrong> {
    value.as_object().ok_or_else(|| wrong(at, "not an object"))
}

fn number(value: &Value, at: &str) -> Result<f64, Wrong> {
    value.as_f64().ok_or_else(|| wrong(at, "not a number"))
}

fn count(value: &Value, at: &str) -> Result<usize, Wrong> {
    let whole =
        value.as_u64().or_else(|| value.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0).map(|it| it as u64));
    whole.and_then(|it| usize::try_from(it).ok()).ok_or_else(|| wrong(at, "not a whole number of 0 or more"))
}

fn types(value: &Value, at: &str) -> Result<Vec<Type>, Wrong> {
    let names = match value {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    let known = |it: &Value| it.as_str().and_then(Type::from_name).ok_or_else(|| wrong(at, "not a type"));
    let types: Vec<Type> = names.into_iter().map(known).collect::<Result<_, _>>()?;
    if types.is_empty() { Err(wrong(at, "not a type")) } else { Ok(types) }
}
