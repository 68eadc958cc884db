//! The kind of thing that a question asks for. Pure. `value` says whether a text has one.
//!
//! Question words and names of months are known in ten languages: English, German, French, Spanish, Italian, Portuguese,
//! Dutch, Polish, Russian and Turkish. A question of a kind that is not recognised is [`Kind::Other`], which any text may
//! answer.

use crate::ask::stop_words;

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A person or an organisation: a name.
    Who,
    /// A date, a time of day or a year.
    When,
    /// A place.
    Where,
    /// A number of anything.
    Number,
    /// How many of something there are.
    Count,
    /// A number with a unit of this kind.
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
    /// Why something is so.
    Why,
    /// Whether something is so.
    YesNo,
    /// Anything else.
    Other,
}

impl Kind {
    /// Says whether a number of things is asked for, without a unit of its own.
    pub(super) fn is_count(self) -> bool {
        matches!(self, Kind::Count | Kind::Number)
    }
}

/// Question phrases in lower case with the kind that they ask for; the first that begins the question, or stands in it
/// behind another word, decides.
const PHRASES: &[(Kind, &str)] = &[
    (
        Kind::Money,
        "how much does|how much did|how much is the|how much was the|how much are|\
         how much money|what does it cost|what is the price|what's the price|how expensive|what did we pay|what do we pay|\
         was kostet|was kosten|wie teuer|combien coûte|combien coute|cuánto cuesta|cuanto cuesta|quanto costa|quanto custa|\
         hoeveel kost|ile kosztuje|сколько стоит|kaç lira|what is the fee|what is the rent|wie hoch ist die miete",
    ),
    (
        Kind::Count,
        "how many|what number of|wie viele|wieviele|combien de|cuántos|cuántas|cuantos|cuantas|quanti|quante|quantos|quantas|\
         hoeveel|ile|сколько|kaç",
    ),
    (
        Kind::Weight,
        "how heavy|what weight|how much does it weigh|how much do they weigh|what is the weight|what does it weigh|wie schwer|\
         combien pèse|cuánto pesa|quanto pesa|hoe zwaar|jak ciężki|сколько весит",
    ),
    (
        Kind::Length,
        "how far|how tall|how high|how deep|how wide|how thick|what length|what height|what distance|what depth|\
         wie weit|wie hoch|wie tief|wie breit|wie dick|hoe ver|hoe hoog|hoe diep|hoe breed|jak daleko|jak wysoki|как далеко",
    ),
    (
        Kind::Duration,
        "how long|how old|how many years|how many months|how many weeks|how many days|how many hours|how many minutes|\
         what age|wie lange|wie alt|wie viele jahre|wie viele monate|wie viele wochen|wie viele tage|wie viele stunden|\
         combien de temps|combien de jours|combien de mois|quel âge|cuánto tiempo|cuánto dura|quanto tempo|quanto dura|\
         hoe lang|hoe oud|jak długo|как долго|сколько времени|ne kadar süre|kaç yaşında",
    ),
    (
        Kind::Temperature,
        "how hot|how cold|how warm|what temperature|which temperature|at what temperature|wie heiß|wie warm|wie kalt|\
         welche temperatur|bei welcher temperatur|quelle température|à quelle température|qué temperatura|a qué temperatura|\
         che temperatura|a che temperatura|welke temperatuur",
    ),
    (
        Kind::Share,
        "what percentage|what percent|which percentage|what share|what proportion|how many percent|wie viel prozent|\
         wie viele prozent|quel pourcentage|qué porcentaje|che percentuale|que percentagem|welk percentage",
    ),
    (
        Kind::Frequency,
        "how often|how frequently|wie oft|wie häufig|à quelle fréquence|con qué frecuencia|con che frequenza|\
         com que frequência|hoe vaak|jak często|как часто|ne sıklıkla",
    ),
    (
        Kind::Number,
        "how much|how big|how large|how fast|what number|what size|what is the number|wie viel|wieviel|wie hoch ist|\
         wie groß|wie schnell|combien|quelle quantité|cuánto|cuánta|cuanto|quanto|quanta|hoe groot|ne kadar",
    ),
    (
        Kind::When,
        "when|what date|what day|what year|what time|which day|which year|which month|what month|until when|since when|\
         by when|on what date|on which date|how late|wann|seit wann|bis wann|um wie viel uhr|wie spät|an welchem tag|\
         in welchem jahr|quand|à quelle heure|à quelle date|quel jour|en quelle année|cuándo|cuando|a qué hora|en qué año|\
         qué día|quando|a che ora|in che anno|a que horas|em que ano|wanneer|hoe laat|kiedy|o której|когда|во сколько|\
         в каком году|ne zaman|saat kaçta|hangi gün",
    ),
    (
        Kind::Who,
        "who|whom|whose|which person|which company|wer|wem|wen|wessen|von wem|qui|à qui|de qui|quién|quien|quiénes|de quién|\
         chi|di chi|quem|de quem|wie heeft|kto|kogo|komu|кто|кого|кому|чей|kim|kimin",
    ),
    (
        Kind::Where,
        "where|in which city|what place|in which room|which city|which country|wo|wohin|woher|in welcher stadt|où|d'où|\
         dónde|donde|adónde|dove|onde|waar|waarheen|gdzie|dokąd|skąd|где|куда|откуда|nerede|nereye|nereden",
    ),
    (
        Kind::Why,
        "why|for what reason|warum|weshalb|wieso|pourquoi|por qué|perché|por que|porquê|waarom|dlaczego|почему|зачем|neden|\
         niçin",
    ),
    (
        Kind::YesNo,
        "is|are|was|were|do|does|did|can|could|may|must|should|will|has|have|had|ist|sind|war|hat|haben|kann|können|darf|\
         dürfen|muss|müssen|wird|gibt|est-ce que|peut-on|czy|может|можно",
    ),
];

/// Verbs of paying: with `how much` they ask for money, and a line that names the sum need not have them.
const PAYING: &str = "pay|pays|paid|paying|cost|costs|charge|charges|charged|spend|spends|spent|owe|owes|owed|earn|earns|earned|zahlen|\
     zahlt|zahle|gezahlt|bezahlen|bezahlt|kostet|kosten|gekostet|verdient|verdienen|ausgegeben|payer|paie|paient|payons|payé|coûte|\
     coûtent|coute|gagne|pagar|paga|pagamos|pagan|cuesta|cuestan|gana|pagare|paghiamo|pagano|costa|costano|guadagna|custa|custam|\
     ganha|betalen|betaalt|betaald|kost|verdienen|płacić|płacimy|płaci|kosztuje|kosztują|zarabia|платить|платим|платит|стоит|\
     стоят|зарабатывает|ödüyor|ödüyoruz|ödemek|kazanıyor";

/// Says whether a word, lower case, is a verb of paying.
pub(super) fn is_paying(word: &str) -> bool {
    PAYING.split('|').any(|it| it == word)
}

/// With `how much` they ask for a weight.
const WEIGHING: [&str; 9] = ["weigh", "weighs", "weighed", "wiegt", "wiegen", "pèse", "pesa", "weegt", "весит"];

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
        for phrase in phrases.split('|') {
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
    match best.map_or(Kind::Other, |(_, _, kind)| kind) {
        Kind::Number | Kind::Money if words.iter().any(|it| WEIGHING.contains(it)) => Kind::Weight,
        Kind::Number if words.iter().any(|it| is_paying(it)) => Kind::Money,
        kind => kind,
    }
}

/// Verbs of writing and sending.
const SENDING: &str = "wrote|write|writes|written|sent|send|sends|mailed|emailed|schrieb|geschrieben|schreibt|schickte|geschickt|gesendet|\
     sandte|envoyé|envoie|écrit|escribió|envió|mandó|scritto|mandato|inviato|escreveu|enviou|geschreven|gestuurd|schreef|\
     stuurde|napisał|napisała|wysłał|wysłała|написал|написала|отправил|отправила|прислал|yazdı|gönderdi";

const TO_WHOM: &str = "to whom|an wen|à qui|a quién|a chi|a quem|aan wie|do kogo|кому|kime";

/// The field of a mail head that a question asks for, as it stands at the beginning of its line.
pub(super) fn mail_field(question: &str) -> Option<&'static str> {
    let lower = question.to_lowercase();
    let words: Vec<&str> = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
    let has = |wanted: &[&str]| words.iter().any(|it| wanted.contains(it));
    if has(&["subject", "betreff", "objet", "asunto", "oggetto", "assunto", "onderwerp", "temat", "тема", "konu"]) {
        return Some("Subject:");
    }
    if !words.iter().any(|it| SENDING.split('|').any(|verb| verb == *it)) {
        return None;
    }
    let text = format!(" {} ", words.join(" "));
    if TO_WHOM.split('|').any(|it| text.contains(&format!(" {it} "))) {
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
        let begins = QUESTION_WORDS.split('|').any(|it| head.starts_with(it));
        let before = &question[..at];
        (begins && asked(before) != Kind::Other && before.split_whitespace().count() > 2).then_some((before, rest))
    });
    cut.map_or(vec![question], |(before, rest)| vec![before, rest])
}

/// What the second part of a question begins with, lower case.
const QUESTION_WORDS: &str = "who |whom |when |where |how |what |which |why |by when |until when |at what |at which |from when |to whom |wer |wann |\
     wo |wie |was |welche|warum |bis wann |ab wann |qui |quand |où |combien |à quelle |à quel |quel|quién |cuándo |dónde |\
     cuánt|qué |a qué |chi |quando |dove |quant|che cosa |a che |quem |onde |wie |wanneer |waar |hoe|kto |kiedy |gdzie |\
     ile |кто |когда |где |сколько |kim |ne zaman |nerede |kaç ";

/// Words that ask for an amount of the thing behind them.
const HOW_MUCH: &str = "how much|wie viel|wieviel|quanto|quanta|cuánto|cuánta|hoeveel|ne kadar|сколько|ile";

/// What is counted or measured: the content word behind `how many`, or directly behind `how much`, lower case.
pub(super) fn counted(question: &str) -> Option<String> {
    let lower = question.to_lowercase();
    let phrases = PHRASES.iter().find(|it| it.0 == Kind::Count)?.1;
    let words = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).take(MOST_WORDS);
    let text = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    let behind = |phrases: &str| {
        let ends = phrases.split('|').filter_map(|it| Some(text.find(&format!(" {it} "))? + it.len() + 2));
        ends.max().map(|at| text[at..].split(' ').filter(|it| !it.is_empty()))
    };
    let is_content = |it: &&str| !stop_words::is_one(it);
    let many = behind(phrases).and_then(|mut it| it.find(is_content));
    many.or_else(|| behind(HOW_MUCH)?.next().filter(is_content)).map(str::to_string)
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
            ("How much rent do we pay?", Kind::Money),
            ("How much is charged for parking?", Kind::Money),
            ("How much rain fell?", Kind::Number),
            ("How much does the parcel weigh?", Kind::Weight),
            ("How heavy is the parcel?", Kind::Weight),
            ("How long is the ferry closed?", Kind::Duration),
            ("What percentage of the gauges failed?", Kind::Share),
            ("How often is the kiln fired?", Kind::Frequency),
            ("How much does the kiln cost?", Kind::Money),
            ("how many boats are there", Kind::Count),
            ("Where is the spare key?", Kind::Where),
            ("Is the harbour closed in winter?", Kind::YesNo),
            ("What is the harbour?", Kind::Other),
            ("Wer hat den Vertrag unterschrieben?", Kind::Who),
            ("Wann beginnt der Kurs?", Kind::When),
            ("Combien de bateaux y a-t-il ?", Kind::Count),
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
    fn what_is_counted_is_the_word_behind_how_many_and_how_much() {
        assert_eq!(counted("How many of the old boats are there?").as_deref(), Some("old"));
        assert_eq!(counted("Wie viele Kinder kamen?").as_deref(), Some("kinder"));
        assert_eq!(counted("How much notice must we give?").as_deref(), Some("notice"));
        assert_eq!((counted("How much is it?"), counted("how many")), (None, None));
    }
}
