//! Stems of words, by language.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

use crate::language::Language;

/// Words longer than this, in bytes, are no words of a language and stay as they are.
const MAX_STEMMED_BYTES: usize = 48;

/// The script of a word, which decides about the languages whose stems it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Arabic,
    Tamil,
    Other,
}

/// Returns the stem of a folded word in a language. A word in another script than that of the language gets the stem of the
/// language that is usual in its script; a word in Latin letters, or of a language without stems, stays as it is.
pub(crate) fn stem(word: &str, language: Language) -> Cow<'_, str> {
    let script = script(word);
    let language = if script == script_of(language) { Some(language) } else { usual_language(script) };
    match language.and_then(algorithm) {
        Some(algorithm) if word.len() <= MAX_STEMMED_BYTES => Stemmer::create(algorithm).stem(word),
        _ => Cow::Borrowed(word),
    }
}

/// Returns the language of most texts in a script; `None` for Latin letters, which most languages have.
fn usual_language(script: Script) -> Option<Language> {
    match script {
        Script::Arabic => Some(Language::Arabic),
        Script::Cyrillic => Some(Language::Russian),
        Script::Greek => Some(Language::Greek),
        Script::Tamil => Some(Language::Tamil),
        Script::Latin | Script::Other => None,
    }
}

/// Returns the folded word and its different stems in these languages.
pub(crate) fn stems(word: &str, languages: &[Language]) -> Vec<String> {
    let mut all = vec![word.to_owned()];
    for language in languages {
        let stem = stem(word, *language);
        if !all.iter().any(|it| *it == stem) {
            all.push(stem.into_owned());
        }
    }
    all
}

fn algorithm(language: Language) -> Option<Algorithm> {
    Some(match language {
        Language::Arabic => Algorithm::Arabic,
        Language::Danish => Algorithm::Danish,
        Language::Dutch => Algorithm::Dutch,
        Language::English => Algorithm::English,
        Language::Finnish => Algorithm::Finnish,
        Language::French => Algorithm::French,
        Language::German => Algorithm::German,
        Language::Greek => Algorithm::Greek,
        Language::Hungarian => Algorithm::Hungarian,
        Language::Italian => Algorithm::Italian,
        Language::Norwegian => Algorithm::Norwegian,
        Language::Polish => return None,
        Language::Portuguese => Algorithm::Portuguese,
        Language::Romanian => Algorithm::Romanian,
        Language::Russian => Algorithm::Russian,
        Language::Spanish => Algorithm::Spanish,
        Language::Swedish => Algorithm::Swedish,
        Language::Tamil => Algorithm::Tamil,
        Language::Turkish => Algorithm::Turkish,
    })
}

fn script_of(language: Language) -> Script {
    match language {
        Language::Arabic => Script::Arabic,
        Language::Greek => Script::Greek,
        Language::Russian => Script::Cyrillic,
        Language::Tamil => Script::Tamil,
        _ => Script::Latin,
    }
}

/// Returns the script of a word; `Other` if it mixes scripts or has digits.
fn script(word: &str) -> Script {
    let of = |it: char| match it {
        'a'..='z' => Script::Latin,
        '\u{370}'..='\u{3ff}' => Script::Greek,
        '\u{400}'..='\u{4ff}' => Script::Cyrillic,
        '\u{600}'..='\u{6ff}' => Script::Arabic,
        '\u{b80}'..='\u{bff}' => Script::Tamil,
        _ => Script::Other,
    };
    let mut scripts = word.chars().map(of);
    let first = scripts.next().unwrap_or(Script::Other);
    if scripts.all(|it| it == first) { first } else { Script::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_in_another_script_gets_the_stem_of_its_usual_language() {
        for (word, other) in [("οδοσ", "οδο"), ("договора", "договор"), ("الفاتورة", "فاتورة")]
        {
            assert_eq!(stem(word, Language::English), stem(other, Language::German), "{word}");
        }
        assert_eq!(stem("contracts", Language::Greek), "contracts");
    }

    #[test]
    fn forms_of_a_word_share_a_stem() {
        for (language, words) in [
            (Language::English, &["contract", "contracts", "contracted"][..]),
            (Language::German, &["vertrag", "vertrags", "vertrages"]),
            (Language::Russian, &["договор", "договора", "договоры"]),
            (Language::Greek, &["αποθηκη", "αποθηκησ"]),
        ] {
            let stems: Vec<_> = words.iter().map(|it| stem(it, language)).collect();
            assert!(stems.windows(2).all(|it| it[0] == it[1]), "{stems:?}");
        }
    }

    #[test]
    fn codes_and_words_of_languages_without_stems_stay() {
        assert_eq!(stem("mp3s", Language::English), "mp3s");
        assert_eq!(stem("pompy", Language::Polish), "pompy");
    }

    proptest::proptest! {
        /// The stemmers index bytes of words; a word of any letters must not make them panic.
        #[test]
        fn any_word_has_a_stem(word in "[a-zα-ωа-яء-يஅ-ஹ]{1,24}") {
            for language in Language::ALL {
                let _ = stem(&word, language);
            }
        }
    }
}
