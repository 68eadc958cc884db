//! The warehouse as one typed property graph: references between files, and imported graphs.
//!
//! [`GraphService`] is the entry point. A [`Snapshot`] is immutable and in memory; `catalog` stores its sources on disk.
//! Queries arrive as AxQL (`axql`), as `query_ir_v1` (`ir`) or as `graph_query`. This module checks, plans and runs all
//! of them, so a language model only proposes. `extract` turns files into nodes and edges, `follow` syncs them with the
//! index, and [`tools`] is the registry of tools that a model may call.
//!
//! The graph is built on first use. Nothing here writes to the index or to files of users.

pub mod query;
mod scc;
mod semantic_id;
mod export;
mod extract;
mod index_sync;
pub mod import;
mod suggest;
mod publish;
pub mod snapshot;
#[cfg(test)]
mod tests;
pub mod tools;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::ask::Asker;
use crate::catalog::{Catalog, GraphStore};
use crate::error::{Error, Result};
use crate::extract::WorkerPool;
use crate::graph::query::plan::TextResults;
use crate::graph::snapshot::view::View;
use crate::index::{Index, blocking};
use crate::model::{
    GraphChange, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphShape, GraphSource, Scope,
};

pub use snapshot::Snapshot;

/// How long the first question waits for the graph of the files.
const FIRST_BUILD_TIMEOUT: Duration = Duration::from_secs(20);
/// Most entities of a drawing; more is unreadable.
const MAX_DRAWN: usize = 2_000;
/// Most entities of an export.
const MAX_EXPORTED: usize = 5_000_000;
/// Prefix of the names of imported sources.
const IMPORT_PREFIX: &str = "import:";
/// Name of the import that `graph apply` adds to.
const CHANGES_IMPORT: &str = "changes";

/// The parts of the daemon that the graph reads from.
#[derive(Clone)]
pub struct GraphInputs {
    /// Files.
    pub catalog: Catalog,
    /// Passages.
    pub index: Index,
    /// Semantic search.
    pub asker: Asker,
    /// Texts of files.
    pub pool: Arc<WorkerPool>,
}

/// The graph service. Cheap to clone.
#[derive(Clone)]
pub struct GraphService {
    shared: Arc<Shared>,
    scope: Scope,
}

pub(crate) struct Shared {
    store: GraphStore,
    /// `None` if there are imports only.
    inputs: Option<GraphInputs>,
    snapshot: RwLock<Arc<Snapshot>>,
    loaded: OnceCell<()>,
    /// Changes that are stored but not yet published. Held while stored data or the snapshot changes; see [`publish::WriteGuard`].
    pending: Mutex<Option<publish::PendingChanges>>,
    /// Whether the sync with the index has started.
    sync_started: AtomicBool,
    /// Files not in the graph yet, as far as the sync has counted.
    files_behind: watch::Sender<usize>,
    /// Whether the graph has held all files once.
    is_complete: watch::Sender<bool>,
    /// Whether a question has waited for `ready` in vain.
    wait_timed_out: AtomicBool,
    shutdown: CancellationToken,
}

impl GraphService {
    /// Opens the graph at `path`. If an earlier run used it, the sync with the index starts now.
    ///
    /// # Errors
    /// The file cannot be created, or a newer vic wrote it.
    pub fn open(path: &Path, reads: Option<GraphInputs>, shutdown: CancellationToken) -> Result<GraphService> {
        let shared = Arc::new(Shared {
            store: GraphStore::open(path)?,
            inputs: reads,
            snapshot: RwLock::default(),
            loaded: OnceCell::new(),
            pending: Mutex::default(),
            sync_started: AtomicBool::new(false),
            files_behind: watch::Sender::new(0),
            is_complete: watch::Sender::new(false),
            wait_timed_out: AtomicBool::new(false),
            shutdown,
        });
        if shared.inputs.is_some() && shared.store.meta_get(index_sync::USED_KEY)?.is_some() {
            index_sync::start_sync(&shared);
        }
        Ok(GraphService { shared, scope: Scope::All })
    }

    /// Returns the path of the damaged graph that this one replaced when it was opened.
    pub fn set_aside(&self) -> Option<&Path> {
        self.shared.store.quarantined()
    }

    /// Returns the service restricted to a scope. Imports belong to the owner.
    pub fn with_scope(&self, scope: Scope) -> GraphService {
        GraphService { scope, ..self.clone() }
    }

    /// Answers a request.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid request, `NotFound` for a missing name.
    pub async fn request(&self, request: GraphRequest) -> Result<Value> {
        match request {
            GraphRequest::Tool { name, args } => tools::call_tool(self, &name, args, self.scope.clone()).await,
            GraphRequest::Query(question) => self.query(&question).await,
            GraphRequest::Import(import) => self.import(import).await,
            GraphRequest::Forget { name } => self.remove_import(&name).await,
            GraphRequest::Apply(change) => self.apply(change).await,
            GraphRequest::Draw(shape, extent) => {
                let view = self.view().await?;
                blocking(move || render(&view, shape, &extent)).await
            }
        }
    }

    /// Answers a query with `{vars, run_query, truncated}`, or elaborates it without running it.
    ///
    /// # Errors
    /// As [`GraphService::request`].
    pub async fn query(&self, question: &GraphQuestion) -> Result<Value> {
        let query = query::answer::parse_question(question)?;
        let view = self.view().await?;
        let (texts, cut) = self.texts(&view, &query).await?;
        let (elaborate, explain) = (question.elaborate, question.explain);
        let value = blocking(move || match elaborate {
            true => query::answer::elaborate_only(&view, &query),
            false => query::answer::run_query(view, &query, &texts, explain),
        })
        .await?;
        Ok(with_notes(value, if elaborate { Vec::new() } else { cut }, self.state_note()))
    }

    /// Looks up the texts of a query in the index. Returns their entities, and notes about truncated results.
    async fn texts(&self, view: &View, query: &query::axql::Query) -> Result<(TextResults, Vec<String>)> {
        let (mut texts, mut cut) = (TextResults::new(), Vec::new());
        for words in query::answer::index_texts(query) {
            let (nodes, note) = tools::passages::matching_nodes(self, view, &words).await?;
            cut.extend(note);
            texts.insert(words, nodes);
        }
        Ok((texts, cut))
    }

    /// Returns the present snapshot.
    ///
    /// # Errors
    /// The stored data cannot be read.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.shared.load().await?;
        Ok(self.shared.current())
    }

    /// Returns the present graph as this caller sees it.
    async fn view(&self) -> Result<View> {
        self.shared.load().await?;
        if self.shared.inputs.is_some() {
            index_sync::start_sync(&self.shared);
            self.shared.wait_until_ready().await;
        }
        Ok(View::new(self.shared.current(), &self.scope))
    }

    /// Returns a note about the graph's state, if it is incomplete.
    pub(crate) fn state_note(&self) -> Option<String> {
        let is_built = self.shared.inputs.is_none() || *self.shared.is_complete.borrow();
        let files = *self.shared.files_behind.borrow();
        (!is_built).then(|| incomplete_note(&self.scope, files))
    }

    async fn import(&self, import: GraphImport) -> Result<Value> {
        let GraphImport { name, format, text } = import;
        if name.is_empty() || name.contains(['#', '\0']) || name == CHANGES_IMPORT {
            return Err(Error::invalid(format!("`{name}` cannot be the name of an import")).field("name"));
        }
        let called = name.clone();
        // Parsed while it is stored, so that a large graph is not held in memory beside its text.
        let fill = move |take: import::TakePart<'_>| match format {
            GraphFormat::Json => import::parse_in_parts(&called, &text, take),
            GraphFormat::Text => import::text::parse_in_parts(&text, take),
            GraphFormat::Proposals => import::split_part(import::proposals::to_graph_part(&text)?, take),
        };
        let called = name.clone();
        let taken = self.shared.with_write_lock(move |mut turn| turn.import(&called, fill)).await?;
        let publish::ImportOutcome { replaced, nodes, edges } = taken;
        Ok(json!({"name": name, "nodes": nodes, "edges": edges, "replaced": replaced}))
    }

    async fn remove_import(&self, name: &str) -> Result<Value> {
        let called = name.to_string();
        if !self.shared.with_write_lock(move |mut turn| turn.remove_import(&called)).await? {
            let names = self.shared.imports().await?;
            let hint = suggest::did_you_mean(name, names.iter().map(String::as_str));
            let hint = hint.unwrap_or_else(|| "`vic graph stats` lists them".into());
            return Err(Error::not_found(format!("there is no import `{name}`")).hint(hint));
        }
        Ok(json!({"name": name, "forgotten": true}))
    }

    async fn apply(&self, change: GraphChange) -> Result<Value> {
        self.view().await?;
        let scope = self.scope.clone();
        // No other change may happen between check and write.
        let looked = self.shared.with_write_lock(move |mut turn| {
            let part = import::change_check::parse_change(CHANGES_IMPORT, &change)?;
            let refused = import::change_check::refused_edges(&View::new(turn.current(), &scope), &part);
            let edges = part.edges.len();
            let applied = change.write && refused.is_empty();
            if applied {
                turn.append(CHANGES_IMPORT, part)?;
            }
            Ok((applied, edges, refused))
        });
        let (applied, edges, refused) = looked.await?;
        Ok(json!({"applied": applied, "edges": edges, "refused": refused}))
    }
}

impl Shared {
    /// Waits while the graph is built for the first time. After one wait that timed out, later questions do not wait.
    async fn wait_until_ready(&self) {
        if self.wait_timed_out.load(Ordering::Relaxed) {
            return;
        }
        let mut ready = self.is_complete.subscribe();
        if tokio::time::timeout(FIRST_BUILD_TIMEOUT, ready.wait_for(|it| *it)).await.is_err() {
            self.wait_timed_out.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the names of the imports.
    async fn imports(self: &Arc<Shared>) -> Result<Vec<String>> {
        let shared = self.clone();
        blocking(move || {
            let sources = shared.store.sources()?;
            let name = |it: GraphSource| Some(it.name.strip_prefix(IMPORT_PREFIX)?.rsplit_once('#')?.0.to_string());
            Ok(sources.into_iter().filter_map(name).collect())
        })
        .await
    }
}

/// Makes the note about an incomplete graph. The number of files includes those outside the scope.
fn incomplete_note(scope: &Scope, files: usize) -> String {
    match scope {
        Scope::All => format!("the graph is being built: about {files} files are not in it yet"),
        Scope::Folders(_) => "the graph is being built: not all files are in it yet".into(),
    }
}

/// Adds notes to an answer, and marks it as truncated if `cut` is not empty.
fn with_notes(mut value: Value, cut: Vec<String>, note: Option<String>) -> Value {
    if !cut.is_empty() {
        value["truncated"] = json!(true);
    }
    for note in cut.into_iter().chain(note) {
        match value.get_mut("notes").and_then(Value::as_array_mut) {
            Some(notes) => notes.push(json!(note)),
            None => value["notes"] = json!([note]),
        }
    }
    value
}

fn render(view: &View, shape: GraphShape, request: &crate::model::GraphExtent) -> Result<Value> {
    let most = match shape {
        GraphShape::Json | GraphShape::Text => MAX_EXPORTED,
        GraphShape::Dot | GraphShape::Html => MAX_DRAWN,
    };
    let extent = export::select_extent(view, request, most)?;
    let text = match shape {
        GraphShape::Json => serde_json::to_string_pretty(&export::to_json(view, &extent)).map_err(Error::internal)?,
        GraphShape::Text => export::to_lines(view, &extent),
        GraphShape::Dot => export::drawing::dot(view, &extent),
        GraphShape::Html => export::drawing::html(view, &extent)?,
    };
    let (nodes, edges) = (extent.nodes.len(), extent.edges.len());
    Ok(json!({"text": text, "nodes": nodes, "edges": edges, "truncated": extent.truncated}))
}
