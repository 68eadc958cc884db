//! Function words of ten languages: which words of a question or a passage carry no content, and which language a question is
//! in. [`vic_words::question_function_words`] lists the words. Pure functions.
//!
//! A word such as `die`, `war` or `son` has no content in one language and some in another. It is judged by the language of
//! the question ([`is_function_word_in`]); where that is unknown, it counts as content ([`is_function_word`]).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

pub(crate) use vic_words::Language;

/// Words that have no content in one of the languages, but content in another one, or that are common names or codes.
/// English words without content are not in the list, because they are function words wherever the language is unknown.
const AMBIGUOUS: &str = "c d j l m n s t fur uber ate ha ai ante aux ben bin biz but com come con da dans das de den des di die dies do door dos dove du ein el en era es est \
     eu fait fino for ge gibt go had hai hat hay han hem her hun il in ins is it je jou ja kan kim la las le les li lo los lui ma \
     mas men mes mi mia mio mit moi mon na nada nie no non nos not nun o ob of om on one op os ou over par pas per plus po pod pour sa sans \
     sera si sia sin so soll son sous sta stato su sui sur te ten toi ton tot tout tu um un une uns var van vi war was wat we wie wil \
     will wo y ya yo za ze zal zo comment contre donc durante fra gli algo tener todo seine wer wen muss bist sich sind ich im am an als aus bei";

/// The languages in which each word is a function word.
static WORDS: LazyLock<HashMap<Cow<'static, str>, Vec<Language>>> = LazyLock::new(|| {
    let mut words: HashMap<Cow<'static, str>, Vec<Language>> = HashMap::new();
    for (language, word) in vic_words::question_function_words() {
        for form in with_plain_form(word) {
            let languages = words.entry(form).or_default();
            if !languages.contains(&language) {
                languages.push(language);
            }
        }
    }
    words
});

/// Returns a word, and its folded form if that differs: words are compared folded, and users leave accents out.
fn with_plain_form(word: &'static str) -> Vec<Cow<'static, str>> {
    match vic_words::fold(word) {
        plain if plain == word => vec![plain],
        plain => vec![word.into(), plain],
    }
}

/// The function words of the languages, without those that have content in another language.
static UNAMBIGUOUS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let ambiguous: HashSet<&str> = AMBIGUOUS.split_whitespace().collect();
    let is_told = |(word, languages): &(&Cow<'static, str>, &Vec<Language>)| {
        languages.contains(&Language::English) || !ambiguous.contains(word.as_ref())
    };
    WORDS.iter().filter(is_told).map(|it| it.0.as_ref()).collect()
});

/// Returns whether a lower-case word is a function word in any of the languages.
pub(crate) fn is_known(word: &str) -> bool {
    WORDS.contains_key(word)
}

/// Returns whether a lower-case word carries no content in any language.
pub(crate) fn is_function_word(word: &str) -> bool {
    UNAMBIGUOUS.contains(word)
}

/// Returns whether a lower-case word carries no content in a text of this language, or as [`is_function_word`] says where
/// the language is unknown.
pub(crate) fn is_function_word_in(language: Option<Language>, word: &str) -> bool {
    match language {
        Some(language) => WORDS.get(word).is_some_and(|it| it.contains(&language)),
        None => is_function_word(word),
    }
}

/// Returns the language with most function words among these lower-case words; `None` if no word or no single language
/// tells. A word that is ambiguous counts less, so `die` alone does not make a question German.
pub(crate) fn detect_language<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Language> {
    best_language(&count_function_words(words))
}

/// The weight of the function words of each language in a text, in the order of [`Language::ALL`].
pub(crate) type LanguageWeights = [f32; Language::ALL.len()];

/// Weight of a word that has content in another language; two of them count less than one clear word.
const AMBIGUOUS_WEIGHT: f32 = 0.4;
/// Weight that a language needs, so that one ambiguous word does not decide.
const MIN_WEIGHT: f32 = 0.7;
/// Weight by which another language must exceed English, because many short words are English, too.
const MIN_LEAD: f32 = 0.35;

/// Adds up the weights of function words by language.
pub(crate) fn count_function_words<'a>(words: impl IntoIterator<Item = &'a str>) -> LanguageWeights {
    let mut weights = LanguageWeights::default();
    // A single letter may be a name of a variable in any language.
    for word in words.into_iter().filter(|it| it.len() > 1) {
        let weight = if UNAMBIGUOUS.contains(word) { 1.0 } else { AMBIGUOUS_WEIGHT };
        WORDS.get(word).into_iter().flatten().for_each(|it| weights[*it as usize] += weight);
    }
    weights
}

/// Returns the language with the greatest weight; `None` if it is small, or shared.
pub(crate) fn best_language(weights: &LanguageWeights) -> Option<Language> {
    let most = weights.iter().copied().fold(0.0, f32::max);
    let mut best = Language::ALL.into_iter().filter(|it| weights[*it as usize] >= most - f32::EPSILON);
    let language = best.next().filter(|_| most >= MIN_WEIGHT)?;
    let leads = language == Language::English || most - weights[Language::English as usize] >= MIN_LEAD;
    (leads && best.next().is_none()).then_some(language)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &str) -> Option<Language> {
        let lower = text.to_lowercase();
        detect_language(lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()))
    }

    #[test]
    fn language_is_told_by_function_words() {
        for (text, expected) in [
            ("Who signed the lease?", Some(Language::English)),
            ("WHO SIGNED THE LEASE", Some(Language::English)),
            ("Wer hat den Mietvertrag unterschrieben?", Some(Language::German)),
            ("Was sich gestern Abend am Kai zutrug", Some(Language::German)),
            ("Qui a signé le bail du hangar ?", Some(Language::French)),
            ("¿Quién firmó el contrato de alquiler?", Some(Language::Spanish)),
            ("Chi ha firmato il contratto?", Some(Language::Italian)),
            ("Quem assinou o contrato?", Some(Language::Portuguese)),
            ("Wie heeft het huurcontract getekend?", Some(Language::Dutch)),
            ("Kto podpisał umowę najmu?", Some(Language::Polish)),
            ("Кто подписал договор аренды?", Some(Language::Russian)),
            ("Kira sözleşmesini kim imzaladı, ne zaman?", Some(Language::Turkish)),
            ("mooring fee 2024", None),
            ("die casting machines", None),
            ("el niño", None),
            ("the n elements of m", Some(Language::English)),
            ("split n m", None),
            ("", None),
        ] {
            assert_eq!(detect(text), expected, "{text}");
        }
    }

    #[test]
    fn word_is_judged_by_language_of_question() {
        for (word, content_in, function_in) in [
            ("die", Language::English, Language::German),
            ("war", Language::English, Language::German),
            ("son", Language::English, Language::French),
            ("door", Language::English, Language::Dutch),
            ("ten", Language::English, Language::Polish),
            ("hay", Language::English, Language::Spanish),
            ("come", Language::English, Language::Italian),
            ("dans", Language::Dutch, Language::French),
        ] {
            assert!(!is_function_word_in(Some(content_in), word), "{word}");
            assert!(is_function_word_in(Some(function_in), word), "{word}");
            assert!(!is_function_word(word), "{word}");
        }
        assert!(!is_function_word_in(None, "die") && is_function_word_in(None, "the"));
    }

    #[test]
    fn words_without_content_in_any_language_need_no_language() {
        for word in ["the", "was", "wann", "combien", "dónde", "perché", "hoeveel", "gdzie", "сколько", "nerede"]
        {
            assert!(is_function_word(word), "{word}");
        }
        for word in ["rent", "miete", "loyer", "lease", "31", ""] {
            assert!(!is_function_word(word), "{word}");
        }
    }

    #[test]
    fn ambiguous_words_are_in_a_list_of_function_words() {
        let unknown: Vec<&str> = AMBIGUOUS.split_whitespace().filter(|it| !is_known(it)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
