//! Compares a report of `vic bench` with an earlier report: computes the ratio of each figure that both have.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::bench::figures::{Direction, FIGURES};
use crate::bench::report::Report;
use crate::error::{Error, IoContext, Result};

/// An earlier report that `vic bench --format json` wrote.
#[derive(Clone, Debug)]
pub struct EarlierReport {
    name: String,
    json: Value,
}

impl EarlierReport {
    /// Reads a report from a file.
    ///
    /// # Errors
    /// The file does not exist, or is not a report.
    pub fn read(path: &Path) -> Result<EarlierReport> {
        let text = std::fs::read_to_string(path).io_context("read", path).map_err(|error| error.hint(REPORT_HINT))?;
        let wrong = || Error::invalid(format!("`{}` is not a report of `vic bench`", path.display())).hint(REPORT_HINT);
        let json: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
        if !json["machine"].is_object() {
            return Err(wrong());
        }
        Ok(EarlierReport { name: path.display().to_string(), json })
    }

    /// Returns the measured rows; a report without `rows` counts as one row.
    fn rows(&self) -> Vec<&Value> {
        match self.json["rows"].as_array() {
            Some(rows) => rows.iter().collect(),
            None => vec![&self.json],
        }
    }

    /// Adds the ratio (this run / earlier run) of each figure of each row to `report`. Rows are compared if they have the
    /// same label, or if both reports have exactly one row.
    ///
    /// # Errors
    /// The reports measure different things, or share no row.
    pub fn compare(&self, report: &mut Report) -> Result<()> {
        if let Some(other) = self.json["bench"].as_str().filter(|it| *it != report.bench) {
            return Err(Error::invalid(format!("`{}` is a report of `{other}`, not of `{}`", self.name, report.bench))
                .hint("compare reports of the same command"));
        }
        let (then, mut rows, mut alone) = (self.rows(), Vec::new(), Vec::new());
        for row in report.rows.iter().filter(|it| it.error.is_none()) {
            let same = then.iter().find(|it| it["label"] == row.label.as_str());
            let only = (then.len() == 1 && report.rows.len() == 1).then(|| &then[0]);
            let Some(earlier) = same.or(only) else {
                alone.push(row.label.clone());
                continue;
            };
            let mut ratios = Map::new();
            for figure in FIGURES.iter().filter(|it| it.better != Direction::Neither) {
                if let (Some(now), Some(then)) = (row.get(*figure), earlier[figure.key].as_f64())
                    && then != 0.0
                {
                    ratios.insert(figure.key.into(), json!(now / then));
                }
            }
            rows.push(json!({
                "label": row.label, "ratios": ratios,
                "settings_changed": changed_keys(&Value::Object(row.settings.clone()), &earlier["settings"]),
            }));
        }
        if rows.is_empty() {
            return Err(Error::invalid(format!("`{}` and this run have no row in common", self.name))
                .hint("use the same options as in that run"));
        }
        let machine = json!(report.machine);
        let machine_changed: Vec<String> =
            changed_keys(&machine, &self.json["machine"]).into_iter().filter(|it| it != "load").collect();
        if !machine_changed.is_empty() {
            report.warnings.push(format!(
                "`{}` was measured on another machine ({} differ): the ratios also compare the machines",
                self.name,
                machine_changed.join(", ")
            ));
        }
        report.compared = Some(json!({
            "with": self.name, "taken_at": self.json["taken_at"], "machine_changed": machine_changed, "rows": rows,
            "only_in_this_run": alone,
        }));
        Ok(())
    }
}

const REPORT_HINT: &str = "write a report with `vic bench ... --format json > FILE`";

/// Returns the keys that both objects have with different values.
fn changed_keys(now: &Value, then: &Value) -> Vec<String> {
    let (Some(now), Some(then)) = (now.as_object(), then.as_object()) else { return Vec::new() };
    now.iter().filter(|(key, value)| then.get(*key).is_some_and(|it| it != *value)).map(|it| it.0.clone()).collect()
}

/// Returns `better`, `worse` or `same`. A ratio within 3 % of 1 counts as `same`, because on a shared machine that is
/// noise. Unknown figures give an empty text.
pub fn judge_ratio(key: &str, ratio: f64) -> &'static str {
    let Some(figure) = crate::bench::figures::figure_by_key(key) else { return "" };
    let gain = if figure.better == Direction::Less { 1.0 / ratio } else { ratio };
    match gain {
        it if it > 1.03 => "better",
        it if it < 1.0 / 1.03 => "worse",
        _ => "same",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::TOKENS_PER_SECOND;
    use crate::bench::report::tests::sample;

    fn earlier(json: &Value) -> Result<EarlierReport> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("then.json");
        std::fs::write(&path, json.to_string()).unwrap();
        EarlierReport::read(&path)
    }

    #[test]
    fn ratio_is_now_divided_by_then_per_label() {
        let then = sample().to_json();
        let mut now = sample();
        now.rows[1].set(TOKENS_PER_SECOND, 30.0);
        earlier(&then).unwrap().compare(&mut now).unwrap();
        let compared = now.to_json()["compared"].clone();
        assert_eq!(compared["rows"][0]["ratios"]["tokens_per_second"], 1.0);
        assert_eq!(compared["rows"][1]["ratios"]["tokens_per_second"], 1.5);
        assert_eq!(compared["machine_changed"], json!([]));
        assert!(now.warnings.is_empty());
    }

    #[test]
    fn changed_machine_and_settings_are_reported() {
        let mut then = sample().to_json();
        then["machine"]["cores"] = json!(1_000);
        then["rows"][0]["settings"]["threads"] = json!(8);
        let mut now = sample();
        earlier(&then).unwrap().compare(&mut now).unwrap();
        let compared = now.compared.clone().unwrap();
        assert_eq!(compared["rows"][0]["settings_changed"], json!(["threads"]));
        assert!(now.warnings[0].contains("cores differ"), "{:?}", now.warnings);
    }

    #[test]
    fn report_without_rows_counts_as_one_row() {
        let mut then = sample().to_json();
        then.as_object_mut().unwrap().remove("rows");
        then["tokens_per_second"] = json!(5.0);
        let mut now = sample();
        now.rows.truncate(1);
        earlier(&then).unwrap().compare(&mut now).unwrap();
        assert_eq!(now.compared.unwrap()["rows"][0]["ratios"]["tokens_per_second"], 2.0);
    }

    #[test]
    fn incomparable_reports_fail_with_hint() {
        let mut other = sample().to_json();
        other["bench"] = json!("walk");
        let mut stranger = sample().to_json();
        stranger["rows"][0]["label"] = json!("a");
        stranger["rows"][1]["label"] = json!("b");
        for then in [other, stranger] {
            let error = earlier(&then).unwrap().compare(&mut sample()).unwrap_err();
            assert!(error.hint.is_some(), "{error}");
        }
        for (text, code) in [("{}", 2), ("no json", 2)] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("x"), text).unwrap();
            let error = EarlierReport::read(&dir.path().join("x")).unwrap_err();
            assert!(error.code.exit_code() == code && error.hint.is_some(), "{error}");
        }
        assert!(EarlierReport::read(Path::new("/no/such/file")).unwrap_err().hint.is_some());
    }

    #[test]
    fn judgement_follows_direction_of_figure() {
        for (key, ratio, expected) in [
            ("p50_ms", 0.5, "better"),
            ("p50_ms", 2.0, "worse"),
            ("tokens_per_second", 2.0, "better"),
            ("tokens_per_second", 1.01, "same"),
            ("peak_rss_mib", 1.2, "worse"),
        ] {
            assert_eq!(judge_ratio(key, ratio), expected, "{key} {ratio}");
        }
    }
}
