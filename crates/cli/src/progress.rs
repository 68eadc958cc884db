//! The progress of a job on standard error: a bar on a terminal, a line every few seconds elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::note;
use crate::text;
use vic_protocol::model::{JobSnapshot, Phase};

/// Least time between two lines where nobody watches: a log stays short.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows one job.
pub(crate) struct Progress {
    /// Hidden when standard error is no terminal.
    bar: ProgressBar,
    last_line: Option<(Instant, Phase)>,
}

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn start() -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(LINE_INTERVAL / 50);
        Progress { bar, last_line: None }
    }

    /// Shows how far the job is.
    pub(crate) fn show(&mut self, job: &JobSnapshot) {
        if self.bar.is_hidden() {
            self.show_line(job);
        } else {
            self.show_bar(job);
        }
    }

    fn show_bar(&self, job: &JobSnapshot) {
        if job.phase == Phase::Indexing
            && self.bar.length().is_none()
            && let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {wide_msg}")
        {
            self.bar.set_style(style.progress_chars("=> "));
        }
        if job.phase == Phase::Indexing {
            self.bar.set_length(job.files_total);
            self.bar.set_position(job.files_done);
            self.bar.set_message(detail(job));
        } else {
            self.bar.set_message(line(job));
        }
    }

    fn show_line(&mut self, job: &JobSnapshot) {
        let now = Instant::now();
        let due = self.last_line.is_none_or(|(at, phase)| phase != job.phase || now - at >= LINE_INTERVAL);
        if due && !job.state.is_final() {
            self.last_line = Some((now, job.phase));
            note(&line(job));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn line(job: &JobSnapshot) -> String {
    match job.phase {
        Phase::Waiting => "waiting for an earlier job".into(),
        Phase::Scanning => format!("scanning: {} found", text::plural(job.files_found, "file")),
        Phase::Indexing => {
            let (done, total) = (text::count(job.files_done), text::count(job.files_total));
            format!("indexing: {done}/{total} files, {}", detail(job))
        }
        Phase::Vectors => {
            let left = format!(
                "every file is found by its words; vectors: {} to go",
                text::plural(job.chunks_awaiting, "chunk")
            );
            [vec![left], pace(job)].concat().join(", ")
        }
        Phase::Finishing => format!("finishing: {} written", text::plural(job.chunks_written, "chunk")),
        Phase::Done => "done".into(),
    }
}

fn detail(job: &JobSnapshot) -> String {
    let mut parts = vec![text::plural(job.chunks_written, "chunk")];
    if job.files_failed > 0 {
        parts.push(format!("{} failed", text::count(job.files_failed)));
    }
    parts.extend(pace(job));
    parts.join(", ")
}

fn pace(job: &JobSnapshot) -> Vec<String> {
    let mut parts = Vec::new();
    if job.tokens_per_second >= 1.0 {
        parts.push(format!("{} tokens/s", text::count(job.tokens_per_second as u64)));
    }
    if let Some(seconds) = job.eta_seconds {
        parts.push(format!("{} left", text::duration(seconds)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::{JobState, samples};

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let job = samples::job(JobState::Running, 4);
        assert_eq!(line(&job), "indexing: 4/10 files, 40 chunks, 1 failed, 2,000 tokens/s, 1m 05s left");
        let vectors = JobSnapshot { phase: Phase::Vectors, chunks_awaiting: 1_200, ..job.clone() };
        let said = "every file is found by its words; vectors: 1,200 chunks to go, 2,000 tokens/s, 1m 05s left";
        assert_eq!(line(&vectors), said);
        assert_eq!(line(&JobSnapshot { phase: Phase::Scanning, ..job }), "scanning: 12 files found");
    }

    #[test]
    fn lines_are_few_but_every_phase_is_told() {
        let mut progress = Progress { bar: ProgressBar::hidden(), last_line: None };
        let job = samples::job(JobState::Running, 4);
        progress.show(&job);
        let first = progress.last_line;
        progress.show(&job);
        assert_eq!(progress.last_line, first);
        progress.show(&JobSnapshot { phase: Phase::Finishing, ..job });
        assert_ne!(progress.last_line, first);
    }
}
