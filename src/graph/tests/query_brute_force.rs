//! Compares query execution with a brute-force evaluator, on random graphs with types, facts and contexts.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::graph::query::axql::tests::path;
use crate::graph::query::axql::{Atom, Path, Query, Term};
use crate::graph::query::plan::{TEXT_ATTRIBUTE, TextResults};
use crate::graph::query::text_match::folded_words;
use crate::graph::query::{answer, axql, ir};
use crate::graph::snapshot::view::View;
use crate::graph::tests::graph;

/// Number of plain entities; they are numbered from 0, followed by contexts and facts.
const ENTITIES: u32 = 5;
const CONTEXTS: [&str; 2] = ["W0", "W1"];
/// Values that the attribute `k` of an entity may have.
const VALUES: [&str; 4] = ["red apple", "Red", "green apple-pie", "rad"];

/// A fact `R(f, g)`: values of both fields, index of its context, and whether it has high confidence.
type Fact = (u32, u32, Option<usize>, bool);

#[derive(Clone, Debug)]
struct Scene {
    types: Vec<u8>,
    values: Vec<Option<usize>>,
    edges: Vec<(u32, u8, u32, bool)>,
    facts: Vec<Fact>,
    /// Whether the graph has a schema that declares `T1` as a subtype of `T0` and `T2`.
    has_schema: bool,
}

fn scene() -> impl Strategy<Value = Scene> {
    let edge = (0..ENTITIES, 0u8..3, 0..ENTITIES, any::<bool>());
    let fact = (0..ENTITIES, 0..ENTITIES, prop::option::of(0..CONTEXTS.len()), any::<bool>());
    let count = ENTITIES as usize;
    (
        prop::collection::vec(0u8..2, count),
        prop::collection::vec(prop::option::of(0..VALUES.len()), count),
        prop::collection::vec(edge, 0..12),
        prop::collection::vec(fact, 0..3),
        any::<bool>(),
    )
        .prop_map(|(types, values, edges, facts, has_schema)| Scene { types, values, edges, facts, has_schema })
}

/// Returns the confidence of an edge that is sure or not sure.
fn confidence(sure: bool) -> f32 {
    if sure { 0.9 } else { 0.2 }
}

impl Scene {
    fn view(&self) -> View {
        let entity = |number: u32| {
            let mut attributes = Map::new();
            if let Some(value) = self.value(number) {
                attributes.insert("k".into(), json!(value));
            }
            json!({"id": number, "type": self.type_of(number), "name": self.name(number), "attributes": attributes})
        };
        let edge = |(source, relation, target, sure): &(u32, u8, u32, bool)| {
            let (relation, sure) = (format!("r{relation}"), confidence(*sure));
            json!({"source": source, "target": target, "type": relation, "confidence": sure})
        };
        let fact = |(f, g, context, sure): &Fact| {
            let contexts: Vec<&str> = context.iter().map(|it| CONTEXTS[*it]).collect();
            let fields = json!({"f": f, "g": g});
            json!({"relation": "R", "fields": fields, "contexts": contexts, "confidence": confidence(*sure)})
        };
        let field = |name: &str| json!({"name": name, "type": "Anything"});
        let plain = ["r0", "r1", "r2", "r3", "f", "g"].map(|it| json!({"name": it}));
        let relations = [plain.to_vec(), vec![json!({"name": "R", "fields": [field("f"), field("g")]})]].concat();
        let types = json!([{"name": "T0"}, {"name": "T1", "supertypes": ["T0", "T2"]}, {"name": "T2"}]);
        let schema = json!({"name": "S", "types": types, "relations": relations});
        graph(&json!({
            "schemas": if self.has_schema { vec![schema] } else { vec![] },
            "nodes": (0..ENTITIES + CONTEXTS.len() as u32).map(entity).collect::<Vec<_>>(),
            "edges": self.edges.iter().map(edge).collect::<Vec<_>>(),
            "facts": self.facts.iter().map(fact).collect::<Vec<_>>(),
        }))
    }

    fn first_fact() -> u32 {
        ENTITIES + CONTEXTS.len() as u32
    }

    fn fact(&self, node: u32) -> Option<&Fact> {
        self.facts.get(node.checked_sub(Scene::first_fact())? as usize)
    }

    fn type_of(&self, node: u32) -> String {
        match (self.types.get(node as usize), self.fact(node)) {
            (Some(kind), _) => format!("T{kind}"),
            (None, Some(_)) => "R".into(),
            (None, None) => "Context".into(),
        }
    }

    fn name(&self, node: u32) -> String {
        match (node.checked_sub(ENTITIES), self.fact(node)) {
            (None, _) => format!("node {}", node % 4),
            (Some(_), Some((f, g, ..))) => format!("R(f=t#{f}, g=t#{g})"),
            (Some(context), None) => CONTEXTS[context as usize].into(),
        }
    }

    fn value(&self, node: u32) -> Option<&'static str> {
        self.values.get(node as usize)?.map(|it| VALUES[it])
    }

    fn attribute(&self, node: u32, key: &str) -> Option<String> {
        if key == "name" { Some(self.name(node)) } else { self.value(node).filter(|_| key == "k").map(String::from) }
    }

    fn is_a(&self, node: u32, type_name: &str) -> bool {
        let own = self.type_of(node);
        let is = |name: &str| own == name || (self.has_schema && own == "T1" && matches!(name, "T0" | "T2"));
        match type_name.strip_prefix("S.") {
            Some(bare) => self.has_schema && is(bare),
            None => is(type_name),
        }
    }
}

/// Returns the entities that the index is assumed to find for each text.
fn texts() -> TextResults {
    TextResults::from([("alpha".into(), vec![0, 2]), ("beta".into(), vec![1, 2, 3])])
}

/// Start and end of paths, with their length if the length is limited (otherwise 0).
type Paths = BTreeSet<(u32, u32, u32)>;

/// Evaluates a query on a scene by trying all entities; applies the contexts and the confidence of the query.
struct BruteForce<'a> {
    scene: &'a Scene,
    query: &'a Query,
    nodes: Vec<u32>,
    /// The visible edges (source, target) by relation.
    edges: HashMap<String, BTreeSet<(u32, u32)>>,
    /// The pairs of entities that a path connects, by the text of the path.
    paths: HashMap<String, BTreeSet<(u32, u32)>>,
}

impl<'a> BruteForce<'a> {
    fn new(scene: &'a Scene, query: &'a Query) -> BruteForce<'a> {
        let holds = |fact: &Fact| {
            query.contexts.is_empty() || fact.2.is_some_and(|it| query.contexts.contains(&CONTEXTS[it].to_string()))
        };
        let all = 0..Scene::first_fact() + scene.facts.len() as u32;
        let nodes = all.filter(|it| scene.fact(*it).is_none_or(holds)).collect();
        let mut oracle = BruteForce { scene, query, nodes, edges: HashMap::new(), paths: HashMap::new() };
        for (source, relation, target, sure) in &scene.edges {
            oracle.edge(&format!("r{relation}"), (*source, *target), *sure);
        }
        for (node, (f, g, context, sure)) in (Scene::first_fact()..).zip(&scene.facts) {
            if oracle.nodes.contains(&node) {
                oracle.edge("f", (node, *f), *sure);
                oracle.edge("g", (node, *g), *sure);
                oracle.edge("R", (*f, *g), *sure);
                context.iter().for_each(|it| oracle.edge("in_context", (node, ENTITIES + *it as u32), *sure));
            }
        }
        for atom in query.disjuncts.iter().flatten() {
            if let Atom::Edge { path, .. } = atom {
                let most = query.max_hops.filter(|_| path.repeats());
                let pairs = oracle.path_pairs(path, most).into_iter().map(|(from, to, _)| (from, to)).collect();
                oracle.paths.insert(path.to_string(), pairs);
            }
        }
        oracle
    }

    fn edge(&mut self, relation: &str, ends: (u32, u32), sure: bool) {
        if confidence(sure) >= self.query.min_confidence.unwrap_or(0.0) {
            self.edges.entry(relation.into()).or_default().insert(ends);
        }
    }

    fn relation_pairs(&self, relation: &str) -> BTreeSet<(u32, u32)> {
        self.edges.get(relation).cloned().unwrap_or_default()
    }

    /// Returns the pairs of entities that a path connects. Counts lengths only if they are limited, so the set stays finite.
    fn path_pairs(&self, path: &Path, most: Option<u32>) -> Paths {
        let same = || self.nodes.iter().map(|it| (*it, *it, 0)).collect::<Paths>();
        let then = |one: &Paths, other: &Paths| {
            let mut joined = Paths::new();
            for (from, middle, length) in one {
                let next = other.range((*middle, 0, 0)..=(*middle, u32::MAX, u32::MAX));
                let next = next.filter(|it| most.is_none_or(|most| it.2 + length <= most));
                joined.extend(next.map(|it| (*from, it.1, it.2 + length)));
            }
            joined
        };
        match path {
            Path::Label(label) => {
                let length = u32::from(most.is_some());
                self.relation_pairs(label).into_iter().map(|(from, to)| (from, to, length)).collect()
            }
            Path::Sequence(parts) => parts.iter().fold(same(), |done, part| then(&done, &self.path_pairs(part, most))),
            Path::Either(parts) => parts.iter().flat_map(|it| self.path_pairs(it, most)).collect(),
            Path::Optional(inner) => &same() | &self.path_pairs(inner, most),
            Path::Star(inner) | Path::Plus(inner) => {
                let once = self.path_pairs(inner, most);
                let mut all = if matches!(path, Path::Star(_)) { same() } else { once.clone() };
                loop {
                    let more = &all | &then(&all, &once);
                    if more == all {
                        return all;
                    }
                    all = more;
                }
            }
        }
    }

    /// Returns the entities that a term may denote. In one conjunction, equal constants denote the same entity.
    fn denotes(&self, term: &Term) -> Vec<u32> {
        let those = |fits: &dyn Fn(u32) -> bool| self.nodes.iter().copied().filter(|it| fits(*it)).collect::<Vec<_>>();
        match term {
            Term::Var(_) | Term::Wildcard => self.nodes.clone(),
            Term::Id(id) => those(&|it| it == *id),
            Term::Entity { key, value } => those(&|it| self.scene.attribute(it, key).as_ref() == Some(value)),
            Term::Name(name) => {
                let exact = those(&|it| self.scene.name(it) == *name);
                let keyed = those(&|it| it < ENTITIES && format!("t#{it}") == *name);
                let folded = those(&|it| self.scene.name(it).to_lowercase() == name.to_lowercase());
                [exact, keyed, folded].into_iter().find(|it| !it.is_empty()).unwrap_or_default()
            }
        }
    }

    fn holds(&self, atom: &Atom, bound: &[(Term, u32)]) -> bool {
        // A wildcard may denote any entity, independently of other wildcards.
        let means = |term: &Term, node: u32| {
            *term == Term::Wildcard || bound.iter().any(|(it, value)| it == term && *value == node)
        };
        let any = |fits: &dyn Fn(u32) -> bool| self.nodes.iter().any(|it| fits(*it));
        let says =
            |node: u32, key: &str, fits: &dyn Fn(String) -> bool| self.scene.attribute(node, key).is_some_and(fits);
        let has = |node: u32, relation: &String| self.relation_pairs(relation).iter().any(|(from, _)| *from == node);
        match atom {
            Atom::Type { term, type_name } => any(&|it| means(term, it) && self.scene.is_a(it, type_name)),
            Atom::Edge { left, path, right } => {
                self.paths[&path.to_string()].iter().any(|(from, to)| means(left, *from) && means(right, *to))
            }
            Atom::Equals { term, key, value } => any(&|it| means(term, it) && says(it, key, &|it| it == *value)),
            Atom::Contains { term, key, needle } => {
                let lower = needle.to_lowercase();
                any(&|it| means(term, it) && says(it, key, &|it| it.to_lowercase().contains(&lower)))
            }
            Atom::FullText { term, key, query } if key == TEXT_ATTRIBUTE => {
                any(&|it| means(term, it) && texts().get(query).is_some_and(|found| found.contains(&it)))
            }
            Atom::FullText { term, key, query } => {
                let every = |it: String| folded_words(query).iter().all(|word| folded_words(&it).contains(word));
                any(&|it| means(term, it) && says(it, key, &every))
            }
            Atom::Fuzzy { term, key, needle, max_distance } => {
                let close = |it: String| within_edits(&lower_chars(&it), &lower_chars(needle), *max_distance);
                any(&|it| means(term, it) && says(it, key, &close))
            }
            Atom::HasOutgoing { term, relations } => any(&|it| means(term, it) && relations.iter().all(|r| has(it, r))),
            Atom::Attributes { term, pairs } => {
                any(&|it| means(term, it) && pairs.iter().all(|(key, value)| says(it, key, &|held| held == *value)))
            }
            Atom::Shape { term, type_name, relations, attributes } => any(&|it| {
                means(term, it)
                    && type_name.iter().all(|name| self.scene.is_a(it, name))
                    && relations.iter().all(|relation| has(it, relation))
                    && attributes.iter().all(|(key, value)| says(it, key, &|held| held == *value))
            }),
            Atom::Fact { fact, relation, fields } => any(&|it| {
                let holds = |(field, term): &(String, Term)| {
                    self.relation_pairs(field).iter().any(|(from, to)| *from == it && means(term, *to))
                };
                fact.iter().all(|term| means(term, it))
                    && self.scene.fact(it).is_some()
                    && self.scene.is_a(it, relation)
                    && fields.iter().all(holds)
            }),
        }
    }

    /// Returns the rows of the query, found by trying every entity for each term.
    fn rows(&self) -> BTreeSet<Vec<u32>> {
        let mut rows = BTreeSet::new();
        for atoms in &self.query.disjuncts {
            let mut terms: Vec<&Term> =
                atoms.iter().flat_map(Atom::terms).filter(|it| **it != Term::Wildcard).collect();
            terms.sort_unstable();
            terms.dedup();
            self.search(atoms, &terms, &mut Vec::new(), &mut rows);
        }
        rows
    }

    fn search(&self, atoms: &[Atom], terms: &[&Term], bound: &mut Vec<(Term, u32)>, rows: &mut BTreeSet<Vec<u32>>) {
        let is_bound = |term: &&Term| **term == Term::Wildcard || bound.iter().any(|(it, _)| it == *term);
        let decided = atoms.iter().filter(|it| it.terms().iter().all(is_bound));
        if !decided.into_iter().all(|it| self.holds(it, bound)) {
            return;
        }
        let Some((term, rest)) = terms.split_first() else {
            let cell = |name: &String| bound.iter().find(|it| it.0 == Term::Var(name.clone())).map(|it| it.1);
            rows.insert(self.query.select.iter().filter_map(cell).collect());
            return;
        };
        for node in self.denotes(term) {
            bound.push(((*term).clone(), node));
            self.search(atoms, rest, bound, rows);
            bound.pop();
        }
    }
}

fn lower_chars(text: &str) -> Vec<char> {
    text.to_lowercase().chars().collect()
}

/// Returns whether the texts are within `most` edits of each other, by exhaustive search.
fn within_edits(one: &[char], other: &[char], most: u32) -> bool {
    match (one, other) {
        ([], rest) | (rest, []) => rest.len() <= most as usize,
        ([x, xs @ ..], [y, ys @ ..]) => {
            (x == y && within_edits(xs, ys, most))
                || (most > 0
                    && (within_edits(xs, other, most - 1)
                        || within_edits(one, ys, most - 1)
                        || within_edits(xs, ys, most - 1)))
        }
    }
}

fn variable() -> impl Strategy<Value = Term> {
    "[xyz]".prop_map(Term::Var)
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("k"), Just("name"), Just("none")].prop_map(String::from)
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(VALUES.as_slice()).prop_map(String::from),
        (0..5u32).prop_map(|it| format!("node {it}"))
    ]
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![
        8 => variable(),
        2 => Just(Term::Wildcard),
        1 => (0..Scene::first_fact() + 3).prop_map(Term::Id),
        1 => prop_oneof![(0..5u32).prop_map(|it| format!("node {it}")), Just("NODE 1".into()), Just("t#2".into()),
                         Just("W0".into())].prop_map(Term::Name),
        1 => (key(), value()).prop_map(|(key, value)| Term::Entity { key, value }),
    ]
}

fn relation() -> impl Strategy<Value = String> {
    prop_oneof![6 => "r[0-3]", 1 => Just("R".to_string()), 1 => Just("f".to_string()), 1 => Just("g".to_string())]
}

fn type_name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "T[0-2]", 1 => Just("R".to_string()), 1 => Just("Context".to_string())]
}

/// Generates substrings of values, whole values, and values with small errors.
fn words() -> impl Strategy<Value = String> {
    prop::sample::select(["red", "APPLE", "apple red", "pie green", "ed", "rod", "node 1", "nod", "t"].as_slice())
        .prop_map(String::from)
}

fn atom() -> impl Strategy<Value = Atom> {
    let relations = || prop::collection::vec(relation(), 1..3);
    let pairs = || prop::collection::vec((key(), value()), 1..3);
    let fields = || prop::collection::btree_map("[fg]", term(), 0..3);
    prop_oneof![
        4 => (term(), path(relation()), term()).prop_map(|(left, path, right)| Atom::Edge { left, path, right }),
        2 => (term(), type_name()).prop_map(|(term, type_name)| Atom::Type { term, type_name }),
        1 => (term(), key(), value()).prop_map(|(term, key, value)| Atom::Equals { term, key, value }),
        1 => (term(), key(), words()).prop_map(|(term, key, needle)| Atom::Contains { term, key, needle }),
        1 => (term(), key(), words()).prop_map(|(term, key, query)| Atom::FullText { term, key, query }),
        1 => (term(), prop::sample::select(["alpha", "beta", "gamma"].as_slice()))
            .prop_map(|(term, query)| Atom::FullText { term, key: TEXT_ATTRIBUTE.into(), query: query.into() }),
        1 => (term(), key(), words(), 0u32..4)
            .prop_map(|(term, key, needle, max_distance)| Atom::Fuzzy { term, key, needle, max_distance }),
        1 => (term(), relations()).prop_map(|(term, relations)| Atom::HasOutgoing { term, relations }),
        1 => (term(), pairs()).prop_map(|(term, pairs)| Atom::Attributes { term, pairs }),
        2 => (term(), type_name(), relations(), prop::option::of(pairs())).prop_map(
            |(term, type_name, relations, pairs)| Atom::Shape {
                term,
                type_name: Some(type_name),
                relations,
                attributes: pairs.unwrap_or_default(),
            }
        ),
        2 => (prop::option::of(term()), fields())
            .prop_map(|(fact, fields)| Atom::Fact { fact, relation: "R".into(), fields: fields.into_iter().collect() }),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    let disjunct = prop::collection::vec(atom(), 1..4).prop_map(|mut atoms| {
        for name in ["x", "y"] {
            let variable = Term::Var(name.into());
            if !atoms.iter().any(|it| it.terms().contains(&&variable)) {
                atoms.push(Atom::Edge {
                    left: variable,
                    path: Path::Star(Box::new(Path::Label("r0".into()))),
                    right: Term::Wildcard,
                });
            }
        }
        atoms
    });
    let contexts = prop_oneof![2 => Just(vec![]), 1 => Just(vec!["W0"]), 1 => Just(vec!["W1", "W0"])];
    let clauses = (prop::option::of(1u32..6), prop::option::of(Just(0.5f32)), contexts);
    (prop::collection::vec(disjunct, 1..3), clauses).prop_map(|(disjuncts, (max_hops, min_confidence, contexts))| {
        Query {
            select: vec!["x".into(), "y".into()],
            disjuncts,
            max_hops,
            min_confidence,
            contexts: contexts.into_iter().map(String::from).collect(),
            limit: Some(1_000),
        }
    })
}

/// Runs a query. Returns the rows as entity numbers, and whether there are more.
fn answer_rows(view: &View, query: &Query) -> Result<(Vec<Vec<u64>>, bool), TestCaseError> {
    let value = answer::run_query(view.clone(), query, &texts(), false)
        .map_err(|error| TestCaseError::fail(format!("{query}: {error}")))?;
    // Notes may report unknown names, but no search may be aborted.
    let mut notes = value["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names_unknown = |it: &str| it.starts_with("the graph has no ") || it.starts_with("there is no node ");
    prop_assert!(notes.all(names_unknown), "{}", value);
    let cell = |row: &Value, name: &str| row[name]["id"].as_u64().unwrap();
    let row = |row: &Value| vec![cell(row, "?x"), cell(row, "?y")];
    Ok((value["rows"].as_array().unwrap().iter().map(row).collect(), value["truncated"] == true))
}

fn expected(scene: &Scene, query: &Query) -> Vec<Vec<u64>> {
    let rows = BruteForce::new(scene, query).rows();
    rows.into_iter().map(|row| row.into_iter().map(u64::from).collect()).collect()
}

proptest! {
    #[test]
    fn rows_match_brute_force_evaluation(scene in scene(), query in query()) {
        // Prints the query and parses it again, which must give the same rows.
        let query = axql::parse(&query.to_string()).unwrap();
        let (rows, truncated) = answer_rows(&scene.view(), &query)?;
        prop_assert!(!truncated);
        prop_assert_eq!(&rows, &expected(&scene, &query), "{}", query);
        let limited = Query { limit: Some(200), ..query };
        let again = ir::parse(&ir::write(&limited).unwrap()).unwrap();
        prop_assert_eq!(answer_rows(&scene.view(), &again)?.0, rows);
    }

    #[test]
    fn answer_respects_limit_and_reports_truncation(
        scene in scene(), query in query(), limit in 1u32..8
    ) {
        let query = Query { limit: Some(limit), ..query };
        let (rows, truncated) = answer_rows(&scene.view(), &query)?;
        prop_assert_eq!(&answer_rows(&scene.view(), &query)?, &(rows.clone(), truncated), "the result is deterministic");
        let all = expected(&scene, &query);
        prop_assert_eq!(rows.len(), all.len().min(limit as usize), "{}", query);
        prop_assert!(rows.is_sorted() && rows.iter().all(|it| all.contains(it)), "{}", query);
        prop_assert_eq!(truncated, all.len() > limit as usize);
    }
}
