//! Tests malformed replies of model servers: each must lead to an answer or soon to an error that describes the problem.
//!
//! `VIC_MUTANTS` sets the number of each kind of reply, `VIC_SEED` the first seed; see `mutants.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;
use vic::config::Config;
use vic::error::{Error, ErrorCode};
use vic::llm::{LlmRequest, Task};
use vic::model::PrivacyMode;

use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::Xorshift;
use crate::hostile::mutants::mutate;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;
use crate::hostile::query_mutants::mutate_json;
use crate::hostile::query_mutants::mutated_text;
use crate::support::harness::World;
use crate::support::http_client::post;
use crate::support::ollama_server::Reply;
use crate::support::ollama_server::{self, Model};
use crate::support::openai_server;
use crate::support::scripted_server::ReceivedRequest;
use crate::support::scripted_server::Server;
use crate::support::scripted_server::Step;
use crate::support::scripted_server::response_bytes;

/// Maximum time until an answer or an error, including retries while the server reports that it is busy.
const SOON: Duration = Duration::from_secs(30);

/// Fragments of server replies that mutations insert.
const PIECES: [&str; 22] = [
    "data: ",
    "\n\n",
    "\n",
    "data: [DONE]\n\n",
    "event: x\n",
    ": wait\n",
    "error: x\n",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "null",
    "-1",
    "1e999",
    "\\ud800",
    "\\u0000",
    "\"done\":true",
    "\"error\":{}",
    "\"tool_calls\":[{}]",
    "18446744073709551615",
    "\u{202e}",
];

/// A model server that mutates every reply by the current seed. Seed 0 leaves replies unchanged.
struct MutatingServer {
    server: Server,
    number: Arc<AtomicU64>,
}

impl MutatingServer {
    fn start(part: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> MutatingServer {
        let number = Arc::new(AtomicU64::new(0));
        let now = number.clone();
        let server = Server::start(move |asked| match now.load(Ordering::Relaxed) {
            0 => part(asked),
            number => mutated_reply(part(asked), &mut rng_of_mutant(number)),
        });
        MutatingServer { server, number }
    }

    fn set(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }
}

/// Mutates a reply: the bytes of the whole response, the text of its body, or the values of its JSON.
fn mutated_reply(acts: Vec<Step>, dice: &mut Xorshift) -> Vec<Step> {
    let how = dice.index_below(3);
    if how == 0 {
        let mut bytes = response_bytes(&acts);
        mutate(&mut bytes, dice);
        return vec![Step::Raw(bytes), Step::Close];
    }
    let chosen = dice.index_below(acts.len());
    let change = |(place, act): (usize, Step)| match act {
        Step::Send(text) if place >= chosen => match how {
            1 => Step::Send(mutated_text(&[text], &PIECES, dice)),
            _ => Step::Send(mutated_json_text(&text, dice)),
        },
        Step::Head(_, kind) if place == chosen => {
            Step::Head(*dice.pick(&[200, 204, 301, 400, 404, 429, 500, 503]), kind)
        }
        act => act,
    };
    acts.into_iter().enumerate().map(change).collect()
}

/// Mutates the JSON object in the text, at up to two random positions.
fn mutated_json_text(text: &str, dice: &mut Xorshift) -> String {
    let (before, data) = text.split_at(text.find('{').unwrap_or(text.len()));
    let Ok(mut value) = serde_json::from_str::<Value>(data.trim_end()) else { return text.to_string() };
    (0..=dice.index_below(2)).for_each(|_| mutate_json(&mut value, dice));
    format!("{before}{value}{}", &data[data.trim_end().len()..])
}

const SAID: &str = "The heron stands in the reeds [1]. It has stood there since March.";

/// Starts an OpenAI-compatible server whose model calls a tool in every third reply and answers with text otherwise.
fn openai() -> MutatingServer {
    let asked_so_far = AtomicU64::new(0);
    MutatingServer::start(move |asked| {
        let calls = asked_so_far.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        let says = |_: &Value| {
            if calls { openai_server::tool_call("search", &json!({"query": "heron"})) } else { SAID.into() }
        };
        openai_server::answer(&["m"], asked, &says)
    })
}

fn ollama() -> MutatingServer {
    let models = vec![Model::new("m", &["completion", "embedding"])];
    MutatingServer::start(move |asked| match asked.path.as_str() {
        "/api/embed" => {
            let count = asked.body["input"].as_array().map_or(1, Vec::len);
            Step::json(
                200,
                &json!({"model": "m", "embeddings": vec![json!([0.5, -1.0, 2.0]); count], "total_duration": 1}),
            )
        }
        _ => ollama_server::answer(&models, asked, &|_| Reply::Text(SAID.into())),
    })
}

fn config(settings: &[(&str, &str)]) -> Config {
    let lookup = |wanted: &str| {
        let found = settings.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).into());
        found.or_else(|| (wanted == "VIC_DATA_DIR").then(|| "/nowhere".into()))
    };
    Config::from_lookup(&lookup).unwrap()
}

/// Sends `count` requests with mutated replies. Some must succeed and some fail, none with an internal error.
async fn check_replies<T>(garbler: &MutatingServer, count: u64, ask: impl AsyncFn() -> Result<T, Error>) {
    let mut fine = 0;
    for number in 1..=count {
        garbler.set(number);
        match timeout(SOON, ask()).await {
            Err(_) => panic!("seed {number}: no answer within {SOON:?}"),
            Ok(Ok(_)) => fine += 1,
            Ok(Err(error)) => {
                assert_ne!(error.code, ErrorCode::Internal, "seed {number}: {error}");
                assert!(!error.message.is_empty() && error.message.len() < 4_000, "seed {number}: {error}");
            }
        }
    }
    garbler.set(0);
    // Up to three attempts, because a reused connection may still hold the rest of an earlier reply.
    let mut is_understood = false;
    for _ in 0..3 {
        is_understood |= ask().await.is_ok();
    }
    assert!(is_understood, "an unchanged reply must succeed after the mutated ones");
    assert!(fine > 0 && fine < count, "{fine} of {count} replies were accepted");
}

async fn check_chat(garbler: &MutatingServer, backend: &str, names: [&str; 2]) {
    let [url, model] = names;
    let settings = [("VIC_LIBRARIAN_BACKEND", backend), (url, garbler.server.address.as_str()), (model, "m")];
    let client = vic::llm::open(&config(&settings), Task::Reasoning).unwrap().unwrap();
    check_replies(garbler, variable_or("VIC_MUTANTS", DEFAULT_MUTANTS), async || {
        client.complete(LlmRequest::new(PrivacyMode::LocalOnly, "Be short.", "Where does the heron stand?")).await
    })
    .await;
}

// Case E9
#[tokio::test]
async fn mutated_openai_chat_is_answer_or_error() {
    check_chat(&openai(), "openai", ["VIC_OPENAI_BASE_URL", "VIC_OPENAI_MODEL"]).await;
}

// Case E9
#[tokio::test]
async fn mutated_ollama_chat_is_answer_or_error() {
    check_chat(&ollama(), "ollama", ["VIC_OLLAMA_BASE_URL", "VIC_OLLAMA_MODEL"]).await;
}

async fn check_vectors(garbler: &MutatingServer, backend: &str, names: [&str; 2]) {
    let [url, model] = names;
    let settings = [("VIC_EMBED_BACKEND", backend), (url, garbler.server.address.as_str()), (model, "m")];
    let embedder = vic::embed::open(&config(&settings)).await.unwrap();
    let texts = ["The heron.", "stands in the reeds"].map(String::from);
    // Sends fewer requests, because a server that reports that it is busy is retried for some seconds.
    check_replies(garbler, (variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) / 5).max(20), async || {
        let vectors = embedder.embed_documents(&texts).await?;
        let is_sound = |it: &Vec<f32>| it.len() == embedder.dimension() && it.iter().all(|number| number.is_finite());
        assert!(vectors.len() == 2 && vectors.iter().all(is_sound), "{vectors:?}");
        Ok(vectors)
    })
    .await;
}

// Case E9
#[tokio::test]
async fn mutated_openai_vectors_are_vectors_or_error() {
    check_vectors(&openai(), "openai", ["VIC_OPENAI_BASE_URL", "VIC_OPENAI_EMBED_MODEL"]).await;
}

// Case E9
#[tokio::test]
async fn mutated_ollama_vectors_are_vectors_or_error() {
    check_vectors(&ollama(), "ollama", ["VIC_OLLAMA_BASE_URL", "VIC_OLLAMA_EMBED_MODEL"]).await;
}

// Case E9
#[test]
fn daemon_answers_despite_mutated_model_replies() {
    let garbler = openai();
    let world = openai_server::with_embedder(World::new(), &garbler.server);
    let world = world.with("VIC_LIBRARIAN_BACKEND", "openai").with("VIC_OPENAI_MODEL", "m").with("VIC_WATCH", "0");
    let mut world = world.with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    world.write("a.md", "The heron stands in the reeds.");
    world.index();
    let pid = world.pid();
    for number in 1..=(variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) / 10).max(1) {
        garbler.set(number);
        let begun = Instant::now();
        let told = post(&world, "/v1/ask", &json!({"query": format!("where does the heron number {number} stand?")}));
        // Keyword hits need no model server, and rules plan the question when the model fails.
        assert_eq!(
            (told.status, told.json()["hits"].as_array().is_some()),
            (200, true),
            "seed {number}: {}",
            told.body
        );
        assert!(begun.elapsed() < 2 * SOON, "seed {number}: {:?}", begun.elapsed());
    }
    garbler.set(0);
    assert_eq!(world.paths(&["where does the heron stand?"]), ["a.md"]);
    assert!(world.exit_status().is_none(), "{}", world.log());
    assert_eq!(world.pid(), pid);
    assert!(!world.log().contains("panicked"), "{}", world.log());
}
