//! `query_ir_v1`, the JSON form of graph queries. [`parse`] and [`write()`] are inverses on the syntax tree that AxQL uses.
//!
//! The JSON is parsed by hand rather than by derived types, so that an error for an unknown kind or field can name the
//! most similar known one and the location in the JSON.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::graph::query::axql::{self, Atom, MAX_DISTANCE, MAX_HOPS, Query, Term, check};
use crate::graph::suggest;

/// Highest `limit` in a `query_ir_v1`; lower than that of AxQL.
pub const MAX_LIMIT: u32 = 200;

/// Name of the JSON form.
const NAME: &str = "query_ir_v1";

const FIELDS: [&str; 9] =
    ["version", "select", "select_vars", "where", "where_atoms", "disjuncts", "limit", "max_hops", "min_confidence"];

/// Returns the query in a JSON object `{"query_ir_v1": {...}}`, in which models and the plugin protocol write it. Any other
/// value is the query itself.
///
/// # Errors
/// `InvalidArgument` if the object has other fields than those that the protocol has beside the query.
pub fn unwrap(value: &Value) -> Result<&Value> {
    let Some((map, query)) = value.as_object().and_then(|map| Some((map, map.get(NAME)?))) else { return Ok(value) };
    JsonPath("the query".into()).reject_unknown_fields(map, &[NAME, "axql", "notes"])?;
    Ok(query)
}

/// Parses a query from its JSON form, bare or as `{"query_ir_v1": {...}}`.
///
/// # Errors
/// `InvalidArgument` with the location in the JSON as the field, e.g. `where[1].path`.
pub fn parse(value: &Value) -> Result<Query> {
    let place = JsonPath(NAME.into());
    let map = place.object(unwrap(value)?)?;
    let known = [&FIELDS[..], &["contexts"]].concat();
    place.reject_unknown_fields(map, &known)?;
    match map.get("version") {
        Some(version) if *version == json!(1) => (),
        Some(version) => return Err(place.field("version").unexpected(version, "1")),
        None => return Err(place.error("`version` is missing, expected 1")),
    }
    let disjuncts = parse_disjuncts(&place, map)?;
    let contexts = match map.get("contexts") {
        Some(value) => place.field("contexts").texts(value)?,
        None => Vec::new(),
    };
    let mut query = Query {
        disjuncts,
        contexts,
        max_hops: place.number(map, "max_hops", 1, MAX_HOPS)?,
        min_confidence: parse_confidence(&place, map)?,
        limit: place.number(map, "limit", 1, MAX_LIMIT)?,
        select: Vec::new(),
    };
    let wrong = |error: Error| error.field("query_ir_v1");
    check::check_sizes(&query).map_err(wrong)?;
    query.select = parse_select(&place, map, &query)?;
    check::check_query(&query).map_err(wrong)?;
    Ok(query)
}

fn parse_select(place: &JsonPath, map: &Map<String, Value>, query: &Query) -> Result<Vec<String>> {
    let Some((name, value)) = place.one_of(map, &["select", "select_vars"])? else {
        // Without a selection, selects all variables.
        return Ok(query.variables().into_iter().map(|(name, _)| name).collect());
    };
    let place = place.field(name);
    let (mut select, mut seen) = (Vec::new(), HashSet::new());
    for (number, text) in place.texts(value)?.iter().enumerate() {
        let name = text.strip_prefix('?').unwrap_or(text);
        if !is_variable(name) {
            return Err(place.element(number).unexpected(&json!(text), "a variable such as \"?x\""));
        }
        if seen.insert(name.to_string()) {
            select.push(name.to_string());
        }
    }
    Ok(select)
}

fn parse_disjuncts(place: &JsonPath, map: &Map<String, Value>) -> Result<Vec<Vec<Atom>>> {
    let found = place.one_of(map, &["where", "where_atoms", "disjuncts"])?;
    match found {
        Some((name @ "disjuncts", value)) => {
            let place = place.field(name);
            let each = |(number, value)| parse_atoms(&place.element(number), value);
            place.array(value)?.iter().enumerate().map(each).collect()
        }
        Some((name, value)) => Ok(vec![parse_atoms(&place.field(name), value)?]),
        None => Err(place.error("one of `where`, `where_atoms` and `disjuncts` is missing")),
    }
}

fn parse_atoms(place: &JsonPath, value: &Value) -> Result<Vec<Atom>> {
    place.array(value)?.iter().enumerate().map(|(number, value)| parse_atom(&place.element(number), value)).collect()
}

fn parse_confidence(place: &JsonPath, map: &Map<String, Value>) -> Result<Option<f32>> {
    let Some(value) = map.get("min_confidence").filter(|it| !it.is_null()) else { return Ok(None) };
    let number = value.as_f64().filter(|it| (0.0..=1.0).contains(it));
    number
        .map(|it| Some(it as f32))
        .ok_or_else(|| place.field("min_confidence").unexpected(value, "a number between 0 and 1"))
}

const KINDS: [&str; 10] =
    ["type", "edge", "attr_eq", "attr_contains", "attr_fts", "attr_fuzzy", "fact", "has_out", "attrs", "shape"];

fn parse_atom(place: &JsonPath, value: &Value) -> Result<Atom> {
    let map = place.object(value)?;
    let kind = place.text(map, "kind")?;
    let text = |key: &str| place.text(map, key);
    let fields: &[&str] = match kind.as_str() {
        "type" => &["term", "type", "ty", "type_name"],
        "edge" => &["left", "path", "right"],
        "attr_eq" => &["term", "key", "value"],
        "attr_contains" => &["term", "key", "needle"],
        "attr_fts" => &["term", "key", "query"],
        "attr_fuzzy" => &["term", "key", "needle", "max_dist"],
        "fact" => &["fact", "relation", "fields"],
        "has_out" => &["term", "rels"],
        "attrs" => &["term", "pairs"],
        "shape" => &["term", "type_name", "rels", "attrs"],
        other => {
            let error = place.field("kind").unexpected(&json!(other), &format!("one of {}", KINDS.join(", ")));
            return Err(suggest::with_suggestion(error, other, KINDS));
        }
    };
    place.reject_unknown_fields(map, &[fields, &["kind"]].concat())?;
    Ok(match kind.as_str() {
        "type" => Atom::Type { term: parse_term(place, map, "term")?, type_name: parse_type_name(place, map)? },
        "edge" => Atom::Edge {
            left: parse_term(place, map, "left")?,
            path: parse_path_field(place, map)?,
            right: parse_term(place, map, "right")?,
        },
        "attr_eq" => Atom::Equals { term: parse_term(place, map, "term")?, key: text("key")?, value: text("value")? },
        "attr_contains" => {
            Atom::Contains { term: parse_term(place, map, "term")?, key: text("key")?, needle: text("needle")? }
        }
        "attr_fts" => {
            Atom::FullText { term: parse_term(place, map, "term")?, key: text("key")?, query: text("query")? }
        }
        "attr_fuzzy" => {
            let max_distance = place.number(map, "max_dist", 0, MAX_DISTANCE)?;
            let max_distance = max_distance.ok_or_else(|| place.error("`max_dist` is missing"))?;
            Atom::Fuzzy {
                term: parse_term(place, map, "term")?,
                key: text("key")?,
                needle: text("needle")?,
                max_distance,
            }
        }
        "fact" => parse_fact(place, map)?,
        "has_out" => {
            Atom::HasOutgoing { term: parse_term(place, map, "term")?, relations: parse_relations(place, map)? }
        }
        "attrs" => Atom::Attributes { term: parse_term(place, map, "term")?, pairs: parse_pairs(place, map, "pairs")? },
        _ => Atom::Shape {
            term: parse_term(place, map, "term")?,
            type_name: map.get("type_name").filter(|it| !it.is_null()).map(|_| text("type_name")).transpose()?,
            relations: parse_relations(place, map)?,
            attributes: parse_pairs(place, map, "attrs")?,
        },
    })
}

fn parse_type_name(place: &JsonPath, map: &Map<String, Value>) -> Result<String> {
    match place.one_of(map, &["type", "ty", "type_name"])? {
        Some((name, _)) => place.text(map, name),
        None => Err(place.error("`type` is missing")),
    }
}

fn parse_path_field(place: &JsonPath, map: &Map<String, Value>) -> Result<axql::Path> {
    let text = place.text(map, "path")?;
    axql::parse_path(&text).map_err(|error| error.field(place.field("path").0))
}

fn parse_relations(place: &JsonPath, map: &Map<String, Value>) -> Result<Vec<String>> {
    map.get("rels").filter(|it| !it.is_null()).map_or(Ok(Vec::new()), |value| place.field("rels").texts(value))
}

/// Parses the pairs in a field: an object, or an array of `[key, value]` if keys are repeated.
fn parse_pairs(place: &JsonPath, map: &Map<String, Value>, key: &'static str) -> Result<Vec<(String, String)>> {
    let place = place.field(key);
    let text = |key: &str, value: &Value| {
        let found = value.as_str().map(|it| (key.to_string(), it.to_string()));
        found.ok_or_else(|| place.field(key).unexpected(value, "a text"))
    };
    match map.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(map)) => map.iter().map(|(key, value)| text(key, value)).collect(),
        Some(Value::Array(items)) => {
            let pair = |(number, item): (usize, &Value)| match item.as_array().map(Vec::as_slice) {
                Some([Value::String(key), value]) => text(key, value),
                _ => Err(place.element(number).unexpected(item, "[key, value]")),
            };
            items.iter().enumerate().map(pair).collect()
        }
        Some(other) => Err(place.unexpected(other, "an object of texts")),
    }
}

fn parse_fact(place: &JsonPath, map: &Map<String, Value>) -> Result<Atom> {
    let fact = map.get("fact").filter(|it| !it.is_null()).map(|_| parse_term(place, map, "fact")).transpose()?;
    let relation = place.text(map, "relation")?;
    let inner = place.field("fields");
    let fields = match map.get("fields") {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => {
            let map = inner.object(value)?;
            let each = |(name, _): (&String, &Value)| Ok((name.clone(), parse_term(&inner, map, name)?));
            map.iter().map(each).collect::<Result<_>>()?
        }
    };
    Ok(Atom::Fact { fact, relation, fields })
}

fn parse_term(place: &JsonPath, map: &Map<String, Value>, key: &str) -> Result<Term> {
    let place = place.field(key);
    const WANTED: &str = "a term: \"?x\", \"_\", a name, a number or {kind: var|name|entity|wildcard}";
    match map.get(key) {
        None => Err(Error::invalid(format!("{}: a term is missing", place.0)).field(place.0.clone())),
        Some(Value::String(text)) => match text.strip_prefix('?') {
            Some(name) if is_variable(name) => Ok(Term::Var(name.into())),
            Some(_) => Err(place.unexpected(&json!(text), "a variable of letters, digits and `_`")),
            None if text == "_" => Ok(Term::Wildcard),
            None => Ok(Term::Name(text.clone())),
        },
        Some(Value::Number(number)) => {
            let id = number.as_u64().and_then(|it| u32::try_from(it).ok());
            id.map(Term::Id).ok_or_else(|| place.unexpected(&Value::Number(number.clone()), "the number of an entity"))
        }
        Some(Value::Object(map)) => parse_term_object(&place, map),
        Some(other) => Err(place.unexpected(other, WANTED)),
    }
}

fn parse_term_object(place: &JsonPath, map: &Map<String, Value>) -> Result<Term> {
    if let Some(id) = map.get("id").filter(|_| !map.contains_key("kind")) {
        // An entity as the rows of a result show it.
        place.reject_unknown_fields(map, &["id", "entity_type", "name", "called", "key", "match"])?;
        let number = id.as_u64().and_then(|it| u32::try_from(it).ok());
        return number.map(Term::Id).ok_or_else(|| place.field("id").unexpected(id, "the number of an entity"));
    }
    let kind = place.text(map, "kind")?;
    match kind.as_str() {
        "var" | "name" => {
            place.reject_unknown_fields(map, &["kind", "name"])?;
            let name = place.text(map, "name")?;
            if kind == "name" {
                return Ok(Term::Name(name));
            }
            let bare = name.strip_prefix('?').unwrap_or(&name);
            if is_variable(bare) {
                Ok(Term::Var(bare.into()))
            } else {
                Err(place.field("name").unexpected(&json!(name), "a variable such as \"?x\""))
            }
        }
        "entity" => {
            place.reject_unknown_fields(map, &["kind", "key", "value"])?;
            Ok(Term::Entity { key: place.text(map, "key")?, value: place.text(map, "value")? })
        }
        "wildcard" => {
            place.reject_unknown_fields(map, &["kind"])?;
            Ok(Term::Wildcard)
        }
        other => Err(place.field("kind").unexpected(&json!(other), "one of var, name, entity, wildcard")),
    }
}

fn is_variable(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|it| it.is_alphabetic() || it == '_')
        && characters.all(|it| it.is_alphanumeric() || it == '_')
}

/// A location in the JSON, e.g. `query_ir_v1.where[1].path`.
struct JsonPath(String);

impl JsonPath {
    fn field(&self, key: &str) -> JsonPath {
        JsonPath(format!("{}.{key}", self.0))
    }

    fn element(&self, number: usize) -> JsonPath {
        JsonPath(format!("{}[{number}]", self.0))
    }

    fn error(&self, message: &str) -> Error {
        Error::invalid(format!("{}: {message}", self.0)).field(self.0.clone())
    }

    fn unexpected(&self, found: &Value, expected: &str) -> Error {
        let found: String = found.to_string().chars().take(80).collect();
        self.error(&format!("found {found}, expected {expected}"))
    }

    fn object<'a>(&self, value: &'a Value) -> Result<&'a Map<String, Value>> {
        value.as_object().ok_or_else(|| self.unexpected(value, "an object"))
    }

    fn array<'a>(&self, value: &'a Value) -> Result<&'a Vec<Value>> {
        value.as_array().ok_or_else(|| self.unexpected(value, "an array"))
    }

    fn texts(&self, value: &Value) -> Result<Vec<String>> {
        let text = |(number, it): (usize, &Value)| {
            it.as_str().map(String::from).ok_or_else(|| self.element(number).unexpected(it, "a text"))
        };
        self.array(value)?.iter().enumerate().map(text).collect()
    }

    fn text(&self, map: &Map<String, Value>, key: &str) -> Result<String> {
        match map.get(key) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.field(key).unexpected(other, "a text")),
            None => Err(self.error(&format!("`{key}` is missing"))),
        }
    }

    fn number(&self, map: &Map<String, Value>, key: &str, least: u32, most: u32) -> Result<Option<u32>> {
        let Some(value) = map.get(key).filter(|it| !it.is_null()) else { return Ok(None) };
        let number = value.as_u64().and_then(|it| u32::try_from(it).ok()).filter(|it| (least..=most).contains(it));
        number
            .map(Some)
            .ok_or_else(|| self.field(key).unexpected(value, &format!("a whole number from {least} to {most}")))
    }

    /// Returns the only one of these fields that exists. The names are aliases, so two of them at once are an error.
    fn one_of<'a, 'n>(&self, map: &'a Map<String, Value>, names: &[&'n str]) -> Result<Option<(&'n str, &'a Value)>> {
        let found: Vec<(&'n str, &Value)> = names.iter().filter_map(|name| Some((*name, map.get(*name)?))).collect();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            [one, two, ..] => Err(self.error(&format!("found both `{}` and `{}`, expected one of them", one.0, two.0))),
        }
    }

    fn reject_unknown_fields(&self, map: &Map<String, Value>, known: &[&str]) -> Result<()> {
        let Some(extra) = map.keys().find(|it| !known.contains(&it.as_str())) else { return Ok(()) };
        let error = self.error(&format!("found the field `{extra}`, expected only {}", known.join(", ")));
        Err(suggest::with_suggestion(error, extra, known.iter().copied()))
    }
}

/// Writes a query in its JSON form.
///
/// # Errors
/// `InvalidArgument` if the limit of the query exceeds `MAX_LIMIT`.
pub fn write(query: &Query) -> Result<Value> {
    if query.limit.is_some_and(|it| it > MAX_LIMIT) {
        return Err(Error::invalid(format!("`limit` must be at most {MAX_LIMIT} in query_ir_v1")).field("limit"));
    }
    let mut map = Map::new();
    map.insert("version".into(), json!(1));
    map.insert("select".into(), query.select.iter().map(|it| json!(format!("?{it}"))).collect());
    let conjunction = |atoms: &Vec<Atom>| Value::Array(atoms.iter().map(atom_json).collect());
    match query.disjuncts.as_slice() {
        [one] => map.insert("where".into(), conjunction(one)),
        several => map.insert("disjuncts".into(), several.iter().map(conjunction).collect()),
    };
    if !query.contexts.is_empty() {
        map.insert("contexts".into(), json!(query.contexts));
    }
    if let Some(hops) = query.max_hops {
        map.insert("max_hops".into(), json!(hops));
    }
    if let Some(confidence) = query.min_confidence {
        map.insert("min_confidence".into(), shortest_decimal(confidence));
    }
    if let Some(limit) = query.limit {
        map.insert("limit".into(), json!(limit));
    }
    Ok(Value::Object(map))
}

/// Converts a number to JSON as the shortest decimal that denotes it, e.g. 0.9 rather than 0.8999999761581421.
pub(crate) fn shortest_decimal(number: f32) -> Value {
    json!(number.to_string().parse::<f64>().unwrap_or_else(|_| number.into()))
}

fn atom_json(atom: &Atom) -> Value {
    match atom {
        Atom::Type { term, type_name } => json!({"kind": "type", "term": term_json(term), "type": type_name}),
        Atom::Edge { left, path, right } => {
            json!({"kind": "edge", "left": term_json(left), "path": path.to_string(), "right": term_json(right)})
        }
        Atom::Equals { term, key, value } => {
            json!({"kind": "attr_eq", "term": term_json(term), "key": key, "value": value})
        }
        Atom::Contains { term, key, needle } => {
            json!({"kind": "attr_contains", "term": term_json(term), "key": key, "needle": needle})
        }
        Atom::FullText { term, key, query } => {
            json!({"kind": "attr_fts", "term": term_json(term), "key": key, "query": query})
        }
        Atom::Fuzzy { term, key, needle, max_distance } => {
            json!({"kind": "attr_fuzzy", "term": term_json(term), "key": key, "needle": needle, "max_dist": max_distance})
        }
        Atom::HasOutgoing { term, relations } => json!({"kind": "has_out", "term": term_json(term), "rels": relations}),
        Atom::Attributes { term, pairs } => {
            json!({"kind": "attrs", "term": term_json(term), "pairs": pairs_json(pairs)})
        }
        Atom::Shape { term, type_name, relations, attributes } => {
            let mut shape = json!({"kind": "shape", "term": term_json(term)});
            if let Some(type_name) = type_name {
                shape["type_name"] = json!(type_name);
            }
            if !relations.is_empty() {
                shape["rels"] = json!(relations);
            }
            if !attributes.is_empty() {
                shape["attrs"] = pairs_json(attributes);
            }
            shape
        }
        Atom::Fact { fact, relation, fields } => {
            let fields: Map<String, Value> =
                fields.iter().map(|(name, term)| (name.clone(), term_json(term))).collect();
            match fact {
                Some(fact) => json!({"kind": "fact", "fact": term_json(fact), "relation": relation, "fields": fields}),
                None => json!({"kind": "fact", "relation": relation, "fields": fields}),
            }
        }
    }
}

fn term_json(term: &Term) -> Value {
    match term {
        Term::Var(name) => json!(format!("?{name}")),
        Term::Wildcard => json!("_"),
        Term::Id(id) => json!(id),
        Term::Name(name) if name == "_" || name.starts_with('?') => json!({"kind": "name", "name": name}),
        Term::Name(name) => json!(name),
        Term::Entity { key, value } => json!({"kind": "entity", "key": key, "value": value}),
    }
}

fn pairs_json(pairs: &[(String, String)]) -> Value {
    let map: Map<String, Value> = pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    if map.len() == pairs.len() { Value::Object(map) } else { json!(pairs) }
}
