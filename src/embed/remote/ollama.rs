//! The protocol of Ollama servers for embeddings: `POST /api/embed`.
//!
//! A model that a local Ollama server forwards to a cloud service counts as remote.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::config::EmbedConfig;
use crate::egress::{self, HttpClient, Purpose};
use crate::embed::embedder::Vector;
use crate::embed::remote::batch::Wire;
use crate::embed::remote::embedder::RemoteEmbedder;
use crate::embed::remote::http::{self, Failure};
use crate::error::{Error, ErrorCode, Result};
use crate::model::PrivacyMode;

/// How long the server keeps the model in memory after a request, so that it stays loaded between the batches of an index
/// run.
const KEEP_ALIVE: &str = "10m";

/// An embedding model on an Ollama server.
pub(super) struct Ollama {
    client: HttpClient,
    base: String,
    model: String,
    /// Context size in tokens to request; `None` leaves it to the server.
    context: Option<u32>,
}

#[derive(Deserialize)]
struct EmbedAnswer {
    // `None` stands for NaN, which Ollama encodes as null.
    embeddings: Vec<Vec<Option<f32>>>,
}

/// The model list of the server.
#[derive(Deserialize)]
struct TagsAnswer {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    digest: String,
}

/// Connects to the server, and determines the length of the model's vectors and the digest of its weights. If the
/// privacy mode forbids sending texts to other machines, also checks that the server does not forward them.
pub(super) async fn open(config: &EmbedConfig, mode: PrivacyMode) -> Result<RemoteEmbedder<Ollama>> {
    let key = config.ollama_key.as_deref();
    let client = egress::open_client(&config.ollama_url, mode, Purpose::Embedding, key).await?;
    let (base, model) = (config.ollama_url.clone(), config.model.clone());
    let wire = Ollama { client, base, model, context: config.context_tokens };
    wire.check_local(mode).await?;
    RemoteEmbedder::probe(wire, "ollama", &config.model).await
}

impl Ollama {
    async fn check_local(&self, mode: PrivacyMode) -> Result<()> {
        if mode == PrivacyMode::CloudEmbeddingOk {
            return Ok(());
        }
        match remote_host_of_model(&self.client, &self.base, &self.model, http::MAX_ATTEMPTS).await {
            Ok(None) => Ok(()),
            Ok(Some(place)) => Err(forwarded_model_error(&self.model, &place, mode)),
            Err(error) => Err(self.with_pull_hint(error)),
        }
    }

    /// Returns the digest of the model's files; `None` for servers that only imitate the Ollama API.
    ///
    /// # Errors
    /// The server is unreachable or busy. This must be an error, because a missing digest would count as another model.
    async fn digest(&self) -> Result<Option<String>> {
        let answer: TagsAnswer = match http::get(&self.client, &http::endpoint(&self.base, "api/tags")).await {
            Ok(answer) => answer,
            Err(Failure::Content(_)) => return Ok(None),
            Err(Failure::Request(error)) if error.code == ErrorCode::NotFound => return Ok(None),
            Err(Failure::Request(error)) => return Err(error),
        };
        let is_it = |tag: &&Tag| tag.name == self.model || tag.name.strip_suffix(":latest") == Some(&self.model);
        Ok(answer.models.iter().find(is_it).map(|tag| tag.digest.clone()))
    }

    fn with_pull_hint(&self, error: Error) -> Error {
        match error.code {
            ErrorCode::NotFound => error.hint(format!("run `ollama pull {}`", self.model)),
            _ => error,
        }
    }
}

#[async_trait]
impl Wire for Ollama {
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure> {
        let url = http::endpoint(&self.base, "api/embed");
        let mut body = json!({ "model": self.model, "input": texts, "truncate": true, "keep_alive": KEEP_ALIVE });
        if let Some(tokens) = self.context {
            body["options"] = json!({ "num_ctx": tokens });
        }
        match http::post::<EmbedAnswer>(&self.client, &url, &body).await {
            Ok(answer) => {
                let number = |it: Option<f32>| it.unwrap_or(f32::NAN);
                Ok(answer.embeddings.into_iter().map(|it| it.into_iter().map(number).collect()).collect())
            }
            Err(Failure::Request(error)) => Err(Failure::Request(self.with_pull_hint(error))),
            Err(other) => Err(other),
        }
    }

    /// Returns the digest of the model, or else the address of the server, so that another server counts as another model.
    async fn weights(&self) -> Result<String> {
        Ok(self.digest().await?.unwrap_or_else(|| self.base.trim_end_matches('/').to_owned()))
    }
}

/// Returns the remote host to which an Ollama server forwards requests to a model; `None` if the model runs on the server
/// itself. Makes up to `tries` attempts while the server is busy.
pub(crate) async fn remote_host_of_model(
    client: &HttpClient,
    base: &str,
    model: &str,
    tries: u32,
) -> Result<Option<String>> {
    let url = http::endpoint(base, "api/show");
    let request = client.post(&url).json(&serde_json::json!({ "model": model }));
    let answer: serde_json::Value = match http::send_with_retries(client, request, &url, tries).await {
        Ok(answer) => answer,
        Err(Failure::Content(error) | Failure::Request(error)) => return Err(error),
    };
    let place =
        ["remote_host", "remote_model"].iter().find_map(|key| answer[*key].as_str().filter(|it| !it.is_empty()));
    Ok(place.map(String::from))
}

/// Returns the error for a model whose requests the server forwards to a remote host `place`.
pub(crate) fn forwarded_model_error(model: &str, place: &str, mode: PrivacyMode) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("the privacy mode `{}` forbids model `{model}`: Ollama forwards it to `{place}`", mode.name()),
    )
    .hint("choose a model that runs on this machine")
}
