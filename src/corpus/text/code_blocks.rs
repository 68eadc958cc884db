//! Finds code blocks in lightweight markup whose parsers do not recognize code, and names programming languages.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// A code block in the text of a file, as byte ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeBlock {
    /// The code without the lines that open and close the block.
    pub(crate) inner: Range<usize>,
    /// The code with the lines that open and close the block.
    pub(crate) outer: Range<usize>,
    /// The programming language that the markup states.
    pub(crate) language: Option<String>,
}

impl CodeBlock {
    /// Returns whether the block contains all of these bytes.
    pub(crate) fn covers(&self, bytes: &Range<usize>) -> bool {
        self.outer.start <= bytes.start && bytes.end <= self.outer.end
    }
}

/// Patterns of the lines that open and close a code block in a markup; group 1 of the opening line is the language.
struct BlockDelimiters {
    open: &'static LazyLock<Regex>,
    close: &'static str,
}

static TEX: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*\\begin\{(?:lstlisting|verbatim|minted)\}(?:\[[^\]]*?language=(\w+)[^\]]*\]|\[[^\]]*\]|\{(\w+)\})?")
});
static ORG: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^\s*#\+begin_(?:src|example)\s*([\w+#-]*)"));
static FENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(?:>\s*)?```\s*([\w+#-]*)\s*$"));
static RST: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*\.\.\s+(?:code-block|code|sourcecode)::\s*([\w+#-]*)"));
/// A paragraph that ends with two colons and so introduces an indented literal block.
static LITERAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[^.\s].*)?::$"));
static ADOC: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\[source(?:,\s*([\w+#-]+))?[^\]]*\]\s*$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

/// Finds the code blocks of a file, by its extension. Markdown is excluded, because its parser recognizes code itself.
pub(crate) fn find_code_blocks(text: &str, extension: &str) -> Vec<CodeBlock> {
    match extension {
        "tex" | "ltx" | "latex" => delimited_blocks(text, &BlockDelimiters { open: &TEX, close: "\\end{" }),
        "org" => delimited_blocks(text, &BlockDelimiters { open: &ORG, close: "#+end_" }),
        "txt" | "text" | "eml" | "log" => delimited_blocks(text, &BlockDelimiters { open: &FENCE, close: "```" }),
        "rst" | "rest" => indented_blocks(text),
        "adoc" | "asciidoc" => asciidoc_blocks(text),
        _ => Vec::new(),
    }
}

fn line_ranges(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let range = |line: &str| {
        let range = start..start + line.len();
        start = range.end;
        range
    };
    text.split_inclusive('\n').map(range).collect()
}

fn stated_language(found: &regex::Captures<'_>) -> Option<String> {
    let named = found.get(1).or_else(|| found.get(2)).map(|it| it.as_str().to_lowercase());
    named.filter(|it| !it.is_empty()).map(|it| canonical_language(&it).to_string())
}

fn code_block(text: &str, inner: Range<usize>, outer: Range<usize>, language: Option<String>) -> Option<CodeBlock> {
    let code = text[inner.clone()].trim_end();
    let inner = inner.start..inner.start + code.len();
    (!code.trim().is_empty()).then_some(CodeBlock { inner, outer, language })
}

fn delimited_blocks(text: &str, marks: &BlockDelimiters) -> Vec<CodeBlock> {
    let lines = line_ranges(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(open) = marks.open.captures(text[lines[at].clone()].trim_end()) else {
            at += 1;
            continue;
        };
        let closes = |line: &Range<usize>| {
            let line = text[line.clone()].trim_start().trim_start_matches("> ");
            line.get(..marks.close.len()).is_some_and(|it| it.eq_ignore_ascii_case(marks.close))
        };
        let close = lines[at + 1..].iter().position(closes).map_or(lines.len(), |it| at + 1 + it);
        if close > at + 1 {
            let outer = lines[at].start..lines[close.min(lines.len() - 1)].end;
            let inner = lines[at + 1].start..lines[close - 1].end;
            found.extend(code_block(text, inner, outer, stated_language(&open)));
        }
        at = close + 1;
    }
    found
}

/// Finds code that is indented below a directive.
fn indented_blocks(text: &str) -> Vec<CodeBlock> {
    let lines = line_ranges(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = text[lines[at].clone()].trim_end();
        let directive = RST.captures(line);
        if directive.is_none() && !LITERAL.is_match(line) {
            at += 1;
            continue;
        }
        let is_body = |line: &Range<usize>| {
            let line = &text[line.clone()];
            line.trim().is_empty() || line.starts_with([' ', '\t'])
        };
        let is_start = |line: &Range<usize>| {
            let line = text[line.clone()].trim();
            !line.is_empty() && (directive.is_none() || !line.starts_with(':'))
        };
        let end = lines[at + 1..].iter().position(|it| !is_body(it)).map_or(lines.len(), |it| at + 1 + it);
        if let Some(first) = lines[at + 1..end].iter().position(is_start).map(|it| at + 1 + it) {
            let inner = lines[first].start..lines[end - 1].end;
            // Include a directive line in the block, but not a paragraph that ends with `::`, because it is prose.
            let from = if directive.is_some() { at } else { first };
            let outer = lines[from].start..lines[end - 1].end;
            found.extend(code_block(text, inner, outer, directive.as_ref().and_then(stated_language)));
        }
        at = end.max(at + 1);
    }
    found
}

/// Finds code between two lines of dashes below `[source]`.
fn asciidoc_blocks(text: &str) -> Vec<CodeBlock> {
    let lines = line_ranges(text);
    let mut found = Vec::new();
    for at in 0..lines.len() {
        let Some(open) = ADOC.captures(text[lines[at].clone()].trim_end()) else { continue };
        let is_rule = |line: &Range<usize>| text[line.clone()].trim_end() == "----";
        if !lines.get(at + 1).is_some_and(is_rule) {
            continue;
        }
        let close = lines[at + 2..].iter().position(is_rule).map(|it| at + 2 + it);
        let Some(close) = close.filter(|it| *it > at + 2) else { continue };
        let inner = lines[at + 2].start..lines[close - 1].end;
        found.extend(code_block(text, inner, lines[at].start..lines[close].end, stated_language(&open)));
    }
    found
}

/// Returns the canonical name of a programming language.
pub(crate) fn canonical_language(name: &str) -> &str {
    match name {
        "py" | "py3" | "python3" | "ipython" | "pycon" => "python",
        "rs" => "rust",
        "js" | "mjs" | "cjs" | "jsx" | "node" => "javascript",
        "ts" | "tsx" => "typescript",
        "sh" | "bash" | "zsh" | "console" | "shell-session" => "shell",
        "c++" | "cc" | "cxx" | "hpp" => "cpp",
        "h" => "c",
        "golang" => "go",
        "yml" => "yaml",
        "rb" => "ruby",
        "kt" | "kts" => "kotlin",
        "cs" | "c#" => "csharp",
        other => other,
    }
}

/// Returns the programming language of a source file, by its extension.
pub(crate) fn language_of_extension(extension: &str) -> Option<&str> {
    const CODE_EXTENSIONS: &[&str] = &[
        "py", "rs", "js", "mjs", "cjs", "jsx", "ts", "tsx", "go", "java", "c", "h", "cc", "cpp", "cxx", "hpp", "cs",
        "rb", "php", "swift", "kt", "scala", "sh", "bash", "zsh", "sql", "lua", "r", "jl", "hs", "ml", "css", "proto",
    ];
    CODE_EXTENSIONS.contains(&extension).then(|| canonical_language(extension))
}

/// Guesses the programming language from the code.
pub(crate) fn guess_language(code: &str) -> Option<&'static str> {
    static SIGNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
        [
            (r"(?m)^\s*(?:pub )?fn \w+.*\{|^\s*let mut |^use \w+::", "rust"),
            (r"(?m)^\s*def \w+\(.*\).*:|^\s*(?:from \w[\w.]* )?import \w[\w., ]*$|^\s*print\(", "python"),
            (r"(?m)^#include\s*[<\x22]", "c"),
            (r"(?m)^package \w+$|^func \w+\(", "go"),
            (r"(?m)\bpublic (?:static |final )*(?:class|void|int)\b", "java"),
            (r"(?m)^\s*(?:const|let|var) \w+ =|=>|^\s*function \w+\(", "javascript"),
            (r"(?mi)^\s*(?:select\b.+\bfrom\b|insert into|create table|update \w+ set)\b", "sql"),
            (r"(?m)^\s*(?:\$ |#!/bin/|sudo |cd |curl |grep )", "shell"),
            (r"(?m)^\s*</?[a-zA-Z][\w-]*[^>]*>", "html"),
            (r#"(?s)^\s*[\{\[].*"\s*:.*[\}\]]\s*$"#, "json"),
        ]
        .into_iter()
        .map(|(sign, name)| (pattern(sign), name))
        .collect()
    });
    SIGNS.iter().find(|it| it.0.is_match(code)).map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, extension: &str, expected: &[(&str, Option<&str>)]) {
        let found = find_code_blocks(text, extension);
        let found: Vec<(&str, Option<&str>)> =
            found.iter().map(|it| (&text[it.inner.clone()], it.language.as_deref())).collect();
        assert_eq!(found, expected, "{extension}");
    }

    #[test]
    fn code_blocks_are_found_in_each_markup() {
        check(
            "a\n\\begin{lstlisting}[language=Python]\nx = 1\n\\end{lstlisting}\n",
            "tex",
            &[("x = 1", Some("python"))],
        );
        check("\\begin{verbatim}\nplain\n\\end{verbatim}", "tex", &[("plain", None)]);
        check("#+begin_src sh\nls -l\n#+end_src\n", "org", &[("ls -l", Some("shell"))]);
        check("see\n\n```rust\nfn a() {}\n```\nend", "txt", &[("fn a() {}", Some("rust"))]);
        check(
            ".. code-block:: python\n   :linenos:\n\n   x = 1\n\n   y = 2\n\nProse",
            "rst",
            &[("   x = 1\n\n   y = 2", Some("python"))],
        );
        check("Run it::\n\n   ls\n   pwd\n\nProse ends here.\n", "rst", &[("   ls\n   pwd", None)]);
        check(".. note::\n\n   prose\n", "rst", &[]);
        check("[source,go]\n----\nfunc a() {}\n----\n", "adoc", &[("func a() {}", Some("go"))]);
        check("no code here", "txt", &[]);
    }

    #[test]
    fn guess_language_needs_clear_syntax() {
        assert_eq!(guess_language("def f(x):\n    return x"), Some("python"));
        assert_eq!(guess_language("SELECT a FROM b"), Some("sql"));
        assert_eq!(guess_language("just some words"), None);
    }
}
