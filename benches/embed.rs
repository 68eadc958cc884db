//! Measures the configured embedder: tokens per second in large batches, and the time to embed one question.
//!
//! Corpus: generated passages of mixed length. `benches/peers/run.py embed` compares the speed with other programs.
//!
//! ```text
//! VIC_EMBED_PRECISION=fp32 cargo bench --profile release --bench embed
//! ```

mod measure;

use std::time::Instant;

use serde_json::{Value, json};
use vic::bench::TextLengths;
use vic::config::Config;
use vic::embed;

use measure::{Outcome, Times, number_argument};

fn main() -> Outcome {
    // Must run before any thread starts; otherwise no model can be loaded.
    vic::embed::disable_telemetry();
    let runs = number_argument("runs", 5)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let embedder = runtime.block_on(embed::open(&Config::load()?))?;
    let texts = TextLengths::Mixed.generate();
    let texts = &texts[..number_argument("texts", 256)?.clamp(1, texts.len())];
    let counter = embedder.token_counter();
    let tokens: usize = texts.iter().map(|it| counter.token_spans(it).len().min(counter.max_chunk_tokens())).sum();
    let settings = json!({ "model": embedder.name(), "dimension": embedder.dimension(), "texts": texts.len() });
    runtime.block_on(embedder.embed_documents(texts))?;
    let mut times = Times::default();
    for _ in 0..runs {
        times.time(|| runtime.block_on(embedder.embed_documents(texts)))?;
    }
    times.report("passages", tokens as f64, "tokens", settings);
    let mut times = Times::default();
    for number in 0..200 {
        let question = format!("what does paragraph {number} of the agreement say about notice?");
        let begun = Instant::now();
        runtime.block_on(embedder.embed_query(&question))?;
        times.add(begun);
    }
    times.report("one question", 1.0, "questions", Value::Null);
    Ok(())
}
