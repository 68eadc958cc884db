//! Runs graph queries and returns their result as JSON: `{vars, rows, truncated}`, or only the elaborated query.

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::graph::node_names;
use crate::graph::query::axql::{Atom, Query};
use crate::graph::query::plan::{TEXT_ATTRIBUTE, TextResults};
use crate::graph::query::{axql, execute, ir, typecheck};
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{Label, NodeIx, schema};
use crate::graph::suggest;
use crate::model::{GraphQuestion, IN_CONTEXT};

/// Maximum number of notes about entities of a query that the graph does not have.
const MAX_UNKNOWN_NODES: usize = 3;

/// Parses the query of a request, which is AxQL or `query_ir_v1`.
///
/// # Errors
/// The request has no query or two queries, or the query is invalid.
pub(crate) fn parse_question(question: &GraphQuestion) -> Result<Query> {
    match (&question.axql, &question.ir) {
        (Some(text), None) => axql::parse(text),
        (None, Some(value)) => ir::parse(value),
        (None, None) => Err(Error::invalid("there is no query: set `axql` or `query_ir_v1`").field("query")),
        (Some(_), Some(_)) => Err(Error::invalid("there are two queries: omit `axql` or `query_ir_v1`").field("query")),
    }
}

/// Returns the words of each `fts` condition on the text of chunks. The index is searched for these, because the graph does
/// not have that text.
pub(crate) fn index_texts(query: &Query) -> Vec<String> {
    let text = |atom: &Atom| match atom {
        Atom::FullText { key, query, .. } if key == TEXT_ATTRIBUTE => Some(query.clone()),
        _ => None,
    };
    let mut texts: Vec<String> = query.disjuncts.iter().flatten().filter_map(text).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Runs a query after type inference; `texts` has the entities that the index found for each result of `index_texts`.
pub(crate) fn run_query(view: View, query: &Query, texts: &TextResults, explain: bool) -> Result<Value> {
    let query = typecheck::infer_types(&view, query)?;
    let contexts = resolve_contexts(&view, &query)?;
    let mut notes = unknown_name_notes(&view, &query);
    let view = view.with_min_confidence(query.min_confidence);
    let view = if contexts.is_empty() { view } else { view.with_contexts(&contexts) };
    let answer = execute::execute(&view, &query, texts)?;
    let vars: Vec<String> = query.select.iter().map(|it| format!("?{it}")).collect();
    let row = |row: &Vec<NodeIx>| -> Value {
        let cells = vars.iter().zip(row).map(|(name, node)| (name.clone(), entity_cell(&view, *node)));
        Value::Object(cells.collect::<Map<_, _>>())
    };
    let rows: Vec<Value> = answer.rows.iter().map(row).collect();
    let mut value = json!({"vars": vars, "rows": rows, "truncated": answer.truncated});
    let unknown: Vec<&str> = answer.unknown_nodes.iter().take(MAX_UNKNOWN_NODES).map(String::as_str).collect();
    if !unknown.is_empty() {
        notes.extend(node_names::unknown_nodes(&view, &unknown));
    }
    if answer.exhausted {
        notes.push("the search was aborted after too many edges; make the query narrower".into());
    }
    if !notes.is_empty() {
        value["notes"] = json!(notes);
    }
    if explain {
        value["plan"] = json!(answer.plans);
        value["axql"] = json!(query.to_string());
    }
    Ok(value)
}

/// Returns notes about types and relations of a query that the graph lacks. With a schema they are errors instead; without
/// one, a query may be written before its data exists. A caller that sees only a part of the graph gets no notes.
fn unknown_name_notes(view: &View, query: &Query) -> Vec<String> {
    let snapshot = &view.snapshot;
    if !view.is_whole() || !view.schema().is_empty() {
        return Vec::new();
    }
    let (mut types, mut relations): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for atom in query.disjuncts.iter().flatten() {
        match atom {
            Atom::Type { type_name, .. } => types.push(type_name),
            Atom::Edge { path, .. } => relations.extend(path.labels()),
            Atom::HasOutgoing { relations: names, .. } => relations.extend(names.iter().map(String::as_str)),
            Atom::Shape { type_name, relations: names, .. } => {
                types.extend(type_name.as_deref());
                relations.extend(names.iter().map(String::as_str));
            }
            Atom::Fact { relation, .. } => relations.push(relation),
            _ => (),
        }
    }
    types.retain(|it| snapshot.type_numbers(it).is_empty());
    // Gives no note about a relation that is a type of facts: facts without two endpoints have no edge of the relation.
    relations.retain(|it| snapshot.relation_numbers(it).is_empty() && snapshot.type_numbers(it).is_empty());
    let told = |what: &str, mut names: Vec<&str>, known: &[Label]| {
        names.sort_unstable();
        names.dedup();
        let known: Vec<String> = known.iter().map(|it| snapshot.qualified_name(*it)).collect();
        let one = |name: &str| match suggest::nearest(name, known.iter().map(String::as_str)) {
            Some(meant) => format!("the graph has no {what} `{name}`; did you mean `{meant}`?"),
            None => format!("the graph has no {what} `{name}`"),
        };
        names.into_iter().map(one).collect::<Vec<String>>()
    };
    [told("type", types, &snapshot.labels), told("relation", relations, &snapshot.relations)].concat()
}

/// Returns an entity as a cell of a row: its number, type and name.
pub(crate) fn entity_cell(view: &View, node: NodeIx) -> Value {
    let snapshot = &view.snapshot;
    json!({"id": snapshot.id(node), "entity_type": snapshot.type_name(node), "name": snapshot.name(node)})
}

fn resolve_contexts(view: &View, query: &Query) -> Result<Vec<NodeIx>> {
    let mut contexts = Vec::new();
    for name in &query.contexts {
        let found = node_names::resolve(view, name);
        if found.is_empty() {
            let known = context_names(view, IN_CONTEXT);
            let error = Error::invalid(format!("the context `{name}` does not exist in the graph"));
            let error = error.field("query").hint(match known.is_empty() {
                true => "no fact of the graph has a context; leave `in` out".into(),
                false => format!("contexts: {}", known.join(", ")),
            });
            return Err(suggest::with_suggestion(error, name, known.iter().map(String::as_str)));
        }
        contexts.extend(found);
    }
    Ok(contexts)
}

/// Returns the names of all contexts or times of facts: the targets of this relation, sorted.
pub(crate) fn context_names(view: &View, relation: &str) -> Vec<String> {
    let snapshot = &view.snapshot;
    let edges = snapshot.relation_numbers(relation).into_iter().flat_map(|it| snapshot.edges_of_relation(it));
    let seen = edges.filter(|it| view.is_edge_visible(**it)).map(|it| snapshot.target(*it));
    let mut names: Vec<String> =
        seen.filter(|it| view.is_visible(*it)).map(|it| snapshot.name(it).to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the elaborated query as AxQL and as `query_ir_v1`, without running it.
///
/// # Errors
/// As `run_query`.
pub(crate) fn elaborate_only(view: &View, query: &Query) -> Result<Value> {
    let query = typecheck::infer_types(view, query)?;
    resolve_contexts(view, &query)?;
    let mut value = json!({"axql": query.to_string()});
    // If the limit is too high for `query_ir_v1`, leaves out only this form of the query.
    match ir::write(&query) {
        Ok(form) => value["query_ir_v1"] = form,
        Err(error) => value["notes"] = json!([error.message]),
    }
    Ok(value)
}

/// Returns the signature `S.R(a: T, b: U)  (source_field=a, target_field=b)` of every relation of the schemas.
pub(crate) fn signatures(schema: &schema::SchemaSet) -> Vec<String> {
    let each = schema.all().iter().flat_map(|it| it.relations.iter().map(move |relation| (it, relation)));
    each.map(|(schema, relation)| {
        let fields: Vec<String> = relation.fields.iter().map(|it| format!("{}: {}", it.name, it.field_type)).collect();
        let ends = relation.endpoints().map_or(String::new(), |(source, target)| {
            format!("  (source_field={}, target_field={})", source.name, target.name)
        });
        format!("{}.{}({}){ends}", schema.name, relation.name, fields.join(", "))
    })
    .collect()
}

/// Returns the constraints of every relation that has any, in the form `S.R: symmetric; key(a, b)`.
pub(crate) fn constraints(schema: &schema::SchemaSet) -> Vec<String> {
    let each = schema.all().iter().flat_map(|it| it.relations.iter().map(move |relation| (it, relation)));
    let with = each.filter(|(_, relation)| !relation.constraints.is_empty());
    with.map(|(schema, relation)| format!("{}.{}: {}", schema.name, relation.name, relation.constraints.join("; ")))
        .collect()
}
