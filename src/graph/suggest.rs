//! Suggests the existing name that a misspelled name was probably meant to be, for the hints of errors.

use crate::error::Error;

/// Maximum number of candidates to compare; more would take too long for an error message.
const MAX_CANDIDATES: usize = 50_000;

/// Returns the candidate with the smallest edit distance to `name`, ignoring case. The maximum distance is a third of the
/// length of `name`, but at least 1, and always less than the length of `name`.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_few(name, candidates, 1).first().copied()
}

/// Returns at most `most` candidates that [`nearest`] would accept, nearest first.
pub(crate) fn nearest_few<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    let edits = (length / 3).max(1);
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        // Compares the last part of a qualified name too, so `Parnt` is near `Fam.Parent`.
        let last = candidate.rsplit('.').next().unwrap_or(&candidate);
        strsim::damerau_levenshtein(&wanted, &candidate).min(strsim::damerau_levenshtein(&wanted, last))
    };
    let mut near: Vec<(usize, usize, &str)> = candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|it| it.len().abs_diff(name.len()) <= edits * 4 || it.contains('.'))
        .map(|it| (distance(it), it.len(), it))
        .filter(|(found, ..)| *found <= edits && *found < length)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(most).map(|(.., it)| it).collect()
}

/// Returns the suggestion as a sentence for a hint, e.g. "did you mean `Person`?".
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|it| format!("did you mean `{it}`?"))
}

/// Replaces the hint of an error by a suggestion; without a similar candidate, the error keeps its hint.
pub(crate) fn with_suggestion<'a>(error: Error, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Error {
    match did_you_mean(name, candidates) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typos_and_rejects_other_words() {
        let names = ["Person", "Organization", "Fam.Parent"];
        assert_eq!(nearest("Persn", names), Some("Person"));
        assert_eq!(nearest("organisation", names), Some("Organization"));
        assert_eq!(nearest("Parnt", names), Some("Fam.Parent"));
        assert_eq!(nearest("Invoice", names), None);
        assert_eq!(nearest_few("Persns", ["Person", "Persons", "Place", "Person"], 3), ["Persons", "Person"]);
        assert_eq!((nearest("", ["x", "stdio.h"]), nearest("y", ["x", "stdio.h"])), (None, None));
    }

    #[test]
    fn suggest_replaces_hint_only_with_similar_name() {
        let hint =
            |name: &str| with_suggestion(Error::invalid("x").hint("names: Person"), name, ["Person"]).hint.unwrap();
        assert_eq!((hint("Persn"), hint("Invoice")), ("did you mean `Person`?".into(), "names: Person".into()));
    }
}
