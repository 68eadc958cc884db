//! Parses the search operators that users may type in any question. Pure functions.
//!
//! | operator | meaning |
//! |---|---|
//! | `"exact phrase"` | these words in this order; `\"` is a literal quote; in a long question only a part of its text |
//! | `+word`, `+"a phrase"` | must occur in the file |
//! | `-word`, `-"a phrase"` | must not occur in the file |
//! | `ext:pdf`, `ext:pdf,md` | extension |
//! | `name:budget`, `name:*.xlsx` | file name: part of it, or a glob |
//! | `path:contracts`, `path:a/**/b` | path below the root: part of it, or a glob |
//! | `lang:rust`, `lang:de`, `lang:german` | programming language, by extension; language of most passages |
//! | `after:2024-03`, `before:7d` | modified at or after, or before: a date, or days, weeks, months or years ago |
//! | `size:>5MB`, `size:<10k`, `size:1MB..2MB` | bytes in units of 1024, bounds included |
//! | `owner:anna` | user name or number |
//! | `author:anna`, `from:anna@example.org` | sender of a mail, author of a document |
//!
//! A file matches any of several values of one operator (`ext:pdf ext:md`), but must match all different operators. Values
//! with blanks are quoted. These are not operators: a `-` or `+` inside a word or before a digit (`e-mail`, `C++`, `-5`), a
//! lone `-`, options (`--flag`), addresses (`http://`), a key followed by a blank (`size: large`), an unbalanced quote.

use vic_words::Language;

use crate::error::Error;
use crate::planner::file_types;
use crate::planner::quotations::QuoteIndex;
use crate::planner::words::QuestionPart;
use crate::units;

/// The operators of a question, and the text without them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operators {
    /// Quoted phrases, without the quotes.
    pub phrases: Vec<String>,
    /// Words and phrases that must occur in the file.
    pub must: Vec<String>,
    /// Words and phrases that must not occur in the file.
    pub must_not: Vec<String>,
    /// Values of `name:`: parts of file names, or globs.
    pub names: Vec<String>,
    /// Values of `path:`: parts of paths, or globs.
    pub paths: Vec<String>,
    /// Values of `lang:`: programming languages, as listed in `file_types`.
    pub langs: Vec<String>,
    /// File extensions in lower case, with the dot; excludes the extensions of `langs`.
    pub extensions: Vec<String>,
    /// Value of `after:` as typed: a date or an age such as `7d`.
    pub after: Option<String>,
    /// Value of `before:` as typed: a date or an age such as `7d`.
    pub before: Option<String>,
    /// Minimum size in bytes, inclusive.
    pub min_size: Option<u64>,
    /// Maximum size in bytes, inclusive.
    pub max_size: Option<u64>,
    /// Name or numeric id of the user who owns the file.
    pub owner: Option<String>,
    /// Value of `lang:` that is a natural language.
    pub language: Option<Language>,
    /// Value of `author:` or `from:`: words of the name or address of a sender or author.
    pub author: Option<String>,
    /// The question without operators; the words of `phrases` and `must` stay where they were.
    pub free_text: String,
    /// Errors of operators with an invalid value. The planner rejects the question with the first error.
    pub problems: Vec<Error>,
}

/// Maximum number of other words beside phrases. A question with more words is prose that quotes titles and terms, and
/// files that answer it rarely have all of them word for word.
const MAX_WORDS_BESIDE_PHRASES: usize = 10;

const KEYS: [&str; 10] = ["ext", "path", "name", "after", "before", "size", "owner", "lang", "author", "from"];

/// Parses the operators of a question. Never fails: see [`Operators::problems`].
pub fn parse(text: &str) -> Operators {
    let (mut syntax, pieces) = split_operators(text);
    syntax.free_text = pieces.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(" ");
    syntax
}

/// Splits a question into its operators and the remaining words and quotations.
pub(super) fn split_operators(text: &str) -> (Operators, Vec<QuestionPart>) {
    let (mut syntax, mut pieces) = (Operators::default(), Vec::new());
    let quotes = QuoteIndex::new(text);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let used = take_token(rest, &quotes, &mut syntax, &mut pieces);
        rest = rest[used..].trim_start();
    }
    if pieces.iter().filter(|it| !it.is_quoted).count() > MAX_WORDS_BESIDE_PHRASES {
        syntax.phrases.clear();
    }
    (syntax, pieces)
}

/// Parses one token at the start of `text`; returns its length in bytes.
fn take_token(text: &str, quotes: &QuoteIndex, syntax: &mut Operators, pieces: &mut Vec<QuestionPart>) -> usize {
    if let Some((phrase, length)) = quotes.parse_quotation(text) {
        pieces.push(QuestionPart { text: phrase.clone(), is_quoted: true });
        syntax.phrases.push(phrase);
        return length;
    }
    let word = text.split_whitespace().next().unwrap_or(text);
    if let Some(sign @ ('+' | '-')) = text.chars().next()
        && let Some((value, length)) = parse_signed(&text[1..], quotes)
    {
        if sign == '+' {
            pieces.push(QuestionPart { text: value.clone(), is_quoted: true });
            syntax.must.push(value);
        } else {
            syntax.must_not.push(value);
        }
        return 1 + length;
    }
    let (negated, plain) = match word.strip_prefix('-') {
        Some(plain) => (1, plain),
        None => (0, word),
    };
    if let Some((key, _)) = plain.split_once(':')
        && let Some(key) = KEYS.iter().find(|it| key.eq_ignore_ascii_case(it))
    {
        let start = negated + key.len() + 1;
        let (value, length) = match quotes.parse_quotation(&text[start..]) {
            Some(quoted) => quoted,
            None => (trim_trailing_punctuation(&word[start..]).to_string(), word.len() - start),
        };
        if negated == 1 && !value.is_empty() {
            syntax.problems.push(
                Error::invalid(format!("`-{key}:{value}` is not supported: only words can be excluded"))
                    .hint(format!("write `-word`, or say what to include: `{key}:...`")),
            );
            return start + length;
        }
        if !value.is_empty() {
            syntax.set_operator(key, &value);
            return start + length;
        }
    }
    pieces.push(QuestionPart { text: word.to_string(), is_quoted: false });
    word.len()
}

/// Parses a word or phrase after `+` or `-`; returns it and its length in bytes. A word begins with a letter and has no
/// special characters.
fn parse_signed(text: &str, quotes: &QuoteIndex) -> Option<(String, usize)> {
    if let Some(found) = quotes.parse_quotation(text) {
        return Some(found);
    }
    let word = text.split(char::is_whitespace).next()?;
    let value = trim_trailing_punctuation(word);
    let plain = |it: char| it.is_alphanumeric() || matches!(it, '-' | '\'' | '\u{2019}' | '.' | '_');
    let fits = value.starts_with(char::is_alphabetic) && value.chars().all(plain);
    fits.then(|| (value.to_string(), word.len()))
}

/// Returns the word without trailing punctuation.
fn trim_trailing_punctuation(word: &str) -> &str {
    word.trim_end_matches([',', ';', '?', '!', ')', '.', '"'])
}

impl Operators {
    /// Stores the value of an operator such as `ext`, or adds an error to `problems`.
    fn set_operator(&mut self, key: &str, value: &str) {
        let outcome = match key {
            "ext" => self.add_extensions(value),
            "lang" => value.split(',').try_for_each(|it| self.add_language(it)),
            "size" => self.set_size(value),
            _ => {
                self.set_text(key, value.to_string());
                Ok(())
            }
        };
        if let Err(problem) = outcome {
            self.problems.push(problem);
        }
    }

    fn set_text(&mut self, key: &str, value: String) {
        match key {
            "path" => self.paths.push(value.trim_matches('/').to_string()),
            "name" => self.names.push(value),
            "owner" => self.owner = Some(value),
            "author" | "from" => self.author = Some(value),
            "after" => self.after = Some(value),
            _ => self.before = Some(value),
        }
    }

    fn add_extensions(&mut self, value: &str) -> Result<(), Error> {
        for part in value.split(',') {
            let extension = part.trim_start_matches('*').trim_start_matches('.').to_lowercase();
            let fits = |it: char| it.is_alphanumeric() || matches!(it, '.' | '_' | '-' | '+');
            if extension.is_empty() || !extension.chars().all(fits) {
                return Err(Error::invalid(format!("`ext:{value}` needs extensions")).hint("write e.g. `ext:pdf,md`"));
            }
            self.extensions.push(format!(".{extension}"));
        }
        Ok(())
    }

    fn add_language(&mut self, value: &str) -> Result<(), Error> {
        let name = value.to_lowercase();
        if file_types::language_extensions(&name).is_some() {
            self.langs.push(name);
            return Ok(());
        }
        if let Some(language) = Language::from_name(&name) {
            self.language = Some(language);
            return Ok(());
        }
        let known = file_types::language_names().collect::<Vec<_>>().join(", ");
        let codes = Language::ALL.map(Language::code).join(", ");
        Err(Error::invalid(format!("`lang:{value}` is not a known language"))
            .hint(format!("programming languages: {known}; languages of texts: {codes}")))
    }

    fn set_size(&mut self, value: &str) -> Result<(), Error> {
        let wrong = || {
            Error::invalid(format!("cannot parse `size:{value}` as a size"))
                .hint("write `size:>5MB`, `size:<10k` or `size:1MB..2MB`")
        };
        let bytes = |text: &str| units::parse_size(text).filter(|_| !text.is_empty()).ok_or_else(wrong);
        let (least, most) = if let Some(text) = value.strip_prefix('>') {
            (Some(bytes(text.trim_start_matches('='))?), None)
        } else if let Some(text) = value.strip_prefix('<') {
            (None, Some(bytes(text.trim_start_matches('='))?))
        } else {
            let (least, most) = value.split_once("..").ok_or_else(wrong)?;
            let bound = |text: &str| if text.is_empty() { Ok(None) } else { bytes(text).map(Some) };
            (bound(least)?, bound(most)?)
        };
        if least.is_none() && most.is_none() {
            return Err(wrong());
        }
        self.min_size = least.or(self.min_size);
        self.max_size = most.or(self.max_size);
        Ok(())
    }

    /// Returns the file extensions of `ext:` and `lang:` in order, each once.
    pub fn all_extensions(&self) -> Vec<String> {
        let mut all = self.extensions.clone();
        for language in &self.langs {
            all.extend(file_types::language_extensions(language).unwrap_or_default().iter().map(|it| format!(".{it}")));
        }
        let mut seen = std::collections::HashSet::new();
        all.retain(|it| seen.insert(it.clone()));
        all
    }

    /// Returns the values of `path:` and `name:` as one glob on the path below the root.
    pub fn path_glob(&self) -> Option<String> {
        let paths: Vec<String> = self.paths.iter().filter(|it| !it.is_empty()).map(|it| to_glob(it)).collect();
        let names: Vec<String> = self.names.iter().map(|it| to_glob(it)).collect();
        match (paths.is_empty(), names.is_empty()) {
            (true, true) => None,
            (true, false) => Some(format!("**/{}", join_globs(&names))),
            (false, true) if self.paths.iter().all(|it| is_glob(it)) => Some(join_globs(&self.paths)),
            (false, true) => Some(format!("{{**/{0},**/{0}/**}}", join_globs(&paths))),
            (false, false) if self.paths.iter().all(|it| is_glob(it)) => {
                Some(format!("{}/**/{}", join_globs(&self.paths).trim_end_matches("/**"), join_globs(&names)))
            }
            (false, false) => Some(format!("**/{}/**/{}", join_globs(&paths), join_globs(&names))),
        }
    }
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Returns a glob unchanged, and any other text as a glob that matches it as a substring.
fn to_glob(text: &str) -> String {
    if is_glob(text) { text.to_string() } else { format!("*{text}*") }
}

fn join_globs(globs: &[String]) -> String {
    match globs {
        [one] => one.clone(),
        several => format!("{{{}}}", several.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a question parses to the expected operators.
    fn check(text: &str, expected: Operators) {
        assert_eq!(parse(text), expected, "{text}");
    }

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|it| it.to_string()).collect()
    }

    #[test]
    fn operators_are_removed_from_question() {
        check(
            "\"drift compensation\" gauges +wind -draft ext:.PDF,md path:Papers/2025 name:*.tex after:2024-03 before:7d \
             size:1MB..2MB owner:anna lang:rust,de from:Ada",
            Operators {
                phrases: list(&["drift compensation"]),
                must: list(&["wind"]),
                must_not: list(&["draft"]),
                names: list(&["*.tex"]),
                paths: list(&["Papers/2025"]),
                langs: list(&["rust"]),
                extensions: list(&[".pdf", ".md"]),
                after: Some("2024-03".into()),
                before: Some("7d".into()),
                min_size: Some(1 << 20),
                max_size: Some(2 << 20),
                owner: Some("anna".into()),
                language: Some(Language::German),
                author: Some("Ada".into()),
                free_text: "drift compensation gauges wind".into(),
                problems: Vec::new(),
            },
        );
    }

    #[test]
    fn quotes_nest_and_belong_to_operators() {
        let phrases = list(&["he said \"no\" twice"]);
        check(
            r#""he said \"no\"  twice"?"#,
            Operators { free_text: phrases[0].clone(), phrases, ..Operators::default() },
        );
        let rest = "x".to_string();
        let paths = list(&["tax returns"]);
        check("x path:\"tax returns\"", Operators { paths, free_text: rest.clone(), ..Operators::default() });
        let must_not = list(&["first draft"]);
        check("x -\"first draft\"", Operators { must_not, free_text: rest, ..Operators::default() });
        let phrases = list(&["tide board"]);
        check(
            "\u{201c}tide board\u{201d}",
            Operators { free_text: phrases[0].clone(), phrases, ..Operators::default() },
        );
    }

    #[test]
    fn long_question_requires_no_phrase() {
        let quoting = |words: usize| format!("{}\"tide board\" +wind", "word ".repeat(words));
        assert_eq!(parse(&quoting(MAX_WORDS_BESIDE_PHRASES)).phrases, ["tide board"]);
        let prose = parse(&quoting(MAX_WORDS_BESIDE_PHRASES + 1));
        assert_eq!((prose.phrases, prose.must), (Vec::new(), list(&["wind"])));
        assert!(prose.free_text.ends_with("word tide board wind"), "{}", prose.free_text);
    }

    #[test]
    fn text_like_syntax_stays_in_question() {
        for text in [
            "e-mail about C++ at -5 degrees",
            "a - b + c",
            "git commit --amend",
            "see http://example.com/a:b and C:\\temp",
            "size: large, name: unknown",
            "a 5\" pipe and a 6\" pipe",
            "\"unbalanced quote",
            "say \"\" twice",
            "call +49 30 1234",
            "ratio 3:4, note:this",
            "-/x",
            "path: a",
        ] {
            check(
                text,
                Operators { free_text: text.split_whitespace().collect::<Vec<_>>().join(" "), ..Operators::default() },
            );
        }
    }

    #[test]
    fn invalid_value_is_named_with_hint() {
        for text in ["size:5MB", "size:>x", "ext:a/b", "-ext:pdf", "lang:klingon"] {
            let problems = parse(text).problems;
            assert_eq!(problems.len(), 1, "{text}");
            assert!(problems[0].message.contains(text) && problems[0].hint.is_some(), "{text}: {}", problems[0]);
        }
    }

    #[test]
    fn paths_and_names_become_one_glob() {
        for (text, path, matches) in [
            ("name:budget", "Finance/my-budget-2025.xlsx", true),
            ("name:budget", "budget/other.xlsx", false),
            ("name:*.tex", "Papers/a.tex", true),
            ("path:contracts", "old/contracts-2024/a.pdf", true),
            ("path:contracts", "contracts.txt", true),
            ("path:contracts", "a/b.txt", false),
            ("path:Papers/*.tex", "Papers/a.tex", true),
            ("path:Papers/*.tex", "x/Papers/a.tex", false),
            ("path:papers name:drift", "papers/2025/drift.pdf", true),
            ("path:papers name:drift", "other/drift.pdf", false),
            ("path:papers name:drift name:tide", "papers/tide.pdf", true),
            ("path:a/b/** name:drift", "a/b/c/drift.pdf", true),
        ] {
            let glob = parse(text).path_glob().unwrap();
            let matcher = globset::GlobBuilder::new(&glob).literal_separator(true).build().unwrap().compile_matcher();
            assert_eq!(matcher.is_match(path), matches, "{text} -> {glob} on {path}");
        }
    }

    #[test]
    fn incomplete_syntax_stays_in_question() {
        for text in
            ["", "\"", "-", "+", "\\", "ext:", "-\"", "\u{201c}", "ü:ü", "-ü\"ü\"", "size:\"", "\"\\", "+\"\\\"\""]
        {
            check(text, Operators { free_text: text.into(), ..Operators::default() });
        }
    }
}
