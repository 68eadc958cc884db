//! Answers requests to the graph: tool calls, queries, imports, changes and drawings.

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::graph::export::drawing;
use crate::graph::import::{change_check, change_warnings, json_format, parts, proposals, text};
use crate::graph::publish::ImportOutcome;
use crate::graph::service::GraphService;
use crate::graph::snapshot::view::View;
use crate::graph::{suggest, tools};
use crate::index::blocking;
use crate::model::{GraphChange, GraphFormat, GraphImport, GraphRequest};

/// Name of the import that `vic graph apply` adds its changes to.
const CHANGES_IMPORT: &str = "changes";

impl GraphService {
    /// Answers a request with JSON whose form depends on the kind of request.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid request, `NotFound` if an entity, import or tool does not exist.
    pub async fn request(&self, request: GraphRequest) -> Result<Value> {
        match request {
            GraphRequest::Tool { name, args } => tools::call_tool(self, &name, args, self.scope.clone()).await,
            GraphRequest::Query(question) => self.query(&question).await,
            GraphRequest::Import(import) => self.import(import).await,
            GraphRequest::Forget { name } => self.remove_import(&name).await,
            GraphRequest::Apply(change) => self.apply(change).await,
            GraphRequest::Draw(shape, extent) => {
                let view = self.view().await?;
                blocking(move || drawing::render(&view, shape, &extent)).await
            }
        }
    }

    async fn import(&self, import: GraphImport) -> Result<Value> {
        let GraphImport { name, format, text } = import;
        if name.is_empty() || name.contains(['#', '\0']) || name == CHANGES_IMPORT {
            return Err(
                Error::invalid(format!("`{name}` cannot name an import: `#` and `changes` are reserved")).field("name")
            );
        }
        let called = name.clone();
        // Stores each part as soon as it is parsed, so that memory holds the text of a large graph but not also the graph.
        let fill = move |take: parts::TakePart<'_>| match format {
            GraphFormat::Json => json_format::parse_in_parts(&called, &text, take),
            GraphFormat::Text => text::parse_in_parts(&text, take),
            GraphFormat::Proposals => parts::split_part(proposals::to_graph_part(&text)?, take),
        };
        let called = name.clone();
        let taken = self.shared.with_write_lock(move |mut turn| turn.import(&called, fill)).await?;
        let ImportOutcome { replaced, nodes, edges } = taken;
        Ok(json!({"name": name, "nodes": nodes, "edges": edges, "replaced": replaced}))
    }

    async fn remove_import(&self, name: &str) -> Result<Value> {
        let called = name.to_string();
        if !self.shared.with_write_lock(move |mut turn| turn.remove_import(&called)).await? {
            let names = self.shared.imports().await?;
            let hint = suggest::did_you_mean(name, names.iter().map(String::as_str));
            let hint = hint.unwrap_or_else(|| "`vic graph stats` lists the imports".into());
            return Err(Error::not_found(format!("there is no import `{name}`")).hint(hint));
        }
        Ok(json!({"name": name, "forgotten": true}))
    }

    async fn apply(&self, change: GraphChange) -> Result<Value> {
        let view = self.view().await?;
        let (write, scope) = (change.write, self.scope.clone());
        // Compares names before it takes the write lock, because that takes longer than the check and the write.
        let prepare = move || {
            let mut part = change_check::parse_change(CHANGES_IMPORT, &change)?;
            change_check::replace_printed_ids(&view, &mut part, change.format)?;
            let mut answer = json!({"applied": false, "edges": part.edges.len(), "refused": []});
            change_warnings::add_warnings(&view, &part, &mut answer);
            Ok((part, answer))
        };
        let (part, mut answer) = blocking(prepare).await?;
        // Holds the write lock for the check and the write, so that no other change is made between them.
        let looked = self.shared.with_write_lock(move |mut turn| {
            let refused = change_check::refused_edges(&View::new(turn.current(), &scope), &part);
            let applied = write && refused.is_empty();
            if applied {
                turn.append(CHANGES_IMPORT, part)?;
            }
            Ok((applied, refused))
        });
        let (applied, refused) = looked.await?;
        answer["applied"] = json!(applied);
        answer["refused"] = json!(refused);
        Ok(answer)
    }
}
