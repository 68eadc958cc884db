//! Draws SVG plots for the HTML page of a report: bars of a figure, and a histogram of times.

use std::fmt::Write;

use crate::bench::report::HistogramBar;

/// Width of a plot in SVG units; the page scales the plot.
const WIDTH: f64 = 760.0;
/// Height of a bar, including the gap below.
const BAR_HEIGHT: f64 = 26.0;
/// Width of the names to the left of the bars.
const NAME_WIDTH: f64 = 240.0;
/// Width of the space for the value after the longest bar.
const VALUE_WIDTH: f64 = 110.0;
/// Height of the bars of a histogram, without the axis.
const HISTOGRAM_HEIGHT: f64 = 160.0;

/// One bar of a bar plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LabelledBar {
    /// Text before the bar.
    pub(super) name: String,
    /// Value that the length of the bar shows.
    pub(super) value: f64,
    /// The value as text, written after the bar.
    pub(super) value_text: String,
}

/// Draws one horizontal bar per value, starting at zero.
pub(super) fn bars(bars: &[LabelledBar]) -> String {
    let longest = bars.iter().map(|it| it.value).fold(0.0, f64::max);
    let mut svg = open_svg(BAR_HEIGHT * bars.len() as f64);
    for (place, bar) in bars.iter().enumerate() {
        let top = BAR_HEIGHT * place as f64;
        let length =
            if longest > 0.0 { (WIDTH - NAME_WIDTH - VALUE_WIDTH) * (bar.value / longest).max(0.0) } else { 0.0 };
        let middle = top + BAR_HEIGHT * 0.62;
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAME_WIDTH:.0}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
            NAME_WIDTH - 8.0,
            escape(&shorten_middle(&bar.name)),
            top + 4.0,
            BAR_HEIGHT - 8.0,
            NAME_WIDTH + length + 6.0,
            escape(&bar.value_text),
        );
    }
    svg + "</svg>"
}

/// Draws a histogram of times on a logarithmic axis, with a named line at each of `marks`, in milliseconds.
pub(super) fn histogram(bars: &[HistogramBar], marks: &[(&str, f64)]) -> String {
    let mut svg = open_svg(HISTOGRAM_HEIGHT + 40.0);
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return svg + "</svg>" };
    let (low, high) = ((first.to_ms * 0.8).ln(), (last.to_ms * 1.05).ln());
    let across = |milliseconds: f64| 20.0 + (WIDTH - 40.0) * (milliseconds.max(1e-9).ln() - low) / (high - low);
    let most = bars.iter().map(|it| it.count).max().unwrap_or(1) as f64;
    for bar in bars {
        // The lower edge of a bar is a quarter of a doubling below its upper edge.
        let (left, right) = (across(bar.to_ms / 2_f64.powf(0.25)).max(0.0), across(bar.to_ms));
        let height = HISTOGRAM_HEIGHT * bar.count as f64 / most;
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
             <title>up to {:.2} ms: {}</title></rect>",
            HISTOGRAM_HEIGHT + 16.0 - height,
            (right - left - 1.0).max(0.5),
            bar.to_ms,
            bar.count,
        );
    }
    for (name, at) in marks.iter().filter(|it| it.1 > 0.0) {
        let x = across(*at);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"14\" y2=\"{:.0}\"/>\
             <text x=\"{x:.1}\" y=\"11\" text-anchor=\"middle\">{}</text>\
             <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{at:.1} ms</text>",
            HISTOGRAM_HEIGHT + 16.0,
            escape(name),
            HISTOGRAM_HEIGHT + 32.0,
        );
    }
    svg + "</svg>"
}

fn open_svg(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\">")
}

/// Replaces the middle of a name by `…` if it is too long for its column.
fn shorten_middle(name: &str) -> String {
    const MAX_CHARS: usize = 36;
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= MAX_CHARS {
        return name.to_string();
    }
    let half = MAX_CHARS / 2;
    letters[..half].iter().chain(&['…']).chain(&letters[letters.len() - half + 1..]).collect()
}

/// Escapes a text for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_scale_to_the_longest() {
        let bar = |value: f64| LabelledBar { name: format!("<{value}>"), value, value_text: "x".into() };
        let svg = bars(&[bar(10.0), bar(5.0), bar(0.0)]);
        assert!(svg.contains("width=\"410.0\"") && svg.contains("width=\"205.0\"") && svg.contains("width=\"0.0\""));
        assert!(svg.contains("&lt;10&gt;") && !svg.contains("<10>"), "{svg}");
    }

    #[test]
    fn histogram_draws_one_rectangle_per_bar_within_plot() {
        let all = [HistogramBar { to_ms: 1.0, count: 5 }, HistogramBar { to_ms: 64.0, count: 1 }];
        let svg = histogram(&all, &[("p50", 1.0)]);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("\"-"), "{svg}");
        assert!(histogram(&[], &[]).ends_with("</svg>"));
    }

    #[test]
    fn long_name_loses_its_middle() {
        let short = shorten_middle(&"abcdefghij".repeat(6));
        assert!(short.starts_with("abc") && short.ends_with("hij") && short.chars().count() <= 37, "{short}");
    }
}
