//! Renders a report of `vic bench` as a self-contained HTML page, without scripts, fonts or images from other files.

use std::fmt::Write;

use serde_json::Value;

use crate::bench::compare::judge_ratio;
use crate::bench::figures::{Direction, Figure, P50_MS, P99_MS};
use crate::bench::plot::{self, LabelledBar, escape};
use crate::bench::report::{Report, Row};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;color:#1c2430}\
    h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
    th,td{padding:.25rem .7rem;border-bottom:1px solid #dde3ea;text-align:right;vertical-align:top}\
    th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto}svg{width:100%;height:auto;font-size:12px}\
    svg rect{fill:#3b74a8}svg text{fill:#1c2430}svg line{stroke:#b3402a}.warning,.error,.worse{color:#a02c14}.better{color:#1f7a3d}\
    @media(prefers-color-scheme:dark){body,svg text{background:#14181e;color:#dfe5ec;fill:#dfe5ec}th,td{border-color:#333c47}}";

/// Renders a report as an HTML page.
pub fn render_page(report: &Report) -> String {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>vic bench {0}</title><style>{STYLE}</style></head>\
         <body><h1>vic bench {0}</h1><p>vic {1}, {2}</p>",
        report.bench,
        env!("CARGO_PKG_VERSION"),
        escape(&report.taken_at),
    );
    for warning in &report.warnings {
        let _ = write!(html, "<p class=\"warning\">{}</p>", escape(warning));
    }
    write_machine(&mut html, report);
    write_table(&mut html, report);
    write_comparison(&mut html, report);
    for figure in report.columns().into_iter().filter(|it| it.better != Direction::Neither) {
        write_bars(&mut html, report, *figure);
    }
    report.rows.iter().for_each(|row| write_histogram(&mut html, row));
    write_settings(&mut html, report);
    html + "</body></html>\n"
}

fn write_machine(html: &mut String, report: &Report) {
    let it = &report.machine;
    let gpus = if it.gpus.is_empty() { "none".to_string() } else { it.gpus.join(", ") };
    let load = it.load.map_or("not known".to_string(), |it| format!("{it:.1}"));
    let _ = write!(
        html,
        "<h2>Machine</h2><p>{}, {} cores, {} MiB, {}<br>instructions: {}; graphics cards: {}; load before: {load}</p>",
        escape(&it.cpu),
        it.cores,
        it.memory_mib,
        escape(&it.os),
        escape(&it.instructions.join(" ")),
        escape(&gpus),
    );
}

fn write_table(html: &mut String, report: &Report) {
    let columns = report.columns();
    html.push_str("<h2>Figures</h2><div class=\"wide\"><table><tr><th></th>");
    for figure in &columns {
        let _ = write!(html, "<th title=\"{}\">{}</th>", figure.key, escape(figure.title));
    }
    html.push_str("</tr>");
    for row in &report.rows {
        let _ = write!(html, "<tr><td>{}</td>", escape(&row.label));
        match &row.error {
            Some(error) => {
                let _ = write!(html, "<td class=\"error\" colspan=\"{}\">{}", columns.len(), escape(&error.message));
                let hint = error.hint.as_deref().map(|it| format!("; {}", escape(it)));
                let _ = write!(html, "{}</td>", hint.unwrap_or_default());
            }
            None => columns.iter().for_each(|figure| {
                let shown = row.get(**figure).map(|it| figure.show(it)).unwrap_or_default();
                let _ = write!(html, "<td>{shown}</td>");
            }),
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div>");
}

fn write_comparison(html: &mut String, report: &Report) {
    let Some(compared) = &report.compared else { return };
    let _ = write!(
        html,
        "<h2>Compared with {}</h2><p>Each ratio is this run divided by that run of {}.</p><div class=\"wide\"><table>",
        escape(compared["with"].as_str().unwrap_or_default()),
        escape(compared["taken_at"].as_str().unwrap_or("an unknown time")),
    );
    for row in compared["rows"].as_array().into_iter().flatten() {
        let _ = write!(html, "<tr><td>{}</td>", escape(row["label"].as_str().unwrap_or_default()));
        for (key, ratio) in row["ratios"].as_object().into_iter().flatten() {
            let ratio = ratio.as_f64().unwrap_or(0.0);
            let _ = write!(html, "<td class=\"{}\">{}<br>{ratio:.2}</td>", judge_ratio(key, ratio), escape(key));
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div>");
}

fn write_bars(html: &mut String, report: &Report, figure: Figure) {
    let named = |row: &Row| {
        let value = row.get(figure)?;
        Some(LabelledBar { name: row.label.clone(), value, value_text: figure.show(value) })
    };
    let all: Vec<LabelledBar> = report.rows.iter().filter_map(named).collect();
    if all.len() < 2 {
        return;
    }
    let direction = if figure.better == Direction::More { "more" } else { "less" };
    let _ = write!(html, "<h2>{} ({direction} is better)</h2>{}", escape(figure.title), plot::bars(&all));
}

fn write_histogram(html: &mut String, row: &Row) {
    if row.histogram_ms.len() < 2 {
        return;
    }
    let marks: Vec<(&str, f64)> =
        [("p50", P50_MS), ("p99", P99_MS)].iter().filter_map(|(name, it)| Some((*name, row.get(*it)?))).collect();
    let svg = plot::histogram(&row.histogram_ms, &marks);
    let _ = write!(html, "<h2>Times: {}</h2>{svg}", escape(&row.label));
}

fn write_settings(html: &mut String, report: &Report) {
    html.push_str("<h2>Settings</h2><div class=\"wide\"><table>");
    for row in &report.rows {
        let _ = write!(html, "<tr><td>{}</td><td>", escape(&row.label));
        for (name, value) in &row.settings {
            let value = value.as_str().map_or_else(|| value.to_string(), String::from);
            let _ = write!(html, "{}: {}<br>", escape(name), escape(&value));
        }
        html.push_str("</td></tr>");
    }
    html.push_str("</table></div>");
    let _ = write!(html, "<details><summary>As JSON</summary><pre>{}</pre></details>", escape(&pretty_json(report)));
}

fn pretty_json(report: &Report) -> String {
    let json: Value = report.to_json();
    serde_json::to_string_pretty(&json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::durations::Durations;
    use crate::bench::report::tests::sample;
    use crate::error::Error;

    #[test]
    fn page_has_no_external_resources_and_no_script() {
        let mut report = sample();
        Durations::new(vec![1.0, 2.0, 3.0, 50.0]).write_to(&mut report.rows[0]);
        report.rows.push(Row::failed("gone", Error::not_found("no model")));
        let page = render_page(&report);
        for sign in ["http:", "https:", "src=", "href=", "@import", "url(", "<script", "//"] {
            assert!(!page.contains(sign), "{sign}");
        }
        assert!(page.matches("<svg").count() >= 3, "bars of two figures and a histogram");
        assert!(page.contains("no model") && page.contains("20"));
    }

    #[test]
    fn labels_are_escaped() {
        let mut report = sample();
        report.rows[0].label = "<script>alert(1)</script>".into();
        report.rows[0].setting("model", "<img src=x>");
        report.warnings.push("<b>".into());
        let page = render_page(&report);
        assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains("<b>"));
    }
}
