//! Shows the progress of an index job on standard error: a bar on a terminal, otherwise a line every few seconds.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::print_note;
use crate::text;
use vic_protocol::model::{JobSnapshot, Phase};

/// Minimum interval between two lines if standard error is not a terminal, to keep log files short.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Displays the progress of one job.
pub(crate) struct Progress {
    /// The progress bar; hidden if standard error is not a terminal.
    bar: ProgressBar,
    last_line: Option<(Instant, Phase)>,
}

impl Progress {
    /// Starts an empty display.
    pub(crate) fn start() -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(LINE_INTERVAL / 50);
        Progress { bar, last_line: None }
    }

    /// Updates the display to the progress of the job.
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
            self.bar.set_message(progress_detail(job));
        } else {
            self.bar.set_message(progress_line(job));
        }
    }

    fn show_line(&mut self, job: &JobSnapshot) {
        let now = Instant::now();
        let due = self.last_line.is_none_or(|(at, phase)| phase != job.phase || now - at >= LINE_INTERVAL);
        if due && !job.state.is_final() {
            self.last_line = Some((now, job.phase));
            print_note(&progress_line(job));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn progress_line(job: &JobSnapshot) -> String {
    match job.phase {
        Phase::Waiting => "waiting for an earlier job".into(),
        Phase::Scanning => format!("scanning: {} found", text::plural(job.files_found, "file")),
        Phase::Indexing => {
            let (done, total) = (text::group_digits(job.files_done), text::group_digits(job.files_total));
            format!("indexing: {done}/{total} files, {}", progress_detail(job))
        }
        Phase::Vectors => {
            let left = format!(
                "all files are searchable by keyword; vectors: {} left",
                text::plural(job.chunks_awaiting, "chunk")
            );
            [vec![left], speed_and_time_left(job)].concat().join(", ")
        }
        Phase::Finishing => format!("finishing: {} written", text::plural(job.chunks_written, "chunk")),
        Phase::Done => "done".into(),
    }
}

fn progress_detail(job: &JobSnapshot) -> String {
    let mut parts = vec![text::plural(job.chunks_written, "chunk")];
    if job.files_failed > 0 {
        parts.push(format!("{} failed", text::group_digits(job.files_failed)));
    }
    parts.extend(speed_and_time_left(job));
    parts.join(", ")
}

fn speed_and_time_left(job: &JobSnapshot) -> Vec<String> {
    let mut parts = Vec::new();
    if job.tokens_per_second >= 1.0 {
        parts.push(format!("{} tokens/s", text::group_digits(job.tokens_per_second as u64)));
    }
    if let Some(seconds) = job.eta_seconds {
        parts.push(format!("{} left", text::format_duration(seconds)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::{JobState, samples};

    #[test]
    fn line_shows_progress_and_time_left() {
        let job = samples::job(JobState::Running, 4);
        assert_eq!(progress_line(&job), "indexing: 4/10 files, 40 chunks, 1 failed, 2,000 tokens/s, 1m 05s left");
        let vectors = JobSnapshot { phase: Phase::Vectors, chunks_awaiting: 1_200, ..job.clone() };
        let said = "all files are searchable by keyword; vectors: 1,200 chunks left, 2,000 tokens/s, 1m 05s left";
        assert_eq!(progress_line(&vectors), said);
        assert_eq!(progress_line(&JobSnapshot { phase: Phase::Scanning, ..job }), "scanning: 12 files found");
    }

    #[test]
    fn lines_are_throttled_but_show_every_phase() {
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
