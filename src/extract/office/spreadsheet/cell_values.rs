//! Formats the numbers and dates of spreadsheet cells as text, and makes the failure of a workbook that cannot be read.

use calamine::ExcelDateTime;

use crate::extract::new_failure;
use crate::model::{ExtractFailure, Reason};

/// Formats a number with 15 significant digits, as spreadsheets do: 0.3, not 0.30000000000000004.
pub(super) fn number_text(number: f64) -> String {
    let rounded = format!("{number:.14e}").parse().unwrap_or(number);
    match rounded {
        0.0 => "0".to_string(),
        it if (1e-5..1e21).contains(&it.abs()) => format!("{it}"),
        it => format!("{it:e}"),
    }
}

/// Formats a date and time as date, time or both: `2024-02-29`, `08:30:00`, `2024-02-29 08:30:00`. Formats durations in
/// hours.
pub(super) fn moment_text(moment: &ExcelDateTime) -> String {
    let value = moment.as_f64();
    let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
    if moment.is_duration() {
        let seconds = (value * 86_400.0).round() as i64;
        return format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    match (value < 1.0, time == "00:00:00") {
        (true, _) => time,
        (false, true) => date,
        (false, false) => format!("{date} {time}"),
    }
}

pub(super) fn damaged_workbook(error: impl std::fmt::Display) -> ExtractFailure {
    new_failure(Reason::Damaged, format!("the workbook cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::ExcelDateTimeType;

    #[test]
    fn moment_text_formats_dates_and_times() {
        let text = |value, kind| moment_text(&ExcelDateTime::new(value, kind, false));
        assert_eq!(text(45351.0, ExcelDateTimeType::DateTime), "2024-02-29");
        assert_eq!(text(45351.5, ExcelDateTimeType::DateTime), "2024-02-29 12:00:00");
        assert_eq!(text(0.25, ExcelDateTimeType::DateTime), "06:00:00");
        assert_eq!(text(1.5, ExcelDateTimeType::TimeDelta), "36:00:00");
    }

    #[test]
    fn number_text_rounds_to_15_digits() {
        for (number, text) in
            [(0.1 + 0.2, "0.3"), (1e15, "1000000000000000"), (-0.0, "0"), (1e300, "1e300"), (12.5, "12.5")]
        {
            assert_eq!(number_text(number), text);
        }
    }
}
