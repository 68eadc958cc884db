//! Matches attribute texts: substring, words, edit distance.

/// A condition on one value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// Contains this lower-case text.
    Contains(String),
    /// Contains each of these lower-case words.
    Words(Vec<String>),
    /// Within this edit distance of this lower-case text.
    Near(String, u32),
}

impl Test {
    pub(crate) fn contains(needle: &str) -> Test {
        Test::Contains(needle.to_lowercase())
    }

    pub(crate) fn words(query: &str) -> Test {
        Test::Words(tokens(query).collect())
    }

    pub(crate) fn near(needle: &str, most: u32) -> Test {
        Test::Near(needle.to_lowercase(), most)
    }

    /// Returns whether a value matches. A query without words matches nothing.
    pub(crate) fn passes(&self, value: &str) -> bool {
        match self {
            Test::Contains(needle) => value.to_lowercase().contains(needle),
            Test::Words(wanted) => {
                let held: Vec<String> = tokens(value).collect();
                !wanted.is_empty() && wanted.iter().all(|it| held.contains(it))
            }
            Test::Near(needle, most) => {
                let value = value.to_lowercase();
                let longer = value.chars().count().abs_diff(needle.chars().count());
                longer <= *most as usize && strsim::levenshtein(&value, needle) <= *most as usize
            }
        }
    }

    pub(crate) fn words_of(&self) -> String {
        match self {
            Test::Contains(needle) => format!("contains \"{needle}\""),
            Test::Words(words) => format!("contains the words {}", words.join(" ")),
            Test::Near(needle, most) => format!("is within {most} edits of \"{needle}\""),
        }
    }
}

/// Returns the words of a text in lower case: runs of letters and digits.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = String> {
    text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_ignores_case() {
        assert!(Test::contains("BAY h").passes("Cinder Bay hut") && !Test::contains("bayhut").passes("Cinder Bay hut"));
        assert!(Test::near("Cinder", 1).passes("cnder") && !Test::near("Cinder", 1).passes("cnde"));
    }

    #[test]
    fn words_match_whole_words_only() {
        let test = Test::words("hut, bay");
        assert!(test.passes("the Bay (hut)") && !test.passes("Bayhut") && !test.passes("bay"));
        assert!(!Test::words("...").passes("anything"), "a query without words matches nothing");
    }
}
