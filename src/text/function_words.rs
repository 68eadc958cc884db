//! Function words of ten languages: articles, prepositions, pronouns, auxiliary verbs and question words, which carry no
//! content. They also tell the language of a question. Pure functions.
//!
//! A word such as `die`, `war` or `son` has no content in one language and some in another. It is judged by the language of
//! the question ([`is_function_word_in`]); where that is unknown, it counts as content ([`is_function_word`]).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// A language whose function words are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Language {
    English,
    German,
    French,
    Spanish,
    Italian,
    Portuguese,
    Dutch,
    Polish,
    Russian,
    Turkish,
}

const LANGUAGES: [(Language, &str); 10] = [
    (Language::English, ENGLISH),
    (Language::German, GERMAN),
    (Language::French, FRENCH),
    (Language::Spanish, SPANISH),
    (Language::Italian, ITALIAN),
    (Language::Portuguese, PORTUGUESE),
    (Language::Dutch, DUTCH),
    (Language::Polish, POLISH),
    (Language::Russian, RUSSIAN),
    (Language::Turkish, TURKISH),
];

const ENGLISH: &str = "a an and are as at be been being by can could did do does done doesnt didnt for from had has have he her him \
     his how i if in into is it its me my no nor not of off on or our out she should so some than that the their them then there \
     these they this those to too us was we were what whats when where which while who whom whose whos why will with would you \
     your about after again against am any because before between both but during each just many more most much only other over \
     since such under until up very whether within without";
const GERMAN: &str = "aber als am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den denn der des die dies diese \
     diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er es etwas für gegen gibt habe haben hat hatte hatten ich \
     ihm ihn ihr ihre im in ins ist ja jede jeder jedes kann kannst kein keine können mein meine mich mir mit muss nach nicht noch nun nur \
     ob oder ohne sehr sein seine seit sich sie sind so soll über um und uns unser unsere unter vom von vor wann war waren warum was \
     welche welchem welchen welcher welches wem wen wenn wer werden wessen wie wieso wieviel viel viele will wir wird wo worden wurde wurden \
     zu zum zur zwischen";
const FRENCH: &str = "a à ai au aucun aussi autre aux avait avec avons avez c ce ces cet cette chez combien comme comment contre d dans de des \
     donc du elle elles en entre est et était été être eu fait il ils j je l la le les leur leurs lui m ma mais me même mes moi mon n ne \
     nos notre nous on ont ou où par pas pendant peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera \
     ses si son sont sous sur t ta te toi ton tous tout toute toutes tu un une vers vos votre vous y";
const SPANISH: &str = "a al algo ante antes como cómo con contra cual cuál cuales cuáles cuando cuándo cuanta cuánta cuantas cuántas cuanto \
     cuánto cuantos cuántos de del desde donde dónde durante e el él ella ellas ellos en entre era es esa ese eso esta está están estas \
     este esto estos fue fueron ha han hasta hay la las le les lo los más me mi mis muy nada ni no nos nosotros o para pero por porque qué \
     que quien quién quienes se según ser si sí sin sobre son su sus también te tener tiene tienen todo todos tu tus un una unas uno unos y \
     ya yo";
const ITALIAN: &str = "a agli ai al alla alle allo anche c che chi ci come con cosa cui d da dai dal dalla dalle dallo dei degli del della \
     delle dello dentro di dopo dove e è ed era erano fino fra gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mio nei nel \
     nella nelle nello noi non nostra nostro o ogni per perché più qual quale quali quando quanta quante quanti quanto quella quello questa \
     queste questi questo qui sarà se senza si sia sono sta stato su sua sue sugli sui sul sulla suo tra tu tutti tutto un una uno vi voi";
const PORTUGUESE: &str = "a à ao aos aquela aquele às as até com como da das de dela dele deles depois do dos durante e é ela elas ele eles \
     em entre era eram essa esse esta está estão este estes eu foi foram há isso isto já lhe mais mas me mesmo meu meus minha muito na não nas \
     nem nos nós nossa nosso no num numa o onde os ou para pela pelas pelo pelos per por porque qual quais quando quanta quantas quanto \
     quantos que quê quem se sem ser será seu seus só sob sobre sua suas também te tem têm toda todos tu um uma umas uns você";
const DUTCH: &str = "aan al als bij dan dat de den der deze die dit doen door dus een en er ge geen haar had heb hebben heeft hem het hij \
     hoe hoeveel hun ik in is ja je jij jou kan kunnen maar me meer men met mij mijn moet na naar niet nog nu of om omdat onder ons onze ook op \
     over sinds te tegen toch toen tot tussen u uit uw van veel voor waar waarom wanneer waren was wat we wel welk welke wie wij wil worden \
     wordt zal ze zich zij zijn zo zonder";
const POLISH: &str = "a aby albo ale bez bo być był była było były by co czy czyj dla do gdy gdzie go i ich ile im ja jak jaka jaki jakie jako je \
     jego jej jest jeśli już kiedy kim kto która które który którzy lub ma mi mnie może my na nad nam nas nie niż o od on ona one oni ono oraz \
     po pod poza przed przez przy są się sobie swój ta tak także tam te tego tej ten to tu twój ty tylko w we według więc wy z za ze że";
const RUSSIAN: &str = "а без более бы был была были было быть в вам вас весь во вот все всех вы где да для до его ее её если есть еще ещё ж же за \
     зачем и из или им их к как какая какие какой ко когда которая которое которые который кто куда ли либо между меня мне мой моя мы на над нам \
     нас наш не него нее нет ни них но о об он она они оно от по под после почему при про с сам свой себя сколько со так также там тебя то того \
     тоже только тот ту ты у уже чего чей чем через что чтобы чья эта эти это этого этой этот я";
const TURKISH: &str = "acaba ama ancak bana bazı ben beni benim bir biz bize bizim bu bunu çok çünkü da daha de değil diye en gibi hangi hangisi \
     hem hep her hiç için ile ise kaç kadar kim kime kimin mı mi mu mü nasıl ne neden nedir nerede nereden nereye niçin niye o olan olarak oldu \
     onlar onu onun sen seni siz size sonra şey şu tüm ve veya var ya yok zaman";

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
    for (language, list) in LANGUAGES {
        for word in list.split_whitespace().flat_map(with_plain_form) {
            let languages = words.entry(word).or_default();
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
    let english: HashSet<&str> = ENGLISH.split_whitespace().collect();
    WORDS.keys().map(AsRef::as_ref).filter(|it| english.contains(it) || !ambiguous.contains(it)).collect()
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

/// The weight of the function words of each language in a text, in the order of [`LANGUAGES`].
pub(crate) type LanguageWeights = [f32; LANGUAGES.len()];

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
    let mut best = LANGUAGES.iter().filter(|(it, _)| weights[*it as usize] >= most - f32::EPSILON);
    let (language, _) = best.next().filter(|_| most >= MIN_WEIGHT)?;
    let leads = *language == Language::English || most - weights[Language::English as usize] >= MIN_LEAD;
    (leads && best.next().is_none()).then_some(*language)
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
