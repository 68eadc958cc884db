//! Type inference for queries: adds the types that the schema implies, and reports contradictions.

use crate::error::{Error, Result};
use crate::graph::query::axql::{Atom, Path, Query, Term};
use crate::graph::snapshot::view::View;
use crate::graph::suggest;
use crate::model::GraphRelation;

/// A type that a variable must have, and what requires it.
struct TypeClaim {
    variable: String,
    schema: String,
    type_name: String,
    because: String,
}

/// Returns the query with the types that its relations and facts imply for its variables.
///
/// # Errors
/// `InvalidArgument` if a variable would need two types that no entity can have at once, or if a fact has a field that its
/// relation does not have.
pub(crate) fn infer_types(view: &View, query: &Query) -> Result<Query> {
    let mut query = query.clone();
    if view.schema().is_empty() {
        return Ok(query);
    }
    for atoms in &mut query.disjuncts {
        let mut claims = Vec::new();
        for atom in atoms.iter() {
            claims.extend(implied_types(view, atom)?);
        }
        check_types(view, &claims)?;
        for claim in claims {
            let type_name = format!("{}.{}", claim.schema, claim.type_name);
            let atom = Atom::Type { term: Term::Var(claim.variable), type_name };
            if !atoms.contains(&atom) && !is_stated(atoms, &atom) {
                atoms.push(atom);
            }
        }
    }
    Ok(query)
}

/// Returns whether the query already states the type `S.T` that `implied` adds, in its short form `T` without the schema.
fn is_stated(atoms: &[Atom], implied: &Atom) -> bool {
    let Atom::Type { term: wanted, type_name: full } = implied else { return false };
    atoms.iter().any(|it| {
        matches!(it, Atom::Type { term, type_name }
        if term == wanted && full.rsplit_once('.').is_some_and(|(_, bare)| bare == type_name))
    })
}

fn implied_types(view: &View, atom: &Atom) -> Result<Vec<TypeClaim>> {
    match atom {
        Atom::Type { term, type_name } => Ok(stated_type(view, term, type_name)),
        Atom::Shape { term, type_name: Some(name), .. } => Ok(stated_type(view, term, name)),
        Atom::Edge { left, path: Path::Label(label), right } => {
            let Some((schema, relation)) = unique_relation(view, label) else { return Ok(Vec::new()) };
            let Some((from, to)) = relation.endpoints() else { return Ok(Vec::new()) };
            let because = format!("-{label}->");
            let ends = [(left, &from.field_type), (right, &to.field_type)];
            Ok(ends.into_iter().filter_map(|(term, it)| type_claim(view, term, (schema, it), &because)).collect())
        }
        Atom::Fact { relation: name, fields, .. } => {
            let Some((schema, relation)) = unique_relation(view, name) else { return Ok(Vec::new()) };
            let mut claims = Vec::new();
            for (field, term) in fields {
                let Some(known) = relation.fields.iter().find(|it| it.name == *field) else {
                    return Err(unknown_field_error(name, relation, field));
                };
                let because = format!("{name}({field})");
                claims.extend(type_claim(view, term, (schema, &known.field_type), &because));
            }
            Ok(claims)
        }
        _ => Ok(Vec::new()),
    }
}

fn stated_type(view: &View, term: &Term, name: &str) -> Vec<TypeClaim> {
    match view.schema().types(name).as_slice() {
        [(schema, bare)] => type_claim(view, term, (schema, bare), "the query").into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the relation with this name, if exactly one schema declares it and all edges with this name belong to it.
fn unique_relation<'a>(view: &'a View, name: &'a str) -> Option<(&'a str, &'a GraphRelation)> {
    let relations = view.schema().relations(name);
    let [(schema, relation)] = relations.as_slice() else { return None };
    let mut present =
        view.snapshot.relation_numbers(name).into_iter().map(|it| view.snapshot.relations[it as usize].schema);
    present.all(|it| view.snapshot.symbols.get(it) == *schema).then_some((*schema, *relation))
}

fn type_claim(view: &View, term: &Term, (schema, type_name): (&str, &str), because: &str) -> Option<TypeClaim> {
    let Term::Var(variable) = term else { return None };
    // A field type that its schema does not declare implies no type.
    let known = view.schema().types(type_name).into_iter().any(|(it, _)| it == schema);
    known.then(|| TypeClaim {
        variable: variable.clone(),
        schema: schema.into(),
        type_name: type_name.into(),
        because: because.into(),
    })
}

fn check_types(view: &View, claims: &[TypeClaim]) -> Result<()> {
    for (number, one) in claims.iter().enumerate() {
        let clashes = |other: &&TypeClaim| {
            other.variable == one.variable
                && other.schema == one.schema
                && !view.schema().share_subtype(&one.schema, &one.type_name, &other.type_name)
        };
        if let Some(other) = claims[number + 1..].iter().find(clashes) {
            let message = format!(
                "`?{}` would be a `{}` by {} and a `{}` by {}, and no entity is both",
                one.variable, one.type_name, one.because, other.type_name, other.because
            );
            return Err(Error::invalid(message).field("query"));
        }
    }
    Ok(())
}

fn unknown_field_error(name: &str, relation: &GraphRelation, field: &str) -> Error {
    let fields: Vec<&str> = relation.fields.iter().map(|it| it.name.as_str()).collect();
    let message = format!("found the field `{field}` of `{name}`, expected one of {}", fields.join(", "));
    let error = Error::invalid(message).field("query");
    suggest::with_suggestion(error, field, fields)
}
