//! The report of `vic bench`: rows of figures with their settings, and a description of the machine.
//!
//! In JSON, `rows` holds all rows. The figures of the main row are also at the top level, so that a program that measures
//! one setting finds `tokens_per_second` there.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::bench::figures::{Direction, FIGURES, Figure};
use crate::error::Error;
use crate::machine::Machine;

/// One measurement, with its settings and figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Name of the row in the report. It is the same in every run of a measurement, so that reports can be compared.
    pub label: String,
    /// Settings of the measurement.
    pub settings: Map<String, Value>,
    /// The measured figures by key.
    figures: Map<String, Value>,
    /// Histogram of the times of the units of work; empty if the measurement has none.
    pub histogram_ms: Vec<HistogramBar>,
    /// Why the measurement failed; then there are no figures.
    pub error: Option<Error>,
}

impl Row {
    /// Makes an empty row.
    pub fn new(label: impl Into<String>) -> Row {
        Row { label: label.into(), ..Row::default() }
    }

    /// Makes a row that holds an error instead of figures.
    pub fn failed(label: impl Into<String>, error: Error) -> Row {
        Row { error: Some(error), ..Row::new(label) }
    }

    /// Sets a figure. Ignores a value that is not finite, as after a division by zero.
    pub fn set(&mut self, figure: Figure, value: f64) {
        if value.is_finite() {
            self.figures.insert(figure.key.into(), json!(value));
        }
    }

    /// Removes a figure that does not apply to this row.
    pub fn remove(&mut self, figure: Figure) {
        self.figures.shift_remove(figure.key);
    }

    /// Sets a figure to units per second; does nothing if `seconds` is 0.
    pub fn rate(&mut self, figure: Figure, units: f64, seconds: f64) {
        if seconds > 0.0 {
            self.set(figure, units / seconds);
        }
    }

    /// Returns the value of a figure; `None` if it was not measured.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.figures.get(figure.key).and_then(Value::as_f64)
    }

    /// Records a setting of the measurement.
    pub fn setting(&mut self, name: &str, value: impl Into<Value>) {
        self.settings.insert(name.into(), value.into());
    }

    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        for figure in FIGURES {
            fields.extend(self.figures.get(figure.key).map(|it| (figure.key.to_string(), it.clone())));
        }
        fields.insert("settings".into(), Value::Object(self.settings.clone()));
        if !self.histogram_ms.is_empty() {
            fields.insert("histogram_ms".into(), json!(self.histogram_ms));
        }
        if let Some(error) = &self.error {
            let told = json!({ "code": error.code.name(), "message": error.message, "hint": error.hint });
            fields.insert("error".into(), told);
        }
        fields
    }
}

/// One bar of a histogram: the number of times above the upper edge of the previous bar, up to the edge of this bar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HistogramBar {
    /// Upper edge of the bar in milliseconds.
    pub to_ms: f64,
    /// Number of times in the bar.
    pub count: u64,
}

/// The results of one run of `vic bench`.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the benchmark, e.g. `embed`.
    pub bench: &'static str,
    /// The figure by which rows are compared to find the best one; `None` if the rows are not comparable.
    pub ranking_figure: Option<Figure>,
    /// The measurements, one row each.
    pub rows: Vec<Row>,
    /// Warnings to show with the figures, one sentence each.
    pub warnings: Vec<String>,
    /// Description of the machine that was measured.
    pub machine: Machine,
    /// Time of the measurement, in RFC 3339.
    pub taken_at: String,
    /// The comparison with an earlier run, if one was requested.
    pub compared: Option<Value>,
}

impl Report {
    /// Makes an empty report with a description of this machine and the present time.
    pub fn new(bench: &'static str, ranking_figure: Option<Figure>) -> Report {
        Report {
            bench,
            ranking_figure,
            rows: Vec::new(),
            warnings: Vec::new(),
            machine: Machine::detect(),
            taken_at: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            compared: None,
        }
    }

    /// Returns the best row by `Report::ranking_figure`; the first row if there is no such figure.
    pub fn main_row(&self) -> Option<&Row> {
        let value = |row: &Row| self.ranking_figure.and_then(|by| row.get(by));
        let sign = if self.ranking_figure.is_some_and(|it| it.better == Direction::Less) { -1.0 } else { 1.0 };
        let measured = self.rows.iter().filter_map(|row| Some((row, sign * value(row)?)));
        let best = measured.reduce(|best, it| if it.1 > best.1 { it } else { best });
        best.map(|it| it.0).or(self.rows.first())
    }

    /// Returns the first error if every row failed.
    pub fn failure(&self) -> Option<&Error> {
        let errors: Vec<&Error> = self.rows.iter().filter_map(|it| it.error.as_ref()).collect();
        if errors.len() == self.rows.len() { errors.first().copied() } else { None }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        json.insert("bench".into(), self.bench.into());
        json.extend(self.main_row().map(Row::fields).unwrap_or_default());
        json.insert("machine".into(), json!(self.machine));
        json.insert("vic".into(), env!("CARGO_PKG_VERSION").into());
        json.insert("taken_at".into(), self.taken_at.clone().into());
        json.insert("warnings".into(), json!(self.warnings));
        let rows = self.rows.iter().map(|row| {
            let mut fields = Map::new();
            fields.insert("label".into(), row.label.clone().into());
            fields.extend(row.fields());
            Value::Object(fields)
        });
        json.insert("rows".into(), rows.collect());
        json.extend(self.compared.clone().map(|it| ("compared".to_string(), it)));
        Value::Object(json)
    }

    /// Returns the figures that at least one row has, in the order of columns in tables.
    pub fn columns(&self) -> Vec<&'static Figure> {
        FIGURES.iter().filter(|figure| self.rows.iter().any(|row| row.get(**figure).is_some())).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::figures::{P50_MS, TOKENS_PER_SECOND};

    /// Returns a report with two rows.
    pub(crate) fn sample() -> Report {
        let mut report = Report::new("embed", Some(TOKENS_PER_SECOND));
        for (label, speed) in [("slow", 10.0), ("fast", 20.0)] {
            let mut row = Row::new(label);
            row.set(TOKENS_PER_SECOND, speed);
            row.set(P50_MS, 1_000.0 / speed);
            row.setting("threads", 2);
            report.rows.push(row);
        }
        report
    }

    #[test]
    fn json_has_best_row_on_top_and_all_rows() {
        let json = sample().to_json();
        assert_eq!((&json["tokens_per_second"], &json["p50_ms"]), (&json!(20.0), &json!(50.0)));
        assert_eq!(json["rows"][0]["tokens_per_second"], 10.0);
        assert_eq!(json["rows"][1]["label"], "fast");
        assert_eq!(json["settings"]["threads"], 2);
        assert!(json["machine"]["cores"].as_u64().is_some_and(|it| it > 0));
    }

    #[test]
    fn report_keys_are_stable() {
        let json = sample().to_json();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let top =
            ["bench", "tokens_per_second", "p50_ms", "settings", "machine", "vic", "taken_at", "warnings", "rows"];
        assert_eq!(keys(&json), top);
        assert_eq!(keys(&json["rows"][0]), ["label", "tokens_per_second", "p50_ms", "settings"]);
        let machine = ["cpu", "cores", "memory_mib", "os", "instructions", "gpus", "load"];
        assert_eq!(keys(&json["machine"]), machine);
    }

    #[test]
    fn failed_row_fails_run_only_if_all_failed() {
        let mut report = sample();
        report.rows.push(Row::failed("gone", Error::not_found("no such model").hint("pull it")));
        assert_eq!(report.failure(), None);
        assert_eq!(report.to_json()["rows"][2]["error"]["hint"], "pull it");
        report.rows.drain(..2);
        assert_eq!(report.failure().unwrap().message, "no such model");
    }

    #[test]
    fn non_finite_figure_is_omitted() {
        let mut row = Row::new("x");
        row.set(P50_MS, f64::NAN);
        row.rate(TOKENS_PER_SECOND, 1.0, 0.0);
        assert_eq!((row.get(P50_MS), row.get(TOKENS_PER_SECOND)), (None, None));
    }
}
