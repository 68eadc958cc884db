//! The figures that `vic bench` reports, such as tokens per second, with their keys and titles. Programs read the keys in
//! the JSON, so a key is never renamed.

/// Whether larger or smaller values of a figure are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Larger values are better.
    More,
    /// Smaller values are better.
    Less,
    /// Neither is better: the figure only describes the measurement.
    Neither,
}

/// One kind of figure of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Key in JSON.
    pub key: &'static str,
    /// Title in tables and plots, short enough for a column.
    pub title: &'static str,
    /// Whether larger or smaller values are better.
    pub better: Direction,
    /// Number of decimals to show.
    pub decimals: usize,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $title:literal, $better:ident, $decimals:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $name: Figure =
                Figure { key: $key, title: $title, better: Direction::$better, decimals: $decimals };
        )*

        /// Every figure, in the order of columns in tables.
        pub const FIGURES: &[Figure] = &[$($name),*];
    };
}

figures! {
    /// Tokens embedded per second, without special tokens.
    TOKENS_PER_SECOND = "tokens_per_second", "tokens/s", More, 0;
    /// Texts (chunks) embedded per second.
    TEXTS_PER_SECOND = "texts_per_second", "texts/s", More, 1;
    /// Questions answered per second.
    QUERIES_PER_SECOND = "queries_per_second", "queries/s", More, 1;
    /// Files read or indexed per second.
    FILES_PER_SECOND = "files_per_second", "files/s", More, 1;
    /// Pages read per second.
    PAGES_PER_SECOND = "pages_per_second", "pages/s", More, 1;
    /// MiB of file content read per second.
    MIB_PER_SECOND = "mib_per_second", "MiB/s", More, 1;
    /// Duration in seconds of a first run, with an empty catalog.
    SECONDS_COLD = "seconds_cold", "cold s", Less, 3;
    /// Duration in seconds of a run over unchanged files.
    SECONDS_RESCAN = "seconds_rescan", "rescan s", Less, 3;
    /// Median time of one unit of work: call, file, page, question or run. The time of a question starts when it was
    /// due.
    P50_MS = "p50_ms", "p50 ms", Less, 2;
    /// 90th percentile of the times of all units of work.
    P90_MS = "p90_ms", "p90 ms", Less, 2;
    /// 99th percentile of the times of all units of work.
    P99_MS = "p99_ms", "p99 ms", Less, 2;
    /// Longest time of a unit of work.
    MAX_MS = "max_ms", "max ms", Less, 2;
    /// Median time from sending a question to its answer, without the time until a client was free to send it.
    SERVICE_P50_MS = "service_p50_ms", "served p50", Less, 2;
    /// 99th percentile of the times from sending a question to its answer.
    SERVICE_P99_MS = "service_p99_ms", "served p99", Less, 2;
    /// Speed of the linear layers as a share of the CPU's matrix-multiply peak, measured in the same run; 0 to 1.
    PEAK_SHARE = "peak_share", "of peak", More, 3;
    /// Share of the computed token positions that were padding; 0 to 1.
    PADDING_WASTE = "padding_waste", "padding", Less, 3;
    /// Share of token positions that would be padding if the texts of each call were padded to the longest one; 0 to 1.
    PADDING_IF_SQUARE = "padding_if_square", "if padded", Neither, 3;
    /// Average CPU use; one busy core is 100.
    CPU_PERCENT = "cpu_percent", "CPU %", Neither, 0;
    /// Peak resident memory during the measurement, in MiB.
    PEAK_RSS_MIB = "peak_rss_mib", "peak MiB", Less, 0;
    /// Seconds until the model or the daemon was ready.
    SECONDS_READY = "seconds_ready", "ready s", Less, 2;
    /// Duration of the measurement in seconds.
    SECONDS = "seconds", "seconds", Neither, 1;
    /// Number of texts measured.
    TEXTS = "texts", "texts", Neither, 0;
    /// Number of tokens measured.
    TOKENS = "tokens", "tokens", Neither, 0;
    /// Number of calls measured.
    BATCHES = "batches", "batches", Neither, 0;
    /// Number of files measured.
    FILES = "files", "files", Neither, 0;
    /// Number of pages measured.
    PAGES = "pages", "pages", Neither, 0;
    /// Number of chunks in the index.
    CHUNKS = "chunks", "chunks", Neither, 0;
    /// Number of files that could not be read.
    UNREAD = "unread", "unread", Less, 0;
    /// Questions due per second, as requested by the load.
    OFFERED_PER_SECOND = "offered_per_second", "offered/s", Neither, 1;
    /// Number of questions that were due during the measurement.
    DUE = "due", "due", Neither, 0;
    /// Number of questions that were answered.
    ANSWERED = "answered", "answered", Neither, 0;
    /// Number of questions answered with an error, or not answered before the end of the measurement.
    FAILED = "failed", "failed", Less, 0;
    /// Number of questions that were due but never sent, because every client was still waiting for an answer.
    UNSENT = "unsent", "unsent", Less, 0;
}

/// Returns the figure with this key.
pub fn figure_by_key(key: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|it| it.key == key)
}

impl Figure {
    /// Formats a value for tables: rounded, and with commas between thousands.
    pub fn show(&self, value: f64) -> String {
        if value.abs() >= 1e15 || !value.is_finite() {
            return format!("{value}");
        }
        let text = format!("{value:.*}", self.decimals);
        let (whole, rest) = text.split_once('.').unwrap_or((text.as_str(), ""));
        let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |it| ("-", it));
        let mut grouped = String::from(sign);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinct() {
        let keys: std::collections::BTreeSet<&str> = FIGURES.iter().map(|it| it.key).collect();
        assert_eq!(keys.len(), FIGURES.len());
    }

    #[test]
    fn published_keys_exist() {
        for key in [
            "tokens_per_second",
            "texts_per_second",
            "p50_ms",
            "p99_ms",
            "queries_per_second",
            "seconds_cold",
            "seconds_rescan",
            "pages_per_second",
            "peak_rss_mib",
        ] {
            assert!(figure_by_key(key).is_some(), "{key}");
        }
    }

    #[test]
    fn values_are_grouped_and_rounded() {
        assert_eq!(TOKENS_PER_SECOND.show(1_234_567.4), "1,234,567");
        assert_eq!(P50_MS.show(1234.567), "1,234.57");
        assert_eq!(PEAK_SHARE.show(0.4567), "0.457");
        assert_eq!(FILES.show(-12.0), "-12");
        assert_eq!(FILES.show(f64::INFINITY), "inf");
    }
}
