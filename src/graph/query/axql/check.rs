//! Checks of a parsed query that apply to both AxQL and `query_ir_v1`.

use crate::error::{Error, Result};
use crate::graph::query::axql::ast::{Atom, MAX_DISTANCE, MAX_HOPS, MAX_LIMIT, Query, Term};

/// Maximum number of disjuncts in a query.
pub(crate) const MAX_DISJUNCTS: usize = 16;
/// Maximum number of atoms in one disjunct.
pub(crate) const MAX_ATOMS: usize = 64;
/// Maximum number of relations in one path, because each is a state of its automaton.
const MAX_LABELS: usize = 64;
/// Maximum number of relations, of attributes and of fields in one atom.
const MAX_PARTS: usize = 64;
/// Maximum number of conditions in one disjunct: atoms, their parts and their constants. Each is a step of the plan:
/// planning compares each step with all others, and execution recurses once per step.
const MAX_STEPS: usize = 256;
/// Maximum number of selected variables and of contexts in a query.
const MAX_NAMES: usize = 256;

/// Checks the sizes and names of a query, and that every disjunct binds every selected variable.
///
/// # Errors
/// `InvalidArgument` that names the problem.
pub(crate) fn check_query(query: &Query) -> Result<()> {
    check_sizes(query)?;
    if query.limit.is_some_and(|it| !(1..=MAX_LIMIT).contains(&it)) {
        return Err(Error::invalid(format!("`limit` is not between 1 and {MAX_LIMIT}")));
    }
    if query.max_hops.is_some_and(|it| !(1..=MAX_HOPS).contains(&it)) {
        return Err(Error::invalid(format!("`max_hops` is not between 1 and {MAX_HOPS}")));
    }
    if query.min_confidence.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
        return Err(Error::invalid("the minimum confidence is not between 0 and 1"));
    }
    query.disjuncts.iter().flatten().try_for_each(check_atom)?;
    check_selected(query)
}

/// Checks only the sizes of a query. Runs first, because later steps take time quadratic in these sizes.
///
/// # Errors
/// `InvalidArgument` that names the exceeded limit.
pub(crate) fn check_sizes(query: &Query) -> Result<()> {
    if query.disjuncts.is_empty() || query.disjuncts.iter().any(Vec::is_empty) {
        return Err(Error::invalid("a query needs at least one atom after `where` and after each `or`"));
    }
    if query.disjuncts.len() > MAX_DISJUNCTS || query.disjuncts.iter().any(|it| it.len() > MAX_ATOMS) {
        let message = format!("a query has at most {MAX_DISJUNCTS} disjuncts of at most {MAX_ATOMS} atoms each");
        return Err(Error::invalid(message));
    }
    for (what, count) in [("selected variables", query.select.len()), ("contexts", query.contexts.len())] {
        check_limit("a query", MAX_NAMES, what, count)?;
    }
    query.disjuncts.iter().flatten().try_for_each(check_parts)?;
    let all = |atoms: &Vec<Atom>| atoms.iter().map(condition_count).sum::<usize>();
    match query.disjuncts.iter().map(all).max() {
        Some(many) if many > MAX_STEPS => Err(Error::invalid(format!(
            "a disjunct has at most {MAX_STEPS} conditions, counting parts and constants of its atoms, not {many}"
        ))),
        _ => Ok(()),
    }
}

fn check_limit(whose: &str, most: usize, what: &str, count: usize) -> Result<()> {
    if count <= most { Ok(()) } else { Err(Error::invalid(format!("{whose} has at most {most} {what}, not {count}"))) }
}

fn check_parts(atom: &Atom) -> Result<()> {
    let bounded = |what: &str, count: usize| check_limit("an atom", MAX_PARTS, what, count);
    match atom {
        Atom::HasOutgoing { relations, .. } => bounded("relations", relations.len()),
        Atom::Attributes { pairs, .. } => bounded("attributes", pairs.len()),
        Atom::Shape { relations, attributes, .. } => {
            bounded("relations", relations.len())?;
            bounded("attributes", attributes.len())
        }
        Atom::Fact { fields, .. } => bounded("fields", fields.len()),
        _ => Ok(()),
    }
}

/// Returns the number of conditions to which an atom is compiled: its parts and its constants.
fn condition_count(atom: &Atom) -> usize {
    let parts = match atom {
        Atom::Attributes { pairs, .. } => pairs.len(),
        Atom::Shape { type_name, relations, attributes, .. } => {
            usize::from(type_name.is_some()) + usize::from(!relations.is_empty()) + attributes.len()
        }
        Atom::Fact { fields, .. } => 1 + fields.len(),
        _ => 1,
    };
    let constants = atom.terms().into_iter().filter(|it| !matches!(it, Term::Var(_) | Term::Wildcard)).count();
    parts + constants
}

fn check_selected(query: &Query) -> Result<()> {
    if query.select.is_empty() {
        return Err(Error::invalid("a query needs at least one variable, such as `?x`"));
    }
    let bound = query.variables();
    for name in &query.select {
        let times = bound.iter().find(|(it, _)| it == name).map_or(0, |(_, times)| *times);
        if times < query.disjuncts.len() {
            let known: Vec<String> = bound.iter().map(|(it, _)| format!("`?{it}`")).collect();
            let place = if times == 0 { "no atom" } else { "not every disjunct" };
            return Err(Error::invalid(format!("`?{name}` is selected, but {place} binds it"))
                .hint(format!("variables of the atoms: {}", known.join(", "))));
        }
    }
    Ok(())
}

fn check_atom(atom: &Atom) -> Result<()> {
    match atom {
        Atom::Edge { path, .. } => {
            let labels = path.labels();
            if labels.len() > MAX_LABELS {
                return Err(Error::invalid(format!("a path may have at most {MAX_LABELS} relations")));
            }
            labels.into_iter().try_for_each(|it| check_name("relation", it))
        }
        Atom::Fuzzy { max_distance, .. } if *max_distance > MAX_DISTANCE => {
            Err(Error::invalid(format!("the distance of `fuzzy` must be at most {MAX_DISTANCE}")))
        }
        Atom::HasOutgoing { relations, .. } if relations.is_empty() => Err(Error::invalid("`has` needs a relation")),
        Atom::HasOutgoing { relations, .. } => relations.iter().try_for_each(|it| check_name("relation", it)),
        Atom::Attributes { pairs, .. } if pairs.is_empty() => Err(Error::invalid("`attrs` needs an attribute")),
        Atom::Attributes { pairs, .. } => pairs.iter().try_for_each(|(key, _)| check_name("attribute", key)),
        Atom::Shape { type_name, relations, attributes, .. } => {
            if type_name.is_none() && relations.is_empty() && attributes.is_empty() {
                return Err(Error::invalid("a shape needs a type, a relation or an attribute"));
            }
            type_name.iter().try_for_each(|it| check_name("type", it))?;
            relations.iter().try_for_each(|it| check_name("relation", it))?;
            attributes.iter().try_for_each(|(key, _)| check_name("attribute", key))
        }
        Atom::Fact { relation, fields, .. } => {
            check_name("relation", relation)?;
            fields.iter().try_for_each(|(field, _)| check_name("field", field))
        }
        Atom::Type { type_name, .. } => check_name("type", type_name),
        Atom::Equals { .. } | Atom::Contains { .. } | Atom::FullText { .. } | Atom::Fuzzy { .. } => Ok(()),
    }
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() { Err(Error::invalid(format!("a {what} must have a name"))) } else { Ok(()) }
}
