//! Detects the language of a text, by its script and its function words.

/// Minimum characters of a text whose language is detected: shorter texts are often a heading, a name or a table cell.
const MIN_LETTERS: usize = 24;

/// Maximum characters that are looked at. More text makes the result hardly more certain, but takes time.
const MAX_LETTERS: usize = 2_000;

/// Minimum share of a script's letters, in percent, for a text of its language.
const MIN_SCRIPT_SHARE: usize = 60;

/// Minimum share of words that are function words of a language, as one word in this many. Prose has one in three; code,
/// tables and lists of names have fewer than one in ten.
const FUNCTION_WORDS_ONE_IN: usize = 8;

/// Languages that are the only frequent one in their script: the first and last character of the script, and the code.
const SCRIPTS: [(char, char, &str); 20] = [
    ('\u{370}', '\u{3ff}', "el"),
    ('\u{530}', '\u{58f}', "hy"),
    ('\u{590}', '\u{5ff}', "he"),
    ('\u{900}', '\u{97f}', "hi"),
    ('\u{980}', '\u{9ff}', "bn"),
    ('\u{a00}', '\u{a7f}', "pa"),
    ('\u{a80}', '\u{aff}', "gu"),
    ('\u{b00}', '\u{b7f}', "or"),
    ('\u{b80}', '\u{bff}', "ta"),
    ('\u{c00}', '\u{c7f}', "te"),
    ('\u{c80}', '\u{cff}', "kn"),
    ('\u{d00}', '\u{d7f}', "ml"),
    ('\u{d80}', '\u{dff}', "si"),
    ('\u{e00}', '\u{e7f}', "th"),
    ('\u{e80}', '\u{eff}', "lo"),
    ('\u{1000}', '\u{109f}', "my"),
    ('\u{10a0}', '\u{10ff}', "ka"),
    ('\u{1200}', '\u{139f}', "am"),
    ('\u{1780}', '\u{17ff}', "km"),
    ('\u{ac00}', '\u{d7af}', "ko"),
];

/// Frequent function words of the languages that share a script with others. Not those of `vic_words`: a count is compared
/// with that of every other language, so each list has about equally many of the most frequent words, and languages without
/// stems, such as Czech or Persian, have one too.
const FUNCTION_WORDS: [(&str, &str); 21] = [
    ("ar", "في من على إلى أن التي الذي هذا هذه عن كان ما لا مع أو قد بعد"),
    ("bg", "на и да се за от в е са не това които като по със или"),
    ("cs", "a je se na v že to s do pro jako které jsou jeho ale nebo být při"),
    ("da", "og i at det en den til er som på de med af for ikke der var et har blev"),
    ("de", "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden"),
    ("en", "the of and to in is that for it as was with be by on not this are or from at which have an has were"),
    ("es", "de la que el en y a los del se las por un para con no una su al lo como más"),
    ("fa", "و در به از که این را با است برای آن یک خود تا بر هم"),
    ("fi", "ja on ei se että oli joka hän mutta ovat kun tai niin myös sekä jos"),
    ("fr", "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il"),
    ("hu", "a az és hogy nem is egy ez meg van volt de el csak vagy mint"),
    ("id", "yang dan di dengan untuk dari pada ini itu dalam tidak akan adalah oleh ke"),
    ("it", "di e il la che in un per del è a una non con le si da dei alla i della sono"),
    ("nl", "de van het een en in is dat op te zijn met voor niet aan er die om ook als bij"),
    ("pl", "i w na z się do że nie jest to o jak od po za przez oraz dla"),
    ("pt", "de a o que e do da em um para com não uma os no se na por mais as dos como"),
    ("ro", "de și în a la cu pe că nu din care este o un pentru mai sau sunt"),
    ("ru", "и в не на я что он с а как это по но из у за то от о для или его"),
    ("sv", "och i att det som en på är av för med den till inte om ett har de var"),
    ("tr", "ve bir bu için ile da de olarak olan daha çok gibi kadar ne sonra en ancak"),
    ("uk", "і в на не що з та до у як це за від є про або його для"),
];

/// Returns the ISO 639-1 code of a text's language; `None` if it is unclear, as for code, lists and short texts.
pub(crate) fn detect_language(text: &str) -> Option<&'static str> {
    let text = match text.char_indices().nth(MAX_LETTERS) {
        Some((end, _)) => &text[..end],
        None => text,
    };
    by_script(text).or_else(|| by_function_words(text))
}

/// Returns the language of a text in a script of its own. A few characters of Chinese or Korean are a sentence.
fn by_script(text: &str) -> Option<&'static str> {
    let letters = text.chars().filter(|it| it.is_alphabetic()).count();
    let count = |from: char, to: char| text.chars().filter(|it| (from..=to).contains(it)).count();
    let dominates = |count: usize| count >= MIN_LETTERS / 2 && count * 100 >= letters * MIN_SCRIPT_SHARE;
    let (kana, han) = (count('\u{3040}', '\u{30ff}'), count('\u{4e00}', '\u{9fff}'));
    if dominates(kana + han) {
        return Some(if kana * 10 >= han { "ja" } else { "zh" });
    }
    SCRIPTS.iter().find(|(from, to, _)| dominates(count(*from, *to))).map(|it| it.2)
}

/// Returns the language with the most function words, if these are frequent and those of any other language rarer.
fn by_function_words(text: &str) -> Option<&'static str> {
    let words: Vec<String> =
        text.split(|it: char| !it.is_alphabetic()).filter(|it| !it.is_empty()).map(|it| it.to_lowercase()).collect();
    if words.iter().map(|it| it.chars().count()).sum::<usize>() < MIN_LETTERS {
        return None;
    }
    let mut counts: Vec<(usize, &str)> = FUNCTION_WORDS
        .iter()
        .map(|(code, list)| (words.iter().filter(|it| list.split(' ').any(|known| known == *it)).count(), *code))
        .collect();
    counts.sort_unstable();
    let [.., (second, _), (most, code)] = counts[..] else { return None };
    (most >= 3 && most * FUNCTION_WORDS_ONE_IN >= words.len() && most * 4 >= second * 5).then_some(code)
}

/// Returns the English name of a language that [`detect_language`] returns, or the code itself.
pub(crate) fn language_name(code: &str) -> &str {
    NAMES.iter().find(|it| it.0 == code).map_or(code, |it| it.1)
}

const NAMES: [(&str, &str); 43] = [
    ("am", "Amharic"),
    ("ar", "Arabic"),
    ("bg", "Bulgarian"),
    ("bn", "Bengali"),
    ("cs", "Czech"),
    ("da", "Danish"),
    ("de", "German"),
    ("el", "Greek"),
    ("en", "English"),
    ("es", "Spanish"),
    ("fa", "Persian"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("gu", "Gujarati"),
    ("he", "Hebrew"),
    ("hi", "Hindi"),
    ("hu", "Hungarian"),
    ("hy", "Armenian"),
    ("id", "Indonesian"),
    ("it", "Italian"),
    ("ja", "Japanese"),
    ("ka", "Georgian"),
    ("km", "Khmer"),
    ("kn", "Kannada"),
    ("ko", "Korean"),
    ("lo", "Lao"),
    ("ml", "Malayalam"),
    ("my", "Burmese"),
    ("nl", "Dutch"),
    ("or", "Odia"),
    ("pa", "Punjabi"),
    ("pl", "Polish"),
    ("pt", "Portuguese"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("si", "Sinhala"),
    ("sv", "Swedish"),
    ("ta", "Tamil"),
    ("te", "Telugu"),
    ("th", "Thai"),
    ("tr", "Turkish"),
    ("uk", "Ukrainian"),
    ("zh", "Chinese"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_of_prose_is_detected() {
        for (text, expected) in [
            ("The quarterly report shows that sales in the northern region grew more than was expected.", "en"),
            ("Der Vertrag kann mit einer Frist von drei Monaten zum Ende des Quartals gekündigt werden.", "de"),
            ("El contrato de la nave termina en marzo y el inquilino tiene que vaciarla para el día uno.", "es"),
            ("Le bail du hangar se termine en mars et le locataire doit le vider par ses propres moyens.", "fr"),
            ("Договор на этот сарай заканчивается в марте, и арендатор должен его освободить, как мы и хотели.", "ru"),
            ("Bu depo için sözleşme mart ayında bitiyor ve kiracı onu daha önce de boşaltmak zorunda.", "tr"),
            ("ينتهي عقد المستودع في مارس ويجب على المستأجر إخلاء المكان من الأثاث قبل هذا الموعد", "ar"),
            ("第三季度销售额增长了百分之十二，主要来自华东地区。", "zh"),
            ("会議の議事録は翌営業日までに共有してください。", "ja"),
            ("회의록은 다음 영업일까지 공유해 주십시오.", "ko"),
            ("รายงานการประชุมประจำเดือนสิงหาคมอยู่ในแฟ้มแนบ", "th"),
            ("Η ετήσια έκθεση περιλαμβάνει τα οικονομικά στοιχεία.", "el"),
            ("वार्षिक रिपोर्ट में कुल व्यय का विवरण दिया गया है।", "hi"),
        ] {
            assert_eq!(detect_language(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn code_names_and_short_texts_are_unclear() {
        for text in [
            "",
            "Vertrag",
            "12 34 56 78 90 12 34 56 78 90 12 34 56 78 90 12 34 56",
            "Tamsin Reed, Ada Quill, Ivo Brandt, Lena Moor, Piet Jansen, Karl Weber",
            "pub(crate) fn open(path: &Path) -> Result<Vec<u8>> { std::fs::read(path).map_err(Error::from) }",
        ] {
            assert_eq!(detect_language(text), None, "{text}");
        }
    }

    #[test]
    fn every_detectable_language_has_a_name() {
        let codes = SCRIPTS.iter().map(|it| it.2).chain(FUNCTION_WORDS.iter().map(|it| it.0)).chain(["zh", "ja"]);
        for code in codes {
            assert_ne!(language_name(code), code);
        }
        assert_eq!(language_name("zz"), "zz");
    }
}
