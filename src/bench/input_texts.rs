//! Provides texts and questions for measurements: reads them from a file, or generates them.

use std::path::Path;

use crate::embed::sample_texts_with_lengths;
use crate::error::{Error, IoContext, Result};

/// Length of the generated texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TextLengths {
    /// 5 to 30 words: titles, questions, messages
    Short,
    /// 10 to 300 words, as chunks of documents are
    #[default]
    Mixed,
    /// 250 to 300 words: passages of long papers
    Long,
}

impl TextLengths {
    /// Returns the name of the length on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TextLengths::Short => "short",
            TextLengths::Mixed => "mixed",
            TextLengths::Long => "long",
        }
    }

    fn word_range(self) -> std::ops::RangeInclusive<usize> {
        match self {
            TextLengths::Short => 5..=30,
            TextLengths::Mixed => 10..=300,
            TextLengths::Long => 250..=300,
        }
    }

    /// Generates texts of this length; they are the same in every run.
    pub fn generate(self) -> Vec<String> {
        sample_texts_with_lengths(self.word_range())
    }
}

/// Reads a text from each line of a JSON Lines file: the value of the first of `fields` that the line has. Skips empty
/// lines.
///
/// # Errors
/// The file cannot be read, a line is not JSON or has none of the fields, or the file is empty.
pub fn read_json_lines(path: &Path, fields: &[&str]) -> Result<Vec<String>> {
    let names = fields.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(" or ");
    let cure = format!("each line is a JSON object with {names}");
    let content = std::fs::read_to_string(path).io_context("read", path).map_err(|error| match error.hint {
        Some(_) => error,
        None => error.hint(cure.clone()),
    })?;
    let wrong = |number: usize| {
        Error::invalid(format!("line {number} of `{}` has no {names}", path.display())).hint(cure.clone())
    };
    let mut texts = Vec::new();
    for (index, line) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line).map_err(|_| wrong(index + 1))?;
        let text = fields.iter().find_map(|field| value[*field].as_str()).ok_or_else(|| wrong(index + 1))?;
        texts.push(text.to_string());
    }
    if texts.is_empty() {
        return Err(Error::invalid(format!("`{}` is empty", path.display())).hint(cure));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_field_is_read_and_bad_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let check = |content: &str| {
            let path = dir.path().join("x.jsonl");
            std::fs::write(&path, content).unwrap();
            read_json_lines(&path, &["query", "text"])
        };
        assert_eq!(check("{\"text\": \"a\"}\n\n{\"query\": \"b\", \"text\": \"c\"}\n").unwrap(), ["a", "b"]);
        for (content, told) in
            [("", "is empty"), ("{\"text\": \"a\"}\nx\n", "line 2"), ("{\"title\": \"a\"}", "line 1")]
        {
            let error = check(content).unwrap_err();
            assert!(error.message.contains(told) && error.hint.is_some(), "{error}");
        }
        assert!(read_json_lines(&dir.path().join("gone"), &["text"]).unwrap_err().hint.is_some());
    }
}
