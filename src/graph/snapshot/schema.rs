//! Type hierarchy and relations of the graph, as declared by the schemas of imports.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{GraphRelation, GraphSchema};

/// All schemas of a snapshot.
#[derive(Debug, Default)]
pub(crate) struct SchemaSet {
    schemas: Vec<Arc<GraphSchema>>,
}

/// No schema.
pub(crate) static NO_SCHEMAS: SchemaSet = SchemaSet { schemas: Vec::new() };

impl SchemaSet {
    /// Combines schemas. Of several schemas with the same name, the first one counts.
    pub(crate) fn new(schemas: impl IntoIterator<Item = Arc<GraphSchema>>) -> SchemaSet {
        let mut kept: Vec<Arc<GraphSchema>> = Vec::new();
        for schema in schemas {
            if !kept.iter().any(|it| it.name == schema.name) {
                kept.push(schema);
            }
        }
        SchemaSet { schemas: kept }
    }

    /// Returns whether no schema is declared.
    pub(crate) fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// Returns all schemas.
    pub(crate) fn all(&self) -> &[Arc<GraphSchema>] {
        &self.schemas
    }

    /// Returns schema and unqualified name of every type that a name denotes: `S.T` in schema `S` only, `T` in all schemas.
    pub(crate) fn types<'a>(&'a self, name: &'a str) -> Vec<(&'a str, &'a str)> {
        let within = |schema: &'a Arc<GraphSchema>| {
            let bare = unqualified_name(schema, name);
            schema
                .types
                .iter()
                .filter(move |it| it.name == bare)
                .map(move |it| (schema.name.as_str(), it.name.as_str()))
        };
        self.schemas.iter().flat_map(within).collect()
    }

    /// Returns every relation that a name denotes, with its schema.
    pub(crate) fn relations<'a>(&'a self, name: &'a str) -> Vec<(&'a str, &'a GraphRelation)> {
        let within = |schema: &'a Arc<GraphSchema>| {
            let bare = unqualified_name(schema, name);
            schema.relations.iter().filter(move |it| it.name == bare).map(move |it| (schema.name.as_str(), it))
        };
        self.schemas.iter().flat_map(within).collect()
    }

    /// Returns the names of a type of a schema and of all its direct and indirect subtypes.
    pub(crate) fn subtypes(&self, schema: &str, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::from([name.to_string()]);
        let Some(schema) = self.schemas.iter().find(|it| it.name == schema) else { return found };
        // Adds each type only once, so the loop also terminates if supertypes form a cycle.
        loop {
            let next: Vec<String> = schema
                .types
                .iter()
                .filter(|it| !found.contains(&it.name) && it.supertypes.iter().any(|above| found.contains(above)))
                .map(|it| it.name.clone())
                .collect();
            if next.is_empty() {
                return found;
            }
            found.extend(next);
        }
    }

    /// Returns whether an entity can have both types, i.e. whether a type is a subtype of both. A type is its own subtype.
    pub(crate) fn share_subtype(&self, schema: &str, one: &str, other: &str) -> bool {
        let one = self.subtypes(schema, one);
        self.subtypes(schema, other).iter().any(|it| one.contains(it))
    }
}

/// Returns a name without the prefix `S.` of schema `S`; other names are returned unchanged.
fn unqualified_name<'a>(schema: &GraphSchema, name: &'a str) -> &'a str {
    name.strip_prefix(schema.name.as_str()).and_then(|it| it.strip_prefix('.')).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GraphType;

    fn schema(name: &str, types: &[(&str, &[&str])]) -> Arc<GraphSchema> {
        let made = |(name, above): &(&str, &[&str])| GraphType {
            name: (*name).into(),
            supertypes: above.iter().map(|it| (*it).to_string()).collect(),
        };
        Arc::new(GraphSchema { name: name.into(), types: types.iter().map(made).collect(), relations: Vec::new() })
    }

    #[test]
    fn qualified_name_selects_schema() {
        let schema = SchemaSet::new([schema("Fam", &[("Parent", &[])]), schema("Census", &[("Parent", &[])])]);
        assert_eq!(schema.types("Parent"), [("Fam", "Parent"), ("Census", "Parent")]);
        assert_eq!(schema.types("Census.Parent"), [("Census", "Parent")]);
        assert!(schema.types("Other.Parent").is_empty());
    }

    #[test]
    fn subtypes_are_transitive_and_cycles_terminate() {
        let types: &[(&str, &[&str])] =
            &[("Agent", &["Thing"]), ("Person", &["Agent"]), ("Thing", &["Person"]), ("Place", &[])];
        let schema = SchemaSet::new([schema("S", types)]);
        assert_eq!(schema.subtypes("S", "Agent").len(), 3);
        assert!(schema.share_subtype("S", "Person", "Agent") && !schema.share_subtype("S", "Person", "Place"));
    }
}
