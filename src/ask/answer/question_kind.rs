//! Classifies what a question asks for (a date, a person, an amount). `value_check` looks for such a value in a text. Pure.
//!
//! The question words cover ten languages: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian and
//! Turkish. An unrecognized question is [`QuestionKind::Other`], and any text may answer it.

use crate::ask::stop_words;

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionKind {
    /// The name of a person or an organization.
    Who,
    /// A date, a time of day or a year.
    When,
    /// A location.
    Where,
    /// A number, with or without a unit (`how much`, `how big`).
    Number,
    /// The number of things of some kind (`how many`).
    Count,
    /// A number with a unit of weight. `Length` and the two kinds after it are numbers with a unit, too.
    Weight,
    Length,
    Duration,
    Temperature,
    /// A part of a whole, such as 12 %.
    Share,
    /// How often something happens.
    Frequency,
    /// An amount of money.
    Money,
    /// A reason.
    Why,
    /// Yes or no.
    YesNo,
    /// Anything else.
    Other,
}

impl QuestionKind {
    /// Returns whether the question asks for a number without a unit.
    pub(super) fn is_count(self) -> bool {
        matches!(self, QuestionKind::Count | QuestionKind::Number)
    }
}

/// Question phrases in lower case, by kind. The phrase that comes first in a question decides; of two phrases at the same
/// position, the longer one.
const QUESTION_PHRASES: &[(QuestionKind, &str)] = &[
    (
        QuestionKind::Money,
        "how much does|how much did|how much is the|how much was the|how much are|\
         how much money|what does it cost|what is the price|what's the price|how expensive|what did we pay|what do we pay|\
         was kostet|was kosten|wie teuer|combien coûte|combien coute|cuánto cuesta|cuanto cuesta|quanto costa|quanto custa|\
         hoeveel kost|ile kosztuje|сколько стоит|kaç lira|what is the fee|what is the rent|wie hoch ist die miete",
    ),
    (
        QuestionKind::Count,
        "how many|what number of|wie viele|wieviele|combien de|cuántos|cuántas|cuantos|cuantas|quanti|quante|quantos|quantas|\
         hoeveel|ile|сколько|kaç",
    ),
    (
        QuestionKind::Weight,
        "how heavy|what weight|how much does it weigh|how much do they weigh|what is the weight|what does it weigh|wie schwer|\
         combien pèse|cuánto pesa|quanto pesa|hoe zwaar|jak ciężki|сколько весит",
    ),
    (
        QuestionKind::Length,
        "how far|how tall|how high|how deep|how wide|how thick|what length|what height|what distance|what depth|\
         wie weit|wie hoch|wie tief|wie breit|wie dick|hoe ver|hoe hoog|hoe diep|hoe breed|jak daleko|jak wysoki|как далеко",
    ),
    (
        QuestionKind::Duration,
        "how long|how old|how many years|how many months|how many weeks|how many days|how many hours|how many minutes|\
         what age|wie lange|wie alt|wie viele jahre|wie viele monate|wie viele wochen|wie viele tage|wie viele stunden|\
         combien de temps|combien de jours|combien de mois|quel âge|cuánto tiempo|cuánto dura|quanto tempo|quanto dura|\
         hoe lang|hoe oud|jak długo|как долго|сколько времени|ne kadar süre|kaç yaşında",
    ),
    (
        QuestionKind::Temperature,
        "how hot|how cold|how warm|what temperature|which temperature|at what temperature|wie heiß|wie warm|wie kalt|\
         welche temperatur|bei welcher temperatur|quelle température|à quelle température|qué temperatura|a qué temperatura|\
         che temperatura|a che temperatura|welke temperatuur",
    ),
    (
        QuestionKind::Share,
        "what percentage|what percent|which percentage|what share|what proportion|how many percent|wie viel prozent|\
         wie viele prozent|quel pourcentage|qué porcentaje|che percentuale|que percentagem|welk percentage",
    ),
    (
        QuestionKind::Frequency,
        "how often|how frequently|wie oft|wie häufig|à quelle fréquence|con qué frecuencia|con che frequenza|\
         com que frequência|hoe vaak|jak często|как часто|ne sıklıkla",
    ),
    (
        QuestionKind::Number,
        "how much|how big|how large|how fast|what number|what size|what is the number|wie viel|wieviel|wie hoch ist|\
         wie groß|wie schnell|combien|quelle quantité|cuánto|cuánta|cuanto|quanto|quanta|hoe groot|ne kadar",
    ),
    (
        QuestionKind::When,
        "when|what date|what day|what year|what time|which day|which year|which month|what month|until when|since when|\
         by when|on what date|on which date|how late|wann|seit wann|bis wann|um wie viel uhr|wie spät|an welchem tag|\
         in welchem jahr|quand|à quelle heure|à quelle date|quel jour|en quelle année|cuándo|cuando|a qué hora|en qué año|\
         qué día|quando|a che ora|in che anno|a que horas|em que ano|wanneer|hoe laat|kiedy|o której|когда|во сколько|\
         в каком году|ne zaman|saat kaçta|hangi gün",
    ),
    (
        QuestionKind::Who,
        "who|whom|whose|which person|which company|wer|wem|wen|wessen|von wem|qui|à qui|de qui|quién|quien|quiénes|de quién|\
         chi|di chi|quem|de quem|wie heeft|kto|kogo|komu|кто|кого|кому|чей|kim|kimin",
    ),
    (
        QuestionKind::Where,
        "where|in which city|what place|in which room|which city|which country|wo|wohin|woher|in welcher stadt|où|d'où|\
         dónde|donde|adónde|dove|onde|waar|waarheen|gdzie|dokąd|skąd|где|куда|откуда|nerede|nereye|nereden",
    ),
    (
        QuestionKind::Why,
        "why|for what reason|warum|weshalb|wieso|pourquoi|por qué|perché|por que|porquê|waarom|dlaczego|почему|зачем|neden|\
         niçin",
    ),
    (
        QuestionKind::YesNo,
        "is|are|was|were|do|does|did|can|could|may|must|should|will|has|have|had|ist|sind|war|hat|haben|kann|können|darf|\
         dürfen|muss|müssen|wird|gibt|est-ce que|peut-on|czy|может|можно",
    ),
];

/// Verbs of paying. A question with `how much` and one of these verbs asks for money. An answer need not contain the verb.
const PAYING: &str = "pay|pays|paid|paying|cost|costs|charge|charges|charged|spend|spends|spent|owe|owes|owed|earn|earns|earned|zahlen|\
     zahlt|zahle|gezahlt|bezahlen|bezahlt|kostet|kosten|gekostet|verdient|verdienen|ausgegeben|payer|paie|paient|payons|payé|coûte|\
     coûtent|coute|gagne|pagar|paga|pagamos|pagan|cuesta|cuestan|gana|pagare|paghiamo|pagano|costa|costano|guadagna|custa|custam|\
     ganha|betalen|betaalt|betaald|kost|verdienen|płacić|płacimy|płaci|kosztuje|kosztują|zarabia|платить|платим|платит|стоит|\
     стоят|зарабатывает|ödüyor|ödüyoruz|ödemek|kazanıyor";

/// Returns whether a lower-case word is a verb of paying.
pub(super) fn is_paying(word: &str) -> bool {
    PAYING.split('|').any(|it| it == word)
}

/// Verbs that make a question with `how much` ask for a weight.
const WEIGHING: [&str; 9] = ["weigh", "weighs", "weighed", "wiegt", "wiegen", "pèse", "pesa", "weegt", "весит"];

/// Maximum number of leading words of a question in which question words are searched.
const MAX_SCANNED_WORDS: usize = 40;

/// Returns what a question asks for.
pub(super) fn question_kind(question: &str) -> QuestionKind {
    let lower = question.to_lowercase();
    let words: Vec<&str> = lower.split(|it: char| !(it.is_alphanumeric() || it == '\'' || it == '-')).collect();
    let words: Vec<&str> = words.into_iter().filter(|it| !it.is_empty()).take(MAX_SCANNED_WORDS).collect();
    let text = format!(" {} ", words.join(" "));
    let mut best: Option<(usize, usize, QuestionKind)> = None;
    for (kind, phrases) in QUESTION_PHRASES {
        for phrase in phrases.split('|') {
            let Some(at) = text.find(&format!(" {phrase} ")) else { continue };
            // `is`, `do`, `can` etc. ask for yes or no only at the start of the question.
            if *kind == QuestionKind::YesNo && at > 0 {
                continue;
            }
            let rank = (at, usize::MAX - phrase.len(), *kind);
            if best.is_none_or(|(place, length, _)| (rank.0, rank.1) < (place, length)) {
                best = Some(rank);
            }
        }
    }
    match best.map_or(QuestionKind::Other, |(_, _, kind)| kind) {
        QuestionKind::Number | QuestionKind::Money if words.iter().any(|it| WEIGHING.contains(it)) => {
            QuestionKind::Weight
        }
        QuestionKind::Number if words.iter().any(|it| is_paying(it)) => QuestionKind::Money,
        kind => kind,
    }
}

/// Verbs of writing and sending: a question with one of these may ask for a header field of a mail.
const SENDING_VERBS: &str = "wrote|write|writes|written|sent|send|sends|mailed|emailed|schrieb|geschrieben|schreibt|schickte|geschickt|gesendet|\
     sandte|envoyé|envoie|écrit|escribió|envió|mandó|scritto|mandato|inviato|escreveu|enviou|geschreven|gestuurd|schreef|\
     stuurde|napisał|napisała|wysłał|wysłała|написал|написала|отправил|отправила|прислал|yazdı|gönderdi";

const RECIPIENT_PHRASES: &str = "to whom|an wen|à qui|a quién|a chi|a quem|aan wie|do kogo|кому|kime";

/// Returns the mail header field that a question asks for, as the beginning of a line such as `From:`.
pub(super) fn mail_field(question: &str) -> Option<&'static str> {
    let lower = question.to_lowercase();
    let words: Vec<&str> = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    let has = |wanted: &[&str]| words.iter().any(|it| wanted.contains(it));
    if has(&["subject", "betreff", "objet", "asunto", "oggetto", "assunto", "onderwerp", "temat", "тема", "konu"]) {
        return Some("Subject:");
    }
    if !words.iter().any(|it| SENDING_VERBS.split('|').any(|verb| verb == *it)) {
        return None;
    }
    let text = format!(" {} ", words.join(" "));
    if RECIPIENT_PHRASES.split('|').any(|it| text.contains(&format!(" {it} "))) {
        return Some("To:");
    }
    match question_kind(question) {
        QuestionKind::Who => Some("From:"),
        QuestionKind::When => Some("Date:"),
        _ => None,
    }
}

/// Conjunctions that may join two questions.
const CONJUNCTIONS: &[&str] = &[" and ", " und ", " et ", " y ", " e ", " en ", " i ", " и ", " ve ", ", "];

/// Splits a question with two question words, such as `who signed it and when does it end`; other questions are one part.
pub(super) fn split_question(question: &str) -> Vec<&str> {
    let cut = CONJUNCTIONS.iter().flat_map(|and| question.match_indices(and)).find_map(|(at, and)| {
        let rest = &question[at + and.len()..];
        // Looks at the next 20 characters only, so that a question of 32 KiB of commas does not take quadratic time.
        let head: String = rest.chars().take(20).flat_map(char::to_lowercase).collect();
        let begins = QUESTION_WORDS.split('|').any(|it| head.starts_with(it));
        let before = &question[..at];
        (begins && question_kind(before) != QuestionKind::Other && before.split_whitespace().count() > 2)
            .then_some((before, rest))
    });
    cut.map_or(vec![question], |(before, rest)| vec![before, rest])
}

/// Question words with which the second part of a question may begin, in lower case.
const QUESTION_WORDS: &str = "who |whom |when |where |how |what |which |why |by when |until when |at what |at which |from when |to whom |wer |wann |\
     wo |wie |was |welche|warum |bis wann |ab wann |qui |quand |où |combien |à quelle |à quel |quel|quién |cuándo |dónde |\
     cuánt|qué |a qué |chi |quando |dove |quant|che cosa |a che |quem |onde |wie |wanneer |waar |hoe|kto |kiedy |gdzie |\
     ile |кто |когда |где |сколько |kim |ne zaman |nerede |kaç ";

/// Phrases that ask for a quantity of the thing named after them.
const HOW_MUCH: &str = "how much|wie viel|wieviel|quanto|quanta|cuánto|cuánta|hoeveel|ne kadar|сколько|ile";

/// Returns the word for the thing to count or measure, in lower case: the first content word after `how many`, or the word
/// directly after `how much`.
pub(super) fn counted_word(question: &str) -> Option<String> {
    let lower = question.to_lowercase();
    let phrases = QUESTION_PHRASES.iter().find(|it| it.0 == QuestionKind::Count)?.1;
    let words = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).take(MAX_SCANNED_WORDS);
    let text = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    let behind = |phrases: &str| {
        let ends = phrases.split('|').filter_map(|it| Some(text.find(&format!(" {it} "))? + it.len() + 2));
        ends.max().map(|at| text[at..].split(' ').filter(|it| !it.is_empty()))
    };
    let is_content = |it: &&str| !stop_words::is_stop_word(it);
    let many = behind(phrases).and_then(|mut it| it.find(is_content));
    many.or_else(|| behind(HOW_MUCH)?.next().filter(is_content)).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_recognises_question_words_of_ten_languages() {
        for (question, kind) in [
            ("Who signed the lease?", QuestionKind::Who),
            ("By whom was it signed?", QuestionKind::Who),
            ("When does the ferry leave?", QuestionKind::When),
            ("Until when is the offer valid, and who made it?", QuestionKind::When),
            ("How much rent do we pay?", QuestionKind::Money),
            ("How much is charged for parking?", QuestionKind::Money),
            ("How much rain fell?", QuestionKind::Number),
            ("How much does the parcel weigh?", QuestionKind::Weight),
            ("How heavy is the parcel?", QuestionKind::Weight),
            ("How long is the ferry closed?", QuestionKind::Duration),
            ("What percentage of the gauges failed?", QuestionKind::Share),
            ("How often is the kiln fired?", QuestionKind::Frequency),
            ("How much does the kiln cost?", QuestionKind::Money),
            ("how many boats are there", QuestionKind::Count),
            ("Where is the spare key?", QuestionKind::Where),
            ("Is the harbour closed in winter?", QuestionKind::YesNo),
            ("What is the harbour?", QuestionKind::Other),
            ("Wer hat den Vertrag unterschrieben?", QuestionKind::Who),
            ("Wann beginnt der Kurs?", QuestionKind::When),
            ("Combien de bateaux y a-t-il ?", QuestionKind::Count),
            ("¿Cuándo sale el ferry?", QuestionKind::When),
            ("Dove si trova la chiave?", QuestionKind::Where),
            ("Quanto custa o bilhete?", QuestionKind::Money),
            ("Waar ligt de sleutel?", QuestionKind::Where),
            ("Ile kosztuje bilet?", QuestionKind::Money),
            ("Где лежит ключ?", QuestionKind::Where),
            ("Feribot ne zaman kalkıyor?", QuestionKind::When),
            ("", QuestionKind::Other),
            ("AND OR NOT", QuestionKind::Other),
        ] {
            assert_eq!(question_kind(question), kind, "{question}");
        }
    }

    #[test]
    fn parts_splits_question_with_two_question_words() {
        for (question, count) in [
            ("Who signed the lease and when does it end?", 2),
            ("Wann beginnt und wann endet der Schwimmunterricht?", 1),
            ("Wann fängt Zofia an und wie viel verdient sie?", 2),
            ("Who signed and sealed the lease?", 1),
            ("How much is it and what does it hold?", 2),
            ("", 1),
        ] {
            assert_eq!(split_question(question).len(), count, "{question}");
        }
    }

    #[test]
    fn mail_field_follows_from_verb_and_question_word() {
        assert_eq!(mail_field("Who wrote the mail about the pump?"), Some("From:"));
        assert_eq!(mail_field("To whom did Coastal Rail send the ticket?"), Some("To:"));
        assert_eq!(mail_field("Quand le cabinet a-t-il envoyé le courriel ?"), Some("Date:"));
        assert_eq!(mail_field("Who repaired the kiln?"), None);
    }

    #[test]
    fn counted_is_word_after_how_many_or_how_much() {
        assert_eq!(counted_word("How many of the old boats are there?").as_deref(), Some("old"));
        assert_eq!(counted_word("Wie viele Kinder kamen?").as_deref(), Some("kinder"));
        assert_eq!(counted_word("How much notice must we give?").as_deref(), Some("notice"));
        assert_eq!((counted_word("How much is it?"), counted_word("how many")), (None, None));
    }
}
