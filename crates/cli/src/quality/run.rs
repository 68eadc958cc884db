//! Asks the questions of `vic quality`, and sums up the results.

use std::path::Path;
use std::time::Instant;

use futures::stream::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use vic_protocol::client::Client;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};
use vic_protocol::model::{AskRequest, AskResponse, ResponseStats};

use super::metrics::{self, QuestionResult, TOP};
use super::questions::KnownQuestion;

/// The results of all questions, as `--save` stores them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Version of vic that was measured.
    pub(super) vic: String,
    /// Name of the embedding model; `None` if no question was answered from an index with vectors.
    pub(super) model: Option<String>,
    /// Number of passages in the index.
    pub(super) chunks: Option<u64>,
    /// Maximum number of hits for each question.
    pub(super) limit: u32,
    pub(super) summary: Summary,
    pub(super) questions: Vec<QuestionResult>,
}

/// The means of all questions that have the measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Number of questions with known files.
    pub(super) with_files: usize,
    pub(super) ndcg_at_10: Option<f64>,
    /// Recall among the hits of the run, 100 by default.
    pub(super) recall: Option<f64>,
    pub(super) hit_at_1: Option<f64>,
    pub(super) hit_at_10: Option<f64>,
    /// Number of questions with known answers.
    pub(super) with_answers: usize,
    pub(super) answer_rate: Option<f64>,
    /// Number of questions that no file answers.
    pub(super) without_answer: usize,
    /// Share of the questions that no file answers for which vic says so.
    pub(super) refusal_rate: Option<f64>,
    pub(super) median_ms: f64,
    pub(super) percentile_95_ms: f64,
    /// Number of questions that vic rejected. Their measures are 0.
    pub(super) rejected: usize,
}

/// How questions are asked.
pub(super) struct Settings {
    pub(super) root: Option<String>,
    pub(super) limit: u32,
    pub(super) parallel: usize,
}

/// Asks all questions. An invalid question counts as unanswered.
///
/// # Errors
/// The daemon cannot answer, for any reason other than an invalid question.
pub(super) async fn ask_all(client: &Client, questions: &[KnownQuestion], settings: &Settings) -> Result<Run> {
    let answers: Vec<(QuestionResult, Option<ResponseStats>)> =
        futures::stream::iter(questions.iter().map(|it| ask_one(client, it, settings)))
            .buffered(settings.parallel)
            .try_collect()
            .await?;
    let stats = answers.iter().rev().find_map(|(_, stats)| stats.clone().filter(|it| it.chunk_rows_indexed.is_some()));
    let (model, chunks) = stats.map_or((None, None), |it| (it.embed_model, it.chunk_rows_indexed));
    let questions: Vec<QuestionResult> = answers.into_iter().map(|(result, _)| result).collect();
    let vic = vic_protocol::client::VERSION.to_string();
    Ok(Run { vic, model, chunks, limit: settings.limit, summary: summarize(&questions), questions })
}

async fn ask_one(
    client: &Client,
    question: &KnownQuestion,
    settings: &Settings,
) -> Result<(QuestionResult, Option<ResponseStats>)> {
    let begun = Instant::now();
    let response = answer(client, question, settings).await;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    match response {
        Ok(response) => {
            let result = metrics::measure(question, &response);
            Ok((QuestionResult { milliseconds, ..result }, response.stats))
        }
        Err(error) if error.code == ErrorCode::InvalidArgument => {
            Ok((rejected(question, milliseconds, error.message), None))
        }
        Err(error) => Err(error),
    }
}

/// Returns the hits of a question, and the quotes if they are measured.
async fn answer(client: &Client, question: &KnownQuestion, settings: &Settings) -> Result<AskResponse> {
    let request = |limit: Option<u32>| AskRequest {
        query: question.text.clone(),
        warehouse_root: settings.root.clone(),
        limit,
        ..AskRequest::default()
    };
    // A search ranks as a question does, and is faster, because it makes no quotes.
    if question.answers.is_empty() && !question.has_no_answer() {
        return client.search(request(Some(settings.limit))).await;
    }
    // The outcome of an answer depends on the number of hits, so it is measured with that of `vic ask`.
    let mut response = client.ask(request(None)).await?;
    if !question.files.is_empty() {
        response.hits = client.search(request(Some(settings.limit))).await?.hits;
    }
    Ok(response)
}

fn rejected(question: &KnownQuestion, milliseconds: f64, error: String) -> QuestionResult {
    let is_known = !question.files.is_empty();
    QuestionResult {
        question: question.text.clone(),
        wanted: question.files.iter().map(|(name, _)| name.clone()).collect(),
        ndcg: is_known.then_some(0.0),
        recall: is_known.then_some(0.0),
        is_answered: (!question.answers.is_empty()).then_some(false),
        milliseconds,
        error: Some(error),
        ..QuestionResult::default()
    }
}

/// Computes the means of the results.
pub(super) fn summarize(results: &[QuestionResult]) -> Summary {
    let mean = |value: &dyn Fn(&QuestionResult) -> Option<f64>| mean(results.iter().filter_map(value));
    let count = |value: &dyn Fn(&QuestionResult) -> bool| results.iter().filter(|it| value(it)).count();
    let mut times: Vec<f64> = results.iter().map(|it| it.milliseconds).collect();
    times.sort_by(f64::total_cmp);
    let time_at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
    };
    let share = |it: bool| f64::from(u8::from(it));
    Summary {
        with_files: count(&|it| it.ndcg.is_some()),
        ndcg_at_10: mean(&|it| it.ndcg),
        recall: mean(&|it| it.recall),
        hit_at_1: mean(&|it| it.is_hit(1).map(share)),
        hit_at_10: mean(&|it| it.is_hit(TOP).map(share)),
        with_answers: count(&|it| it.is_answered.is_some()),
        answer_rate: mean(&|it| it.is_answered.map(share)),
        without_answer: count(&|it| it.is_refused.is_some()),
        refusal_rate: mean(&|it| it.is_refused.map(share)),
        median_ms: time_at(0.5),
        percentile_95_ms: time_at(0.95),
        rejected: count(&|it| it.error.is_some()),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

impl Run {
    /// Reads a run that `--save` stored.
    ///
    /// # Errors
    /// The file cannot be read, or is no saved run.
    pub(super) fn read(path: &Path) -> Result<Run> {
        let text = std::fs::read_to_string(path).io_context("read", path)?;
        serde_json::from_str(&text).map_err(|error| {
            Error::invalid(format!("`{}` is no saved run: {error}", path.display()))
                .hint("save one: vic quality QUESTIONS --save FILE")
        })
    }

    /// Stores the run. Replaces an existing file only after the whole run is written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self).map_err(Error::internal)?;
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).io_context("write", path)?;
        std::io::Write::write_all(&mut file, json.as_bytes()).io_context("write", path)?;
        file.persist(path).map_err(|it| it.error).io_context("write", path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_leave_out_questions_without_the_measure() {
        let known = |ndcg, rank, milliseconds| QuestionResult {
            ndcg: Some(ndcg),
            recall: Some(1.0),
            rank: Some(rank),
            milliseconds,
            ..QuestionResult::default()
        };
        let answered = QuestionResult { is_answered: Some(true), milliseconds: 30.0, ..QuestionResult::default() };
        let missed = QuestionResult { is_answered: Some(false), milliseconds: 40.0, ..QuestionResult::default() };
        let refused = QuestionResult { is_refused: Some(true), milliseconds: 50.0, ..QuestionResult::default() };
        let results = [known(1.0, 1, 10.0), known(0.5, 3, 20.0), answered, missed, refused];
        let expected = Summary {
            with_files: 2,
            ndcg_at_10: Some(0.75),
            recall: Some(1.0),
            hit_at_1: Some(0.5),
            hit_at_10: Some(1.0),
            with_answers: 2,
            answer_rate: Some(0.5),
            without_answer: 1,
            refusal_rate: Some(1.0),
            median_ms: 30.0,
            percentile_95_ms: 50.0,
            rejected: 0,
        };
        assert_eq!(summarize(&results), expected);
        assert_eq!(summarize(&[]), Summary::default());
    }

    #[test]
    fn saved_run_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let questions = vec![QuestionResult { question: "q".into(), ndcg: Some(0.25), ..QuestionResult::default() }];
        let run = Run {
            vic: "1".into(),
            model: Some("m".into()),
            chunks: Some(3),
            limit: 100,
            summary: summarize(&questions),
            questions,
        };
        run.save(&path).unwrap();
        assert_eq!(Run::read(&path).unwrap(), run);
        std::fs::write(&path, "[]").unwrap();
        let error = Run::read(&path).unwrap_err();
        assert!(error.message.contains("run.json") && error.hint.is_some(), "{error}");
    }
}
