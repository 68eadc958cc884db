//! Sends a path to every API through which the daemon reads files, for the tests of forbidden paths.

use serde_json::{Value, json};
use vic::client::Client;
use vic::model::Place;

use crate::support::harness::World;
use crate::support::http_client::Response;
use crate::support::http_client::key;
use crate::support::http_client::mcp;
use crate::support::http_client::send;

/// The reply of one API to a path.
pub(super) struct ApiResult {
    pub(super) api: String,
    /// Whether the API refused the path. Always true for APIs that only start a job.
    pub(super) is_refused: bool,
    pub(super) text: String,
}

/// Calls all APIs, each with the key of the owner or the key of a guest.
pub(super) struct ReadApis<'a> {
    world: &'a World,
    client: Client,
    runtime: tokio::runtime::Runtime,
    owner: String,
    /// A key with the right to index the folder. Used where the owner's key would turn the outside path into a root.
    guest: String,
}

impl ReadApis<'_> {
    pub(super) fn for_world(world: &World) -> ReadApis<'_> {
        // The runtime has its own thread: the client must answer keepalive checks of the daemon between two calls.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(&world.config())).unwrap();
        let folder = world.files().display().to_string();
        let made = world.json(&["keys", "add", "guest", "--root", &folder, "--allow", "index"]);
        ReadApis { world, client, runtime, owner: key(world), guest: made["key"].as_str().unwrap().into() }
    }

    /// Sends this path to every API and returns the replies.
    pub(super) fn try_all(&self, path: &str) -> Vec<ApiResult> {
        let mut told = vec![self.by_grpc(path)];
        told.extend(self.by_command(path));
        for (who, key) in [("the owner", &self.owner), ("a guest", &self.guest)] {
            for route in ["read", "table", "similar"] {
                let body = json!({"path": path});
                told.push(ApiResult { api: format!("/v1/{route} of {who}"), ..self.by_http(key, route, &body) });
            }
            let calls = [
                ("tools/call", json!({"name": "read", "arguments": {"path": path, "max_chars": 20_000}})),
                ("tools/call", json!({"name": "table", "arguments": {"path": path, "max_chars": 20_000}})),
                ("resources/read", json!({"uri": format!("vic://file{}", url_escaped(path))})),
                ("resources/read", json!({"uri": format!("file://{path}")})),
            ];
            for (method, params) in calls {
                let text = mcp(self.world, key, method, &params);
                let is_refused = text.contains("\"isError\":true") || text.contains("\"error\":");
                told.push(ApiResult { api: format!("{method} {params} of {who}"), is_refused, text });
            }
        }
        told.extend(self.try_indirect(path));
        told
    }

    fn by_grpc(&self, path: &str) -> ApiResult {
        let outcome = self.runtime.block_on(self.client.read(path, &Place::default()));
        let text = outcome.as_ref().map_or_else(ToString::to_string, |it| it.text());
        ApiResult { api: "gRPC".into(), is_refused: outcome.is_err(), text }
    }

    fn by_command(&self, path: &str) -> Option<ApiResult> {
        // Skips paths with a NUL byte, which an argument of a program cannot contain.
        let output = (!path.contains('\0')).then(|| self.world.vic(&["read", "--", path]))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(ApiResult { api: "vic read".into(), is_refused: !output.status.success(), text })
    }

    fn by_http(&self, key: &str, route: &str, body: &Value) -> ApiResult {
        let answered = self.post_with_key(key, &format!("/v1/{route}"), body);
        ApiResult { api: route.into(), is_refused: answered.status >= 400, text: answered.body }
    }

    /// Sends the path to APIs that start a job, or that expect another kind of identifier.
    fn try_indirect(&self, path: &str) -> Vec<ApiResult> {
        let posts = [
            (&self.guest, "/v1/corpus/ingest", json!({"paths": [path]})),
            (&self.guest, "/v1/index/start", json!({"root": path})),
            (&self.owner, "/v1/corpus/explain-failure", json!({"url_id": path})),
            (&self.guest, "/v1/corpus/explain-failure", json!({"url_id": path})),
        ];
        let posts = posts.map(|(key, route, body)| ApiResult {
            api: format!("{route} {body}"),
            is_refused: true,
            text: self.post_with_key(key, route, &body).body,
        });
        let tools = [
            ("corpus_ingest", json!({"paths": [path]})),
            ("docchunk_get", json!({"chunk": path})),
            ("describe_entity", json!({"entity": path})),
            ("lookup_entity", json!({"name": path})),
        ];
        let tools = tools.map(|(name, arguments)| {
            let params = json!({"name": name, "arguments": arguments});
            let text = mcp(self.world, &self.guest, "tools/call", &params);
            ApiResult { api: format!("tool {name} {arguments}"), is_refused: true, text }
        });
        posts.into_iter().chain(tools).collect()
    }

    fn post_with_key(&self, key: &str, route: &str, body: &Value) -> Response {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        send(self.world, "POST", route, &headers, &body.to_string())
    }
}

/// Percent-encodes a path for a URI.
fn url_escaped(path: &str) -> String {
    path.bytes()
        .map(|it| match it {
            b'/' | b'.' | b'-' | b'_' | b'~' => char::from(it).to_string(),
            _ if it.is_ascii_alphanumeric() => char::from(it).to_string(),
            _ => format!("%{it:02X}"),
        })
        .collect()
}
