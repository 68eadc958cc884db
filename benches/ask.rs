//! Measures questions to a real daemon by gRPC on its Unix socket: from one client, then from eight at the same time.
//!
//! Corpus: `--folder DIR` with `--questions FILE.jsonl` (a JSON object with `question` or `text` on each line), else the
//! sample files and their questions. Also prints the time of the first index run.
//!
//! ```text
//! cargo bench --profile release --bench ask
//! ```

mod measure;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use vic::client::Client;
use vic::config::Config;
use vic::model::{AskRequest, IndexRequest};

use measure::{Outcome, Times, argument, corpus_folder, number_argument};

/// Number of concurrent clients.
const CLIENTS: usize = 8;

/// A daemon that is killed when the bench ends, also on an error.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let rounds = number_argument("rounds", 5)?;
    let data = tempfile::tempdir()?;
    let program = env!("CARGO_BIN_EXE_vicd");
    let daemon = Command::new(program)
        .env("VIC_DATA_DIR", data.path())
        .env("VIC_LISTEN", "127.0.0.1:0")
        .stderr(Stdio::null())
        .spawn()?;
    let _daemon = Daemon(daemon);
    let client = connect(data.path()).await?;
    index(&client, &corpus_folder()).await?;
    let questions = questions()?;
    let mut times = Times::default();
    for question in &questions {
        client.search(request(question)).await?;
    }
    for question in questions.iter().cycle().take(questions.len() * rounds) {
        let begun = Instant::now();
        client.search(request(question)).await?;
        times.add(begun);
    }
    times.report("one client", 1.0, "questions", daemon_memory(&client).await?);
    run_clients(data.path(), &questions, rounds).await
}

/// Measures `CLIENTS` clients at the same time; each asks every question. Also prints the questions per second of all
/// clients together.
async fn run_clients(data: &Path, questions: &[String], rounds: usize) -> Outcome {
    let mut tasks = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for _ in 0..CLIENTS {
        let client = connect(data).await?;
        let questions = questions.to_vec();
        tasks.spawn(async move {
            let mut times = Vec::new();
            for question in questions.iter().cycle().take(questions.len() * rounds) {
                let begun = Instant::now();
                client.search(request(question)).await?;
                times.push(begun.elapsed());
            }
            Ok::<_, vic::error::Error>(times)
        });
    }
    let mut times = Times::default();
    let mut count = 0;
    while let Some(task) = tasks.join_next().await {
        for time in task?? {
            times.push(time);
            count += 1;
        }
    }
    let in_all = (f64::from(count) / begun.elapsed().as_secs_f64()).round();
    times.report("eight clients", 1.0, "questions_of_one", json!({ "questions_per_second": in_all }));
    Ok(())
}

fn request(question: &str) -> AskRequest {
    AskRequest { query: question.to_owned(), limit: Some(10), ..AskRequest::default() }
}

/// Connects to the daemon; retries for up to 60 s until it answers.
async fn connect(data: &Path) -> Outcome<Client> {
    let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data.as_os_str().to_owned()))?;
    let begun = Instant::now();
    loop {
        match Client::connect(&config).await {
            Ok(client) => return Ok(client),
            Err(error) if begun.elapsed() > Duration::from_secs(60) => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn index(client: &Client, folder: &Path) -> Outcome {
    let paths = vec![folder.canonicalize()?.display().to_string()];
    let mut times = Times::default();
    let begun = Instant::now();
    let mut job = client.index(IndexRequest { paths, ..IndexRequest::default() }).await?.boxed();
    while let Some(snapshot) = job.next().await {
        snapshot?;
    }
    times.add(begun);
    let status = client.status().await?;
    times.report("first index", status.coverage.found as f64, "files", json!({ "chunks": status.chunks }));
    Ok(())
}

fn questions() -> Outcome<Vec<String>> {
    let path = argument("questions").map_or_else(|| corpus_folder().join("questions.jsonl"), PathBuf::from);
    let mut questions = Vec::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        questions.extend(line["question"].as_str().or(line["text"].as_str()).map(String::from));
    }
    Ok(questions)
}

async fn daemon_memory(client: &Client) -> Outcome<Value> {
    let status = client.status().await?;
    Ok(json!({ "daemon_rss_mib": status.rss_mib, "daemon_peak_rss_mib": status.peak_rss_mib }))
}
