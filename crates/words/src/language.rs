//! The languages whose words are stemmed, and how a text tells its language.

use crate::function_words::languages_of;

/// A language with function words or stems of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Language {
    Arabic,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    Polish,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
}

impl Language {
    /// All languages.
    pub const ALL: [Language; 19] = [
        Language::Arabic,
        Language::Danish,
        Language::Dutch,
        Language::English,
        Language::Finnish,
        Language::French,
        Language::German,
        Language::Greek,
        Language::Hungarian,
        Language::Italian,
        Language::Norwegian,
        Language::Polish,
        Language::Portuguese,
        Language::Romanian,
        Language::Russian,
        Language::Spanish,
        Language::Swedish,
        Language::Tamil,
        Language::Turkish,
    ];

    /// Returns the code of ISO 639-1.
    pub fn code(self) -> &'static str {
        match self {
            Language::Arabic => "ar",
            Language::Danish => "da",
            Language::Dutch => "nl",
            Language::English => "en",
            Language::Finnish => "fi",
            Language::French => "fr",
            Language::German => "de",
            Language::Greek => "el",
            Language::Hungarian => "hu",
            Language::Italian => "it",
            Language::Norwegian => "no",
            Language::Polish => "pl",
            Language::Portuguese => "pt",
            Language::Romanian => "ro",
            Language::Russian => "ru",
            Language::Spanish => "es",
            Language::Swedish => "sv",
            Language::Tamil => "ta",
            Language::Turkish => "tr",
        }
    }

    /// Returns the language with this code of ISO 639-1.
    pub fn from_code(code: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|it| it.code() == code)
    }

    /// Returns the language with this code or English name, in lower case: `de` or `german`.
    pub fn from_name(name: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|it| it.code() == name || format!("{it:?}").eq_ignore_ascii_case(name))
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Tells the language of a passage by its folded words; `None` if they do not tell.
    ///
    /// The language is the one with most function words among the first 200 words, if these are at least three and one word
    /// in ten, and a quarter more than those of any other language. Tables, names and code have too few. Single letters do
    /// not count: they are variables and initials as well.
    pub fn detect<'w>(words: impl IntoIterator<Item = &'w str>) -> Option<Language> {
        const COMPARED_WORDS: usize = 200;
        let has_letters = |it: &&str| it.chars().nth(1).is_some();
        let (best, second, all) = count_function_words(words.into_iter().filter(has_letters).take(COMPARED_WORDS));
        let (language, most) = best?;
        (most >= 3 && most * 10 >= all && most * 4 >= second * 5).then_some(language)
    }

    /// Tells which of these languages a question is in by its folded words: the only one with most function words, if these
    /// are at least two. One suffices for English, whose list has no words with content in other languages' questions.
    pub fn detect_question<'w>(words: impl IntoIterator<Item = &'w str>, languages: &[Language]) -> Option<Language> {
        let (best, second, _) = count_among(words.into_iter(), languages.iter().fold(0, |bits, it| bits | it.bit()));
        best.filter(|(language, most)| *most > second && (*most > 1 || *language == Language::English)).map(|it| it.0)
    }
}

fn count_function_words<'w>(words: impl Iterator<Item = &'w str>) -> (Option<(Language, usize)>, usize, usize) {
    count_among(words, u32::MAX)
}

/// Returns the language with most function words among those of `allowed` bits, with their number, the number of the next
/// language, and the number of words.
fn count_among<'w>(words: impl Iterator<Item = &'w str>, allowed: u32) -> (Option<(Language, usize)>, usize, usize) {
    let mut counts = [0; Language::ALL.len()];
    let mut all = 0;
    for word in words {
        all += 1;
        let mut bits = languages_of(word);
        if bits == 0 {
            match word.chars().next() {
                Some('\u{b80}'..='\u{bff}') => bits = Language::Tamil.bit(),
                Some('\u{600}'..='\u{6ff}') if is_arabic(word) => bits = Language::Arabic.bit(),
                _ => (),
            }
        }
        bits &= allowed;
        while bits != 0 {
            counts[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }
    let mut order: Vec<usize> = (0..counts.len()).filter(|it| counts[*it] > 0).collect();
    order.sort_by_key(|it| std::cmp::Reverse(counts[*it]));
    let best = order.first().map(|it| (Language::ALL[*it], counts[*it]));
    (best, order.get(1).map_or(0, |it| counts[*it]), all)
}

/// Returns whether a folded word in Arabic letters is one that Arabic has: with the article, or a function word. Persian and
/// Urdu have neither.
fn is_arabic(word: &str) -> bool {
    matches!(
        word,
        "في" | "من"
            | "على"
            | "علي"
            | "الي"
            | "ان"
            | "هذا"
            | "هذه"
            | "التي"
            | "الذي"
            | "عن"
            | "كان"
            | "ما"
    ) || (word.starts_with("ال") && word.chars().count() > 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &str) -> Option<Language> {
        let folded = crate::fold(text);
        Language::detect(folded.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()))
    }

    #[test]
    fn passage_tells_its_language_by_function_words() {
        for (language, text) in [
            (Language::English, "The lease of the shed ends in March, and the tenant has to clear it."),
            (Language::German, "Der Pachtvertrag für den Schuppen endet im März, und der Pächter muss ihn räumen."),
            (Language::French, "Le bail du hangar se termine en mars et le locataire doit le vider."),
            (Language::Spanish, "El contrato de la nave termina en marzo y el inquilino tiene que vaciarla."),
            (
                Language::Italian,
                "Il contratto del capannone finisce a marzo e il locatario lo deve svuotare con la chiave.",
            ),
            (Language::Dutch, "De huur van de schuur eindigt in maart en de huurder moet het dan leeg hebben."),
            (
                Language::Russian,
                "Договор на этот сарай заканчивается в марте, и арендатор должен его освободить, как мы и хотели.",
            ),
            (
                Language::Greek,
                "Το συμβόλαιο για την αποθήκη λήγει τον Μάρτιο και ο ενοικιαστής πρέπει να την αδειάσει.",
            ),
            (
                Language::Turkish,
                "Bu depo için sözleşme mart ayında bitiyor ve kiracı onu boşaltmak zorunda, çünkü yeni bir kiracı var.",
            ),
            (Language::Arabic, "ينتهي عقد المستودع في مارس ويجب على المستأجر إخلاء المكان في الموعد"),
        ] {
            assert_eq!(detect(text), Some(language), "{text}");
        }
    }

    #[test]
    fn tables_names_and_code_tell_no_language() {
        for text in ["Tamsin Reed, Ada Quill, 12, 14, 2024", "fn main() { let total = invoice.total(); }", "", "de la"]
        {
            assert_eq!(detect(text), None, "{text}");
        }
    }

    #[test]
    fn bits_are_distinct() {
        let all = Language::ALL.iter().fold(0, |bits, it| bits | it.bit());
        assert_eq!(all.count_ones() as usize, Language::ALL.len());
    }
}
