//! Suggests an embedding model for the languages of a corpus. Pure.

use std::collections::BTreeMap;

use crate::embed::model_catalog::{ModelEntry, ModelKind};
use crate::text::language_name;

/// Minimum chunks of clear language in a sample; fewer do not describe a corpus.
const MIN_CHUNKS: u64 = 10;

/// A model that fits a corpus better than the current one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Suggestion {
    /// Name of the model.
    pub(crate) model: String,
    /// Name of the current model.
    pub(crate) current: String,
    /// The most frequent languages that the current model was not trained for, as ISO 639-1 codes.
    pub(crate) languages: Vec<String>,
    /// Share of the chunks in languages that the current model was not trained for, from 0 to 1.
    pub(crate) share: f64,
}

impl Suggestion {
    /// Returns the suggestion as a sentence with the command to type.
    pub(crate) fn sentence(&self) -> String {
        let languages: Vec<&str> = self.languages.iter().map(|it| language_name(it)).collect();
        format!(
            "{:.0} % of the text is in languages that `{}` was not trained for ({}): `vic models use {}` switches to a model \
             for them",
            self.share * 100.0,
            self.current,
            languages.join(", "),
            self.model
        )
    }
}

/// Suggests a model if most chunks are in languages that the current model was not trained for. `languages` is the number
/// of chunks by language in a sample. `None` if the languages of the current model are not known, as for a user's own.
pub(crate) fn suggest_model(
    entries: &[ModelEntry],
    current: &str,
    languages: &BTreeMap<String, u64>,
) -> Option<Suggestion> {
    let entry = entries.iter().find(|it| it.name == current)?;
    let total: u64 = languages.values().sum();
    if entry.languages.is_empty() || total < MIN_CHUNKS {
        return None;
    }
    let uncovered = |entry: &ModelEntry| -> u64 {
        languages.iter().filter(|it| !entry.languages.contains(it.0)).map(|it| it.1).sum()
    };
    let lacking = uncovered(entry);
    if lacking * 2 <= total {
        return None;
    }
    let models = entries.iter().filter(|it| it.kind == ModelKind::Embedding && !it.languages.is_empty());
    let best = models.min_by_key(|it| uncovered(it)).filter(|it| uncovered(it) * 2 <= lacking)?;
    let mut foreign: Vec<(&String, &u64)> = languages.iter().filter(|it| !entry.languages.contains(it.0)).collect();
    foreign.sort_by_key(|it| std::cmp::Reverse(it.1));
    Some(Suggestion {
        model: best.name.clone(),
        current: current.to_string(),
        languages: foreign.into_iter().take(3).map(|it| it.0.clone()).collect(),
        share: lacking as f64 / total as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::model_catalog::built_in;

    fn suggest(current: &str, counts: &[(&str, u64)]) -> Option<Suggestion> {
        let languages = counts.iter().map(|(code, count)| (code.to_string(), *count)).collect();
        suggest_model(&built_in().unwrap(), current, &languages)
    }

    #[test]
    fn mostly_foreign_text_suggests_multilingual_model() {
        let found = suggest("all-MiniLM-L6-v2", &[("de", 30), ("zh", 20), ("en", 40)]).unwrap();
        assert_eq!(
            (found.model.as_str(), &found.languages[..]),
            ("multilingual-e5-small", &["de".to_string(), "zh".into()][..])
        );
        let sentence = found.sentence();
        for part in ["56 %", "German, Chinese", "`vic models use multilingual-e5-small`"] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn nothing_is_suggested_without_need_or_evidence() {
        assert_eq!(suggest("all-MiniLM-L6-v2", &[("de", 30), ("en", 40)]), None);
        assert_eq!(suggest("all-MiniLM-L6-v2", &[("de", 9)]), None);
        assert_eq!(suggest("multilingual-e5-small", &[("de", 300)]), None);
        assert_eq!(suggest("my-own-model", &[("de", 300)]), None);
        // No model of the catalog was trained for these languages.
        assert_eq!(suggest("all-MiniLM-L6-v2", &[("zu", 300)]), None);
    }
}
