//! The kind of thing that a question asks for, and whether a text has one. Pure.
//!
//! Question words and names of months are known in ten languages: English, German, French, Spanish, Italian, Portuguese,
//! Dutch, Polish, Russian and Turkish. A question of a kind that is not recognised is [`Kind::Other`], which any text may
//! answer.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A person or an organisation: a name.
    Who,
    /// A date, a time of day or a year.
    When,
    /// A place.
    Where,
    /// A number: an amount, a count, a size, a length of time.
    Number,
    /// An amount of money.
    Money,
    /// Why something is so.
    Why,
    /// Whether something is so.
    YesNo,
    /// Anything else.
    Other,
}

/// Question phrases in lower case with the kind that they ask for; the first that begins the question, or stands in it
/// behind another word, decides.
const PHRASES: &[(Kind, &[&str])] = &[
    (
        Kind::Money,
        &[
            "how much does",
            "how much did",
            "how much do we pay",
            "how much do i pay",
            "how much is the",
            "how much was the",
            "how much are",
            "how much money",
            "what does it cost",
            "what is the price",
            "what's the price",
            "how expensive",
            "what did we pay",
            "what do we pay",
            "was kostet",
            "was kosten",
            "wie teuer",
            "combien coûte",
            "combien coute",
            "cuánto cuesta",
            "cuanto cuesta",
            "quanto costa",
            "quanto custa",
            "hoeveel kost",
            "ile kosztuje",
            "сколько стоит",
            "kaç lira",
            "what is the fee",
            "what is the rent",
            "wie hoch ist die miete",
        ],
    ),
    (
        Kind::Number,
        &[
            "how many",
            "how much",
            "how long",
            "how far",
            "how old",
            "how tall",
            "how high",
            "how deep",
            "how big",
            "how large",
            "how heavy",
            "how wide",
            "how fast",
            "how hot",
            "how often",
            "what percentage",
            "what percent",
            "what number",
            "what temperature",
            "what size",
            "what is the number",
            "at what temperature",
            "how thick",
            "wie viele",
            "wie viel",
            "wieviel",
            "wieviele",
            "wie lange",
            "wie weit",
            "wie alt",
            "wie hoch",
            "wie groß",
            "wie tief",
            "wie schwer",
            "wie oft",
            "wie breit",
            "wie heiß",
            "combien",
            "quelle quantité",
            "cuánto",
            "cuánta",
            "cuántos",
            "cuántas",
            "cuanto",
            "cuantos",
            "quanto",
            "quanta",
            "quanti",
            "quante",
            "quantos",
            "quantas",
            "hoeveel",
            "hoe lang",
            "hoe ver",
            "hoe oud",
            "hoe groot",
            "hoe vaak",
            "ile",
            "jak długo",
            "jak często",
            "сколько",
            "как долго",
            "как часто",
            "kaç",
            "ne kadar",
        ],
    ),
    (
        Kind::When,
        &[
            "when",
            "what date",
            "what day",
            "what year",
            "what time",
            "which day",
            "which year",
            "which month",
            "what month",
            "until when",
            "since when",
            "by when",
            "on what date",
            "on which date",
            "how late",
            "wann",
            "seit wann",
            "bis wann",
            "um wie viel uhr",
            "wie spät",
            "an welchem tag",
            "in welchem jahr",
            "quand",
            "à quelle heure",
            "à quelle date",
            "quel jour",
            "en quelle année",
            "cuándo",
            "cuando",
            "a qué hora",
            "en qué año",
            "qué día",
            "quando",
            "a che ora",
            "in che anno",
            "a que horas",
            "em que ano",
            "wanneer",
            "hoe laat",
            "kiedy",
            "o której",
            "когда",
            "во сколько",
            "в каком году",
            "ne zaman",
            "saat kaçta",
            "hangi gün",
        ],
    ),
    (
        Kind::Who,
        &[
            "who",
            "whom",
            "whose",
            "which person",
            "which company",
            "wer",
            "wem",
            "wen",
            "wessen",
            "von wem",
            "qui",
            "à qui",
            "de qui",
            "quién",
            "quien",
            "quiénes",
            "de quién",
            "chi",
            "di chi",
            "quem",
            "de quem",
            "wie heeft",
            "kto",
            "kogo",
            "komu",
            "кто",
            "кого",
            "кому",
            "чей",
            "kim",
            "kimin",
        ],
    ),
    (
        Kind::Where,
        &[
            "where",
            "in which city",
            "what place",
            "in which room",
            "which city",
            "which country",
            "wo",
            "wohin",
            "woher",
            "in welcher stadt",
            "où",
            "d'où",
            "dónde",
            "donde",
            "adónde",
            "dove",
            "onde",
            "waar",
            "waarheen",
            "gdzie",
            "dokąd",
            "skąd",
            "где",
            "куда",
            "откуда",
            "nerede",
            "nereye",
            "nereden",
        ],
    ),
    (
        Kind::Why,
        &[
            "why",
            "for what reason",
            "warum",
            "weshalb",
            "wieso",
            "pourquoi",
            "por qué",
            "perché",
            "por que",
            "porquê",
            "waarom",
            "dlaczego",
            "почему",
            "зачем",
            "neden",
            "niçin",
        ],
    ),
    (
        Kind::YesNo,
        &[
            "is",
            "are",
            "was",
            "were",
            "do",
            "does",
            "did",
            "can",
            "could",
            "may",
            "must",
            "should",
            "will",
            "has",
            "have",
            "had",
            "ist",
            "sind",
            "war",
            "hat",
            "haben",
            "kann",
            "können",
            "darf",
            "dürfen",
            "muss",
            "müssen",
            "wird",
            "gibt",
            "est-ce que",
            "peut-on",
            "czy",
            "может",
            "можно",
        ],
    ),
];

/// Questions are looked at so many words deep for a question word.
const MOST_WORDS: usize = 40;

/// The kind that a question asks for.
pub(super) fn asked(question: &str) -> Kind {
    let lower = question.to_lowercase();
    let words: Vec<&str> = lower.split(|it: char| !(it.is_alphanumeric() || it == '\'' || it == '-')).collect();
    let words: Vec<&str> = words.into_iter().filter(|it| !it.is_empty()).take(MOST_WORDS).collect();
    let text = format!(" {} ", words.join(" "));
    let mut best: Option<(usize, usize, Kind)> = None;
    for (kind, phrases) in PHRASES {
        for phrase in *phrases {
            let Some(at) = text.find(&format!(" {phrase} ")) else { continue };
            // An auxiliary asks for yes or no only where it begins the question.
            if *kind == Kind::YesNo && at > 0 {
                continue;
            }
            let rank = (at, usize::MAX - phrase.len(), *kind);
            if best.is_none_or(|(place, length, _)| (rank.0, rank.1) < (place, length)) {
                best = Some(rank);
            }
        }
    }
    best.map_or(Kind::Other, |(_, _, kind)| kind)
}

/// Verbs of writing and sending.
const SENDING: &[&str] = &[
    "wrote",
    "write",
    "writes",
    "written",
    "sent",
    "send",
    "sends",
    "mailed",
    "emailed",
    "schrieb",
    "geschrieben",
    "schreibt",
    "schickte",
    "geschickt",
    "gesendet",
    "sandte",
    "envoyé",
    "envoie",
    "écrit",
    "escribió",
    "envió",
    "mandó",
    "scritto",
    "mandato",
    "inviato",
    "escreveu",
    "enviou",
    "geschreven",
    "gestuurd",
    "schreef",
    "stuurde",
    "napisał",
    "napisała",
    "wysłał",
    "wysłała",
    "написал",
    "написала",
    "отправил",
    "отправила",
    "прислал",
    "yazdı",
    "gönderdi",
];

const TO_WHOM: &[&str] =
    &["to whom", "an wen", "à qui", "a quién", "a chi", "a quem", "aan wie", "do kogo", "кому", "kime"];

/// The field of a mail head that a question asks for, as it stands at the beginning of its line.
pub(super) fn mail_field(question: &str) -> Option<&'static str> {
    let lower = question.to_lowercase();
    let words: Vec<&str> = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    let has = |wanted: &[&str]| words.iter().any(|it| wanted.contains(it));
    if has(&["subject", "betreff", "objet", "asunto", "oggetto", "assunto", "onderwerp", "temat", "тема", "konu"]) {
        return Some("Subject:");
    }
    if !has(SENDING) {
        return None;
    }
    let text = format!(" {} ", words.join(" "));
    if TO_WHOM.iter().any(|it| text.contains(&format!(" {it} "))) {
        return Some("To:");
    }
    match asked(question) {
        Kind::Who => Some("From:"),
        Kind::When => Some("Date:"),
        _ => None,
    }
}

/// Words between two questions in one.
const AND: &[&str] = &[" and ", " und ", " et ", " y ", " e ", " en ", " i ", " и ", " ve ", ", "];

/// The parts of a question with two question words, such as `who signed it and when does it end`; the whole where it has one.
pub(super) fn parts(question: &str) -> Vec<&str> {
    let cut = AND.iter().flat_map(|and| question.match_indices(and)).find_map(|(at, and)| {
        let rest = &question[at + and.len()..];
        // A question may be 32 KiB of commas: only its next words are looked at.
        let head: String = rest.chars().take(20).flat_map(char::to_lowercase).collect();
        let begins = QUESTION_WORDS.iter().any(|it| head.starts_with(it));
        let before = &question[..at];
        (begins && asked(before) != Kind::Other && before.split_whitespace().count() > 2).then_some((before, rest))
    });
    cut.map_or(vec![question], |(before, rest)| vec![before, rest])
}

/// What the second part of a question begins with, lower case.
const QUESTION_WORDS: &[&str] = &[
    "who ",
    "whom ",
    "when ",
    "where ",
    "how ",
    "what ",
    "which ",
    "why ",
    "by when ",
    "until when ",
    "at what ",
    "at which ",
    "from when ",
    "to whom ",
    "wer ",
    "wann ",
    "wo ",
    "wie ",
    "was ",
    "welche",
    "warum ",
    "bis wann ",
    "ab wann ",
    "qui ",
    "quand ",
    "où ",
    "combien ",
    "à quelle ",
    "à quel ",
    "quel",
    "quién ",
    "cuándo ",
    "dónde ",
    "cuánt",
    "qué ",
    "a qué ",
    "chi ",
    "quando ",
    "dove ",
    "quant",
    "che cosa ",
    "a che ",
    "quem ",
    "onde ",
    "wie ",
    "wanneer ",
    "waar ",
    "hoe",
    "kto ",
    "kiedy ",
    "gdzie ",
    "ile ",
    "кто ",
    "когда ",
    "где ",
    "сколько ",
    "kim ",
    "ne zaman ",
    "nerede ",
    "kaç ",
];

/// Names of months and weekdays, and their usual short forms.
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

static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    let words = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|hundred|thousand|\
million|billion|half|dozen|twice|once|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|hundert|tausend|deux|\
trois|quatre|cinq|sept|huit|neuf|dix|douze|vingt|cent|mille|dos|tres|cuatro|cinco|siete|ocho|nueve|diez|due|tre|quattro|cinque|sette|\
otto|nove|dieci|dois|três|quatro|oito|dez|twee|drie|vijf|zes|zeven|negen|tien|dwa|trzy|cztery|pięć|sześć|siedem|osiem|dziewięć|\
dziesięć|два|две|три|четыре|пять|шесть|семь|восемь|девять|десять|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on";
    Regex::new(&format!(r"(?i)\d|\b(?:{words})\b")).expect("the pattern is a constant")
});

static MONEY: LazyLock<Regex> = LazyLock::new(|| {
    let words = "eur|euros?|usd|dollars?|cents?|gbp|pounds?|chf|franken|francs?|pln|zł|złotych|rub|рублей|рубля|₽|tl|lira|yen|jpy|sek|nok|\
dkk|kronor|kroner|pence";
    Regex::new(&format!(r"(?i)[$€£¥₺]\s*\d|\d[\d.,\s]*\s*(?:[€£$]|(?:{words})\b)|\b(?:{words})\s*\d"))
        .expect("the pattern is a constant")
});

/// Two or more words in a row that begin with capitals, or one behind a title or an initial.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\p{Lu}[\p{L}'’-]+(?:\s+(?:de|van|von|der|di|da|of|the|&))*\s+\p{Lu}[\p{L}'’-]*\.?|\b\p{Lu}\.\s*\p{Lu}\p{L}+|@\w+")
        .expect("the pattern is a constant")
});

static CAPITAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{L}\d,;:]\s+\p{Lu}\p{L}+").expect("the pattern is a constant"));

static REASON: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:because|since|so that|in order to|due to|as a result|therefore|caused|reason|owing|weil|da|damit|denn|wegen|grund|aufgrund|\
parce que|car|afin|raison|porque|debido|para que|perché|poiché|affinché|omdat|zodat|vanwege|ponieważ|żeby|потому|чтобы|из-за|çünkü|için)\b",
    )
    .expect("the pattern is a constant")
});

/// Names of months that are everyday words, too.
const AMBIGUOUS: &[&str] = &["may", "mar", "mars", "mart", "spring", "on"];

static CALENDAR_WORDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| CALENDAR.split('|').filter(|it| !AMBIGUOUS.contains(it)).collect());

/// Says whether a word in lower case is the name of a month, a weekday or a season.
pub(super) fn is_calendar(word: &str) -> bool {
    CALENDAR_WORDS.contains(word)
}

/// How well a text has what is asked for, 0 to 1: 1 where it surely has such a thing, 0 where it has none.
pub(super) fn held(kind: Kind, text: &str) -> f32 {
    let is = |pattern: &Regex| f32::from(u8::from(pattern.is_match(text)));
    match kind {
        Kind::When => is(&DATE),
        Kind::Number => is(&NUMBER),
        Kind::Money if MONEY.is_match(text) => 1.0,
        Kind::Money => 0.5 * is(&NUMBER),
        Kind::Who if NAME.is_match(text) => 1.0,
        Kind::Who | Kind::Where => 0.6 * is(&CAPITAL),
        Kind::Why => is(&REASON),
        Kind::YesNo | Kind::Other => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_words_of_ten_languages_are_known() {
        for (question, kind) in [
            ("Who signed the lease?", Kind::Who),
            ("By whom was it signed?", Kind::Who),
            ("When does the ferry leave?", Kind::When),
            ("Until when is the offer valid, and who made it?", Kind::When),
            ("How much rent do we pay?", Kind::Number),
            ("How much does the kiln cost?", Kind::Money),
            ("how many boats are there", Kind::Number),
            ("Where is the spare key?", Kind::Where),
            ("Is the harbour closed in winter?", Kind::YesNo),
            ("What is the harbour?", Kind::Other),
            ("Wer hat den Vertrag unterschrieben?", Kind::Who),
            ("Wann beginnt der Kurs?", Kind::When),
            ("Combien de bateaux y a-t-il ?", Kind::Number),
            ("¿Cuándo sale el ferry?", Kind::When),
            ("Dove si trova la chiave?", Kind::Where),
            ("Quanto custa o bilhete?", Kind::Money),
            ("Waar ligt de sleutel?", Kind::Where),
            ("Ile kosztuje bilet?", Kind::Money),
            ("Где лежит ключ?", Kind::Where),
            ("Feribot ne zaman kalkıyor?", Kind::When),
            ("", Kind::Other),
            ("AND OR NOT", Kind::Other),
        ] {
            assert_eq!(asked(question), kind, "{question}");
        }
    }

    #[test]
    fn a_question_with_two_question_words_has_two_parts() {
        for (question, count) in [
            ("Who signed the lease and when does it end?", 2),
            ("Wann beginnt und wann endet der Schwimmunterricht?", 1),
            ("Wann fängt Zofia an und wie viel verdient sie?", 2),
            ("Who signed and sealed the lease?", 1),
            ("How much is it and what does it hold?", 2),
            ("", 1),
        ] {
            assert_eq!(parts(question).len(), count, "{question}");
        }
    }

    #[test]
    fn fields_of_a_mail_head_are_asked_for_by_verbs() {
        assert_eq!(mail_field("Who wrote the mail about the pump?"), Some("From:"));
        assert_eq!(mail_field("To whom did Coastal Rail send the ticket?"), Some("To:"));
        assert_eq!(mail_field("Quand le cabinet a-t-il envoyé le courriel ?"), Some("Date:"));
        assert_eq!(mail_field("Who repaired the kiln?"), None);
    }

    #[test]
    fn a_text_has_what_is_asked_for_or_has_not() {
        for (kind, text, has) in [
            (Kind::When, "It begins on 3 May.", true),
            (Kind::When, "Beginn ist am 03.05.2025", true),
            (Kind::When, "at 18:30 in the hall", true),
            (Kind::When, "It begins soon.", false),
            (Kind::Number, "There are twelve of them", true),
            (Kind::Number, "There are some", false),
            (Kind::Money, "the rent is € 412.50 a month", true),
            (Kind::Money, "412,50 EUR", true),
            (Kind::Who, "The key is with Oswin Tarrant.", true),
            (Kind::Who, "signed by J. Quill", true),
            (Kind::Who, "the key is with the baker", false),
        ] {
            assert_eq!(held(kind, text) >= 0.6, has, "{kind:?}: {text}");
        }
    }
}
