//! Compiles a JSON Schema to a list of nodes that refer to each other by index.

use std::collections::{BTreeMap, HashMap};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Maximum number of patterns (regular expressions) in one schema, and in all schemas of a request together.
pub const MAX_PATTERNS: usize = 100;
/// Maximum number of nodes of a schema.
const MAX_NODES: usize = 10_000;
/// Maximum size of a pattern in bytes. It limits the parser's memory: each two bytes may be `\w`, which becomes 700 ranges.
const PATTERN_BYTES: usize = 4 << 10;
/// Maximum bytes of a compiled pattern.
const COMPILED_BYTES: usize = 256 << 10;
/// Size in bytes up to which a path in the schema is kept. Without a limit, 10,000 nodes below a key of 100 KB would take
/// 1 GB.
const PLACE_BYTES: usize = 200;
/// Keywords without effect on validation.
const ANNOTATION_KEYWORDS: [&str; 14] = [
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

/// A JSON type, as the keyword `type` names it.
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

/// A compiled schema whose sub-schemas are given as node indices. An absent keyword allows every value.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Whether the schema is `false`, which rejects every value.
    pub(super) never: bool,
    pub(super) types: Vec<Type>,
    pub(super) allowed: Option<Vec<Value>>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_minimum: Option<f64>,
    pub(super) exclusive_maximum: Option<f64>,
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

/// The path of an invalid part of the schema, and what is wrong with it.
pub(super) type SchemaProblem = (String, String);

/// All nodes of a compiled schema.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Nodes, which refer to each other by index in this list.
    pub(super) nodes: Vec<Node>,
    /// Index of the root node.
    pub(super) root: usize,
    /// Number of patterns (regular expressions) in the schema.
    pub(super) patterns: usize,
}

/// Compiles a schema and all its sub-schemas.
pub(super) fn compile(schema: &Value) -> Result<Compiled, SchemaProblem> {
    let (nodes, known, open) = (Vec::new(), HashMap::new(), Vec::new());
    let mut compiler = Compiler { root: schema, nodes, indices: known, pending: open, patterns: 0 };
    let root = compiler.intern_node("#", schema)?;
    // Iterative instead of recursive: a chain of references may be arbitrarily long and would overflow the stack.
    while let Some(PendingNode { at, place, schema }) = compiler.pending.pop() {
        compiler.nodes[at] = compiler.compile_node(&place, schema)?;
    }
    Ok(Compiled { nodes: compiler.nodes, root, patterns: compiler.patterns })
}

struct Compiler<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    /// Index of the node of each schema by the schema's address, so that a schema may refer to itself.
    indices: HashMap<*const Value, usize>,
    /// Nodes that have an index but are still to be compiled.
    pending: Vec<PendingNode<'a>>,
    patterns: usize,
}

struct PendingNode<'a> {
    at: usize,
    place: String,
    schema: &'a Value,
}

impl<'a> Compiler<'a> {
    /// Returns the index of the node for a schema; the node is compiled later.
    fn intern_node(&mut self, place: &str, schema: &'a Value) -> Result<usize, SchemaProblem> {
        if let Some(known) = self.indices.get(&std::ptr::from_ref(schema)) {
            return Ok(*known);
        }
        if self.nodes.len() >= MAX_NODES {
            return Err((place.into(), "the schema is too large".into()));
        }
        let at = self.nodes.len();
        self.nodes.push(Node::default());
        self.indices.insert(schema, at);
        self.pending.push(PendingNode { at, place: place.into(), schema });
        Ok(at)
    }

    fn compile_node(&mut self, place: &str, schema: &'a Value) -> Result<Node, SchemaProblem> {
        match schema {
            Value::Bool(allows) => Ok(Node { never: !allows, ..Node::default() }),
            Value::Object(map) => self.keywords(place, map),
            _ => Err((place.into(), "must be an object, `true` or `false`".into())),
        }
    }

    fn keywords(&mut self, place: &str, map: &'a Map<String, Value>) -> Result<Node, SchemaProblem> {
        let mut node = Node::default();
        for (keyword, value) in map {
            let at = append_path(place, keyword);
            let taken = self.value_keyword(&mut node, keyword, value, &at)?
                || self.object_keyword(&mut node, keyword, value, &at)?
                || self.array_keyword(&mut node, keyword, value, &at)?
                || self.combining_keyword(&mut node, keyword, value, &at)?
                || ANNOTATION_KEYWORDS.contains(&keyword.as_str());
            if !taken {
                return Err((at, format!("`{}` is not supported", truncate_path(keyword))));
            }
        }
        Ok(node)
    }

    fn value_keyword(
        &mut self,
        node: &mut Node,
        keyword: &str,
        value: &Value,
        at: &str,
    ) -> Result<bool, SchemaProblem> {
        match keyword {
            "type" => node.types = parse_types(value, at)?,
            "enum" => node.allowed = Some(expect_array(value, at)?.clone()),
            "const" => node.allowed = Some(vec![value.clone()]),
            "minimum" => node.minimum = Some(expect_number(value, at)?),
            "maximum" => node.maximum = Some(expect_number(value, at)?),
            "exclusiveMinimum" => node.exclusive_minimum = Some(expect_number(value, at)?),
            "exclusiveMaximum" => node.exclusive_maximum = Some(expect_number(value, at)?),
            "multipleOf" => match expect_number(value, at)? {
                step if step > 0.0 => node.multiple_of = Some(step),
                _ => return Err((at.into(), "must be above 0".into())),
            },
            "minLength" => node.min_length = Some(expect_count(value, at)?),
            "maxLength" => node.max_length = Some(expect_count(value, at)?),
            "pattern" => node.pattern = Some(self.compile_pattern(value.as_str(), at)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn object_keyword(
        &mut self,
        node: &mut Node,
        keyword: &str,
        value: &'a Value,
        at: &str,
    ) -> Result<bool, SchemaProblem> {
        match keyword {
            "required" => {
                let name = |it: &Value| it.as_str().map(String::from).ok_or_else(|| problem(at, "must list names"));
                node.required = expect_array(value, at)?.iter().map(name).collect::<Result<_, _>>()?;
            }
            "properties" => {
                for (name, it) in expect_object(value, at)? {
                    node.properties.insert(name.clone(), self.intern_node(&append_path(at, name), it)?);
                }
            }
            "patternProperties" => {
                for (name, it) in expect_object(value, at)? {
                    let names = self.compile_pattern(Some(name), at)?;
                    node.patterns.push((names, self.intern_node(&append_path(at, name), it)?));
                }
            }
            "additionalProperties" => node.other_properties = Some(self.intern_node(at, value)?),
            "propertyNames" => node.names = Some(self.intern_node(at, value)?),
            "minProperties" => node.min_properties = Some(expect_count(value, at)?),
            "maxProperties" => node.max_properties = Some(expect_count(value, at)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn array_keyword(
        &mut self,
        node: &mut Node,
        keyword: &str,
        value: &'a Value,
        at: &str,
    ) -> Result<bool, SchemaProblem> {
        match keyword {
            "items" => node.items = Some(self.intern_node(at, value)?),
            "prefixItems" => node.first_items = self.intern_nodes(value, at)?,
            "contains" => node.contains = Some(self.intern_node(at, value)?),
            "minItems" => node.min_items = Some(expect_count(value, at)?),
            "maxItems" => node.max_items = Some(expect_count(value, at)?),
            "uniqueItems" => node.unique = value.as_bool().ok_or_else(|| problem(at, "must be `true` or `false`"))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn combining_keyword(
        &mut self,
        node: &mut Node,
        keyword: &str,
        value: &'a Value,
        at: &str,
    ) -> Result<bool, SchemaProblem> {
        match keyword {
            "allOf" => {
                let all = self.intern_nodes(value, at)?;
                node.all_of.extend(all);
            }
            "anyOf" => node.any_of = self.intern_nodes(value, at)?,
            "oneOf" => node.one_of = self.intern_nodes(value, at)?,
            "not" => node.not = Some(self.intern_node(at, value)?),
            "$ref" => {
                let target = value.as_str().ok_or_else(|| problem(at, "must be a reference such as `#/$defs/name`"))?;
                let found = target.strip_prefix('#').and_then(|it| self.root.pointer(it));
                let found = found
                    .ok_or_else(|| problem(at, "refers to no part of this schema; other documents are not loaded"))?;
                let referred = self.intern_node(truncate_path(target), found)?;
                node.all_of.push(referred);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Compiles a pattern. The number and size of patterns are limited, because compiling them takes time.
    fn compile_pattern(&mut self, text: Option<&str>, at: &str) -> Result<Regex, SchemaProblem> {
        let text = text.ok_or_else(|| problem(at, "must be a regular expression"))?;
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err((at.into(), format!("the schema has more than {MAX_PATTERNS} patterns")));
        }
        if text.len() > PATTERN_BYTES {
            return Err((at.into(), format!("the pattern has more than {PATTERN_BYTES} bytes")));
        }
        RegexBuilder::new(text).size_limit(COMPILED_BYTES).build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => problem(at, "the pattern is too large once compiled"),
            _ => problem(at, "the pattern is not a valid regular expression"),
        })
    }

    fn intern_nodes(&mut self, value: &'a Value, at: &str) -> Result<Vec<usize>, SchemaProblem> {
        let all = expect_array(value, at)?;
        if all.is_empty() {
            return Err(problem(at, "must not be an empty list"));
        }
        all.iter().enumerate().map(|(number, it)| self.intern_node(&append_path(at, &number.to_string()), it)).collect()
    }
}

fn problem(at: &str, what: &str) -> SchemaProblem {
    (at.into(), what.into())
}

/// Appends a key to a path in the schema, up to [`PLACE_BYTES`].
fn append_path(place: &str, name: &str) -> String {
    if place.len() >= PLACE_BYTES {
        return place.into();
    }
    let name = truncate_path(name).replace('~', "~0").replace('/', "~1");
    format!("{place}/{name}")
}

fn truncate_path(text: &str) -> &str {
    &text[..text.floor_char_boundary(PLACE_BYTES)]
}

fn expect_array<'a>(value: &'a Value, at: &str) -> Result<&'a Vec<Value>, SchemaProblem> {
    value.as_array().ok_or_else(|| problem(at, "must be a list"))
}

fn expect_object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, SchemaProblem> {
    value.as_object().ok_or_else(|| problem(at, "must be an object"))
}

fn expect_number(value: &Value, at: &str) -> Result<f64, SchemaProblem> {
    value.as_f64().ok_or_else(|| problem(at, "must be a number"))
}

fn expect_count(value: &Value, at: &str) -> Result<usize, SchemaProblem> {
    let whole =
        value.as_u64().or_else(|| value.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0).map(|it| it as u64));
    whole.and_then(|it| usize::try_from(it).ok()).ok_or_else(|| problem(at, "must be a whole number of 0 or more"))
}

fn parse_types(value: &Value, at: &str) -> Result<Vec<Type>, SchemaProblem> {
    let names = match value {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    };
    let known = |it: &Value| it.as_str().and_then(Type::from_name).ok_or_else(|| problem(at, "must be a JSON type"));
    let types: Vec<Type> = names.into_iter().map(known).collect::<Result<_, _>>()?;
    if types.is_empty() { Err(problem(at, "must name at least one type")) } else { Ok(types) }
}
