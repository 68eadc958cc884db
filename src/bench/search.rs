//! `vic bench search`: sends questions to the running daemon over its Unix socket, with one connection per client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::bench::durations::Durations;
use crate::bench::figures::{
    ANSWERED, CHUNKS, DUE, FAILED, OFFERED_PER_SECOND, PEAK_RSS_MIB, QUERIES_PER_SECOND, SECONDS, SERVICE_P50_MS,
    SERVICE_P99_MS, UNSENT,
};
use crate::bench::open_loop::{Load, LoadResult, offer_load};
use crate::bench::report::Row;
use crate::client::Client;
use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};
use crate::model::AskRequest;

/// Number of questions asked before the measurement, one after the other, to fill caches. Their median time gives the
/// default rate.
const WARM_UP_QUESTIONS: usize = 20;

/// The default load is this share of the rate that one client reaches with one question after the other, because at the
/// full rate queues would grow without bound.
const DEFAULT_LOAD_SHARE: f64 = 0.5;

/// How long to wait for answers after the last question was due.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How to ask the questions.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// The questions, which are asked in rotation.
    pub queries: Vec<String>,
    /// Number of connections; each waits for its answer before it sends the next question.
    pub clients: usize,
    /// Questions due per second; `None` is half the rate of one sequential client.
    pub rate: Option<f64>,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Maximum number of hits per answer.
    pub limit: u32,
}

/// Sends the questions to the configured daemon. Returns the row of figures, and warnings.
///
/// # Errors
/// No daemon runs, nothing is indexed, or no question was answered.
pub async fn measure(config: &Config, plan: &SearchPlan) -> Result<(Row, Vec<String>)> {
    let first = Client::connect(config).await?;
    let status = first.status().await?;
    if !status.index_ready || status.chunks == 0 {
        return Err(Error::new(
            ErrorCode::FailedPrecondition,
            "there is nothing to search, because nothing is indexed",
        )
        .hint("index a folder first: `vic index FOLDER`"));
    }
    let mut warnings = Vec::new();
    if !status.running_jobs.is_empty() {
        warnings.push("an index job runs at the same time, see `vic jobs list`".to_string());
    }
    let mut clients = vec![first];
    for _ in 1..plan.clients.max(1) {
        clients.push(Client::connect(config).await?);
    }
    let median = warm_up(&clients[0], plan).await?;
    let rate = plan.rate.unwrap_or(DEFAULT_LOAD_SHARE * 1_000.0 / median.max(0.1));
    let load = Load {
        rate,
        duration: Duration::from_secs_f64(plan.seconds),
        clients: clients.len(),
        answer_timeout: ANSWER_TIMEOUT,
    };
    let (queries, limit, asked) = (plan.queries.clone(), plan.limit, clients.clone());
    let said: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let heard = said.clone();
    let outcome = offer_load(load, move |client, number| {
        let (client, request) = (asked[client].clone(), ask_request(&queries[number % queries.len()], limit));
        let heard = heard.clone();
        async move {
            let answer = client.search(request).await?;
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            answer.warnings.into_iter().for_each(|it| *heard.entry(it).or_default() += 1);
            Ok(())
        }
    })
    .await;
    if outcome.service.is_empty() {
        let why = outcome.errors.first().cloned();
        return Err(why.unwrap_or_else(|| Error::invalid("no question was due").hint("raise --seconds or --rate")));
    }
    warnings.extend(load_warnings(&outcome));
    let said = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    warnings.extend(answer_warnings(said));
    let mut row = result_row(&outcome, plan, rate);
    // Reports the memory of the daemon, not of this process with the clients.
    let status = clients[0].status().await?;
    row.set(PEAK_RSS_MIB, status.peak_rss_mib);
    row.set(CHUNKS, status.chunks as f64);
    row.setting("embed_model", status.embed_model);
    Ok((row, warnings))
}

/// Asks the first questions one after the other, to warm up. Returns their median time in milliseconds.
async fn warm_up(client: &Client, plan: &SearchPlan) -> Result<f64> {
    let mut times = Vec::new();
    for query in plan.queries.iter().take(WARM_UP_QUESTIONS) {
        let begun = std::time::Instant::now();
        client.search(ask_request(query, plan.limit)).await?;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(Durations::new(times).percentile(50))
}

fn ask_request(query: &str, limit: u32) -> AskRequest {
    AskRequest { query: query.into(), limit: Some(limit), ..AskRequest::default() }
}

fn result_row(outcome: &LoadResult, plan: &SearchPlan, rate: f64) -> Row {
    let mut row = Row::new(format!("{} clients", plan.clients.max(1)));
    let answered = outcome.service.len();
    row.rate(QUERIES_PER_SECOND, answered as f64, outcome.seconds);
    row.set(OFFERED_PER_SECOND, rate);
    row.set(DUE, outcome.due as f64);
    row.set(ANSWERED, answered as f64);
    row.set(FAILED, outcome.failed as f64);
    row.set(UNSENT, outcome.unsent as f64);
    row.set(SECONDS, outcome.seconds);
    Durations::new(outcome.times.clone()).write_to(&mut row);
    let service = Durations::new(outcome.service.clone());
    row.set(SERVICE_P50_MS, service.percentile(50));
    row.set(SERVICE_P99_MS, service.percentile(99));
    row.setting("clients", plan.clients.max(1));
    row.setting("queries", plan.queries.len());
    row.setting("limit", plan.limit);
    row.setting("seconds", plan.seconds);
    row
}

/// Maximum number of distinct warnings of answers that are reported.
const MAX_WARNINGS: usize = 5;

/// Returns the warnings of the answers with their counts, most frequent first. They explain the figures: an answer by
/// keywords alone, for example, is faster than a hybrid one.
fn answer_warnings(said: BTreeMap<String, u64>) -> Vec<String> {
    let mut said: Vec<(String, u64)> = said.into_iter().collect();
    said.sort_by_key(|it| std::cmp::Reverse(it.1));
    said.into_iter().take(MAX_WARNINGS).map(|(warning, count)| format!("{count} answers warn: {warning}")).collect()
}

/// Returns warnings about unsent and failed questions.
fn load_warnings(outcome: &LoadResult) -> Vec<String> {
    let mut all = Vec::new();
    if outcome.unsent > 0 {
        all.push(format!(
            "{} of {} questions were never sent, because every client was still waiting: the load exceeds the capacity; \
             they count with their waiting time",
            outcome.unsent, outcome.due
        ));
    }
    if let Some(error) = outcome.errors.first() {
        all.push(format!("{} questions failed, the first with: {error}", outcome.failed));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::P99_MS;

    #[test]
    fn row_counts_answered_failed_and_unsent() {
        let outcome = LoadResult {
            times: vec![10.0, 20.0, 900.0, 1_000.0],
            service: vec![10.0, 11.0],
            due: 4,
            failed: 1,
            unsent: 1,
            seconds: 2.0,
            errors: vec![Error::not_found("no such thing")],
        };
        let plan = SearchPlan { queries: vec!["x".into()], clients: 2, rate: None, seconds: 2.0, limit: 10 };
        let row = result_row(&outcome, &plan, 2.0);
        assert_eq!(row.get(QUERIES_PER_SECOND), Some(1.0));
        assert_eq!((row.get(UNSENT), row.get(FAILED), row.get(ANSWERED)), (Some(1.0), Some(1.0), Some(2.0)));
        assert_eq!((row.get(P99_MS), row.get(SERVICE_P99_MS)), (Some(1_000.0), Some(11.0)));
        let said = load_warnings(&outcome).join("\n");
        assert!(said.contains("1 of 4 questions were never sent") && said.contains("no such thing"), "{said}");
    }

    #[test]
    fn answer_warnings_are_counted() {
        let said = [("vectors are to follow", 3), ("answered by keywords alone", 40)];
        let told = answer_warnings(said.into_iter().map(|(it, count)| (it.to_string(), count)).collect());
        assert_eq!(told, ["40 answers warn: answered by keywords alone", "3 answers warn: vectors are to follow"]);
    }
}
