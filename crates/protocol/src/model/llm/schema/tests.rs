//! Tests of JSON Schema validation with valid and invalid values.

use serde_json::json;

use crate::model::llm::schema::*;

/// Checks that a schema accepts the values in `meet`, and rejects those in `break_it` with a message that contains the text.
fn check(schema: Value, meet: &[Value], break_it: &[(Value, &str)]) {
    let compiled = Schema::new(&schema).unwrap();
    for value in meet {
        compiled.check(value).unwrap_or_else(|error| panic!("{schema} {value}: {error}"));
    }
    for (value, said) in break_it {
        let error = compiled.check(value).err().unwrap_or_else(|| panic!("{schema} took {value}"));
        assert!(error.message.contains(said), "{schema} {value}: {error}");
        assert_eq!(error.code, ErrorCode::FailedPrecondition);
    }
}

#[test]
fn tool_arguments_are_validated() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["query"],
        "properties": { "query": { "type": "string" }, "limit": { "type": "integer", "minimum": 1, "maximum": 200 } },
    });
    let query = |limit: Value| json!({ "query": "x", "limit": limit });
    check(
        schema,
        &[json!({ "query": "x" }), query(json!(200)), query(json!(1.0))],
        &[
            (json!({ "limit": 3 }), "`query` is missing"),
            (json!({ "query": 3 }), "`query` is `3`, and must be of type string"),
            (query(json!(201)), "`limit` is 201, and must be at most 200"),
            (query(json!(0)), "at least 1"),
            (query(json!(1.5)), "must be of type integer"),
            (query(json!("5")), "must be of type integer"),
            (json!({ "query": "x", "path": "/etc" }), "`path` is not a known field"),
            (json!([]), "must be of type object"),
            (json!(null), "must be of type object"),
        ],
    );
}

#[test]
fn every_keyword_is_validated() {
    check(json!({ "enum": ["a", 1, null] }), &[json!("a"), json!(1.0), json!(null)], &[(json!("b"), "one of")]);
    check(json!({ "const": { "a": [1] } }), &[json!({ "a": [1.0] })], &[(json!({ "a": [2] }), "one of")]);
    check(json!({ "type": ["string", "null"] }), &[json!("x"), json!(null)], &[(json!(1), "string or null")]);
    check(
        json!({ "exclusiveMinimum": 0, "exclusiveMaximum": 1 }),
        &[json!(0.5)],
        &[(json!(0), "above 0"), (json!(1), "below 1")],
    );
    check(json!({ "multipleOf": 0.1 }), &[json!(0.3)], &[(json!(0.35), "multiple")]);
    check(
        json!({ "minLength": 2, "maxLength": 3 }),
        &[json!("ää"), json!(7)],
        &[(json!("ä"), "2"), (json!("abcd"), "3")],
    );
    check(json!({ "patternProperties": patterns(100) }), &[json!({ "a7": 1 })], &[]);
    check(json!({ "pattern": "^a+$" }), &[json!("aa"), json!(1)], &[(json!("ab"), "match")]);
    check(
        json!({ "minProperties": 1, "maxProperties": 1 }),
        &[json!({ "a": 1 })],
        &[(json!({}), "1"), (json!({ "a": 1, "b": 2 }), "1")],
    );
    check(
        json!({ "patternProperties": { "^x_": { "type": "integer" } }, "additionalProperties": { "type": "string" } }),
        &[json!({ "x_a": 1, "b": "c" })],
        &[(json!({ "x_a": "1" }), "`x_a`"), (json!({ "b": 1 }), "`b`")],
    );
    check(json!({ "propertyNames": { "maxLength": 1 } }), &[json!({ "a": 1 })], &[(json!({ "ab": 1 }), "name")]);
    check(
        json!({ "prefixItems": [{ "type": "string" }], "items": { "type": "integer" }, "minItems": 1, "maxItems": 3,
                "uniqueItems": true }),
        &[json!(["a", 1, 2])],
        &[
            (json!([]), "at least 1"),
            (json!([1]), "`[0]`"),
            (json!(["a", "b"]), "`[1]`"),
            (json!(["a", 1, 1.0]), "twice"),
            (json!(["a", 1, 2, 3]), "at most 3"),
        ],
    );
    check(json!({ "contains": { "const": 1 } }), &[json!([0, 1])], &[(json!([0]), "no item")]);
    check(json!({ "allOf": [{ "minimum": 1 }, { "maximum": 2 }] }), &[json!(1)], &[(json!(3), "at most 2")]);
    check(
        json!({ "anyOf": [{ "const": 1 }, { "type": "string" }] }),
        &[json!(1), json!("x")],
        &[(json!(2), "none of")],
    );
    check(
        json!({ "oneOf": [{ "minimum": 1 }, { "minimum": 2 }] }),
        &[json!(1)],
        &[(json!(2), "2 of"), (json!(0), "0 of")],
    );
    check(json!({ "not": { "const": 1 } }), &[json!(2)], &[(json!(1), "must not")]);
    check(json!({ "properties": { "a": false } }), &[json!({})], &[(json!({ "a": 1 }), "`a` is not allowed")]);
    check(json!(true), &[json!(1)], &[]);
    check(json!({ "title": "x", "description": "y", "default": 1, "format": "date" }), &[json!("no date")], &[]);
}

#[test]
fn recursive_schema_is_supported() {
    let schema = json!({
        "$defs": { "node": { "type": "object", "required": ["name"],
                             "properties": { "name": { "type": "string" }, "next": { "$ref": "#/$defs/node" } } } },
        "$ref": "#/$defs/node",
    });
    check(
        schema.clone(),
        &[json!({ "name": "a", "next": { "name": "b" } })],
        &[(json!({ "name": "a", "next": { "next": {} } }), "`next.name` is missing")],
    );
    let mut deep = json!({ "name": "a" });
    for _ in 0..100 {
        deep = json!({ "name": "a", "next": deep });
    }
    check(schema, &[], &[(deep, "too deep")]);
    // The schema refers to itself for the same value, so that its validation would never end.
    check(json!({ "$ref": "#" }), &[], &[(json!(1), "too deep")]);
}

#[test]
fn long_reference_chain_compiles_without_deep_stack() {
    let link = |it: usize| (format!("d{it}"), json!({ "$ref": format!("#/$defs/d{}", it + 1) }));
    let mut links: serde_json::Map<String, Value> = (0..9_000).map(link).collect();
    links.insert("d9000".into(), json!({ "type": "string" }));
    let schema = json!({ "$defs": links,
                         "properties": { "a": { "$ref": "#/$defs/d0" }, "b": { "$ref": "#/$defs/d8990" } } });
    let told = move || {
        let compiled = Schema::new(&schema).unwrap();
        [json!({ "a": 1 }), json!({ "b": 1 })].map(|it| compiled.check(&it).unwrap_err().message)
    };
    // A quarter of the stack of the daemon's threads suffices, so that recursion cannot overflow the stack there.
    let [beyond, within] = std::thread::Builder::new().stack_size(512 << 10).spawn(told).unwrap().join().unwrap();
    assert!(beyond.contains("nested too deep") && within.contains("must be of type string"), "{beyond}; {within}");
}

#[test]
fn exponentially_branching_schema_hits_step_limit() {
    for schema in [
        json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
        json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }, { "$ref": "#" }] }),
        json!({ "not": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }, { "$ref": "#" }] } }),
    ] {
        Schema::new(&schema).unwrap().check(&json!(1)).unwrap_err();
    }
}

#[test]
fn paths_below_long_names_are_truncated() {
    let error = Schema::new(&json!({ "properties": { "n".repeat(100_000): { "type": 7 } } })).unwrap_err();
    assert!(error.message.contains("#/properties/nnn") && error.message.len() < 1_000, "{error}");
}

/// Returns a schema with `count` patterns, each in a sub-schema of its own.
fn patterns(count: usize) -> Value {
    (0..count).map(|it| (format!("^a{it}$"), json!({}))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn unsupported_schemas_are_rejected() {
    for (schema, said) in [
        (json!({ "type": 7 }), "#/type: must be a JSON type"),
        (json!({ "type": "text" }), "must be a JSON type"),
        (json!({ "properties": { "a/b": { "minimum": "x" } } }), "#/properties/a~1b/minimum"),
        (json!({ "unevaluatedProperties": false }), "`unevaluatedProperties` is not supported"),
        (json!({ "pattern": "(" }), "pattern"),
        (json!({ "pattern": "\\w{1000}" }), "too large once"),
        (json!({ "pattern": "a".repeat(5_000) }), "more than 4096 bytes"),
        (json!({ "patternProperties": patterns(101) }), "more than 100 patterns"),
        (json!({ "anyOf": [] }), "empty"),
        (json!({ "minLength": -1 }), "whole number"),
        (json!({ "$ref": "http://127.0.0.1:1/schema.json" }), "refers to no part of this schema"),
        (json!({ "$ref": "file:///etc/passwd" }), "refers to no part of this schema"),
        (json!({ "$ref": "#/$defs/none" }), "refers to no part of this schema"),
        (json!("string"), "must be an object, `true`"),
    ] {
        let error = Schema::new(&schema).unwrap_err();
        assert!(error.code == ErrorCode::InvalidArgument && error.message.contains(said), "{schema}: {error}");
    }
}

#[test]
fn extra_violations_are_counted() {
    let error =
        Schema::new(&json!({ "items": { "type": "null" } })).unwrap().check(&json!([1, 2, 3, 4, 5])).unwrap_err();
    assert!(error.message.ends_with("; and 2 more"), "{error}");
}
