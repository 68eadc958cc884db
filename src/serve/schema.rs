//! The published API types as JSON Schema (draft 2020-12), by type name; `vic schema` prints them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::model::{
    AskRequest, AskResponse, FilePage, FilesRequest, GrepRequest, GrepResponse, IndexStart, JobReport, L0Filters,
    QueryPlan, ReadRequest, Reading, ResponseStats, SearchHit, SimilarRequest, Status, TableRequest, TableResponse,
};

/// A published type: its name, and the function that generates its schema.
type Published = (&'static str, fn(&mut SchemaGenerator) -> Schema);

const PUBLISHED: &[Published] = &[
    ("query_plan", schema_of::<QueryPlan>),
    ("l0_filters", schema_of::<L0Filters>),
    ("search_hit", schema_of::<SearchHit>),
    ("ask_request", schema_of::<AskRequest>),
    ("ask_response", schema_of::<AskResponse>),
    ("response_stats", schema_of::<ResponseStats>),
    ("similar_request", schema_of::<SimilarRequest>),
    ("grep_request", schema_of::<GrepRequest>),
    ("grep_response", schema_of::<GrepResponse>),
    ("table_request", schema_of::<TableRequest>),
    ("table_response", schema_of::<TableResponse>),
    ("files_request", schema_of::<FilesRequest>),
    ("file_page", schema_of::<FilePage>),
    ("read_request", schema_of::<ReadRequest>),
    ("reading", schema_of::<Reading>),
    ("index_start", schema_of::<IndexStart>),
    ("job_report", schema_of::<JobReport>),
    ("status", schema_of::<Status>),
];

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.root_schema_for::<T>()
}

/// Returns all names that [`schema`] accepts.
pub fn names() -> impl Iterator<Item = &'static str> {
    PUBLISHED.iter().map(|(name, _)| *name)
}

/// Returns the self-contained schema of the type with this name.
pub fn schema(name: &str) -> Option<serde_json::Value> {
    let (_, make) = PUBLISHED.iter().find(|(it, _)| *it == name)?;
    Some(make(&mut SchemaSettings::draft2020_12().into_generator()).to_value())
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::samples;

    /// Collects the violations of a schema. Supports the keywords that the published schemas use; panics on any other
    /// keyword.
    pub(crate) fn collect_violations(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let Value::Object(rules) = schema else {
            return if schema == &Value::Bool(false) {
                found.push(format!("{at}: nothing is allowed"));
            };
        };
        for (rule, wanted) in rules {
            let holds = match rule.as_str() {
                "$ref" => {
                    let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                    collect_violations(root, root.pointer(pointer).expect(pointer), value, at, found);
                    true
                }
                "type" => match wanted {
                    Value::Array(types) => types.iter().any(|it| is_type(it, value)),
                    one => is_type(one, value),
                },
                "enum" => wanted.as_array().unwrap().contains(value),
                "const" => wanted == value,
                "anyOf" => any(root, wanted, value, at) > 0,
                "oneOf" => any(root, wanted, value, at) == 1,
                "minimum" => value.as_f64().is_none_or(|it| it >= wanted.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|it| it <= wanted.as_f64().unwrap()),
                "required" => {
                    let missing = |it: &&Value| value.is_object() && value.get(it.as_str().unwrap()).is_none();
                    wanted.as_array().unwrap().iter().find(missing).is_none()
                }
                "properties" => {
                    for (name, schema) in wanted.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            collect_violations(root, schema, value, &format!("{at}.{name}"), found);
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = rules.get("properties").and_then(Value::as_object);
                    for (name, value) in value.as_object().into_iter().flatten() {
                        if known.is_none_or(|it| !it.contains_key(name)) {
                            collect_violations(root, wanted, value, &format!("{at}.{name}"), found);
                        }
                    }
                    true
                }
                "items" => {
                    for value in value.as_array().into_iter().flatten() {
                        collect_violations(root, wanted, value, &format!("{at}[]"), found);
                    }
                    true
                }
                "$schema" | "$defs" | "title" | "description" | "default" | "format" | "minItems" | "maxItems" => true,
                other => panic!("unknown rule `{other}` at {at}"),
            };
            if !holds {
                found.push(format!("{at}: {value} does not hold {rule} {wanted}"));
            }
        }
    }

    fn any(root: &Value, choices: &Value, value: &Value, at: &str) -> usize {
        let fits = |schema: &&Value| {
            let mut found = Vec::new();
            collect_violations(root, schema, value, at, &mut found);
            found.is_empty()
        };
        choices.as_array().unwrap().iter().filter(fits).count()
    }

    fn is_type(name: &Value, value: &Value) -> bool {
        match name.as_str().unwrap() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("unknown type `{other}`"),
        }
    }

    fn check(name: &str, value: Value) -> Vec<String> {
        let schema = schema(name).unwrap();
        let mut found = Vec::new();
        collect_violations(&schema, &schema, &value, name, &mut found);
        found
    }

    fn example_plan() -> Value {
        json!({
            "intent": "read_evidence",
            "l0_filters": {"extensions": [".pdf"], "path_glob": "**/contracts/**"},
            "l1_query_text": "IDR contract signed by whom",
            "l1_threshold": 0.82,
            "date_order": "newest",
            "requires_l2": true,
            "l2_skills": ["pdf_layout"],
            "l2_top_k": 3,
            "privacy_mode": "local_only",
            "raw_user_text": "Who signed the IDR contract?",
            "planner_model_id": "stub-v0"
        })
    }

    #[test]
    fn documented_plan_is_valid_and_round_trips() {
        assert_eq!(check("query_plan", example_plan()), [""; 0]);
        let plan: QueryPlan = serde_json::from_value(example_plan()).unwrap();
        assert_eq!(serde_json::to_value(&plan).unwrap(), example_plan());
    }

    #[test]
    fn sample_responses_match_schemas() {
        let answer = serde_json::to_value(samples::answer("x")).unwrap();
        assert_eq!(check("search_hit", answer["hits"][0].clone()), [""; 0]);
        assert_eq!(check("response_stats", answer["stats"].clone()), [""; 0]);
        assert_eq!(check("ask_response", answer), [""; 0]);
        assert_eq!(check("status", serde_json::to_value(samples::status()).unwrap()), [""; 0]);
        let job = JobReport::from(samples::job(crate::model::JobState::Failed, 3));
        assert_eq!(check("job_report", serde_json::to_value(job).unwrap()), [""; 0]);
        let reading = Reading::from_document("/w/plan.md", samples::document(), 0, 9);
        assert_eq!(check("reading", serde_json::to_value(reading).unwrap()), [""; 0]);
        assert_eq!(check("table_response", serde_json::to_value(samples::table("/w/a.csv")).unwrap()), [""; 0]);
        let page = FilePage { total: 1, files: vec![(&samples::file()).into()], warnings: vec!["corrected".into()] };
        assert_eq!(check("file_page", serde_json::to_value(page).unwrap()), [""; 0]);
    }

    #[test]
    fn invalid_plans_violate_schema() {
        for (pointer, value) in [
            ("/l1_threshold", json!(1.5)),
            ("/l1_threshold", json!("high")),
            ("/privacy_mode", json!("open")),
            ("/l2_skills", json!("ocr_image")),
            ("/date_order", json!("soon")),
            ("/l0_filters", json!({"colour": "red"})),
            ("/l2_top_k", json!(-1)),
        ] {
            let mut plan = example_plan();
            *plan.pointer_mut(pointer).unwrap() = value;
            assert!(!check("query_plan", plan.clone()).is_empty(), "{plan}");
        }
        for missing in ["intent", "privacy_mode", "raw_user_text"] {
            let mut plan = example_plan();
            plan.as_object_mut().unwrap().remove(missing);
            assert!(!check("query_plan", plan).is_empty(), "{missing}");
        }
    }

    #[test]
    fn every_name_has_described_schema() {
        for name in names() {
            let schema = schema(name).unwrap();
            assert_eq!(schema["type"], "object", "{name}");
            assert!(schema["properties"].as_object().is_some_and(|it| !it.is_empty()), "{name}");
            assert!(schema["description"].is_string(), "{name}");
        }
        assert!(schema("nonsense").is_none());
    }
}
