//! The registry of tools that a model may call. Tools are registered, the registry is frozen, and then tools are run with
//! validated arguments and a timeout.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::ToolSpec;
use crate::model::llm::{Schema, ToolError, ToolFault};

/// Default timeout of a tool.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a tool's result in bytes, because the result takes space in the model's context.
const MAX_RESULT_BYTES: usize = 256 << 10;

type Handler = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value>> + Send + Sync>;

/// Creates an empty registry, to which tools can be added.
pub fn registry() -> ToolRegistry {
    ToolRegistry { tools: BTreeMap::new() }
}

/// A registry to which tools can still be added; see `ToolRegistry::freeze`.
#[must_use]
pub struct ToolRegistry {
    tools: BTreeMap<String, Tool>,
}

#[derive(Clone)]
struct Tool {
    spec: ToolSpec,
    schema: Schema,
    timeout: Duration,
    handler: Handler,
}

impl ToolRegistry {
    /// Adds a tool with the default timeout.
    ///
    /// # Errors
    /// The same errors as [`ToolRegistry::register_with_timeout`].
    pub fn register<F>(self, spec: ToolSpec, handler: impl Fn(Value) -> F + Send + Sync + 'static) -> Result<Self>
    where
        F: Future<Output = Result<Value>> + Send + 'static,
    {
        self.register_with_timeout(DEFAULT_TIMEOUT, spec, handler)
    }

    /// Adds a tool with a timeout.
    ///
    /// # Errors
    /// `InvalidArgument`: the schema of the tool's arguments is invalid, or a tool with this name is already registered.
    pub fn register_with_timeout<F>(
        mut self,
        timeout: Duration,
        spec: ToolSpec,
        handler: impl Fn(Value) -> F + Send + Sync + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = Result<Value>> + Send + 'static,
    {
        let schema = Schema::new(&spec.parameters).map_err(|error| error.field(format!("tools.{}", spec.name)))?;
        if self.tools.contains_key(&spec.name) {
            return Err(Error::invalid(format!("a tool `{}` is already registered", spec.name)));
        }
        let handler: Handler = Arc::new(move |arguments| handler(arguments).boxed());
        self.tools.insert(spec.name.clone(), Tool { spec, schema, timeout, handler });
        Ok(self)
    }

    /// Ends the registration of tools and returns an immutable registry.
    pub fn freeze(self) -> RegisteredTools {
        RegisteredTools { tools: Arc::new(self.tools) }
    }
}

/// An immutable registry of tools. Cheap to clone.
#[derive(Clone)]
pub struct RegisteredTools {
    tools: Arc<BTreeMap<String, Tool>>,
}

impl fmt::Debug for RegisteredTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

impl RegisteredTools {
    /// Returns the specifications of all tools, with which a request offers them to the model.
    pub fn bindings(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|it| it.spec.clone()).collect()
    }

    /// Returns whether a tool is registered.
    pub fn contains(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// Runs a tool with arguments written by a model.
    ///
    /// # Errors
    /// [`ToolError`]. If it is [`ToolFault::Unknown`] or [`ToolFault::InvalidArguments`], nothing was run.
    pub async fn call(&self, name: &str, arguments_json: &str) -> Result<Value, ToolError> {
        // Accepts an empty string, which models write for a tool without arguments.
        let text = if arguments_json.trim().is_empty() { "{}" } else { arguments_json };
        let arguments = serde_json::from_str(text).map_err(|error| {
            ToolError::new(ToolFault::InvalidArguments, format!("the arguments of `{name}` are invalid JSON: {error}"))
        })?;
        self.run(name, arguments).await
    }

    /// Runs a tool with parsed arguments.
    ///
    /// # Errors
    /// The same errors as [`RegisteredTools::call`].
    pub async fn run(&self, name: &str, arguments: Value) -> Result<Value, ToolError> {
        let tool = self.tools.get(name).ok_or_else(|| {
            let known = self.tools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            ToolError::new(ToolFault::Unknown, format!("there is no tool `{name}`; known tools: {known}"))
        })?;
        tool.schema.check(&arguments).map_err(|error| {
            ToolError::new(ToolFault::InvalidArguments, format!("the arguments of `{name}` are invalid: {error}"))
        })?;
        let work = (tool.handler)(arguments);
        let outcome = tokio::time::timeout(tool.timeout, work)
            .await
            .map_err(|_| ToolError::new(ToolFault::Timeout, format!("`{name}` took longer than {:?}", tool.timeout)))?;
        let payload = outcome.map_err(|error| ToolError::new(ToolFault::Failed, error.one_line()))?;
        match payload.to_string().len() {
            0..=MAX_RESULT_BYTES => Ok(payload),
            bytes => Err(ToolError::new(ToolFault::TooLarge, format!("`{name}` returned {bytes} bytes: ask for less"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str) -> ToolSpec {
        let parameters = json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": { "query": { "type": "string" } },
        });
        ToolSpec { name: name.into(), description: "finds".into(), parameters }
    }

    fn tools() -> RegisteredTools {
        let slow = |_| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(json!(1))
        };
        registry()
            .register(spec("find"), |arguments| async move { Ok(json!({ "found": arguments["query"] })) })
            .and_then(|it| it.register_with_timeout(Duration::from_millis(20), spec("slow"), slow))
            .and_then(|it| {
                it.register(spec("broken"), |_| async { Err(Error::not_found("no index").hint("vic index")) })
            })
            .and_then(|it| it.register(spec("large"), |_| async { Ok(Value::from("x".repeat(MAX_RESULT_BYTES + 1))) }))
            .unwrap()
            .freeze()
    }

    #[tokio::test]
    async fn tool_runs_with_valid_arguments() {
        assert_eq!(tools().call("find", r#"{"query":"bees"}"#).await.unwrap(), json!({ "found": "bees" }));
        assert_eq!(tools().bindings().len(), 4);
    }

    #[tokio::test]
    async fn tool_failures_have_distinct_faults() {
        for (name, arguments, kind, said) in [
            ("rm", "{}", ToolFault::Unknown, "broken, find, large, slow"),
            ("find", "", ToolFault::InvalidArguments, "query"),
            ("find", "{\"que", ToolFault::InvalidArguments, "invalid JSON"),
            ("find", r#"{"query":"x","path":"/etc"}"#, ToolFault::InvalidArguments, "path"),
            ("slow", r#"{"query":"x"}"#, ToolFault::Timeout, "20ms"),
            ("broken", r#"{"query":"x"}"#, ToolFault::Failed, "no index (vic index)"),
            ("large", r#"{"query":"x"}"#, ToolFault::TooLarge, "ask for less"),
        ] {
            let error = tools().call(name, arguments).await.unwrap_err();
            assert!(error.kind == kind && error.message.contains(said), "{name} {arguments}: {error:?}");
        }
    }

    #[test]
    fn duplicate_or_schemaless_tool_is_rejected() {
        let nothing = |_| async { Ok(Value::Null) };
        assert!(registry().register(spec("a"), nothing).and_then(|it| it.register(spec("a"), nothing)).is_err());
        assert!(registry().register(ToolSpec { parameters: json!({ "type": 1 }), ..spec("a") }, nothing).is_err());
    }
}
