//! Checks whether a text has a value of the kind that a question asks for, e.g. a date for `when`. Values that the
//! question itself names do not count. Pure functions.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::ask::answer::question_kind::QuestionKind;
use crate::ask::{stop_words, word_runs};

/// Names and usual abbreviations of months and weekdays, and words for seasons and times of day, in several languages.
const CALENDAR: &str = "january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|\
jun|jul|aug|sept?|oct|nov|dec|januar|februar|märz|mai|juni|juli|oktober|dezember|jänner|janvier|février|mars|avril|juin|juillet|août|\
septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|\
febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|\
dezembro|januari|februari|maart|mei|augustus|stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|\
listopada|grudnia|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря|ocak|şubat|mart|nisan|mayıs|\
haziran|temmuz|ağustos|eylül|ekim|kasım|aralık|monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|\
donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|\
domingo|lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag|\
poniedziałek|wtorek|środa|czwartek|piątek|sobota|niedziela|noon|midnight|mittag|mitternacht|midi|minuit|mediodía|mezzogiorno|\
christmas|easter|weihnachten|ostern|yesterday|tomorrow|spring|summer|autumn|winter|century|jahrhundert|siècle|siglo|secolo";

static DATE: LazyLock<Regex> = LazyLock::new(|| {
    let numeric =
        r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2}\.\d{1,2}\.|\b(?:1[5-9]|20)\d\d\b";
    let time = r"\b\d{1,2}[:.]\d{2}\b|\b\d{1,2}\s*(?:a\.?m\b|p\.?m\b|uhr\b|h\b|o'clock)";
    Regex::new(&format!(r"(?i){numeric}|{time}|\b(?:{CALENDAR})\b")).expect("the pattern is a constant")
});

/// Number words in several languages.
const NUMBER_WORDS: &str = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|hundred|thousand|\
million|billion|half|dozen|twice|once|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|hundert|tausend|deux|\
trois|quatre|cinq|sept|huit|neuf|dix|douze|vingt|cent|mille|dos|tres|cuatro|cinco|siete|ocho|nueve|diez|due|tre|quattro|cinque|sette|\
otto|nove|dieci|dois|três|quatro|oito|dez|twee|drie|vijf|zes|zeven|negen|tien|dwa|trzy|cztery|pięć|sześć|siedem|osiem|dziewięć|\
dziesięć|два|две|три|четыре|пять|шесть|семь|восемь|девять|десять|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on";

/// Units of measurement that may follow a number.
const WEIGHTS: &str = "mg|g|kg|t|lbs?|oz|kilos?|kilogram(?:me|m|o)?s?|gramm?(?:e|o|i)?s?|tons?|tonnes?|tonnen?|pounds?|ounces?|pfund|кг|г|т";
const LENGTHS: &str = "mm|cm|dm|m|km|mi|ft|in|yd|miles?|feet|foot|inch(?:es)?|yards?|met(?:er|re)s?|mètres?|metros?|metri|kilomet(?:er|re)s?|\
kilómetros?|chilometri|fathoms?|meilen|м|км|см|мм|metre";
const DURATIONS: &str = "years?|months?|weeks?|days?|nights?|hours?|hrs?|h|minutes?|mins?|seconds?|s|ms|jahren?|jahre|monaten?|wochen?|tagen?|stunden?|\
minuten?|sekunden?|ans?|années?|mois|semaines?|jours?|heures?|años?|meses|semanas?|días?|horas?|anni|anno|mesi|settimane?|giorni|ore|minuti|\
anos|dias|jaar|maanden|weken|dagen|uur|lat|miesięcy|tygodni|dni|godzin|лет|года?|месяц\\w*|недел\\w*|дн\\w+|час\\w*|yıl|ay|hafta|gün|saat";
const TEMPERATURES: &str =
    "[°º]\\s*[cfk]?|degrees?|grad|celsius|fahrenheit|c|f|k|degrés|grados|gradi|graus|graden|stopni|градус\\w*|derece";
const SHARES: &str = "%|‰|percent|per cent|prozent|pour cent|por ciento|per cento|por cento|procent\\w*|процент\\w*";

/// Builds a pattern for a number followed by a unit, or after a unit and punctuation as in tables: `Weight (kg): 31`.
fn measure_pattern(units: &str) -> Regex {
    let number = format!(r"(?:\d[\d.,'\u{{a0}}\u{{202f}}]*|\b(?:{NUMBER_WORDS}))");
    let end = r"(?:[^\p{L}]|$)";
    let pattern = format!(r"(?i){number}[\s-]*(?:{units}){end}|\b(?:{units})\s*[\])|:]+\s*\d[\d.,]*");
    Regex::new(&pattern).expect("the pattern is a constant")
}

static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r"(?i)\d[\d.,]*|\b(?:{NUMBER_WORDS})\b")).expect("the pattern is a constant"));
static WEIGHT: LazyLock<Regex> = LazyLock::new(|| measure_pattern(WEIGHTS));
static LENGTH: LazyLock<Regex> = LazyLock::new(|| measure_pattern(LENGTHS));
static DURATION: LazyLock<Regex> = LazyLock::new(|| measure_pattern(DURATIONS));
static TEMPERATURE: LazyLock<Regex> = LazyLock::new(|| measure_pattern(TEMPERATURES));
static SHARE: LazyLock<Regex> = LazyLock::new(|| measure_pattern(SHARES));

static FREQUENCY: LazyLock<Regex> = LazyLock::new(|| {
    let words = "every|each|per|once|twice|times|daily|hourly|weekly|monthly|quarterly|yearly|annually|always|never|täglich|wöchentlich|\
monatlich|jährlich|stündlich|jede[nrms]?|alle|mal|einmal|zweimal|fois|chaque|quotidien\\w*|mensuel\\w*|cada|veces|vez|ogni|volte|volta|toda|\
vezes|elke|keer|dagelijks|wekelijks|co|razy|raz|codziennie|каждый|каждые|каждую|раз|раза|her|kez|kere";
    Regex::new(&format!(r"(?i)\b(?:{words})\b|\d\s*/\s*\p{{L}}")).expect("the pattern is a constant")
});

static MONEY: LazyLock<Regex> = LazyLock::new(|| {
    let words = "eur|euros?|usd|dollars?|cents?|gbp|pounds?|chf|franken|francs?|pln|zł|złotych|rub|рублей|рубля|₽|tl|lira|yen|jpy|sek|nok|\
dkk|kronor|kroner|pence";
    Regex::new(&format!(r"(?i)[$€£¥₺]\s*\d[\d.,]*|\d[\d.,\s]*\s*(?:[€£$]|(?:{words})\b)|\b(?:{words})\s*\d[\d.,]*"))
        .expect("the pattern is a constant")
});

/// Matches a location: a preposition or a word such as `room`, followed by a capitalized name.
static PLACE_NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"\b(?i:{PLACE_WORDS})\s+(?:\p{{Ll}}+\s+)?\p{{Lu}}\p{{L}}+"))
        .expect("the pattern is a constant")
});
static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?i)\b(?:{PLACE_WORDS})\s+\p{{L}}+(?:\s+\p{{L}}+)?")).expect("the pattern is a constant")
});

const PLACE_WORDS: &str = "in|into|at|on|onto|behind|under|below|beneath|above|beside|near|next to|inside|outside|from|to|between|opposite|room|street|\
im|am|auf|hinter|unter|neben|bei|nach|aus|vor|über|zwischen|gegenüber|raum|zimmer|dans|à|au|aux|chez|sous|sur|derrière|devant|près de|\
en|bajo|sobre|detrás de|cerca de|junto a|nel|nella|nello|sotto|sopra|dietro|accanto|presso|em|no|na|sob|atrás|perto de|achter|onder|boven|\
naast|naar|bij|w|we|przy|pod|nad|za|obok|do|в|на|под|над|за|у|около|рядом с";

/// Matches the name of a person: two or more capitalized words in a row, or an initial and a capitalized word.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\p{Lu}[\p{L}'’-]+(?:\s+(?:de|van|von|der|di|da|of|the|&))*\s+\p{Lu}[\p{L}'’-]*\.?|\b\p{Lu}\.\s*\p{Lu}\p{L}+|@\w+")
        .expect("the pattern is a constant")
});

static CAPITALIZED_WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{L}\d,;:]\s+\p{Lu}\p{L}+").expect("the pattern is a constant"));

static REASON: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:because|since|so that|in order to|due to|as a result|therefore|caused|reason|owing|weil|da|damit|denn|wegen|grund|aufgrund|\
parce que|car|afin|raison|porque|debido|para que|perché|poiché|affinché|omdat|zodat|vanwege|ponieważ|żeby|потому|чтобы|из-за|çünkü|için)\b",
    )
    .expect("the pattern is a constant")
});

/// Matches the page number in the header or footer of a page: `Page 1 of 2`.
static PAGE_NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:page|seite|pagina|página|strona|sayfa|стр|страница)\.?\s*\d+\s*(?:of|von|sur|de|di|van|z|из|/)\s*\d+\b")
        .expect("the pattern is a constant")
});

/// Matches the number at the start of a clause or list item: `7.2 `, `(3) `.
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:[-*•§]\s*)?\(?\d{1,2}(?:\.\d{1,2})*[.)]?\s+").expect("the pattern is a constant")
});

/// Returns whether a line contains a page number such as `Page 1 of 2`.
pub(super) fn is_page_number(line: &str) -> bool {
    PAGE_NUMBER.is_match(line)
}

/// Returns a text without the number of its clause or list item, because this number cannot be an answer.
fn without_label(text: &str) -> &str {
    let label = LABEL.find(text).map_or(0, |it| it.end());
    // A number is no label before a lower-case word (`12 boats`) or as an amount of money (`12.50 EUR`).
    let is_label = text[..label].contains(['.', ')']) && text[label..].starts_with(char::is_uppercase);
    let is_amount = || MONEY.find(text).is_some_and(|it| it.start() == 0);
    if is_label && !is_amount() { &text[label..] } else { text }
}

/// Names of months and seasons that are common words too; `is_calendar` leaves them out.
const AMBIGUOUS_CALENDAR_WORDS: &[&str] = &["may", "mar", "mars", "mart", "spring", "on"];

static CALENDAR_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| CALENDAR.split('|').filter(|it| !AMBIGUOUS_CALENDAR_WORDS.contains(it)).collect());

/// Returns whether a lower-case word is the name of a month, a weekday or a season.
pub(super) fn is_calendar(word: &str) -> bool {
    CALENDAR_WORDS.contains(word)
}

/// Returns how likely a text has a value of the wanted kind, 0 to 1. Values that consist only of words of the question do
/// not count: `is_asked` tells whether a lower-case word is in the question.
pub(super) fn value_confidence(kind: QuestionKind, text: &str, is_asked: &dyn Fn(&str) -> bool) -> f32 {
    let text = without_label(text);
    let says = |word: &str| word.chars().count() > 1 || word.bytes().all(|it| it.is_ascii_digit());
    let is_new = |found: &str| {
        word_runs::split_words(&word_runs::normalize(found))
            .any(|it| says(it) && !stop_words::is_stop_word(it) && !is_asked(it))
    };
    let has = |pattern: &Regex| pattern.find_iter(text).any(|it| is_new(it.as_str()));
    let best = |surely: &Regex, perhaps: &Regex, part: f32| {
        if has(surely) { 1.0 } else { part * f32::from(u8::from(has(perhaps))) }
    };
    match kind {
        QuestionKind::When => f32::from(u8::from(has(&DATE))),
        QuestionKind::Number | QuestionKind::Count => f32::from(u8::from(has(&NUMBER))),
        QuestionKind::Money => best(&MONEY, &NUMBER, 0.5),
        QuestionKind::Weight => best(&WEIGHT, &NUMBER, 0.4),
        QuestionKind::Length => best(&LENGTH, &NUMBER, 0.4),
        QuestionKind::Duration => best(&DURATION, &DATE, 0.5),
        QuestionKind::Temperature => best(&TEMPERATURE, &NUMBER, 0.4),
        QuestionKind::Share => best(&SHARE, &NUMBER, 0.4),
        QuestionKind::Frequency => f32::from(u8::from(FREQUENCY.is_match(text))),
        QuestionKind::Who => best(&NAME, &CAPITALIZED_WORD, 0.6),
        QuestionKind::Where if has(&PLACE_NAME) => 1.0,
        QuestionKind::Where => best(&CAPITALIZED_WORD, &PLACE, 0.6).min(0.7),
        QuestionKind::Why => f32::from(u8::from(REASON.is_match(text))),
        QuestionKind::YesNo | QuestionKind::Other => 0.5,
    }
}

/// Maximum distance, in words, between a number and the counted word.
const MAX_WORDS_BETWEEN: usize = 3;

/// Returns whether a text has a number near the counted word (compared by stem), other than the numbers of the question.
pub(super) fn counts_word(counted: &str, text: &str, is_asked: &dyn Fn(&str) -> bool) -> bool {
    let plain = word_runs::normalize(text);
    let words: Vec<&str> = word_runs::split_words(&plain).collect();
    let is_number = |it: &&str| NUMBER.find(it).is_some_and(|found| found.len() == it.len()) && !is_asked(it);
    let is_counted = |at: &usize| word_runs::word_stem(words[*at]) == word_runs::word_stem(counted);
    (0..words.len()).filter(is_counted).any(|at| {
        let from = at.saturating_sub(MAX_WORDS_BETWEEN);
        let to = (at + 1 + MAX_WORDS_BETWEEN).min(words.len());
        words[from..to].iter().any(is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_recognises_values_of_each_kind() {
        for (kind, text, has) in [
            (QuestionKind::When, "It begins on 3 May.", true),
            (QuestionKind::When, "Beginn ist am 03.05.2025", true),
            (QuestionKind::When, "at 18:30 in the hall", true),
            (QuestionKind::When, "It begins soon.", false),
            (QuestionKind::Number, "There are twelve of them", true),
            (QuestionKind::Number, "There are some", false),
            (QuestionKind::Money, "the rent is € 412.50 a month", true),
            (QuestionKind::Money, "412,50 EUR", true),
            (QuestionKind::Weight, "The hive weighed 31 kg in March.", true),
            (QuestionKind::Weight, "Weight (kg): 31", true),
            (QuestionKind::Weight, "The hive has 31 frames.", false),
            (QuestionKind::Length, "a rope of 12 m", true),
            (QuestionKind::Length, "12 men", false),
            (QuestionKind::Duration, "It takes three weeks.", true),
            (QuestionKind::Duration, "It takes three men.", false),
            (QuestionKind::Temperature, "fired at 1,240 °C", true),
            (QuestionKind::Share, "4.5 % of them", true),
            (QuestionKind::Frequency, "It is cleaned every Monday.", true),
            (QuestionKind::Frequency, "It is clean.", false),
            (QuestionKind::Who, "The key is with Oswin Tarrant.", true),
            (QuestionKind::Who, "signed by J. Quill", true),
            (QuestionKind::Who, "the key is with the baker", false),
            (QuestionKind::Where, "The office is in Larkmouth.", true),
            (QuestionKind::Where, "It was cheap.", false),
        ] {
            assert_eq!(value_confidence(kind, text, &|_| false) >= 0.6, has, "{kind:?}: {text}");
        }
    }

    #[test]
    fn clause_number_is_not_a_value() {
        assert_eq!(without_label("7.2 Holes are forbidden"), "Holes are forbidden");
        assert_eq!(without_label("(3) The rent"), "The rent");
        for text in ["12 boats", "12.50 EUR", "3.5 kg", "2025 was wet", ""] {
            assert_eq!(without_label(text), text);
        }
        assert_eq!(value_confidence(QuestionKind::Number, "7.2 Holes are forbidden", &|_| false), 0.0);
        assert!(
            is_page_number("Lease Unit 4 Page 1 of 2") && is_page_number("Seite 3 von 4") && !is_page_number("page 3")
        );
    }

    #[test]
    fn value_named_in_question_does_not_count() {
        let asked = |it: &str| matches!(it, "oswin" | "tarrant" | "2025");
        assert!(value_confidence(QuestionKind::Who, "The kiln of Oswin Tarrant", &asked) < 0.6);
        assert!(value_confidence(QuestionKind::Who, "The kiln of Oswin Tarrant, from Ada Quill", &asked) >= 0.6);
        assert!(value_confidence(QuestionKind::When, "The kiln of 2025", &asked) < 0.6);
        assert!(value_confidence(QuestionKind::When, "The kiln of May 2025", &asked) >= 0.6);
    }

    #[test]
    fn count_must_be_near_counted_word() {
        assert!(counts_word("boats", "There are 12 small boats.", &|_| false));
        assert!(counts_word("boats", "Boats: 12", &|_| false));
        assert!(!counts_word("boats", "In 12 of the last years the harbour had boats", &|_| false));
    }
}
