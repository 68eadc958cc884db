//! Formats the results of `vic quality` for people.

use std::fmt::Write;

use crate::text;

use super::comparison::{Change, Comparison};
use super::run::{Run, Summary};

/// Maximum number of changed questions that are printed; the JSON output has all.
const MAX_LISTED: usize = 20;

/// Formats a run and its comparison with an older one.
pub(super) fn format_report(run: &Run, compared: Option<&Comparison>) -> String {
    let mut out = String::new();
    let _ = write!(out, "{}", text::plural(run.questions.len() as u64, "question"));
    let _ = write!(out, ", {}", text::escape_controls(run.model.as_deref().unwrap_or("no embedding model")));
    if let Some(chunks) = run.chunks {
        let _ = write!(out, ", {}", text::plural(chunks, "chunk"));
    }
    out.push('\n');
    write_summary(&mut out, &run.summary, run.limit);
    for result in run.questions.iter().filter(|it| it.error.is_some()).take(MAX_LISTED) {
        let error = result.error.as_deref().unwrap_or_default();
        let _ =
            writeln!(out, "rejected: {}: {}", text::escape_controls(&result.question), text::escape_controls(error));
    }
    if let Some(compared) = compared {
        write_comparison(&mut out, compared);
    }
    out
}

fn write_summary(out: &mut String, summary: &Summary, limit: u32) {
    let recall = format!("recall@{limit}");
    for (name, value, count, of) in [
        ("nDCG@10", summary.ndcg_at_10, summary.with_files, "question with known files"),
        (&recall, summary.recall, summary.with_files, ""),
        ("hit@1", summary.hit_at_1, summary.with_files, ""),
        ("hit@10", summary.hit_at_10, summary.with_files, ""),
        ("answers", summary.answer_rate, summary.with_answers, "question with known answers"),
        ("refusals", summary.refusal_rate, summary.without_answer, "question that no file answers"),
    ] {
        let Some(value) = value else { continue };
        let _ = write!(out, "{name:<12} {value:.4}");
        if !of.is_empty() {
            let (noun, rest) = of.split_once(' ').unwrap_or((of, ""));
            let _ = write!(out, "   {} {rest}", text::plural(count as u64, noun));
        }
        out.push('\n');
    }
    let Summary { median_ms, percentile_95_ms, rejected, .. } = summary;
    let _ = writeln!(out, "time         median {median_ms:.0} ms, 95th percentile {percentile_95_ms:.0} ms");
    if *rejected > 0 {
        let _ = writeln!(out, "rejected     {}", text::plural(*rejected as u64, "question"));
    }
}

fn write_comparison(out: &mut String, compared: &Comparison) {
    let against = text::escape_controls(&compared.against);
    let _ = writeln!(out, "\nagainst {against}, {}", text::plural(compared.questions as u64, "shared question"));
    let _ = writeln!(out, "{:<12} {:>7} {:>7} {:>10}   95 % interval", "", "before", "now", "difference");
    for it in &compared.measures {
        let (low, high) = it.interval;
        let _ = writeln!(
            out,
            "{:<12} {:>7.4} {:>7.4} {:>+10.4}   {low:+.4} to {high:+.4}",
            it.measure, it.before, it.now, it.difference
        );
    }
    write_changes(out, "better", &compared.better, 0);
    write_changes(out, "worse", &compared.worse, MAX_LISTED);
}

/// Prints the number of changed questions, and the first ones of them.
fn write_changes(out: &mut String, name: &str, changes: &[Change], listed: usize) {
    let _ = writeln!(out, "{name}: {}", text::plural(changes.len() as u64, "question"));
    for it in changes.iter().take(listed) {
        let question = text::escape_controls(&it.question);
        let _ = write!(out, "  {} {:.2} -> {:.2}  {question}", it.measure, it.before, it.now);
        if let Some(wanted) = it.wanted.first() {
            let first = it.first.as_deref().unwrap_or("nothing");
            let _ =
                write!(out, "  (wants {}, first is {})", text::escape_controls(wanted), text::escape_controls(first));
        }
        out.push('\n');
    }
    if listed > 0 && changes.len() > listed {
        let _ = writeln!(out, "  and {} more", changes.len() - listed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::comparison::compare;
    use crate::quality::metrics::QuestionResult;
    use crate::quality::run::summarize;

    fn run(ndcg: f64) -> Run {
        let questions = vec![QuestionResult {
            question: "who\u{1b}[2J".into(),
            wanted: vec!["a.md".into()],
            found: vec!["/root/b.md".into()],
            ndcg: Some(ndcg),
            recall: Some(1.0),
            rank: Some(2),
            milliseconds: 12.0,
            ..QuestionResult::default()
        }];
        let summary = summarize(&questions);
        Run { vic: "1.0".into(), model: Some("m".into()), chunks: Some(7), limit: 100, summary, questions }
    }

    #[test]
    fn report_lists_measures_and_worse_questions() {
        let (before, now) = (run(1.0), run(0.5));
        let shown = format_report(&now, Some(&compare(&before, &now)));
        for line in [
            "1 question, m, 7 chunks",
            "nDCG@10      0.5000   1 question with known files",
            "recall@100   1.0000",
            "hit@1        0.0000",
            "time         median 12 ms, 95th percentile 12 ms",
            "against m, vic 1.0, 1 shared question",
            "nDCG@10       1.0000  0.5000    -0.5000   -0.5000 to -0.5000",
            "better: 0 questions",
            "worse: 1 question",
            "  nDCG@10 1.00 -> 0.50  who\\u{1b}[2J  (wants a.md, first is /root/b.md)",
        ] {
            assert!(shown.lines().any(|it| it == line), "{line}\n{shown}");
        }
        assert!(!shown.contains("answers") && !shown.contains('\u{1b}'), "{shown}");
    }
}
