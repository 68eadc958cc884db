use proptest::prelude::*;

use crate::graph::query::axql::*;
use crate::graph::query::ir;

fn check(text: &str, canonical: &str) {
    let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(query.to_string(), canonical, "{text}");
    assert_eq!(parse(canonical).unwrap(), query, "{canonical}");
}

#[test]
fn published_examples_parse_and_print() {
    for (text, canonical) in [
        ("select ?y where 0 -rel_0/rel_1-> ?y", "select ?y where 0 -rel_0/rel_1-> ?y"),
        ("select ?y where 0 -(rel_0|rel_1)*-> ?y max_hops 5", "select ?y where 0 -(rel_0|rel_1)*-> ?y max_hops 5"),
        (
            "select ?x where ?x is Node, ?x.name = \"b\" limit 20",
            "select ?x where ?x is Node, attr(?x, \"name\", \"b\") limit 20",
        ),
        (
            "select ?f where ?f = Parent(child=Carol) in CensusData",
            "select ?f where ?f = Parent(child=name(\"Carol\")) in CensusData",
        ),
        (
            "select ?x where ?x { is Node, rel_0, name=\"node_42\" }",
            "select ?x where ?x { is Node, rel_0, name=\"node_42\" }",
        ),
        (
            "select ?x where ?x : Person or ?x : Organization limit 10",
            "select ?x where ?x is Person or ?x is Organization limit 10",
        ),
    ] {
        check(text, canonical);
    }
}

#[test]
fn every_atom_and_clause_parses_and_prints() {
    for (text, canonical) in [
        ("select ?x where ?x is S.T", "select ?x where ?x is S.T"),
        ("select ?y where File#7 -r-> ?y", "select ?y where name(\"File#7\") -r-> ?y"),
        ("select ?y where \"plan.md (File#7)\" -r-> ?y", "select ?y where name(\"plan.md (File#7)\") -r-> ?y"),
        ("select ?y where R(f='a b', g=S.T#12, y=?y)", "select ?y where R(f=name(\"a b\"), g=name(\"S.T#12\"), y=?y)"),
        ("select ?x ?y where ?x -[a/(b|c)+/d?]-> ?y", "select ?x ?y where ?x -a/(b|c)+/d?-> ?y"),
        ("select ?x where attr(?x, 'k', 'v')", "select ?x where attr(?x, \"k\", \"v\")"),
        ("select ?x where ?x.k = 'it\\'s'", "select ?x where attr(?x, \"k\", \"it's\")"),
        ("select ?x where contains(?x, \"k\", \"s\")", "select ?x where contains(?x, \"k\", \"s\")"),
        ("select ?x where fts(?x, \"k\", \"some words\")", "select ?x where fts(?x, \"k\", \"some words\")"),
        ("select ?x where fuzzy(?x, \"k\", \"s\", 2)", "select ?x where fuzzy(?x, \"k\", \"s\", 2)"),
        ("select ?x where ?x has r", "select ?x where has(?x, r)"),
        ("select ?x where has(?x, r, s)", "select ?x where has(?x, r, s)"),
        ("select ?x where attrs(?x, k=\"v\", l=\"w\")", "select ?x where attrs(?x, k=\"v\", l=\"w\")"),
        ("select ?y where R(f=a, g=?y)", "select ?y where R(f=name(\"a\"), g=?y)"),
        ("select ?f where ?f = S.R(f=_)", "select ?f where ?f = S.R(f=_)"),
        ("select ?x where entity(\"k\", \"v\") -r-> ?x", "select ?x where entity(\"k\", \"v\") -r-> ?x"),
        ("select ?x where A.FL.001 -io-> ?x", "select ?x where name(\"A.FL.001\") -io-> ?x"),
        (
            "select ?x where ?x -r-> _ in {A, B} min_conf 0.5 limit 3;",
            "select ?x where ?x -r-> _ in {A, B} min_conf 0.5 limit 3",
        ),
        ("select ?x where ?x -\"is\"-> _ limit 1", "select ?x where ?x -\"is\"-> _ limit 1"),
    ] {
        check(text, canonical);
    }
}

#[test]
fn parse_error_names_position_found_and_expected() {
    for (text, message, hint) in [
        ("", "position 1: found the end, expected `select`", None),
        ("selct ?x where ?x is T", "position 1: found `selct`, expected `select`", Some("did you mean `select`?")),
        ("select x where ?x is T", "position 8: found `x`, expected a variable such as `?x`", None),
        ("select ?x whre ?x is T", "position 11: found `whre`, expected `where`", Some("did you mean `where`?")),
        ("select ?x where ?x is", "position 22: found the end, expected the name of a type", None),
        (
            "select ?x where ?x -r/-> ?y",
            "position 23: found `->`, expected a path: the name of a relation or `(`",
            None,
        ),
        (
            "select ?x where ?x -r-> ?y limt 3",
            "position 28: found `limt`, expected `,`, `or`, `in`, `max_hops`, `min_conf`, `limit` or the end",
            Some("did you mean `limit`?"),
        ),
        ("select ?x where ?x is T limit 0", "position 31: found `0`, expected a number of rows of at least 1", None),
        ("select ?x where ?x is T min_conf 2", "position 34: found `2`, expected a confidence between 0 and 1", None),
        ("select ?x where ?x.k = \"v", "position 24: found a string without an end, expected `\"` after it", None),
        ("select ?x where ?x = \"v\"", "position 25: found the end, expected `(`", None),
        (
            "select ?x where fuzzy(?x, \"k\", \"s\", 17)",
            "position 37: found `17`, expected a distance, a whole number up to 16",
            None,
        ),
        (
            "select ?x where ?x is File#7",
            "position 23: found `File#7`, expected the name of a type",
            Some("write an entity as `File#7` alone, or as its name in quotes"),
        ),
        ("select ?x where ?x is T & ?x is U", "position 25: found `&`, which is not part of a query", None),
        ("select ?x where ?y is T", "`?x` is selected, but no atom binds it", None),
        ("select ?x where ?x is T or ?y is T", "`?x` is selected, but not every disjunct binds it", None),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.message, message, "{text}");
        assert_eq!(error.field.as_deref(), Some("query"));
        if let Some(hint) = hint {
            assert_eq!(error.hint.as_deref(), Some(hint), "{text}");
        }
    }
}

#[test]
fn deep_and_long_queries_are_refused_without_overflow() {
    let deep = format!("select ?x where ?x -{}a{}-> _", "(".repeat(5_000), ")".repeat(5_000));
    let starred = format!("select ?x where ?x -a{}-> _", "*".repeat(50_000));
    let long = format!("select ?x where {}", vec!["?x is T"; 2_000].join(", "));
    let wide = format!("select ?x where ?x -{}-> _", vec!["a"; 500].join("/"));
    for text in [deep, starred, long, wide, "select ?x where ".to_string() + &"x".repeat(100_000)] {
        assert!(parse(&text).is_err(), "{}", &text[..40]);
    }
}

/// Returns a query in JSON form with one disjunct of these atoms.
fn form(atoms: Vec<serde_json::Value>) -> serde_json::Value {
    serde_json::json!({"version": 1, "select": ["?x"], "where": atoms})
}

// Case D12
#[test]
fn atom_lists_and_disjunct_conditions_are_bounded() {
    use serde_json::json;
    let pairs = |count: usize| (0..count).map(|it| json!([format!("k{it}"), "v"])).collect::<Vec<_>>();
    let names = |count: usize| (0..count).map(|it| format!("r{it}")).collect::<Vec<_>>();
    let fields = |count: usize| (0..count).map(|it| (format!("f{it}"), json!("?x"))).collect::<serde_json::Map<_, _>>();
    let of = |count: usize| {
        [
            (json!({"kind": "attrs", "term": "?x", "pairs": pairs(count)}), "attributes"),
            (json!({"kind": "has_out", "term": "?x", "rels": names(count)}), "relations"),
            (json!({"kind": "shape", "term": "?x", "rels": names(count)}), "relations"),
            (json!({"kind": "shape", "term": "?x", "attrs": pairs(count)}), "attributes"),
            (json!({"kind": "fact", "relation": "R", "fields": fields(count)}), "fields"),
        ]
    };
    for (atom, _) in of(64) {
        ir::parse(&form(vec![atom])).unwrap();
    }
    for count in [65, 16_000] {
        for (atom, what) in of(count) {
            let error = ir::parse(&form(vec![atom])).unwrap_err();
            let told = format!("an atom has at most 64 {what}, not {count}");
            assert_eq!((error.code, error.message), (crate::error::ErrorCode::InvalidArgument, told));
            assert_eq!(error.field.as_deref(), Some("query_ir_v1"));
        }
    }
    let text = (0..65).map(|it| format!("k{it}=\"v\"")).collect::<Vec<_>>().join(", ");
    let error = parse(&format!("select ?x where attrs(?x, {text})")).unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.field.as_deref()),
        ("an atom has at most 64 attributes, not 65", Some("query"))
    );
    let many = |atoms: usize| vec![json!({"kind": "attrs", "term": "?x", "pairs": pairs(64)}); atoms];
    ir::parse(&form(many(4))).unwrap();
    let error = ir::parse(&form(many(5))).unwrap_err();
    assert!(error.message.starts_with("a disjunct has at most 256 conditions") && error.message.ends_with("not 320"));
    // 64 atoms without parts, the maximum, do not exceed the limit on conditions, so the query is valid.
    let edge = |it: usize| json!({"kind": "edge", "left": format!("?v{it}"), "path": "r", "right": it});
    let all: Vec<_> = (0..64).map(edge).collect();
    assert_eq!(ir::parse(&json!({"version": 1, "where": all})).unwrap().select.len(), 64);
    let worlds: Vec<String> = (0..257).map(|it| format!("W{it}")).collect();
    let mut query = form(vec![json!({"kind": "type", "term": "?x", "type": "T"})]);
    query["contexts"] = json!(worlds);
    assert_eq!(ir::parse(&query).unwrap_err().message, "a query has at most 256 contexts, not 257");
}

#[test]
fn documented_ir_parses() {
    let value = serde_json::json!({
        "version": 1, "select": ["?x"], "limit": 20,
        "where": [
            {"kind": "type", "term": "?x", "type": "Node"},
            {"kind": "attr_eq", "term": "?x", "key": "name", "value": "b"}
        ]
    });
    let query = ir::parse(&value).unwrap();
    assert_eq!(query.to_string(), "select ?x where ?x is Node, attr(?x, \"name\", \"b\") limit 20");
    assert_eq!(ir::write(&query).unwrap()["where"], value["where"]);
}

#[test]
fn ir_field_aliases_and_missing_select_are_accepted() {
    let value = serde_json::json!({"version": 1, "select_vars": ["x"], "where_atoms": [
        {"kind": "type", "term": {"kind": "var", "name": "?x"}, "ty": "A"},
        {"kind": "edge", "left": 3, "path": "a/b*", "right": {"kind": "entity", "key": "k", "value": "v"}},
        {"kind": "has_out", "term": {"kind": "name", "name": "n"}, "rels": ["r"]},
        {"kind": "shape", "term": {"kind": "wildcard"}, "type_name": "T", "attrs": {"k": "v"}},
        {"kind": "fact", "relation": "R", "fields": {"f": "?x"}}
    ]});
    let text =
        "select ?x where ?x is A, 3 -a/b*-> entity(\"k\", \"v\"), has(name(\"n\"), r), _ { is T, k=\"v\" }, R(f=?x)";
    assert_eq!(ir::parse(&value).unwrap().to_string(), text);
    let value =
        serde_json::json!({"version": 1, "disjuncts": [[{"kind": "edge", "left": "?b", "path": "r", "right": "?a"}]]});
    assert_eq!(ir::parse(&value).unwrap().select, ["b", "a"]);
}

#[test]
fn invalid_ir_names_place_and_nearest_name() {
    let atom = |atom: serde_json::Value| serde_json::json!({"version": 1, "select": ["?x"], "where": [atom]});
    let typed = || serde_json::json!([{"kind": "type", "term": "?x", "type": "T"}]);
    for (value, place, hint) in [
        (serde_json::json!([]), "query_ir_v1", None),
        (serde_json::json!({"where": typed()}), "`version` is missing", None),
        (serde_json::json!({"version": 2, "where": typed()}), "query_ir_v1.version: found 2", None),
        (
            serde_json::json!({"version": 1, "select": ["?x"]}),
            "one of `where`, `where_atoms` and `disjuncts` is missing",
            None,
        ),
        (
            serde_json::json!({"version": 1, "where": typed(), "limt": 3}),
            "found the field `limt`",
            Some("did you mean `limit`?"),
        ),
        (serde_json::json!({"version": 1, "where": typed(), "limit": 201}), "query_ir_v1.limit: found 201", None),
        (
            serde_json::json!({"version": 1, "where": typed(), "where_atoms": []}),
            "found both `where` and `where_atoms`",
            None,
        ),
        (
            atom(serde_json::json!({"kind": "atr_eq"})),
            "query_ir_v1.where[0].kind: found \"atr_eq\"",
            Some("did you mean `attr_eq`?"),
        ),
        (
            atom(serde_json::json!({"kind": "type", "term": "?x", "type": "T", "x": 1})),
            "query_ir_v1.where[0]: found the field `x`",
            None,
        ),
        (atom(serde_json::json!({"kind": "type", "type": "T"})), "query_ir_v1.where[0].term: a term is missing", None),
        (
            atom(serde_json::json!({"kind": "type", "term": -1, "type": "T"})),
            "query_ir_v1.where[0].term: found -1",
            None,
        ),
        (
            atom(serde_json::json!({"kind": "attr_fuzzy", "term": "?x", "key": "k", "needle": "n", "max_dist": 17})),
            "max_dist",
            None,
        ),
    ] {
        let error = ir::parse(&value).unwrap_err();
        assert!(error.message.contains(place), "{value}: {error}");
        if let Some(hint) = hint {
            assert_eq!(error.hint.as_deref(), Some(hint), "{value}");
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,5}",
        "[A-Z][a-z]{0,3}\\.[A-Z][a-z]{0,3}",
        Just("limit".to_string()),
        Just("attr".to_string()),
        "[ -~äß→]{1,6}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~äß\\n\\t\\r]{0,8}", Just("_".to_string()), Just("?x".to_string())]
}

fn variable() -> impl Strategy<Value = String> {
    "[xyz]"
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![
        3 => variable().prop_map(Term::Var),
        1 => Just(Term::Wildcard),
        1 => any::<u32>().prop_map(Term::Id),
        1 => text().prop_map(Term::Name),
        1 => (text(), text()).prop_map(|(key, value)| Term::Entity { key, value }),
    ]
}

pub(crate) fn path(label: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = Path> {
    label.prop_map(Path::Label).prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Path::Sequence),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Path::Either),
            inner.clone().prop_map(|it| Path::Star(Box::new(it))),
            inner.clone().prop_map(|it| Path::Plus(Box::new(it))),
            inner.prop_map(|it| Path::Optional(Box::new(it))),
        ]
    })
}

fn atom() -> impl Strategy<Value = Atom> {
    let names = || prop::collection::vec(name(), 1..3);
    let pairs = || prop::collection::vec((name(), text()), 1..3);
    prop_oneof![
        (term(), name()).prop_map(|(term, type_name)| Atom::Type { term, type_name }),
        (term(), path(name()), term()).prop_map(|(left, path, right)| Atom::Edge { left, path, right }),
        (term(), text(), text()).prop_map(|(term, key, value)| Atom::Equals { term, key, value }),
        (term(), text(), text()).prop_map(|(term, key, needle)| Atom::Contains { term, key, needle }),
        (term(), text(), text()).prop_map(|(term, key, query)| Atom::FullText { term, key, query }),
        (term(), text(), text(), 0..=MAX_DISTANCE).prop_map(|(term, key, needle, max_distance)| Atom::Fuzzy {
            term,
            key,
            needle,
            max_distance
        }),
        (term(), names()).prop_map(|(term, relations)| Atom::HasOutgoing { term, relations }),
        (term(), pairs()).prop_map(|(term, pairs)| Atom::Attributes { term, pairs }),
        (term(), prop::option::of(name()), names(), pairs()).prop_map(|(term, type_name, relations, attributes)| {
            Atom::Shape { term, type_name, relations, attributes }
        }),
        (prop::option::of(term()), name(), prop::collection::btree_map(name(), term(), 0..3))
            .prop_map(|(fact, relation, fields)| Atom::Fact { fact, relation, fields: fields.into_iter().collect() }),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    let disjunct = prop::collection::vec(atom(), 0..4).prop_map(|mut atoms| {
        // Adds an atom with `?x`, because every disjunct must bind every selected variable.
        atoms.push(Atom::Type { term: Term::Var("x".into()), type_name: "T".into() });
        atoms
    });
    let clauses = (
        prop::option::of(1..=MAX_HOPS),
        prop::option::of((0u32..=1_000).prop_map(|it| it as f32 / 1_000.0)),
        prop::option::of(1..=ir::MAX_LIMIT),
    );
    (prop::collection::vec(disjunct, 1..3), prop::collection::vec(name(), 0..3), clauses).prop_map(
        |(disjuncts, contexts, (max_hops, min_confidence, limit))| Query {
            select: vec!["x".into()],
            disjuncts,
            contexts,
            max_hops,
            min_confidence,
            limit,
        },
    )
}

proptest! {
    #[test]
    fn printed_query_parses_to_same_query(query in query()) {
        let text = query.to_string();
        let read = parse(&text);
        prop_assert_eq!(read.as_ref(), Ok(&query), "{}", text);
    }

    #[test]
    fn text_and_ir_forms_are_equivalent(query in query()) {
        let form = ir::write(&query).unwrap();
        let read = ir::parse(&form).map_err(|it| TestCaseError::fail(format!("{it}: {form}")))?;
        prop_assert_eq!(&read, &query, "{}", form);
        prop_assert_eq!(ir::write(&parse(&read.to_string()).unwrap()).unwrap(), form);
    }

    #[test]
    fn arbitrary_text_is_query_or_error_of_query(
        text in "(select|where|\\?x|[-()\\[\\]{}|/*+?,:=.\"' a-z0-9>]){0,40}",
    ) {
        match parse(&text) {
            Ok(query) => prop_assert_eq!(parse(&query.to_string()), Ok(query)),
            Err(error) => prop_assert_eq!(error.field.as_deref(), Some("query"), "{}", error),
        }
    }
}
