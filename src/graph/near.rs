//! The known name that a wrong one was probably meant to be.

use crate::error::Error;

/// Candidates that are looked at: more take longer than an error is worth.
const MOST_CANDIDATES: usize = 50_000;

/// Returns the candidate with the fewest edits to `name`, if those are few: a third of its characters, case aside. Nothing is
/// near to a name of which no character would be left.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let length = wanted.chars().count();
    let most = (length / 3).max(1);
    let distance = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        // The last part of a qualified name counts too: `Parnt` is near to `Fam.Parent`.
        let last = candidate.rsplit('.').next().unwrap_or(&candidate);
        strsim::damerau_levenshtein(&wanted, &candidate).min(strsim::damerau_levenshtein(&wanted, last))
    };
    candidates
        .into_iter()
        .take(MOST_CANDIDATES)
        .filter(|it| it.len().abs_diff(name.len()) <= most * 4 || it.contains('.'))
        .map(|it| (distance(it), it.len(), it))
        .filter(|(edits, ..)| *edits <= most && *edits < length)
        .min()
        .map(|(.., it)| it)
}

/// The sentence that names it; for an error's hint.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|it| format!("did you mean `{it}`?"))
}

/// Adds the sentence to an error; where no candidate is near, the error keeps the hint that it has.
pub(crate) fn suggest<'a>(error: Error, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Error {
    match did_you_mean(name, candidates) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let names = ["Person", "Organization", "Fam.Parent"];
        assert_eq!(nearest("Persn", names), Some("Person"));
        assert_eq!(nearest("organisation", names), Some("Organization"));
        assert_eq!(nearest("Parnt", names), Some("Fam.Parent"));
        assert_eq!(nearest("Invoice", names), None);
        assert_eq!((nearest("", ["x", "stdio.h"]), nearest("y", ["x", "stdio.h"])), (None, None));
    }

    #[test]
    fn a_near_name_is_a_better_hint_and_none_leaves_the_hint_that_there_is() {
        let hint = |name: &str| suggest(Error::invalid("x").hint("names: Person"), name, ["Person"]).hint.unwrap();
        assert_eq!((hint("Persn"), hint("Invoice")), ("did you mean `Person`?".into(), "names: Person".into()));
    }
}
