//! Extracts the signer from the lines of a signature block: name, title, represented party and date.

use std::sync::LazyLock;

use regex::Regex;

static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^\W*(?:print(?:ed)? )?(?:name|by)\s*:\s*(.+)$"));
static TITLE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^\W*(?:title|position|capacity|its|funktion)\s*:\s*(.+)$"));
static DATE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^\W*(?:date|dated|datum)\s*:?\s*(.*\d.*)$"));
static PARTY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^\W*(?:signed |executed )?(?:for and |by )?(?:on behalf of|for)\s+(.+?)[:.]?$"));
/// A blank to fill in: dots or underscores.
static BLANK: LazyLock<Regex> = LazyLock::new(|| pattern(r"[._…]{4,}"));

/// A column header or a label, which is not a name.
static LABEL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^\W*(?:name|date|datum|title|position|place|signature|witness|unterschrift)\b"));

/// Maximum length of a name, in characters; longer text is not a name.
const MAX_NAME_CHARS: usize = 60;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant")
}

/// A line of a signature block.
pub(super) struct Line {
    /// The text of the line.
    pub(super) text: String,
    /// Whether the line is directly below a signature line.
    pub(super) below_rule: bool,
}

/// Returns the signer, e.g. `Ann Ash, Director, for the Office, 2 May`; `None` if no name is found.
pub(super) fn find_signer(lines: &[Line]) -> Option<String> {
    let find = |what: &Regex| {
        let found = lines.iter().find_map(|line| Some(what.captures(&line.text)?.get(1)?.as_str().trim()));
        found.filter(|it| is_filled_in(it))
    };
    let below = || lines.iter().find(|it| it.below_rule).map(|it| it.text.as_str()).filter(|it| is_name(it));
    let name = find(&NAME).or_else(below)?;
    let for_whom = find(&PARTY).map(|it| format!("for {it}"));
    let parts = [Some(name.to_string()), find(&TITLE).map(str::to_string), for_whom, find(&DATE).map(str::to_string)];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn is_filled_in(text: &str) -> bool {
    text.contains(char::is_alphanumeric) && !BLANK.is_match(text)
}

/// Returns whether a text may be a name: it begins with a capital letter and is not a label.
fn is_name(text: &str) -> bool {
    is_filled_in(text)
        && text.chars().next().is_some_and(char::is_uppercase)
        && !text.ends_with(':')
        && text.chars().count() <= MAX_NAME_CHARS
        && !LABEL.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the signer found in these lines; a line given with `^` is directly below a signature line.
    fn check(lines: &[&str], expected: Option<&str>) {
        let line = |text: &&str| Line { text: text.trim_start_matches('^').into(), below_rule: text.starts_with('^') };
        let lines: Vec<Line> = lines.iter().map(line).collect();
        assert_eq!(find_signer(&lines).as_deref(), expected);
    }

    #[test]
    fn labels_give_name_title_party_and_date() {
        check(
            &["Signed for the Office", "Name: Ann Ash", "Title: Director", "Date: 2 May 2025"],
            Some("Ann Ash, Director, for the Office, 2 May 2025"),
        );
        check(&["^By: Bo Birch", "Its: Chair"], Some("Bo Birch, Chair"));
    }

    #[test]
    fn name_below_signature_line_needs_no_label() {
        check(&["^Ada Quill, Managing Director", "Heron & Pike"], Some("Ada Quill, Managing Director"));
        check(&["Ada Quill"], None);
    }

    #[test]
    fn blank_is_not_a_signer() {
        check(&["Name: ..............", "Date: ............"], None);
        check(&["^Date: 2 May"], None);
        check(&["^Date Name", "Drawn 29.03.2021"], None);
        check(&["Name: Ann", "Date: ________"], Some("Ann"));
    }
}
