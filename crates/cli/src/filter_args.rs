//! Options for metadata filters, which several commands have.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::value_parsers;
use vic_protocol::error::{Error, Result};
use vic_protocol::model::{FileFilter, L0Filters};

/// Options for metadata filters; a file must match all of them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only files with these extensions, e.g. `pdf,md`
    #[arg(long, value_delimiter = ',', value_name = "EXT")]
    ext: Vec<String>,
    /// Only files whose path below the root matches, e.g. `**/contracts/**`
    #[arg(long)]
    glob: Option<String>,
    /// Only files modified at or after: `2026-05-01`, RFC 3339, or a time ago such as `7d` or `2 weeks`
    #[arg(long, value_parser = value_parsers::parse_date, value_name = "DATE")]
    after: Option<DateTime<Utc>>,
    /// Only files modified before: `2026-05-01`, RFC 3339, or a time ago such as `7d` or `2 weeks`
    #[arg(long, value_parser = value_parsers::parse_date, value_name = "DATE")]
    before: Option<DateTime<Utc>>,
    /// Only files of at least this size: `512`, `10k`, `5M`, `1G`
    #[arg(long, value_parser = value_parsers::parse_size, value_name = "SIZE")]
    min_size: Option<u64>,
    /// Only files of at most this size: `512`, `10k`, `5M`, `1G`
    #[arg(long, value_parser = value_parsers::parse_size, value_name = "SIZE")]
    max_size: Option<u64>,
    /// Only files of this user (name or number)
    #[arg(long)]
    owner: Option<String>,
    /// Only files in this language (code of ISO 639-1, e.g. `de`)
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// Only mails of this sender and documents of this author
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
}

impl FilterArgs {
    /// Returns the options as filters of a question.
    pub(crate) fn l0(self) -> L0Filters {
        let rfc3339 = |it: DateTime<Utc>| it.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        L0Filters {
            extensions: extensions(&self.ext).map(|ext| format!(".{ext}")).collect(),
            path_glob: self.glob,
            modified_after: self.after.map(rfc3339),
            modified_before: self.before.map(rfc3339),
            min_size: self.min_size,
            max_size: self.max_size,
            owner: self.owner,
            language: self.language,
            author: self.author,
        }
    }

    /// Returns the options as a filter for a list of files.
    ///
    /// # Errors
    /// `InvalidArgument` for a date outside the years 1677 to 2262, which nanoseconds cannot represent.
    pub(crate) fn file_filter(self) -> Result<FileFilter> {
        let nanoseconds = |it: DateTime<Utc>| {
            it.timestamp_nanos_opt()
                .ok_or_else(|| Error::invalid(format!("the date `{it}` is outside the years 1677 to 2262")))
        };
        Ok(FileFilter {
            extensions: extensions(&self.ext).collect(),
            path_glob: self.glob,
            modified_after_ns: self.after.map(nanoseconds).transpose()?,
            modified_before_ns: self.before.map(nanoseconds).transpose()?,
            min_size: self.min_size,
            max_size: self.max_size,
            owner: self.owner,
            language: self.language,
            author: self.author,
            ..FileFilter::default()
        })
    }
}

/// Normalises extensions: `.PDF`, `*.pdf` and `pdf` become the same.
fn extensions(typed: &[String]) -> impl Iterator<Item = String> + '_ {
    typed
        .iter()
        .map(|ext| ext.trim().trim_start_matches('*').trim_start_matches('.').to_lowercase())
        .filter(|ext| !ext.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l0_and_file_filter_agree() {
        let args = FilterArgs {
            ext: vec![".PDF".into(), "*.md".into(), " txt ".into(), String::new()],
            glob: Some("a/**".into()),
            after: Some("2026-05-01T00:00:00Z".parse().unwrap()),
            before: None,
            min_size: Some(1),
            max_size: Some(2),
            owner: Some("ada".into()),
            language: Some("de".into()),
            author: Some("anna".into()),
        };
        let l0 = args.clone().l0();
        assert_eq!(l0.extensions, [".pdf", ".md", ".txt"]);
        assert_eq!(l0.modified_after.as_deref(), Some("2026-05-01T00:00:00Z"));
        let filter = args.file_filter().unwrap();
        assert_eq!(filter.extensions, ["pdf", "md", "txt"]);
        assert_eq!(filter.modified_after_ns, Some(1_777_593_600_000_000_000));
        assert_eq!((filter.language, filter.author), (l0.language, l0.author));
        assert_eq!((filter.path_glob, filter.min_size, filter.max_size), (l0.path_glob, l0.min_size, l0.max_size));
    }
}
