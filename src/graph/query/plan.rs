//! Compiles a conjunction of atoms to a plan: resolves names, and orders the steps so that intermediate results stay small.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::graph::node_names;
use crate::graph::query::automaton::Automaton;
use crate::graph::query::axql::{Atom, Path, Query, Term};
use crate::graph::query::text_match::TextMatch;
use crate::graph::snapshot::NodeIx;
use crate::graph::snapshot::view::View;
use crate::graph::suggest;

/// Estimated number of results of a path with repetition, relative to a single edge; used to order steps.
const REPETITION_FACTOR: f64 = 20.0;
/// Estimated fraction of entities that meet a text condition; used to order steps.
const MATCH_SHARE: f64 = 0.1;

/// For each text of an `fts` condition on the attribute `text`, the entities of the chunks that the index found.
pub(crate) type TextResults = HashMap<String, Vec<NodeIx>>;

/// The attribute with the text of a chunk, which is in the index but not in the graph.
pub(crate) const TEXT_ATTRIBUTE: &str = "text";

/// Index into a binding, which assigns entities to the variables, wildcards and constants of a query.
pub(crate) type Slot = usize;

/// One condition of a plan on the entities in one or two slots.
#[derive(Debug)]
pub(crate) enum Step {
    /// The entity in the slot is one of these, which are sorted.
    OneOf(Slot, Vec<NodeIx>),
    /// The entity in the slot has one of these types; `true` requires that it is a fact.
    HasType(Slot, Vec<u16>, bool),
    /// The entity in the slot has a matching value of an attribute.
    AttributeMatches(Slot, String, TextMatch),
    /// The entity in the slot has an outgoing edge of each of these relations. A relation is a list of numbers: one for each
    /// schema that declares it.
    HasOutgoing(Slot, Vec<Vec<u16>>),
    /// A path leads from the entity in the first slot to the one in the second slot.
    Path(Slot, Slot, Automaton),
}

/// The ordered steps for one disjunct of a query.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// A description of each step with its estimated number of results, for `explain`.
    pub(crate) descriptions: Vec<String>,
    /// Number of slots.
    pub(crate) slots: usize,
    /// Slots of the selected variables, in the order of the query.
    pub(crate) select: Vec<Slot>,
    /// Names and ids of the disjunct that denote no entity.
    pub(crate) unknown_nodes: Vec<String>,
    /// Index of the first step at which all selected slots are bound. From there on, only the existence of a match matters.
    pub(crate) selection_bound_at: usize,
}

/// Plans one disjunct. Name lookups are charged to `budget`; once it is used up, names resolve to no entity.
///
/// # Errors
/// `InvalidArgument` for a type or relation that is unknown to the schema, with the most similar known one.
pub(crate) fn plan_disjunct(
    view: &View,
    query: &Query,
    atoms: &[Atom],
    texts: &TextResults,
    budget: &mut u64,
) -> Result<Plan> {
    let (slots, steps, unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut compiler = Compiler { view, query, texts, budget, slots, steps, unknown };
    atoms.iter().try_for_each(|atom| compiler.compile_atom(atom))?;
    let slots: Vec<Option<Term>> = compiler.slots.clone();
    let find = |name: &String| slots.iter().position(|it| *it == Some(Term::Var(name.clone())));
    let select: Vec<Slot> = query.select.iter().filter_map(find).collect();
    let (steps, words) = order_steps(view, compiler.steps, &slots);
    let settled = selection_bound_at(&steps, slots.len(), &select);
    let unknown_nodes = compiler.unknown;
    Ok(Plan { steps, descriptions: words, slots: slots.len(), select, unknown_nodes, selection_bound_at: settled })
}

struct Compiler<'a> {
    view: &'a View,
    query: &'a Query,
    texts: &'a TextResults,
    budget: &'a mut u64,
    /// The variable or constant of each slot; `None` for a wildcard.
    slots: Vec<Option<Term>>,
    steps: Vec<Step>,
    /// Names and ids that denote no entity.
    unknown: Vec<String>,
}

impl Compiler<'_> {
    fn slot(&mut self, term: &Term) -> Result<Slot> {
        if *term == Term::Wildcard {
            self.slots.push(None);
            return Ok(self.slots.len() - 1);
        }
        if let Some(known) = self.slots.iter().position(|it| it.as_ref() == Some(term)) {
            return Ok(known);
        }
        let slot = self.slots.len();
        self.slots.push(Some(term.clone()));
        let among = match term {
            Term::Var(_) | Term::Wildcard => return Ok(slot),
            Term::Id(id) => {
                let node = self.view.snapshot.node_by_id(*id).filter(|it| self.view.is_visible(*it));
                if node.is_none() {
                    self.unknown.push(id.to_string());
                }
                node.into_iter().collect()
            }
            Term::Name(name) => self.resolve_name(name),
            Term::Entity { key, value } => self.view.with_exact_value(key, value),
        };
        self.steps.push(Step::OneOf(slot, among));
        Ok(slot)
    }

    /// Resolves a name to entities. Without an exact match, compares all names ignoring case, at a higher cost.
    fn resolve_name(&mut self, name: &str) -> Vec<NodeIx> {
        let found = node_names::resolve_exactly(self.view, name);
        let cost = if found.is_empty() { self.view.snapshot.nodes() as u64 } else { 1 };
        *self.budget = self.budget.saturating_sub(cost);
        match found.is_empty() {
            _ if *self.budget == 0 => Vec::new(),
            false => found,
            true => {
                let found = self.view.named_ignoring_case(name);
                if found.is_empty() {
                    self.unknown.push(name.into());
                }
                found
            }
        }
    }

    fn compile_atom(&mut self, atom: &Atom) -> Result<()> {
        match atom {
            Atom::Type { term, type_name } => {
                let slot = self.slot(term)?;
                self.compile_type(slot, type_name)
            }
            Atom::Edge { left, path, right } => {
                let (left, right) = (self.slot(left)?, self.slot(right)?);
                self.compile_path(left, path, right)
            }
            Atom::Equals { term, key, value } => {
                let slot = self.slot(term)?;
                self.compile_equals(slot, key, value);
                Ok(())
            }
            Atom::Contains { term, key, needle } => self.compile_match(term, key, TextMatch::contains(needle)),
            Atom::FullText { term, key, query } if key == TEXT_ATTRIBUTE => {
                let slot = self.slot(term)?;
                let found = self.texts.get(query).cloned().unwrap_or_default();
                self.steps.push(Step::OneOf(slot, found));
                Ok(())
            }
            Atom::FullText { term, key, query } => self.compile_match(term, key, TextMatch::words(query)),
            Atom::Fuzzy { term, key, needle, max_distance } => {
                self.compile_match(term, key, TextMatch::within_edits(needle, *max_distance))
            }
            Atom::HasOutgoing { term, relations } => {
                let slot = self.slot(term)?;
                self.compile_has_out(slot, relations)
            }
            Atom::Attributes { term, pairs } => self.compile_shape(term, None, &[], pairs),
            Atom::Shape { term, type_name, relations, attributes } => {
                self.compile_shape(term, type_name.as_deref(), relations, attributes)
            }
            Atom::Fact { fact, relation, fields } => self.compile_fact(fact.as_ref(), relation, fields),
        }
    }

    /// Uses a single slot for all conditions on an entity, because two slots of a wildcard `_` may hold different entities.
    fn compile_shape(
        &mut self,
        term: &Term,
        type_name: Option<&str>,
        relations: &[String],
        attributes: &[(String, String)],
    ) -> Result<()> {
        let slot = self.slot(term)?;
        type_name.into_iter().try_for_each(|it| self.compile_type(slot, it))?;
        if !relations.is_empty() {
            self.compile_has_out(slot, relations)?;
        }
        attributes.iter().for_each(|(key, value)| self.compile_equals(slot, key, value));
        Ok(())
    }

    fn compile_type(&mut self, slot: Slot, name: &str) -> Result<()> {
        let labels = self.type_numbers(name)?;
        self.steps.push(Step::HasType(slot, labels, false));
        Ok(())
    }

    fn type_numbers(&self, name: &str) -> Result<Vec<u16>> {
        let snapshot = &self.view.snapshot;
        let labels = snapshot.type_numbers(name);
        let known = !labels.is_empty() || !self.view.schema().types(name).is_empty();
        if known || self.view.schema().is_empty() || !self.view.schema().relations(name).is_empty() {
            return Ok(labels);
        }
        let in_schema = self.view.schema().all().iter().flat_map(|it| it.types.iter().map(|it| it.name.clone()));
        let names: Vec<String> =
            snapshot.labels.iter().map(|it| snapshot.qualified_name(*it)).chain(in_schema).collect();
        Err(unknown_name_error("type", name, &names))
    }

    fn relation_numbers(&self, name: &str) -> Result<Vec<u16>> {
        let snapshot = &self.view.snapshot;
        let relations = snapshot.relation_numbers(name);
        if !relations.is_empty() || self.view.schema().is_empty() || !self.view.schema().relations(name).is_empty() {
            return Ok(relations);
        }
        let in_schema = self.view.schema().all().iter().flat_map(|it| it.relations.iter().map(|it| it.name.clone()));
        let names: Vec<String> =
            snapshot.relations.iter().map(|it| snapshot.qualified_name(*it)).chain(in_schema).collect();
        Err(unknown_name_error("relation", name, &names))
    }

    fn compile_path(&mut self, left: Slot, path: &Path, right: Slot) -> Result<()> {
        let mut failed = None;
        let automaton = Automaton::new(path, self.query.max_hops, &mut |label| match self.relation_numbers(label) {
            Ok(relations) => relations,
            Err(error) => {
                failed.get_or_insert(error);
                Vec::new()
            }
        });
        match failed {
            Some(error) => Err(error),
            None => {
                self.steps.push(Step::Path(left, right, automaton));
                Ok(())
            }
        }
    }

    fn compile_equals(&mut self, slot: Slot, key: &str, value: &str) {
        self.steps.push(Step::OneOf(slot, self.view.with_exact_value(key, value)));
    }

    fn compile_match(&mut self, term: &Term, key: &str, test: TextMatch) -> Result<()> {
        let slot = self.slot(term)?;
        self.steps.push(Step::AttributeMatches(slot, key.into(), test));
        Ok(())
    }

    fn compile_has_out(&mut self, slot: Slot, relations: &[String]) -> Result<()> {
        let relations = relations.iter().map(|it| self.relation_numbers(it)).collect::<Result<_>>()?;
        self.steps.push(Step::HasOutgoing(slot, relations));
        Ok(())
    }

    fn compile_fact(&mut self, fact: Option<&Term>, relation: &str, fields: &[(String, Term)]) -> Result<()> {
        let slot = self.slot(fact.unwrap_or(&Term::Wildcard))?;
        let labels = self.type_numbers(relation)?;
        self.steps.push(Step::HasType(slot, labels, true));
        for (field, term) in fields {
            let value = self.slot(term)?;
            // Does not check the field name again, because type inference has checked it against the relation.
            let automaton =
                Automaton::new(&Path::Label(field.clone()), None, &mut |it| self.view.snapshot.relation_numbers(it));
            self.steps.push(Step::Path(slot, value, automaton));
        }
        Ok(())
    }
}

fn unknown_name_error(what: &str, name: &str, known: &[String]) -> Error {
    let error = Error::invalid(format!("found the {what} `{name}`, which is neither in the schema nor in the graph"));
    let error = error.field("query").hint("`vic graph stats` lists the types and relations");
    suggest::with_suggestion(error, name, known.iter().map(String::as_str))
}

impl Step {
    pub(crate) fn bound_slots(&self) -> Vec<Slot> {
        match self {
            Step::OneOf(slot, _)
            | Step::HasType(slot, ..)
            | Step::AttributeMatches(slot, ..)
            | Step::HasOutgoing(slot, _) => {
                vec![*slot]
            }
            Step::Path(left, right, _) => vec![*left, *right],
        }
    }

    /// Estimates the number of results for each binding of the earlier steps; 0 for a cheap check of bound slots.
    fn estimate(&self, view: &View, bound: &[bool]) -> f64 {
        let snapshot = &view.snapshot;
        let nodes = (snapshot.nodes() as f64).max(1.0);
        if self.bound_slots().iter().all(|it| bound[*it]) {
            // Orders cheap checks before path searches.
            return if matches!(self, Step::Path(_, _, automaton) if automaton.single_edge().is_none()) {
                0.5
            } else {
                0.0
            };
        }
        let edges =
            |relations: &[u16]| relations.iter().map(|it| snapshot.edges_of_relation(*it).len()).sum::<usize>() as f64;
        match self {
            Step::OneOf(_, among) => among.len() as f64,
            Step::HasType(_, labels, _) => {
                labels.iter().map(|it| snapshot.nodes_of_type(*it).len()).sum::<usize>() as f64
            }
            Step::AttributeMatches(..) => nodes * MATCH_SHARE + 1.0,
            Step::HasOutgoing(_, relations) => relations.iter().map(|it| edges(it)).fold(nodes, f64::min),
            Step::Path(left, right, automaton) => {
                let all = match automaton.single_edge() {
                    Some(relations) => edges(relations),
                    None => {
                        edges(&automaton.first_relations()) * if automaton.repeats() { REPETITION_FACTOR } else { 2.0 }
                    }
                };
                if bound[*left] || bound[*right] { all / nodes + 0.6 } else { all + nodes }
            }
        }
    }

    fn describe(&self, slots: &[Option<Term>]) -> String {
        let name = |slot: &Slot| slots[*slot].as_ref().map_or_else(|| format!("_{slot}"), Term::to_string);
        match self {
            Step::OneOf(slot, among) => format!("{} is one of {} entities", name(slot), among.len()),
            Step::HasType(slot, labels, fact) => {
                format!("{} is a {} of one of {} types", name(slot), if *fact { "fact" } else { "node" }, labels.len())
            }
            Step::AttributeMatches(slot, key, test) => format!("{}.{key} {}", name(slot), test.describe()),
            Step::HasOutgoing(slot, relations) => format!("{} has edges of {} relations", name(slot), relations.len()),
            Step::Path(left, right, automaton) if automaton.single_edge().is_some() => {
                format!("{} has an edge to {}", name(left), name(right))
            }
            Step::Path(left, right, _) => format!("{} has a path to {}", name(left), name(right)),
        }
    }
}

/// Orders the steps greedily: next is always the step with the lowest estimate. Also returns their descriptions.
fn order_steps(view: &View, mut steps: Vec<Step>, slots: &[Option<Term>]) -> (Vec<Step>, Vec<String>) {
    let mut bound = vec![false; slots.len()];
    let (mut ordered, mut words) = (Vec::new(), Vec::new());
    while !steps.is_empty() {
        let costs = steps.iter().map(|it| it.estimate(view, &bound));
        let best = costs.enumerate().min_by(|one, other| one.1.total_cmp(&other.1));
        let Some((at, cost)) = best else { break };
        let step = steps.remove(at);
        step.bound_slots().into_iter().for_each(|it| bound[it] = true);
        words.push(format!("{} (about {cost:.1})", step.describe(slots)));
        ordered.push(step);
    }
    (ordered, words)
}

fn selection_bound_at(steps: &[Step], slots: usize, select: &[Slot]) -> usize {
    let mut bound = vec![false; slots];
    for (number, step) in steps.iter().enumerate() {
        if select.iter().all(|it| bound[*it]) {
            return number;
        }
        step.bound_slots().into_iter().for_each(|it| bound[it] = true);
    }
    steps.len()
}
