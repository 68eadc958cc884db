//! The executor against an evaluator that tries every binding, on random graphs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::view_of;
use crate::graph::axql::tests::path;
use crate::graph::axql::{Atom, Path, Query, Term};
use crate::graph::plan::Texts;
use crate::graph::run;
use crate::graph::view::View;
use crate::model::{GraphEdge, GraphNode, GraphPart};

const NODES: u32 = 6;

#[derive(Clone, Debug)]
struct Scene {
    types: Vec<u8>,
    edges: Vec<(u32, u8, u32, bool)>,
}

fn scene() -> impl Strategy<Value = Scene> {
    let edge = (0..NODES, 0u8..3, 0..NODES, any::<bool>());
    (prop::collection::vec(0u8..2, NODES as usize), prop::collection::vec(edge, 0..14))
        .prop_map(|(types, edges)| Scene { types, edges })
}

impl Scene {
    fn view(&self) -> View {
        let node = |(number, kind): (usize, &u8)| GraphNode {
            key: format!("n{number}"),
            name: format!("node {}", number % 4),
            entity_type: format!("T{kind}"),
            ..GraphNode::default()
        };
        let edge = |(source, relation, target, sure): &(u32, u8, u32, bool)| GraphEdge {
            relation: format!("r{relation}"),
            source: format!("n{source}"),
            target: format!("n{target}"),
            confidence: if *sure { 0.9 } else { 0.2 },
            ..GraphEdge::default()
        };
        view_of(vec![GraphPart {
            nodes: self.types.iter().enumerate().map(node).collect(),
            edges: self.edges.iter().map(edge).collect(),
            ..GraphPart::default()
        }])
    }

    /// Pairs that an edge of a relation joins.
    fn joins(&self, relation: &str, least: f32) -> BTreeSet<(u32, u32)> {
        let fits = |it: &&(u32, u8, u32, bool)| format!("r{}", it.1) == relation && (it.3 || least <= 0.2);
        self.edges.iter().filter(fits).map(|it| (it.0, it.2)).collect()
    }

    /// Lengths of paths up to a bound, by pair: the relation of a path as a set of (from, to, length).
    fn paths(&self, path: &Path, least: f32, most: u32) -> BTreeSet<(u32, u32, u32)> {
        let same = || (0..NODES).map(|it| (it, it, 0)).collect::<BTreeSet<_>>();
        let then = |one: &BTreeSet<(u32, u32, u32)>, other: &BTreeSet<(u32, u32, u32)>| {
            let mut joined = BTreeSet::new();
            for (from, middle, length) in one {
                let next = other.iter().filter(|it| it.0 == *middle && it.2 + length <= most);
                joined.extend(next.map(|it| (*from, it.1, it.2 + length)));
            }
            joined
        };
        match path {
            Path::Label(label) => self.joins(label, least).into_iter().map(|(from, to)| (from, to, 1)).collect(),
            Path::Sequence(parts) => {
                parts.iter().fold(same(), |done, part| then(&done, &self.paths(part, least, most)))
            }
            Path::Either(parts) => parts.iter().flat_map(|it| self.paths(it, least, most)).collect(),
            Path::Optional(inner) => &same() | &self.paths(inner, least, most),
            Path::Star(inner) | Path::Plus(inner) => {
                let once = self.paths(inner, least, most);
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

    fn means(&self, term: &Term, node: u32, bound: &[(String, u32)]) -> bool {
        match term {
            Term::Var(name) => bound.iter().any(|(it, value)| it == name && *value == node),
            Term::Wildcard => true,
            Term::Id(id) => *id == node,
            Term::Name(name) => *name == format!("node {}", node % 4),
            Term::Entity { .. } => false,
        }
    }

    fn holds(&self, atom: &Atom, query: &Query, bound: &[(String, u32)]) -> bool {
        let least = query.min_confidence.unwrap_or(0.0);
        match atom {
            Atom::Type { term, type_name } => (0..NODES)
                .any(|it| self.means(term, it, bound) && format!("T{}", self.types[it as usize]) == *type_name),
            Atom::Equals { term, value, .. } => {
                (0..NODES).any(|it| self.means(term, it, bound) && format!("node {}", it % 4) == *value)
            }
            Atom::HasOut { term, relations } => (0..NODES).any(|it| {
                let has = |relation: &String| self.joins(relation, least).iter().any(|(from, _)| *from == it);
                self.means(term, it, bound) && relations.iter().all(has)
            }),
            Atom::Edge { left, path, right } => {
                let most = query.max_hops.filter(|_| path.repeats()).unwrap_or(NODES * 12);
                let paths = self.paths(path, least, most);
                paths.iter().any(|(from, to, _)| self.means(left, *from, bound) && self.means(right, *to, bound))
            }
            _ => false,
        }
    }

    /// Rows of a query by trying every binding of its variables.
    fn rows(&self, query: &Query) -> BTreeSet<Vec<u32>> {
        let mut rows = BTreeSet::new();
        for atoms in &query.disjuncts {
            for binding in 0..NODES.pow(3) {
                let value = |place: u32| binding / NODES.pow(place) % NODES;
                let bound: Vec<(String, u32)> =
                    ["x", "y", "z"].into_iter().zip(0..).map(|(it, place)| (it.to_string(), value(place))).collect();
                if atoms.iter().all(|it| self.holds(it, query, &bound)) {
                    let cell = |name: &String| bound.iter().find(|it| it.0 == *name).map(|it| it.1);
                    rows.insert(query.select.iter().filter_map(cell).collect());
                }
            }
        }
        rows
    }
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![
        6 => "[xyz]".prop_map(Term::Var),
        1 => Just(Term::Wildcard),
        1 => (0..NODES + 1).prop_map(Term::Id),
        1 => (0..5u32).prop_map(|it| Term::Name(format!("node {it}"))),
    ]
}

fn atom() -> impl Strategy<Value = Atom> {
    let relation = || "r[0-3]";
    prop_oneof![
        4 => (term(), path(relation()), term()).prop_map(|(left, path, right)| Atom::Edge { left, path, right }),
        2 => (term(), "T[0-2]").prop_map(|(term, type_name)| Atom::Type { term, type_name }),
        1 => (term(), (0..5u32)).prop_map(|(term, it)| Atom::Equals { term, key: "name".into(), value: format!("node {it}") }),
        1 => (term(), prop::collection::vec(relation(), 1..3)).prop_map(|(term, relations)| Atom::HasOut { term, relations }),
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
    let clauses = (prop::option::of(1u32..6), prop::option::of(Just(0.5f32)));
    (prop::collection::vec(disjunct, 1..3), clauses).prop_map(|(disjuncts, (max_hops, min_confidence))| Query {
        select: vec!["x".into(), "y".into()],
        disjuncts,
        max_hops,
        min_confidence,
        limit: Some(1_000),
        ..Query::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_every_binding_that_holds(scene in scene(), query in query()) {
        let view = scene.view().at_least(query.min_confidence);
        let answer = run::run(&view, &query, &Texts::new()).unwrap();
        prop_assert!(!answer.exhausted && !answer.truncated);
        let rows: BTreeSet<Vec<u32>> = answer.rows.iter().cloned().collect();
        prop_assert_eq!(rows.len(), answer.rows.len(), "each row once");
        prop_assert_eq!(rows, scene.rows(&query), "{}", query);
    }

    #[test]
    fn the_same_question_has_the_same_answer(scene in scene(), query in query(), limit in 1u32..8) {
        let query = Query { limit: Some(limit), ..query };
        let ask = || run::run(&scene.view().at_least(query.min_confidence), &query, &Texts::new()).unwrap();
        let (first, again) = (ask(), ask());
        prop_assert_eq!(&first.rows, &again.rows);
        prop_assert!(first.rows.len() <= limit as usize && first.rows.is_sorted());
        prop_assert_eq!(first.truncated, scene.rows(&query).len() > limit as usize);
    }
}
