//! The pattern of a grep: a regular expression, which may match folded text.

use std::ops::Range;

use regex::{Regex, RegexBuilder};
use unicode_normalization::char::is_combining_mark;

use crate::error::{Error, Result};
use crate::model::GrepRequest;

/// Maximum memory of a compiled pattern in bytes. A pattern that needs more is rejected, so no pattern can exhaust memory.
const MAX_REGEX_BYTES: usize = 4 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct LinePattern {
    regex: Regex,
    /// Whether pattern and text are folded: without case, accents and width.
    folds: bool,
}

impl LinePattern {
    /// Compiles the pattern of a request.
    ///
    /// # Errors
    /// The pattern is empty, cannot be parsed, needs too much memory, or matches empty text.
    pub(super) fn compile(request: &GrepRequest) -> Result<LinePattern> {
        if request.pattern.is_empty() {
            return Err(Error::invalid("the pattern is empty"));
        }
        let pattern = match (request.fixed, request.fold) {
            (true, true) => regex::escape(&vic_words::fold(&request.pattern)),
            (true, false) => regex::escape(&request.pattern),
            (false, true) => fold_literals(&request.pattern),
            (false, false) => request.pattern.clone(),
        };
        let insensitive = request.ignore_case || request.fold;
        let regex = RegexBuilder::new(&pattern).case_insensitive(insensitive).size_limit(MAX_REGEX_BYTES).build();
        let regex = regex.map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Error::invalid(format!("cannot parse the pattern `{}`: {reason}", request.pattern))
                .hint("for plain text use --fixed-strings")
        })?;
        if regex.is_match("") {
            return Err(Error::invalid(format!(
                "the pattern `{}` matches empty text, and so every line: use one that needs at least one character",
                request.pattern
            )));
        }
        Ok(LinePattern { regex, folds: request.fold })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        if self.folds { self.regex.is_match(&vic_words::fold(text)) } else { self.regex.is_match(text) }
    }

    /// Returns the byte range of the first match in a line.
    pub(super) fn find(&self, line: &str) -> Option<Range<usize>> {
        if !self.folds || line.is_ascii() {
            return self.regex.find(line).map(|it| it.range());
        }
        let (folded, starts) = fold_with_starts(line);
        let found = self.regex.find(&folded)?;
        let start = starts.partition_point(|it| it.0 <= found.start()).saturating_sub(1);
        let end = starts.partition_point(|it| it.0 < found.end());
        Some(starts[start].1..starts.get(end).map_or(line.len(), |it| it.1))
    }
}

/// Folds a line letter by letter. Returns also where each letter with its marks starts in the folded and in the given text.
fn fold_with_starts(line: &str) -> (String, Vec<(usize, usize)>) {
    let (mut folded, mut starts) = (String::with_capacity(line.len()), Vec::with_capacity(line.len()));
    let mut letters = line.char_indices().peekable();
    while let Some((start, letter)) = letters.next() {
        let mut end = start + letter.len_utf8();
        while let Some((_, mark)) =
            letters.next_if(|it| is_combining_mark(it.1) || matches!(it.1, '\u{ff9e}' | '\u{ff9f}'))
        {
            end += mark.len_utf8();
        }
        starts.push((folded.len(), start));
        folded.push_str(&vic_words::fold(&line[start..end]));
    }
    (folded, starts)
}

/// Folds the literal letters of a regular expression, and keeps its classes, such as `\W` and `\p{Greek}`.
fn fold_literals(pattern: &str) -> String {
    let (mut folded, mut literal) = (String::with_capacity(pattern.len()), 0);
    let mut rest = pattern.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        if character != '\\' {
            continue;
        }
        folded.push_str(&vic_words::fold(&pattern[literal..at]));
        let escaped = rest.next();
        let mut end = escaped.map_or(pattern.len(), |(at, it)| at + it.len_utf8());
        let takes_braces = escaped.is_some_and(|it| matches!(it.1, 'p' | 'P' | 'x' | 'u' | 'U'));
        if takes_braces && pattern[end..].starts_with('{') {
            end = pattern[end..].find('}').map_or(pattern.len(), |it| end + it + 1);
            while rest.next_if(|it| it.0 < end).is_some() {}
        }
        folded.push_str(&pattern[at..end]);
        literal = end;
    }
    folded.push_str(&vic_words::fold(&pattern[literal..]));
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pattern: &str, fixed: bool, fold: bool) -> Result<LinePattern> {
        LinePattern::compile(&GrepRequest { pattern: pattern.into(), fixed, fold, ..GrepRequest::default() })
    }

    #[test]
    fn empty_or_unbounded_pattern_is_rejected() {
        for (pattern, named) in [("", "empty"), ("a*", "every line"), ("(", "`(`"), ("\\w{9999}{9999}", "cannot")] {
            let error = compile(pattern, false, false).unwrap_err();
            assert!(error.message.contains(named), "{error}");
        }
        assert!(compile("a.b(", true, false).unwrap().is_match("xa.b("));
    }

    #[test]
    fn folded_match_is_found_at_its_place() {
        for (pattern, line, found) in [
            ("resume", "Das RE\u{301}SUMÉ von heute", "RE\u{301}SUMÉ"),
            ("STRASSE", "die Straße", "Straße"),
            ("Büro\\W", "Im BURO, oben", "BURO,"),
            ("\\p{Greek}+ ωρα", "η Ώρα", "η Ώρα"),
            ("ガイド", "これはｶﾞｲﾄﾞです", "ｶﾞｲﾄﾞ"),
        ] {
            let range = compile(pattern, false, true).unwrap().find(line);
            assert_eq!(range.map(|it| &line[it]), Some(found), "{pattern}");
        }
        assert_eq!(compile("resume", false, false).unwrap().find("Résumé"), None);
        assert!(compile("a.b", true, true).unwrap().find("A.B").is_some());
    }

    proptest::proptest! {
        #[test]
        fn folded_ranges_lie_in_the_line(line in ".{0,60}", pattern in "[a-zäß発ガ]{1,2}") {
            if let Some(range) = compile(&pattern, true, true).unwrap().find(&line) {
                proptest::prop_assert!(line.get(range).is_some());
            }
        }
    }
}
