//! An OpenAI-compatible server: `POST /v1/embeddings`, vectors as base64 or as lists of numbers.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::Deserialize;
use serde_json::json;

use crate::config::EmbedConfig;
use crate::embed::egress::{self, Outbound, Purpose};
use crate::embed::remote::{self, Failure, Wire};
use crate::embed::tokens::Estimate;
use crate::embed::{Embedder, Vector};
use crate::error::{Error, ErrorCode, Result};
use crate::model::{PrivacyMode, TokenCounter};

/// An embedding model on an OpenAI-compatible server.
pub(crate) struct OpenAi {
    wire: OpenAiWire,
    dimension: usize,
    fingerprint: String,
    name: String,
    tokens: Arc<Estimate>,
}

struct OpenAiWire {
    client: Outbound,
    url: String,
    model: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Numbers,
}

/// Servers that do not know `encoding_format` answer with numbers whatever was asked.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Base64(String),
    List(Vec<Option<f32>>),
}

impl OpenAi {
    /// Connects and finds the length of the model's vectors.
    pub(crate) async fn open(config: &EmbedConfig, mode: PrivacyMode) -> Result<OpenAi> {
        let key = config.openai_key.as_deref();
        let client = egress::client(&config.openai_url, mode, Purpose::Embedding, key).await?;
        let base = config.openai_url.trim_end_matches('/');
        // People give the address with and without the version.
        let url = remote::endpoint(base.strip_suffix("/v1").unwrap_or(base), "v1/embeddings");
        let wire = OpenAiWire { client, url, model: config.model.clone() };
        let tokens = Arc::new(Estimate::new(remote::MAX_TOKENS));
        let probe = remote::embed_all(&wire, &[remote::PROBE.to_string()], tokens.as_ref()).await?;
        let dimension = probe[0].len();
        Ok(OpenAi {
            fingerprint: remote::fingerprint("openai", &config.model, &wire.url, dimension),
            name: format!("{} (openai)", config.model),
            tokens,
            wire,
            dimension,
        })
    }
}

#[async_trait]
impl Wire for OpenAiWire {
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "base64" });
        let mut answer: Answer = remote::post(&self.client, &self.url, &body).await?;
        if answer.data.iter().all(|it| it.index.is_some()) {
            answer.data.sort_by_key(|it| it.index);
        }
        answer.data.into_iter().map(|it| it.embedding.vector()).collect()
    }
}

impl Numbers {
    fn vector(self) -> Result<Vector, Failure> {
        match self {
            Numbers::List(numbers) => Ok(numbers.into_iter().map(|it| it.unwrap_or(f32::NAN)).collect()),
            Numbers::Base64(text) => {
                let bytes = decode_base64(&text).filter(|it| it.len() % 4 == 0).ok_or_else(|| {
                    Failure::Content(Error::new(ErrorCode::Unavailable, "the server gave a vector that is no base64"))
                })?;
                let numbers = bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]]));
                Ok(numbers.collect())
            }
        }
    }
}

/// Decodes standard base64 with or without padding.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

#[async_trait]
impl Embedder for OpenAi {
    async fn embed_documents(&self, texts: &[String]) -> Result<Vec<Vector>> {
        let vectors = remote::embed_all(&self.wire, texts, self.tokens.as_ref()).await?;
        remote::check_dimension(&vectors, self.dimension)?;
        Ok(vectors)
    }

    async fn embed_query(&self, text: &str) -> Result<Vector> {
        let mut vectors = self.embed_documents(&[text.to_string()]).await?;
        vectors.pop().ok_or_else(|| Error::internal("no vector for the question"))
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn max_tokens(&self) -> usize {
        remote::MAX_TOKENS
    }

    fn batch_size(&self) -> usize {
        remote::BATCH_TEXTS * remote::REQUESTS_AT_ONCE
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn token_counter(&self) -> Arc<dyn TokenCounter> {
        self.tokens.clone()
    }
}
