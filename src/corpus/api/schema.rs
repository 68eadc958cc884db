//! The published JSON Schemas of every request and response, built from `crate::verbs` and `response_schema`. Each schema
//! has its own address, by which other schemas refer to it.

use serde_json::{Map, Value, json};

use crate::corpus::api::response_schema;
use crate::verbs::{
    ANY_FILTERS, CONTRACT_VERSION, Field, FieldKind, Form, MANAGEMENT_CALLS, SCHEMAS, VERBS, Verb, management_call,
    verb,
};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Common beginning of the schemas' addresses, which are also the addresses of MCP resources.
pub const ADDRESS: &str = "vic://corpus/schema";

/// Returns the schemas of all verbs and management calls.
pub fn all_schemas() -> Vec<Value> {
    VERBS.iter().chain(MANAGEMENT_CALLS).map(schemas_of_verb).collect()
}

/// Returns the schemas of all verbs and management calls. Leaves out their descriptions, which would exceed the limit on
/// prose in an answer; a request for the schemas of one verb returns them with descriptions.
pub fn all_schemas_without_descriptions() -> Value {
    let mut all = Value::Array(all_schemas());
    drop_descriptions(&mut all);
    all
}

fn drop_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, it| name != "description" || !it.is_string());
            map.values_mut().for_each(drop_descriptions);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_descriptions),
        _ => {}
    }
}

/// Returns the schemas of a verb or management call, given by name.
pub fn schemas_by_name(name: &str) -> Option<Value> {
    verb(name).or_else(|| management_call(name)).map(schemas_of_verb)
}

/// Returns the schemas of a verb: that of the request, with one alternative for each form, and that of the response.
pub fn schemas_of_verb(verb: &'static Verb) -> Value {
    json!({
        "verb": verb.name, "contract_version": CONTRACT_VERSION, "request": request_schema(verb), "response": response_schema(verb),
    })
}

/// Returns the address of a schema of a verb.
fn schema_address(verb: &Verb, which: &str) -> String {
    format!("{ADDRESS}/{}/{which}", verb.name.to_lowercase())
}

/// Returns a reference to the schema of the answers of a verb.
fn answer_reference(verb: &Verb) -> Value {
    json!({"$ref": schema_address(verb, "response")})
}

fn schema_header(verb: &Verb, which: &str) -> Value {
    json!({"$schema": DRAFT, "$id": schema_address(verb, which), "title": format!("{} {which}", verb.name)})
}

fn is_management_call(verb: &Verb) -> bool {
    MANAGEMENT_CALLS.iter().any(|it| it.name == verb.name)
}

/// Returns the fields that a request with this form may have.
fn form_fields(verb: &Verb, form: &'static Form) -> Vec<&'static Field> {
    if is_management_call(verb) { form.fields.iter().collect() } else { Verb::fields(form).collect() }
}

fn request_schema(verb: &'static Verb) -> Value {
    let forms: Vec<Value> = verb.forms.iter().map(|it| form_schema(verb, it)).collect();
    let mut request = schema_header(verb, "request");
    match forms.as_slice() {
        [only] => merge(&mut request, only),
        _ => request["oneOf"] = Value::Array(forms),
    }
    request
}

fn merge(target: &mut Value, from: &Value) {
    if let (Some(target), Some(from)) = (target.as_object_mut(), from.as_object()) {
        target.extend(from.clone());
    }
}

fn form_schema(verb: &Verb, form: &'static Form) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    if !form.name.is_empty() {
        properties.insert(verb.form_field().into(), json!({"const": form.name, "description": form.about}));
        required.push(verb.form_field());
    }
    for field in form_fields(verb, form) {
        properties.insert(field.name.into(), field_schema(field));
    }
    required.extend(form.fields.iter().filter(|it| it.required).map(|it| it.name));
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn object_schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|it| (it.name.to_string(), field_schema(it))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn field_schema(field: &Field) -> Value {
    let mut schema = match field.kind {
        FieldKind::Text(most) => json!({"type": "string", "minLength": 1, "maxLength": most}),
        FieldKind::Flag => json!({"type": "boolean"}),
        FieldKind::Whole(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        FieldKind::Number(low, high) => json!({"type": "number", "minimum": low, "maximum": high}),
        FieldKind::Choice(names) => json!({"enum": names}),
        FieldKind::Moment => json!({"type": "string", "minLength": 2}),
        FieldKind::Filter => json!({"type": "string", "minLength": 1, "maxLength": 2000}),
        FieldKind::File => file_schema(),
        FieldKind::Baseline => json!({"type": ["integer", "string"], "minimum": 1, "pattern": "^r-"}),
        FieldKind::Texts(most) => {
            json!({"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": most})
        }
        FieldKind::Files(most) => json!({"type": "array", "items": file_schema(), "minItems": 1, "maxItems": most}),
        FieldKind::Object(fields) => object_schema(fields),
        FieldKind::SchemaFilters => {
            let filters = SCHEMAS.iter().map(|it| {
                let fields: Vec<Field> = it.filters.iter().chain(ANY_FILTERS).copied().collect();
                let mut schema = object_schema(&fields);
                schema["title"] = json!(it.name);
                schema
            });
            json!({"anyOf": filters.collect::<Vec<_>>()})
        }
    };
    let mut about = field.about.to_string();
    if field.kind == FieldKind::Moment {
        about.push_str("; ISO 8601 or `7 days`");
    }
    if !field.aliases.is_empty() {
        about = format!("{about}; also {}", field.aliases.join(", "));
    }
    schema["description"] = json!(about);
    schema
}

/// Returns the schema of a file in a request: its id, its path or the end of its path.
fn file_schema() -> Value {
    json!({"type": ["integer", "string"], "minimum": 0, "minLength": 1})
}

/// Returns the response schema: an answer of one of the forms, a started job, or an error. RESULT returns any answer.
fn response_schema(verb: &'static Verb) -> Value {
    let mut schema = schema_header(verb, "response");
    let refused =
        json!({"title": "refused", "properties": {"data": {"type": "null"}, "error": response_schema::error_schema()}});
    if verb.name == "RESULT" {
        let kept = VERBS.iter().map(answer_reference);
        let mut own = envelope_schema(verb);
        own["oneOf"] = json!([refused]);
        schema["anyOf"] = kept.chain([own]).collect();
        return schema;
    }
    let mut outcomes: Vec<Value> = verb.forms.iter().map(|it| answer_schema(verb, it)).collect();
    if !is_management_call(verb) {
        let given = json!({"data": response_schema::job_schema(answer_reference(verb)), "error": {"type": "null"}});
        outcomes.push(json!({"title": "goes on in a job", "properties": given}));
    }
    outcomes.push(refused);
    merge(&mut schema, &envelope_schema(verb));
    schema["oneOf"] = Value::Array(outcomes);
    schema
}

fn answer_schema(verb: &Verb, form: &Form) -> Value {
    let name = if form.name.is_empty() || verb.name == "VIEW" { Value::Null } else { json!(form.name) };
    let mut data = response_schema::data_schema(verb.name, form.name);
    if verb.name == "JOB" {
        let answers: Vec<Value> = VERBS.iter().map(answer_reference).collect();
        data["properties"]["answer"] = json!({"anyOf": answers});
    }
    let given = json!({"form": {"const": name}, "data": data, "error": {"type": "null"}});
    json!({"title": if form.name.is_empty() { "answered" } else { form.name }, "properties": given})
}

/// Returns the fields of every envelope with their schemas.
fn envelope_schema(verb: &Verb) -> Value {
    let some_text = || json!({"type": ["string", "null"]});
    let forms: Vec<Value> = match verb.forms {
        [_] => Vec::new(),
        several if verb.name != "VIEW" => several.iter().map(|it| json!(it.name)).collect(),
        _ => Vec::new(),
    };
    let form: Vec<Value> = forms.into_iter().chain([Value::Null]).collect();
    let view = response_schema::record([
        ("type", json!({"enum": ["warehouse", "session", "query", "set", "evolving"]})),
        ("name?", response_schema::text()),
        ("session?", response_schema::whole()),
    ]);
    let unknown = response_schema::record([
        ("type", response_schema::text()),
        ("count", response_schema::count()),
        ("files?", response_schema::list(response_schema::whole())),
        ("detail?", response_schema::text()),
    ]);
    let pointer = response_schema::record([
        ("file", response_schema::whole()),
        ("path", response_schema::text()),
        ("count?", response_schema::count()),
    ]);
    let method = json!({
        "type": ["object", "null"], "required": ["name"], "properties": {"name": {"type": "string"}},
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    });
    response_schema::record([
        ("contract_version", json!({"const": CONTRACT_VERSION})),
        ("id", some_text()),
        ("verb", json!({"const": verb.name})),
        ("form", json!({"enum": form})),
        ("view", json!({"anyOf": [{"type": "null"}, view]})),
        ("data", json!({})),
        ("confidence", response_schema::share()),
        ("coverage", response_schema::share()),
        ("unknowns", response_schema::list(unknown)),
        ("method", method),
        ("evidence", response_schema::list(pointer)),
        ("error", json!({"type": ["object", "null"]})),
    ])
}
