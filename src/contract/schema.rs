//! JSON Schemas of every request and response, made of the registry.

use serde_json::{Map, Value, json};

use crate::contract::registry::{ANY_FILTERS, CONTRACT_VERSION, Field, Form, Kind, SCHEMAS, Verb};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schemas of a verb: of its request, one alternative for each form, and of its response.
pub fn of(verb: &'static Verb) -> Value {
    let forms: Vec<Value> = verb.forms.iter().map(form).collect();
    let mut request = json!({"$schema": DRAFT, "title": format!("{} request", verb.name)});
    match forms.as_slice() {
        [only] => merge(&mut request, only),
        _ => request["oneOf"] = Value::Array(forms),
    }
    json!({"verb": verb.name, "contract_version": CONTRACT_VERSION, "request": request, "response": response(verb)})
}

fn merge(target: &mut Value, from: &Value) {
    if let (Some(target), Some(from)) = (target.as_object_mut(), from.as_object()) {
        target.extend(from.clone());
    }
}

fn form(form: &'static Form) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    if !form.name.is_empty() {
        properties.insert("form".into(), json!({"const": form.name, "description": form.about}));
        required.push("form");
    }
    for field in Verb::fields(form) {
        properties.insert(field.name.into(), one(field));
    }
    required.extend(form.fields.iter().filter(|it| it.required).map(|it| it.name));
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|it| (it.name.to_string(), one(it))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn one(field: &Field) -> Value {
    let mut schema = match field.kind {
        Kind::Text(most) => json!({"type": "string", "minLength": 1, "maxLength": most}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Whole(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Kind::Number(low, high) => json!({"type": "number", "minimum": low, "maximum": high}),
        Kind::Choice(names) => json!({"enum": names}),
        Kind::Moment => json!({"type": "string", "description": "ISO 8601"}),
        Kind::Filter => json!({"type": "string", "minLength": 1, "maxLength": 2000}),
        Kind::File => file(),
        Kind::Baseline => json!({"type": ["integer", "string"], "minimum": 1, "pattern": "^r-"}),
        Kind::Texts(most) => {
            json!({"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": most})
        }
        Kind::Files(most) => json!({"type": "array", "items": file(), "minItems": 1, "maxItems": most}),
        Kind::Object(fields) => object(fields),
        Kind::SchemaFilters => {
            let filters = SCHEMAS.iter().map(|it| {
                let fields: Vec<Field> = it.filters.iter().chain(ANY_FILTERS).copied().collect();
                let mut schema = object(&fields);
                schema["title"] = json!(it.name);
                schema
            });
            json!({"anyOf": filters.collect::<Vec<_>>()})
        }
    };
    schema["description"] = json!(field.about);
    schema
}

fn file() -> Value {
    json!({"type": ["integer", "string"]})
}

/// The envelope; of EXTRACT with its objects.
fn response(verb: &Verb) -> Value {
    let data = if verb.name == "EXTRACT" {
        json!({"oneOf": SCHEMAS.iter().map(objects).collect::<Vec<_>>()})
    } else {
        json!({"type": ["object", "null"]})
    };
    let data = if verb.name == "SUMMARIZE" { with_decision_inputs() } else { data };
    let share = json!({"type": "number", "minimum": 0, "maximum": 1});
    let text = json!({"type": ["string", "null"]});
    let properties = json!({
        "contract_version": {"const": CONTRACT_VERSION},
        "id": text, "verb": {"const": verb.name}, "form": text, "view": {"type": ["object", "null"]},
        "data": data, "confidence": share, "coverage": share,
        "unknowns": {"type": "array", "items": {"type": "object", "required": ["type", "count"]}},
        "method": {"type": ["object", "null"]},
        "evidence": {"type": "array", "items": {"type": "object", "required": ["file", "path"]}},
        "error": {"oneOf": [{"type": "null"}, {
            "type": "object",
            "required": ["type", "message", "field", "suggested_actions"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}, "field": text,
                "suggested_actions": {"type": "array", "items": {"type": "string"}}},
        }]},
    });
    let required: Vec<&String> = properties.as_object().map(|it| it.keys().collect()).unwrap_or_default();
    json!({
        "$schema": DRAFT, "title": format!("{} response", verb.name), "type": "object",
        "required": required, "properties": properties, "additionalProperties": false,
    })
}

fn objects(schema: &crate::contract::registry::ObjectSchema) -> Value {
    let mut properties = Map::from_iter([
        ("file".to_string(), json!({"type": "integer"})),
        ("page".to_string(), json!({"type": "integer"})),
        ("lines".to_string(), json!({"type": "array", "items": {"type": "integer"}})),
        ("bytes".to_string(), json!({"type": "array", "items": {"type": "integer"}})),
        ("part".to_string(), json!({"type": "string"})),
        ("confidence".to_string(), json!({"type": "number", "minimum": 0, "maximum": 1})),
    ]);
    properties.extend(schema.fields.iter().map(|it| (it.0.to_string(), json!({"type": [it.1, "null"]}))));
    let mut required: Vec<&str> = vec!["file", "confidence"];
    required.extend(schema.fields.iter().map(|it| it.0));
    let object =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    json!({
        "type": "object", "required": ["schema", "count", "objects"],
        "properties": {"schema": {"const": schema.name}, "count": {"type": "integer"}, "objects": {"type": "array", "items": object}},
    })
}

fn with_decision_inputs() -> Value {
    json!({"anyOf": [
        {"type": "object", "required": ["options", "evidence_for", "evidence_against", "disagreements", "consensus_points",
            "unknowns", "coverage", "confidence"]},
        {"type": ["object", "null"]},
    ]})
}
