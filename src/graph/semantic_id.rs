//! Semantic ids of entities, of the form `Name.TYPE.001`, and the types that their short codes stand for.

use crate::graph::suggest;

/// Short codes and the types that they stand for; the first name of each type is canonical.
const CODES: [(&str, &[&str]); 10] = [
    ("AC", &["ACTOR"]),
    ("FC", &["FCHAIN", "FUNCTIONCHAIN"]),
    ("FL", &["FLOW"]),
    ("FN", &["FUNC", "FUNCTION"]),
    ("MD", &["MOD", "MODULE"]),
    ("RQ", &["REQ", "REQUIREMENT"]),
    ("SC", &["SCHEMA"]),
    ("SY", &["SYS", "SYSTEM"]),
    ("TC", &["TEST", "TESTCASE"]),
    ("UC", &["UC", "USECASE"]),
];

/// Type of an entity if its id contains no type.
pub(crate) const PLAIN_TYPE: &str = "Node";

/// Splits a semantic id into name and type. Any other id is the name of an entity of type `PLAIN_TYPE`.
pub(crate) fn split_id(id: &str) -> (&str, &str) {
    let mut parts = id.split('.');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(code), Some(number), None) if !name.is_empty() && is_number(number) => {
            let known = CODES.iter().find(|(it, _)| *it == code);
            (name, known.map_or(code, |(_, names)| names[0]))
        }
        _ => (id, PLAIN_TYPE),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

/// Returns whether a text is a semantic id, rather than e.g. a sentence with dots.
pub(crate) fn is_semantic_id(text: &str) -> bool {
    let is_code = |it: &str| !it.is_empty() && it.len() <= 8 && it.bytes().all(|it| it.is_ascii_uppercase());
    let code = text.split('.').nth(1).unwrap_or_default();
    split_id(text).1 != PLAIN_TYPE && is_code(code) && !text.contains(char::is_whitespace)
}

/// Corrects an id with an unknown type code: returns the same id with the most similar code.
pub(crate) fn suggest_id(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('.').collect();
    let &[name, code, number] = parts.as_slice() else { return None };
    if name.is_empty() || text.contains(char::is_whitespace) || !is_number(number) {
        return None;
    }
    let all = CODES.iter().flat_map(|(code, names)| std::iter::once(code).chain(*names).map(move |it| (*it, *code)));
    let meant = suggest::nearest(code, all.clone().map(|(it, _)| it))?;
    let (_, code) = all.into_iter().find(|(it, _)| *it == meant)?;
    Some(format!("{name}.{code}.{number}"))
}

/// Returns whether a type of the graph is the requested type, which may be given by its code or by any of its names.
pub(crate) fn type_matches(present: &str, asked: &str) -> bool {
    if present.eq_ignore_ascii_case(asked) {
        return true;
    }
    let has = |(code, names): &(&str, &[&str]), name: &str| {
        code.eq_ignore_ascii_case(name) || names.iter().any(|it| it.eq_ignore_ascii_case(name))
    };
    CODES.iter().any(|it| has(it, present) && has(it, asked))
}

/// Returns the short code and the names of a type, except the given one.
pub(crate) fn other_names(type_name: &str) -> impl Iterator<Item = &'static str> {
    let known = CODES.iter().find(|(_, names)| names.contains(&type_name));
    known
        .into_iter()
        .flat_map(|(code, names)| std::iter::once(code).chain(*names))
        .copied()
        .filter(move |it| *it != type_name)
}

/// Returns the number at the end of a semantic id.
pub(crate) fn number(id: &str) -> Option<&str> {
    is_semantic_id(id).then(|| id.rsplit('.').next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semantic_id_splits_into_name_and_type() {
        assert_eq!(split_id("ReviewFeedback.FL.001"), ("ReviewFeedback", "FLOW"));
        assert_eq!(split_id("Order.XY.12"), ("Order", "XY"), "unknown codes are types too");
        assert_eq!(split_id("notes.md"), ("notes.md", PLAIN_TYPE));
        assert_eq!(split_id("v1.2.3.4"), ("v1.2.3.4", PLAIN_TYPE));
    }

    #[test]
    fn type_matches_all_its_names() {
        for asked in ["FLOW", "FL", "Flow", "flow"] {
            assert!(type_matches("FLOW", asked), "{asked}");
        }
        assert!(type_matches("FUNC", "function") && !type_matches("FUNC", "FLOW") && type_matches("Person", "person"));
    }
}
