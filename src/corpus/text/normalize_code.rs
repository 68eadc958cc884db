//! Normalizes code without a parser: removes differences without meaning. Normalizing twice gives the same as once.

use std::sync::LazyLock;

use regex::Regex;

/// Removes trailing white space and outer empty lines, expands leading tabs, and reduces several empty lines to one.
pub(crate) fn normalize_whitespace(code: &str) -> String {
    normalize_lines(code, 1)
}

fn normalize_lines(code: &str, most_empty: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut empty = 0;
    for line in code.lines() {
        let bare = line.trim_end();
        let indent = bare.len() - bare.trim_start().len();
        let line = format!("{}{}", bare[..indent].replace('\t', "    "), &bare[indent..]);
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty <= most_empty && !(line.is_empty() && lines.is_empty()) {
            lines.push(line);
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n")
}

/// Formats Python like the formatter black, as far as single lines allow: in addition to white space, double quotes, a
/// space after commas and around `=` in assignments, and two empty lines before top-level functions and classes.
pub(crate) fn format_like_black(code: &str) -> String {
    static COMMA: LazyLock<Regex> = LazyLock::new(|| Regex::new(r",([^\s)\]}])").expect("a constant"));
    static ASSIGN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(\s*[\w.\[\]]+)\s*([-+*/]?=)\s*([^=\s].*)$").expect("a constant"));
    let mut lines: Vec<String> = Vec::new();
    for line in normalize_lines(code, 2).lines() {
        let mut line = line.to_string();
        let quoted = line.contains(['"', '\'', '#']);
        if quoted {
            line = double_quotes(&line);
        } else {
            line = COMMA.replace_all(&line, ", $1").into_owned();
            line = ASSIGN.replace(&line, "$1 $2 $3").into_owned();
        }
        if (line.starts_with("def ") || line.starts_with("class ")) && !lines.is_empty() {
            let decorated = lines.last().is_some_and(|it| it.starts_with('@') || it.starts_with('#'));
            while !decorated && lines.len() - lines.iter().rposition(|it| !it.is_empty()).map_or(0, |it| it + 1) < 2 {
                lines.push(String::new());
            }
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Replaces `'text'` by `"text"`, if the line has no other quotation mark.
fn double_quotes(line: &str) -> String {
    let simple = !line.contains('"') && !line.contains('\\') && !line.contains('#') && line.matches('\'').count() == 2;
    if simple && !line.contains("'''") { line.replace('\'', "\"") } else { line.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizers_are_idempotent() {
        let code = "\n\nimport os\t \ndef f(a,b):\n\tx=1\n\n\n\n\treturn 'y'\nclass C:\n  pass\n\n";
        for tidy in [normalize_whitespace, format_like_black] {
            let once = tidy(code);
            assert_eq!(tidy(&once), once);
        }
        assert_eq!(format_like_black("def f(a,b):\n\tx=1\n\treturn 'y'"), "def f(a, b):\n    x = 1\n    return \"y\"");
        assert_eq!(format_like_black("import os\ndef f():\n    pass"), "import os\n\n\ndef f():\n    pass");
    }
}
