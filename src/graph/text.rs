//! Tests of attribute texts: substring, words, edits.

/// A test of one value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// Holds this text, lower case.
    Contains(String),
    /// Holds each of these words, lower case.
    Words(Vec<String>),
    /// At most so many edits away from this text, lower case.
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

    /// Says whether a value passes. Without a word there is nothing to find.
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
            Test::Contains(needle) => format!("holds \"{needle}\""),
            Test::Words(words) => format!("holds the words {}", words.join(" ")),
            Test::Near(needle, most) => format!("is within {most} edits of \"{needle}\""),
        }
    }
}

/// The words of a text: runs of letters and digits, lower case.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = String> {
    text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_never_counts() {
        assert!(Test::contains("BAY h").passes("Cinder Bay hut") && !Test::contains("bayhut").passes("Cinder Bay hut"));
        assert!(Test::near("Cinder", 1).passes("cnder") && !Test::near("Cinder", 1).passes("cnde"));
    }

    #[test]
    fn every_word_has_to_be_there_as_a_word() {
        let test = Test::words("hut, bay");
        assert!(test.passes("the Bay (hut)") && !test.passes("Bayhut") && !test.passes("bay"));
        assert!(!Test::words("...").passes("anything"), "no word is nothing to find");
    }
}
