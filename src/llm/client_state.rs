//! The state that all clones of a model client share: transport, settings, running tasks and known models.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::llm::clock::Clock;
use crate::llm::event_log::ProofCollector;
use crate::llm::queue::Queue;
use crate::llm::redact;
use crate::llm::tools::RegisteredTools;
use crate::llm::transport::Transport;
use crate::model::llm::capabilities::{ModelCapability, ModelLimits};
use crate::model::llm::event::TaskId;
use crate::model::llm::guardrails::{Guardrails, RetryPolicy};
use crate::model::llm::request::{LlmRequest, ModelId};
use crate::model::{PrivacyMode, Redaction};

/// Maximum number of models whose capabilities are cached. The oldest are evicted, because callers may send any number of
/// names.
pub(super) const MAX_CACHED_MODELS: usize = 256;
/// Timeout of a query for a model's capabilities; the request itself has a longer one.
pub(super) const CAPABILITY_TIMEOUT: Duration = Duration::from_secs(10);

/// State shared by all clones of a client.
pub(super) struct ClientState {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) proof: Option<Arc<dyn ProofCollector>>,
    pub(super) tools: Option<RegisteredTools>,
    pub(super) guardrails: Guardrails,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) redaction: Redaction,
    pub(super) queue: Arc<Queue>,
    pub(super) context_tokens: u32,
    pub(super) tasks: Mutex<HashMap<TaskId, CancellationToken>>,
    /// Capabilities of the models as last reported by the backend, oldest first.
    pub(super) capabilities: Mutex<Vec<ModelCapability>>,
}

impl ClientState {
    pub(super) fn remove_task(&self, id: &TaskId) {
        self.tasks().remove(id);
    }

    /// Returns a text in which secret keys and tokens are redacted.
    pub(super) fn redact(&self, text: &str) -> String {
        redact::redact_text(text, self.redaction)
    }

    pub(super) fn tasks(&self) -> MutexGuard<'_, HashMap<TaskId, CancellationToken>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn capabilities(&self) -> MutexGuard<'_, Vec<ModelCapability>> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the limits of a model, with timeout `patience`; see [`crate::llm::LlmClient::limits`].
    pub(super) async fn limits(&self, model: Option<&ModelId>, mode: PrivacyMode, patience: Duration) -> ModelLimits {
        let id = self.named_or_default(model);
        let known = match self.cached_capability(&id) {
            Some(known) => known,
            None => match tokio::time::timeout(patience, self.transport.capability(&id, mode)).await {
                Ok(Ok(looked)) => {
                    // Caches the capabilities under the name in the request, because the backend may report another one.
                    let looked = ModelCapability { id, ..looked };
                    self.cache_capability(looked.clone());
                    looked
                }
                Ok(Err(_)) | Err(_) => ModelCapability::with_defaults(id),
            },
        };
        ModelLimits::for_model(&known, self.context_tokens)
    }

    /// Caches the capabilities of a model. If the cache is full, evicts the oldest entry, which is queried again when
    /// needed.
    fn cache_capability(&self, looked: ModelCapability) {
        let mut known = self.capabilities();
        // Removes an entry for the same model, which a concurrent query may have added.
        known.retain(|it| it.id != looked.id);
        let beyond = (known.len() + 1).saturating_sub(MAX_CACHED_MODELS);
        known.drain(..beyond);
        known.push(looked);
    }

    /// Sets the context size of a request that has none. No other code sets it, because an Ollama server reloads the model
    /// whenever the context size changes. Without a context size, the server uses a small default and silently drops the
    /// beginning of the prompt.
    pub(super) async fn set_context(&self, request: &mut LlmRequest) {
        if request.context_tokens.is_some() || !self.transport.takes_context() {
            return;
        }
        let patience = CAPABILITY_TIMEOUT.min(request.timeouts.first);
        let limits = self.limits(request.model.as_ref(), request.privacy_mode, patience).await;
        request.context_tokens = Some(limits.context_tokens);
    }

    /// Returns the model named in a request, or the default model if there is none.
    pub(super) fn named_or_default(&self, named: Option<&ModelId>) -> ModelId {
        named.cloned().unwrap_or_else(|| ModelId(self.transport.model().into()))
    }

    /// Returns the cached capabilities of a model; `None` if they are not known.
    pub(super) fn cached_capability(&self, id: &ModelId) -> Option<ModelCapability> {
        ModelCapability::find_by_name(&self.capabilities(), id).cloned()
    }
}
