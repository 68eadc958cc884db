//! Compiles a conjunction of atoms to steps: resolves names and orders the steps so that intermediate results stay small.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::graph::query::automaton::Automaton;
use crate::graph::query::axql::{Atom, Path, Query, Term};
use crate::graph::query::text_match::Test;
use crate::graph::snapshot::Ix;
use crate::graph::snapshot::view::View;
use crate::graph::suggest;

/// Estimated growth of a path with repetition over a single edge, for the order of steps.
const REPETITION: f64 = 20.0;
/// Estimated share of entities that pass a text condition.
const TEST_SHARE: f64 = 0.1;

/// Results of the index for `fts` over chunk texts, by query text.
pub(crate) type Texts = HashMap<String, Vec<Ix>>;

/// The attribute of chunks that only the index holds, not the graph.
pub(crate) const TEXT: &str = "text";

/// The index of a variable or constant in a binding.
pub(crate) type Slot = usize;

/// One condition.
#[derive(Debug)]
pub(crate) enum Step {
    /// The slot is one of these sorted entities.
    Among(Slot, Vec<Ix>),
    /// The slot has one of these types; `true` requires a fact.
    Labels(Slot, Vec<u16>, bool),
    /// The slot has a matching value of an attribute.
    Value(Slot, String, Test),
    /// The slot has an outgoing edge of each relation, each given by all its numbers.
    HasOut(Slot, Vec<Vec<u16>>),
    /// A path connects the two slots.
    Path(Slot, Slot, Automaton),
}

/// The ordered steps of a disjunct.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// A description of each step with its estimated number of entities.
    pub(crate) words: Vec<String>,
    /// Number of slots.
    pub(crate) slots: usize,
    /// Selected slots.
    pub(crate) select: Vec<Slot>,
    /// From this step on all selected slots are bound, so only the existence of a match matters.
    pub(crate) settled: usize,
}

/// Plans one disjunct. Name lookups count down `budget`; when it is used up, names resolve to nothing.
///
/// # Errors
/// `InvalidArgument` for a name unknown to the schema, with the nearest known name.
pub(crate) fn plan(view: &View, query: &Query, atoms: &[Atom], texts: &Texts, budget: &mut u64) -> Result<Plan> {
    let mut compiler = Compiler { view, query, texts, budget, slots: Vec::new(), steps: Vec::new() };
    atoms.iter().try_for_each(|atom| compiler.atom(atom))?;
    let slots: Vec<Option<Term>> = compiler.slots.clone();
    let find = |name: &String| slots.iter().position(|it| *it == Some(Term::Var(name.clone())));
    let select: Vec<Slot> = query.select.iter().filter_map(find).collect();
    let (steps, words) = order(view, compiler.steps, &slots);
    let settled = settled(&steps, slots.len(), &select);
    Ok(Plan { steps, words, slots: slots.len(), select, settled })
}

struct Compiler<'a> {
    view: &'a View,
    query: &'a Query,
    texts: &'a Texts,
    budget: &'a mut u64,
    /// The term of each slot; `None` for a wildcard.
    slots: Vec<Option<Term>>,
    steps: Vec<Step>,
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
            Term::Id(id) => self.view.snapshot.by_id(*id).filter(|it| self.view.sees(*it)).into_iter().collect(),
            Term::Name(name) => self.called(name),
            Term::Entity { key, value } => self.view.with_exactly(key, value),
        };
        self.steps.push(Step::Among(slot, among));
        Ok(slot)
    }

    /// Resolves a name. One without an exact match is compared with all names.
    fn called(&mut self, name: &str) -> Vec<Ix> {
        let snapshot = &self.view.snapshot;
        let is_known = !snapshot.named(name).is_empty() || snapshot.keyed(name).is_some();
        *self.budget = self.budget.saturating_sub(if is_known { 1 } else { snapshot.nodes() as u64 });
        if *self.budget == 0 { Vec::new() } else { self.view.called(name) }
    }

    fn atom(&mut self, atom: &Atom) -> Result<()> {
        match atom {
            Atom::Type { term, type_name } => {
                let slot = self.slot(term)?;
                self.type_of(slot, type_name)
            }
            Atom::Edge { left, path, right } => {
                let (left, right) = (self.slot(left)?, self.slot(right)?);
                self.path(left, path, right)
            }
            Atom::Equals { term, key, value } => {
                let slot = self.slot(term)?;
                self.equals(slot, key, value);
                Ok(())
            }
            Atom::Contains { term, key, needle } => self.test(term, key, Test::contains(needle)),
            Atom::Fts { term, key, query } if key == TEXT => {
                let slot = self.slot(term)?;
                let found = self.texts.get(query).cloned().unwrap_or_default();
                self.steps.push(Step::Among(slot, found));
                Ok(())
            }
            Atom::Fts { term, key, query } => self.test(term, key, Test::words(query)),
            Atom::Fuzzy { term, key, needle, max_distance } => self.test(term, key, Test::near(needle, *max_distance)),
            Atom::HasOut { term, relations } => {
                let slot = self.slot(term)?;
                self.has_out(slot, relations)
            }
            Atom::Attributes { term, pairs } => self.shape(term, None, &[], pairs),
            Atom::Shape { term, type_name, relations, attributes } => {
                self.shape(term, type_name.as_deref(), relations, attributes)
            }
            Atom::Fact { fact, relation, fields } => self.fact(fact.as_ref(), relation, fields),
        }
    }

    /// Compiles all conditions on one entity with a single slot, because each `_` is a different entity.
    fn shape(
        &mut self,
        term: &Term,
        type_name: Option<&str>,
        relations: &[String],
        attributes: &[(String, String)],
    ) -> Result<()> {
        let slot = self.slot(term)?;
        type_name.into_iter().try_for_each(|it| self.type_of(slot, it))?;
        if !relations.is_empty() {
            self.has_out(slot, relations)?;
        }
        attributes.iter().for_each(|(key, value)| self.equals(slot, key, value));
        Ok(())
    }

    fn type_of(&mut self, slot: Slot, name: &str) -> Result<()> {
        let labels = self.labels(name)?;
        self.steps.push(Step::Labels(slot, labels, false));
        Ok(())
    }

    fn labels(&self, name: &str) -> Result<Vec<u16>> {
        let snapshot = &self.view.snapshot;
        let labels = snapshot.labels_of(name);
        let known = !labels.is_empty() || !snapshot.schema.types(name).is_empty();
        if known || snapshot.schema.is_empty() || !snapshot.schema.relations(name).is_empty() {
            return Ok(labels);
        }
        let in_schema = snapshot.schema.all().iter().flat_map(|it| it.types.iter().map(|it| it.name.clone()));
        let names: Vec<String> = snapshot.labels.iter().map(|it| snapshot.written(*it)).chain(in_schema).collect();
        Err(unknown("type", name, &names))
    }

    fn relations(&self, name: &str) -> Result<Vec<u16>> {
        let snapshot = &self.view.snapshot;
        let relations = snapshot.relations_of(name);
        if !relations.is_empty() || snapshot.schema.is_empty() || !snapshot.schema.relations(name).is_empty() {
            return Ok(relations);
        }
        let in_schema = snapshot.schema.all().iter().flat_map(|it| it.relations.iter().map(|it| it.name.clone()));
        let names: Vec<String> = snapshot.relations.iter().map(|it| snapshot.written(*it)).chain(in_schema).collect();
        Err(unknown("relation", name, &names))
    }

    fn path(&mut self, left: Slot, path: &Path, right: Slot) -> Result<()> {
        let mut failed = None;
        let automaton = Automaton::new(path, self.query.max_hops, &mut |label| match self.relations(label) {
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

    fn equals(&mut self, slot: Slot, key: &str, value: &str) {
        self.steps.push(Step::Among(slot, self.view.with_exactly(key, value)));
    }

    fn test(&mut self, term: &Term, key: &str, test: Test) -> Result<()> {
        let slot = self.slot(term)?;
        self.steps.push(Step::Value(slot, key.into(), test));
        Ok(())
    }

    fn has_out(&mut self, slot: Slot, relations: &[String]) -> Result<()> {
        let relations = relations.iter().map(|it| self.relations(it)).collect::<Result<_>>()?;
        self.steps.push(Step::HasOut(slot, relations));
        Ok(())
    }

    fn fact(&mut self, fact: Option<&Term>, relation: &str, fields: &[(String, Term)]) -> Result<()> {
        let slot = self.slot(fact.unwrap_or(&Term::Wildcard))?;
        let labels = self.labels(relation)?;
        self.steps.push(Step::Labels(slot, labels, true));
        for (field, term) in fields {
            let value = self.slot(term)?;
            // Type inference has already checked field names against their relation.
            let automaton =
                Automaton::new(&Path::Label(field.clone()), None, &mut |it| self.view.snapshot.relations_of(it));
            self.steps.push(Step::Path(slot, value, automaton));
        }
        Ok(())
    }
}

fn unknown(what: &str, name: &str, known: &[String]) -> Error {
    let error = Error::invalid(format!("found the {what} `{name}`, which is neither in the schema nor in the graph"));
    let error = error.field("query").hint("`vic graph stats` lists the types and relations");
    suggest::suggest(error, name, known.iter().map(String::as_str))
}

impl Step {
    pub(crate) fn slots(&self) -> Vec<Slot> {
        match self {
            Step::Among(slot, _) | Step::Labels(slot, ..) | Step::Value(slot, ..) | Step::HasOut(slot, _) => {
                vec![*slot]
            }
            Step::Path(left, right, _) => vec![*left, *right],
        }
    }

    /// Estimates the number of entities for each binding so far; 0 for a cheap check.
    fn leaves(&self, view: &View, bound: &[bool]) -> f64 {
        let snapshot = &view.snapshot;
        let nodes = (snapshot.nodes() as f64).max(1.0);
        if self.slots().iter().all(|it| bound[*it]) {
            // Cheap checks precede walks.
            return if matches!(self, Step::Path(_, _, automaton) if automaton.single().is_none()) { 0.5 } else { 0.0 };
        }
        let edges =
            |relations: &[u16]| relations.iter().map(|it| snapshot.of_relation(*it).len()).sum::<usize>() as f64;
        match self {
            Step::Among(_, among) => among.len() as f64,
            Step::Labels(_, labels, _) => labels.iter().map(|it| snapshot.of_label(*it).len()).sum::<usize>() as f64,
            Step::Value(..) => nodes * TEST_SHARE + 1.0,
            Step::HasOut(_, relations) => relations.iter().map(|it| edges(it)).fold(nodes, f64::min),
            Step::Path(left, right, automaton) => {
                let all = match automaton.single() {
                    Some(relations) => edges(relations),
                    None => edges(&automaton.first()) * if automaton.repeats() { REPETITION } else { 2.0 },
                };
                if bound[*left] || bound[*right] { all / nodes + 0.6 } else { all + nodes }
            }
        }
    }

    fn words(&self, slots: &[Option<Term>]) -> String {
        let name = |slot: &Slot| slots[*slot].as_ref().map_or_else(|| format!("_{slot}"), Term::to_string);
        match self {
            Step::Among(slot, among) => format!("{} is one of {}", name(slot), among.len()),
            Step::Labels(slot, labels, fact) => {
                format!("{} is a {} of {} types", name(slot), if *fact { "fact" } else { "node" }, labels.len())
            }
            Step::Value(slot, key, test) => format!("{}.{key} {}", name(slot), test.words_of()),
            Step::HasOut(slot, relations) => format!("{} has {} relations", name(slot), relations.len()),
            Step::Path(left, right, automaton) if automaton.single().is_some() => {
                format!("{} has an edge to {}", name(left), name(right))
            }
            Step::Path(left, right, _) => format!("{} has a path to {}", name(left), name(right)),
        }
    }
}

/// Orders the steps greedily by estimated result size.
fn order(view: &View, mut steps: Vec<Step>, slots: &[Option<Term>]) -> (Vec<Step>, Vec<String>) {
    let mut bound = vec![false; slots.len()];
    let (mut ordered, mut words) = (Vec::new(), Vec::new());
    while !steps.is_empty() {
        let costs = steps.iter().map(|it| it.leaves(view, &bound));
        let best = costs.enumerate().min_by(|one, other| one.1.total_cmp(&other.1));
        let Some((at, cost)) = best else { break };
        let step = steps.remove(at);
        step.slots().into_iter().for_each(|it| bound[it] = true);
        words.push(format!("{} (about {cost:.1})", step.words(slots)));
        ordered.push(step);
    }
    (ordered, words)
}

fn settled(steps: &[Step], slots: usize, select: &[Slot]) -> usize {
    let mut bound = vec![false; slots];
    for (number, step) in steps.iter().enumerate() {
        if select.iter().all(|it| bound[*it]) {
            return number;
        }
        step.slots().into_iter().for_each(|it| bound[it] = true);
    }
    steps.len()
}
