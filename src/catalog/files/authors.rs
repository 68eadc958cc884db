//! The senders and authors of files, as the column `authors` stores them: one line for each, with its folded words for
//! searching, a tab, and the text for people.

/// Returns the value of the column; `None` if there are no authors.
pub(in crate::catalog) fn join(authors: &[String]) -> Option<String> {
    let line = |it: &String| format!("{}\t{}", needle(it), it.replace(['\n', '\t'], " "));
    (!authors.is_empty()).then(|| authors.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Returns the authors in a value of the column, as texts for people.
pub(in crate::catalog) fn split(column: &str) -> impl Iterator<Item = &str> {
    column.lines().filter_map(|it| it.split_once('\t')).map(|it| it.1)
}

/// Returns the name of an author without the address, or the address if it has no name.
pub(in crate::catalog) fn name_of(author: &str) -> &str {
    let name = author.split_once('<').map_or(author, |(name, _)| name).trim().trim_matches('"');
    if name.is_empty() { author } else { name }
}

/// Returns the folded words of a name or address between blanks, so that a part of the words in sequence is a substring.
pub(in crate::catalog) fn needle(text: &str) -> String {
    let folded = vic_words::fold(text);
    let between = |it: char| it.is_whitespace() || matches!(it, '<' | '>' | '"' | '(' | ')' | ',' | ';');
    format!(" {} ", folded.split(between).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_author_are_found_in_sequence() {
        let column = join(&["Zoë Lane <z.lane@example.org>".into(), "Ben\nOak".into()]).unwrap();
        for found in ["zoe", "Zoë LANE", "z.lane@example.org", "\"Zoë Lane\" <z.lane@example.org>", "oak"] {
            assert!(column.contains(&needle(found)), "{found}");
        }
        for other in ["zo", "lane zoe", "oak zoe", "example.org"] {
            assert!(!column.contains(&needle(other)), "{other}");
        }
        assert_eq!(split(&column).collect::<Vec<_>>(), ["Zoë Lane <z.lane@example.org>", "Ben Oak"]);
        assert_eq!(join(&[]), None);
        assert_eq!(
            (name_of("\"Lane, Zoë\" <z@example.org>"), name_of("<z@example.org>")),
            ("Lane, Zoë", "<z@example.org>")
        );
    }
}
