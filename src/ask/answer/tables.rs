//! Answers a question from tables in the hits (a sum, a count, the row with an extreme value) if the answer is certain.

use std::time::Duration;

use crate::ask::answer::composed_answer::{ComposedAnswer, round_probability};
use crate::ask::asker::Asker;
use crate::ask::hit::RankedHit;
use crate::model::{Answer, AnswerOutcome, AnswerQuote};
use crate::table;
use crate::table::answer::TableAnswer;

/// Maximum number of hits whose tables are read.
const MAX_TABLE_HITS: usize = 3;
/// Maximum wait for parsing the tables of a file. A slower file is skipped; its parsing continues, for the next question.
const TABLE_TIMEOUT: Duration = Duration::from_millis(40);
/// Maximum number of table rows that are quoted as proof of an answer.
const MAX_PROOF_ROWS: usize = 2;

impl Asker {
    /// Returns the answer from the tables of the first hit that answer the question; `None` if no hit has such a table.
    pub(super) async fn answer_from_tables(&self, question: &str, hits: &[RankedHit]) -> Option<ComposedAnswer> {
        if !table::may_ask_table(question) {
            return None;
        }
        for (number, hit) in hits.iter().enumerate().take(MAX_TABLE_HITS) {
            let Some(tables) = self.index.tables_of(&hit.record, TABLE_TIMEOUT).await else { continue };
            let asked = question.to_string();
            let answer = crate::index::blocking(move || Ok(table::answer::answer_question(&asked, &tables)));
            if let Ok(Some(found)) = answer.await {
                return Some(table_answer(u32::try_from(number + 1).ok()?, hit, &found));
            }
        }
        None
    }
}

fn table_answer(number: u32, hit: &RankedHit, found: &TableAnswer) -> ComposedAnswer {
    let place = |it: &str| if it.is_empty() { hit.hit.path.clone() } else { format!("{}, {it}", hit.hit.path) };
    // `checked: true`, because the table was read from the current file.
    let quote = |text: String, at: &str| AnswerQuote { hit: number, text, place: place(at), checked: true };
    let first = found.rows.first().map_or("", |it| it.place.as_str());
    let mut quotes = vec![quote(found.text.clone(), first)];
    if found.rows.len() > 1 || found.total_rows > 1 {
        quotes.extend(found.rows.iter().take(MAX_PROOF_ROWS).map(|it| quote(it.cells.join(" | "), &it.place)));
    }
    let summary = quotes.iter().map(|it| format!("[{number}] \"{}\" ({})", it.text, it.place)).collect::<Vec<_>>();
    let confidence = round_probability(found.confidence);
    let answer = Answer { outcome: AnswerOutcome::Answered, confidence, quotes };
    ComposedAnswer { summary: Some(summary.join("\n")), answer: Some(answer) }
}
