//! Formats the metrics as text for Prometheus.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use crate::error::ErrorCode;
use crate::model::Status;
use crate::serve::admission::Admission;
use crate::serve::metrics::{LATENCY_BUCKETS, Metrics, RejectionReason};

/// Formats all metrics in version 0.0.4 of the Prometheus text format.
pub(crate) fn format_metrics(status: &Status, tokens: u64, desk: &Admission) -> String {
    let mut page = MetricsPage(String::new());
    page.index(status, tokens);
    page.daemon(status);
    page.admission(desk);
    page.0
}

struct MetricsPage(String);

impl MetricsPage {
    /// Writes one metric with its values. The labels of a value have the form `name="value"`, or are empty.
    fn metric<V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        let _ = writeln!(self.0, "# HELP vic_{name} {help}\n# TYPE vic_{name} {kind}");
        for (labels, value) in values {
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "vic_{name}{labels} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, "gauge", help, [(String::new(), value)]);
    }

    fn index(&mut self, status: &Status, tokens: u64) {
        let it = &status.coverage;
        let states = [("indexed", it.indexed), ("skipped", it.skipped), ("failed", it.failed), ("pending", it.pending)];
        self.metric("files", "gauge", "Files by state.", states.map(|(state, files)| (label("state", state), files)));
        let help = "Indexed files without vectors so far, found by keywords only.";
        self.gauge("files_awaiting_vectors", help, it.awaiting_vectors);
        let reasons = it.reasons.iter().map(|(reason, files)| (label("reason", reason), *files));
        self.metric("files_left_out", "gauge", "Skipped and failed files by reason.", reasons);
        self.gauge("roots", "Root folders that are indexed.", status.roots.len());
        let away = status.roots.iter().filter(|it| !it.available).count();
        self.gauge("roots_unavailable", "Root folders that are currently unavailable.", away);
        self.gauge("chunks", "Passages in the index.", status.chunks);
        self.gauge("store_bytes", "Bytes of the index on disk.", status.store_bytes);
        self.gauge("index_ready", "1 when the index can answer questions.", u8::from(status.index_ready));
        self.gauge("jobs_running", "Index jobs that have not ended.", status.running_jobs.len());
        let tokens = [(String::new(), tokens)];
        self.metric("embedded_tokens_total", "counter", "Tokens embedded for the index since daemon start.", tokens);
    }

    fn daemon(&mut self, status: &Status) {
        let version = [(label("version", &status.version), 1)];
        self.metric("build_info", "gauge", "Version of the running daemon, as a label.", version);
        self.gauge("uptime_seconds", "Seconds since the daemon started.", status.uptime_seconds);
        self.gauge("memory_bytes", "Resident memory of the daemon.", mib_to_bytes(status.rss_mib));
        self.gauge("memory_peak_bytes", "Peak resident memory of the daemon.", mib_to_bytes(status.peak_rss_mib));
        self.gauge("degraded", "Number of current problems; `vic status` lists them.", status.degraded.len());
    }

    fn admission(&mut self, desk: &Admission) {
        let queues = [("questions", &desk.questions), ("readings", &desk.readings), ("lists", &desk.lists)];
        let waiting = queues.map(|(name, it)| (label("queue", name), it.waiting()));
        self.metric("requests_waiting", "gauge", "Requests waiting for admission.", waiting);
        let taken = queues.map(|(name, it)| (label("queue", name), it.in_use()));
        self.metric("requests_at_work", "gauge", "Admitted requests that are running.", taken);
        let metrics = &desk.metrics;
        let refused = RejectionReason::ALL.iter().zip(&metrics.refused);
        let refused = refused.map(|((_, name), count)| (label("reason", name), count.load(Ordering::Relaxed)));
        self.metric("refusals_total", "counter", "Rejected requests by reason.", refused);
        let answered = (label("outcome", "ok"), metrics.answered.load(Ordering::Relaxed));
        let failed = ErrorCode::ALL.iter().zip(&metrics.failed);
        let failed = failed.map(|(code, count)| (label("outcome", code.name()), count.load(Ordering::Relaxed)));
        let outcomes: Vec<(String, u64)> = std::iter::once(answered).chain(failed).collect();
        let all: u64 = outcomes.iter().map(|(_, count)| count).sum();
        self.metric("questions_total", "counter", "Questions by outcome.", outcomes);
        self.histogram(metrics, all);
    }

    fn histogram(&mut self, metrics: &Metrics, all: u64) {
        let mut so_far = 0;
        let mut buckets: Vec<(String, u64)> = Vec::new();
        for (bound, count) in LATENCY_BUCKETS.iter().zip(&metrics.buckets) {
            so_far += count.load(Ordering::Relaxed);
            buckets.push((label("le", &bound.to_string()), so_far.min(all)));
        }
        buckets.push((label("le", "+Inf"), all));
        let _ = writeln!(
            self.0,
            "# HELP vic_question_seconds Seconds from a question to the end of its answer.\n# TYPE vic_question_seconds histogram"
        );
        for (labels, value) in buckets {
            let _ = writeln!(self.0, "vic_question_seconds_bucket{{{labels}}} {value}");
        }
        let seconds = metrics.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(self.0, "vic_question_seconds_sum {seconds}\nvic_question_seconds_count {all}");
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

fn mib_to_bytes(mib: f64) -> u64 {
    (mib * f64::from(1 << 20)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Principal, samples};

    /// Returns the value of a metric line.
    fn value(page: &str, name: &str) -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
    }

    #[test]
    fn metrics_page_has_status_values() {
        let page = format_metrics(&samples::status(), 77, &Admission::new(2));
        for (name, expected) in [
            ("vic_files{state=\"indexed\"}", 8.0),
            ("vic_files{state=\"pending\"}", 1.0),
            ("vic_files_left_out{reason=\"too_large\"}", 2.0),
            ("vic_chunks", 1_234.0),
            ("vic_jobs_running", 1.0),
            ("vic_embedded_tokens_total", 77.0),
            ("vic_degraded", 1.0),
            ("vic_memory_bytes", 310.5 * 1_048_576.0),
            ("vic_requests_waiting{queue=\"questions\"}", 0.0),
        ] {
            assert_eq!(value(&page, name), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn questions_are_counted_by_outcome_and_time() {
        let desk = Admission::new(1);
        desk.run_question(&Principal::Owner, async { Ok(()) }).await.unwrap();
        desk.run_question(&Principal::Owner, async { Err::<(), _>(crate::error::Error::not_found("x")) })
            .await
            .unwrap_err();
        drop(desk.metrics.start_question());
        desk.metrics.count_rejection(RejectionReason::Key);
        let page = format_metrics(&samples::status(), 0, &desk);
        for (name, expected) in [
            ("vic_questions_total{outcome=\"ok\"}", 1.0),
            ("vic_questions_total{outcome=\"not_found\"}", 1.0),
            ("vic_questions_total{outcome=\"cancelled\"}", 1.0),
            ("vic_question_seconds_bucket{le=\"0.005\"}", 3.0),
            ("vic_question_seconds_bucket{le=\"+Inf\"}", 3.0),
            ("vic_question_seconds_count", 3.0),
            ("vic_refusals_total{reason=\"key\"}", 1.0),
            ("vic_refusals_total{reason=\"rate\"}", 0.0),
        ] {
            assert_eq!(value(&page, name), expected, "{name}");
        }
    }

    #[test]
    fn metrics_page_is_valid_and_declares_each_once() {
        let page = format_metrics(&samples::status(), 0, &Admission::new(1));
        let mut declared = Vec::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                declared.push(rest.split(' ').next().unwrap());
                continue;
            }
            if line.starts_with("# HELP ") {
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let family = name.split('{').next().unwrap();
            assert!(declared.iter().any(|it| family.starts_with(it)), "{line}");
        }
        let count = declared.len();
        declared.sort_unstable();
        declared.dedup();
        assert_eq!(declared.len(), count);
    }
}
