//! The protocol of reranking servers: `POST /v1/rerank` with `query` and `documents`, as llama.cpp, vLLM, Infinity and the
//! services of Jina and Cohere have it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::config::RerankConfig;
use crate::egress::{self, Purpose};
use crate::embed::remote::http::{self, Failure};
use crate::error::{Error, ErrorCode, Result};
use crate::model::PrivacyMode;

/// A model on a server that judges how well passages answer a question.
pub(crate) struct RerankServer {
    base: String,
    url: String,
    key: Option<String>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    #[serde(alias = "score")]
    relevance_score: f32,
}

impl RerankServer {
    /// Creates a client for the server at `base`, with or without `/v1`. Connects at the first request.
    pub(crate) fn new(base: &str, config: &RerankConfig) -> RerankServer {
        let root = base.trim_end_matches('/');
        RerankServer {
            base: base.to_string(),
            url: http::endpoint(root.strip_suffix("/v1").unwrap_or(root), "v1/rerank"),
            key: config.key.clone(),
            model: config.model.clone(),
        }
    }

    /// Returns for each passage how well it answers the question: higher is better, in units of the server's model.
    ///
    /// # Errors
    /// The privacy mode forbids the server; the server cannot be reached, rejects the request, judges not every passage, or
    /// takes longer than `most` ([`ErrorCode::Unavailable`]).
    pub(crate) async fn judge(
        &self,
        question: &str,
        passages: &[String],
        mode: PrivacyMode,
        most: Duration,
    ) -> Result<Vec<f32>> {
        let asked = async {
            let client = egress::open_client(&self.base, mode, Purpose::Reasoning, self.key.as_deref()).await?;
            let mut body = json!({ "query": question, "documents": passages, "return_documents": false });
            if let Some(model) = &self.model {
                body["model"] = json!(model);
            }
            match http::post_once::<Answer>(&client, &self.url, &body).await {
                Ok(answer) => self.by_passage(answer, passages.len()),
                Err(Failure::Content(error) | Failure::Request(error)) => Err(error),
            }
        };
        tokio::time::timeout(most, asked).await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorCode::Unavailable,
                format!("`{}` did not answer within {} ms", self.url, most.as_millis()),
            )
            .hint("set VIC_RERANK_MS to a longer time"))
        })
    }

    /// Orders the results of a response, best first, by the passages of the request.
    fn by_passage(&self, answer: Answer, count: usize) -> Result<Vec<f32>> {
        let mut found = vec![f32::NAN; count];
        for item in answer.results {
            match found.get_mut(item.index) {
                Some(place) => *place = item.relevance_score,
                None => return Err(self.unusable(&format!("it judges a passage {} of {count}", item.index))),
            }
        }
        match found.iter().all(|it| it.is_finite()) {
            true => Ok(found),
            false => Err(self.unusable("it does not judge every passage")),
        }
    }

    fn unusable(&self, why: &str) -> Error {
        Error::new(ErrorCode::Unavailable, format!("`{}` gave no usable answer: {why}", self.url))
    }

    /// Returns the name of the model. Hits show it to every caller, so that it is not the address of the server.
    pub(crate) fn name(&self) -> &str {
        self.model.as_deref().unwrap_or("the reranking server")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::embed::remote::tests::{Reply, serve};

    /// Starts a server that answers as `reply` says, and asks it about three passages.
    async fn check(reply: impl Fn(Value) -> Reply + Send + Sync + 'static) -> Result<Vec<f32>> {
        let url = serve(move |request| {
            assert_eq!(request.path, "/v1/rerank");
            reply(request.body)
        });
        let url = format!("{}/v1", url.await);
        let config = RerankConfig { model: Some("m".into()), ..RerankConfig::default() };
        let passages = ["a", "b", "c"].map(String::from);
        RerankServer::new(&url, &config).judge("q", &passages, PrivacyMode::LocalOnly, Duration::from_secs(5)).await
    }

    fn results(results: &Value) -> Reply {
        Reply::ok(json!({ "model": "m", "results": results }).to_string().as_bytes())
    }

    #[tokio::test]
    async fn results_are_ordered_by_passage() {
        let found = check(|body| {
            assert_eq!((body["query"].as_str(), body["model"].as_str()), (Some("q"), Some("m")));
            assert_eq!(body["documents"], json!(["a", "b", "c"]));
            let item = |index: u32, score: f32| json!({ "index": index, "relevance_score": score });
            results(&json!([item(2, 3.5), item(0, 0.25), item(1, -7.0)]))
        });
        assert_eq!(found.await.unwrap(), [0.25, -7.0, 3.5]);
    }

    #[tokio::test]
    async fn unusable_results_are_errors() {
        for wrong in [json!([]), json!([{ "index": 3, "score": 1.0 }]), json!([{ "index": 0, "score": 1.0 }]), json!(7)]
        {
            let error = check(move |_| results(&wrong)).await.unwrap_err();
            assert!(error.message.contains("no usable answer"), "{error}");
        }
        let error = check(|_| Reply::error(404, "no reranker")).await.unwrap_err();
        assert!(error.message.contains("no reranker"), "{error}");
    }

    #[tokio::test]
    async fn other_machine_is_refused_in_local_only_and_slow_server_times_out() {
        let server = RerankServer::new("http://192.0.2.7:9", &RerankConfig::default());
        let ask = async |server: &RerankServer, most| {
            server.judge("q", &["a".to_string()], PrivacyMode::LocalOnly, most).await.unwrap_err()
        };
        assert_eq!(ask(&server, Duration::from_secs(5)).await.code, ErrorCode::PermissionDenied);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = RerankServer::new(&format!("http://{}", listener.local_addr().unwrap()), &RerankConfig::default());
        let error = ask(&silent, Duration::from_millis(50)).await;
        assert!(error.message.contains("50 ms") && error.code == ErrorCode::Unavailable, "{error}");
    }
}
