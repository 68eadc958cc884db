//! The protocol of OpenAI-compatible servers for embeddings: `POST /v1/embeddings`, with vectors as base64 or as lists of
//! numbers.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
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

/// An embedding model on an OpenAI-compatible server.
pub(super) struct OpenAi {
    client: HttpClient,
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

/// A vector in a response. Servers that do not support `encoding_format` return lists of numbers instead of base64.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Base64(String),
    List(Vec<Option<f32>>),
}

/// Connects to the server and determines the length of the model's vectors.
pub(super) async fn open(config: &EmbedConfig, mode: PrivacyMode) -> Result<RemoteEmbedder<OpenAi>> {
    let key = config.openai_key.as_deref();
    let client = egress::open_client(&config.openai_url, mode, Purpose::Embedding, key).await?;
    let base = config.openai_url.trim_end_matches('/');
    // Removes `/v1`, because users configure the address with or without it.
    let url = http::endpoint(base.strip_suffix("/v1").unwrap_or(base), "v1/embeddings");
    RemoteEmbedder::probe(OpenAi { client, url, model: config.model.clone() }, "openai", &config.model).await
}

#[async_trait]
impl Wire for OpenAi {
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "base64" });
        let mut answer: Answer = http::post(&self.client, &self.url, &body).await?;
        if answer.data.iter().all(|it| it.index.is_some()) {
            answer.data.sort_by_key(|it| it.index);
        }
        answer.data.into_iter().map(|it| it.embedding.vector()).collect()
    }

    async fn weights(&self) -> Result<String> {
        Ok(self.url.clone())
    }
}

impl Numbers {
    fn vector(self) -> Result<Vector, Failure> {
        match self {
            Numbers::List(numbers) => Ok(numbers.into_iter().map(|it| it.unwrap_or(f32::NAN)).collect()),
            Numbers::Base64(text) => {
                let bytes = decode_base64(&text).filter(|it| it.len() % 4 == 0).ok_or_else(|| {
                    Failure::Content(Error::new(
                        ErrorCode::Unavailable,
                        "the embedding server returned a vector in invalid base64",
                    ))
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
