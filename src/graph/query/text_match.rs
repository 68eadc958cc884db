//! Conditions on the text of an attribute: substring, words, edit distance.

/// A condition on the value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum TextMatch {
    /// The value contains this folded text.
    Contains(String),
    /// The value contains each of these folded words.
    AllWords(Vec<String>),
    /// The value is within this edit distance of this lower-case text.
    EditDistance(String, u32),
}

impl TextMatch {
    pub(crate) fn contains(needle: &str) -> TextMatch {
        TextMatch::Contains(vic_words::fold(needle).into_owned())
    }

    pub(crate) fn words(query: &str) -> TextMatch {
        TextMatch::AllWords(folded_words(query))
    }

    pub(crate) fn within_edits(needle: &str, most: u32) -> TextMatch {
        TextMatch::EditDistance(needle.to_lowercase(), most)
    }

    /// Returns whether a value meets the condition, ignoring case and accents. A query without words matches nothing.
    pub(crate) fn matches(&self, value: &str) -> bool {
        match self {
            TextMatch::Contains(needle) => vic_words::fold(value).contains(needle),
            TextMatch::AllWords(wanted) => {
                let held = folded_words(value);
                !wanted.is_empty() && wanted.iter().all(|it| held.contains(it))
            }
            TextMatch::EditDistance(needle, most) => {
                let value = value.to_lowercase();
                let longer = value.chars().count().abs_diff(needle.chars().count());
                longer <= *most as usize && strsim::levenshtein(&value, needle) <= *most as usize
            }
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            TextMatch::Contains(needle) => format!("contains \"{needle}\""),
            TextMatch::AllWords(words) => format!("contains the words {}", words.join(" ")),
            TextMatch::EditDistance(needle, most) => format!("is within {most} edits of \"{needle}\""),
        }
    }
}

/// Returns the folded words of a text.
pub(crate) fn folded_words(text: &str) -> Vec<String> {
    vic_words::exact_words(&vic_words::fold(text)).into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_ignores_case_and_accents() {
        assert!(TextMatch::contains("resume").matches("Le Résumé") && TextMatch::words("发票").matches("把发票寄到"));
        assert!(
            TextMatch::contains("BAY h").matches("Cinder Bay hut")
                && !TextMatch::contains("bayhut").matches("Cinder Bay hut")
        );
        assert!(
            TextMatch::within_edits("Cinder", 1).matches("cnder")
                && !TextMatch::within_edits("Cinder", 1).matches("cnde")
        );
    }

    #[test]
    fn words_match_whole_words_only() {
        let test = TextMatch::words("hut, bay");
        assert!(test.matches("the Bay (hut)") && !test.matches("Bayhut") && !test.matches("bay"));
        assert!(!TextMatch::words("...").matches("anything"), "a query without words matches nothing");
    }
}
