//! Validates the metadata filters of a plan and resolves them to exact values for the catalog.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::model::{FileFilter, L0Filters};
use crate::{planner, units};

/// Resolves filters to a [`FileFilter`]: dates to nanoseconds, extensions to lower case without the dot. The dates of a filter for
/// mails alone are those on which they were sent.
///
/// # Errors
/// A date, glob or range is invalid; the message names the filter.
pub fn resolve(filters: &L0Filters, under: Option<&Path>) -> Result<FileFilter> {
    if let Some(glob) = &filters.path_glob {
        globset::Glob::new(glob)
            .map_err(|error| Error::invalid(format!("invalid glob `{glob}`: {error}")).field("filters.path_glob"))?;
    }
    if let (Some(least), Some(most)) = (filters.min_size, filters.max_size)
        && least > most
    {
        return Err(
            Error::invalid(format!("min_size {least} is larger than max_size {most}")).field("filters.min_size")
        );
    }
    let modified_after_ns =
        filters.modified_after.as_deref().map(|it| parse_nanoseconds("modified_after", it)).transpose()?;
    let modified_before_ns =
        filters.modified_before.as_deref().map(|it| parse_nanoseconds("modified_before", it)).transpose()?;
    if let (Some(after), Some(before)) = (modified_after_ns, modified_before_ns)
        && after >= before
    {
        return Err(Error::invalid("modified_after must be before modified_before").field("filters.modified_after"));
    }
    let extensions: Vec<String> =
        filters.extensions.iter().map(|it| it.trim_start_matches('.').to_lowercase()).collect();
    Ok(FileFilter {
        under: under.map(PathBuf::from),
        mail_dates: planner::is_mail(&extensions),
        extensions,
        path_glob: filters.path_glob.clone(),
        modified_after_ns,
        modified_before_ns,
        min_size: filters.min_size,
        max_size: filters.max_size,
        owner: filters.owner.clone(),
        language: filters.language.clone(),
        author: filters.author.clone(),
        ..FileFilter::default()
    })
}

/// Parses a date, a time or a time ago such as `7 days`, and returns nanoseconds since the epoch. The error names the
/// filter `name`.
fn parse_nanoseconds(name: &str, text: &str) -> Result<i64> {
    units::parse_moment_or_ago(text).and_then(|it| it.timestamp_nanos_opt()).ok_or_else(|| {
        Error::invalid(format!("cannot parse `{text}` as the date of {name}"))
            .field(format!("filters.{name}"))
            .hint("write 2026-03-31, 2026-03-31T12:00:00Z or `7 days`")
    })
}

#[cfg(test)]
mod tests {
    use chrono::{Local, TimeZone, Utc};

    use super::*;
    use crate::model::FileKind;

    #[test]
    fn dates_resolve_to_local_midnight_and_dots_are_stripped() {
        let filters = L0Filters {
            extensions: vec![".PDF".into(), "md".into(), ".".into()],
            modified_after: Some("1970-01-02".into()),
            modified_before: Some("1970-01-04T01:00:00+01:00".into()),
            ..L0Filters::default()
        };
        let filter = resolve(&filters, None).unwrap();
        const DAY: i64 = 86_400_000_000_000;
        let midnight = Local.with_ymd_and_hms(1970, 1, 2, 0, 0, 0).earliest().unwrap().timestamp_nanos_opt();
        assert_eq!((filter.modified_after_ns, filter.modified_before_ns), (midnight, Some(3 * DAY)));
        assert_eq!(
            (filter.extensions, filter.mail_dates),
            (vec!["pdf".to_string(), "md".to_string(), String::new()], false)
        );
        let mails = L0Filters { extensions: vec![".eml".into()], ..filters };
        assert!(resolve(&mails, None).unwrap().mail_dates);
        let extensions = FileKind::Mail.extensions().iter().map(|it| format!(".{it}")).collect();
        assert!(resolve(&L0Filters { extensions, ..mails }, None).unwrap().mail_dates);
    }

    #[test]
    fn time_ago_counts_back_from_now() {
        let after = |text: &str| {
            let filters = L0Filters { modified_after: Some(text.into()), ..L0Filters::default() };
            resolve(&filters, None).unwrap().modified_after_ns.unwrap()
        };
        let now = Utc::now().timestamp_nanos_opt().unwrap();
        let days = (now - after("7 days")) as f64 / 86_400e9;
        assert!((6.9..7.1).contains(&days), "{days}");
        assert!(after("2 weeks") < after("7 days") && after("7 days") < after("yesterday"));
    }

    #[test]
    fn invalid_filter_error_names_the_filter() {
        let date = L0Filters { modified_after: Some("soon".into()), ..L0Filters::default() };
        let glob = L0Filters { path_glob: Some("a[".into()), ..L0Filters::default() };
        let sizes = L0Filters { min_size: Some(2), max_size: Some(1), ..L0Filters::default() };
        for (filters, named) in [(date, "soon"), (glob, "a["), (sizes, "min_size")] {
            assert!(resolve(&filters, None).unwrap_err().message.contains(named));
        }
    }
}
