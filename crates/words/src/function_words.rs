//! Function words by language: articles, prepositions, pronouns, auxiliary verbs and question words, which carry no content.
//!
//! They tell the language of a text, the keyword index leaves them out, and the content words of a question are the others.
//! In passages, words with a meaning of their own are no function words, although they are frequent: `may`, `time`, `no.`.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::folding::fold;
use crate::language::Language;

/// The function words of a language, separated by spaces.
struct FunctionWords {
    language: Language,
    /// Words that are function words in passages and in questions.
    both: &'static str,
    /// Words that the keyword index leaves out, but that count as content of a question. A move to `both` changes the order
    /// of files: measure it with `benches/quality.py ranking`.
    passages: &'static str,
    /// Words that have no content in a question, but that the keyword index contains. A move to `both` changes the terms of
    /// passages, so that every index has to be rebuilt.
    questions: &'static str,
}

/// The function words of all languages. Languages without words in `both` and `questions` are known in passages only.
const FUNCTION_WORDS: [FunctionWords; 17] = [
    FunctionWords {
        language: Language::English,
        both: "a about after again against am an and any are as at be because been before being between both but by \
                 can could did do does during each for from had has have he her him his how i if in into is it its me \
                 more most my nor not of off on only or other our out over she should so some such than that the their \
                 them then there these they this those to too under until up us very was we were what when where which \
                 while who whom whose why will with would you your",
        passages: "all also below doing down few further having here hers itself once ours own same theirs through upon \
                 yours",
        questions: "done doesnt didnt no whats whos just many much since whether within without",
    },
    FunctionWords {
        language: Language::German,
        both: "aber als am an auch auf aus bei beim bin bis bist da damit dann das dass dem den denn der des die dies \
                 diese diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er es etwas für gegen \
                 hat hatte hatten ich ihm ihn ihr ihre im in ins ist jede jeder jedes kann kein keine können mein meine \
                 mich mir mit muss nach nicht noch nun nur ob oder ohne sehr sein seine sich sie sind so soll um und \
                 uns unser unsere unter viel vom von vor war waren warum wann was welche welchem welchen welcher \
                 welches wenn wer werden wem wen wessen wie wieviel will wir wird wo worden wurde wurden zu zum zur \
                 zwischen über",
        passages: "alle allem allen aller alles also andere anderen dessen dort euch gewesen hier hin hinter ihnen ihrem \
                 ihren ihrer indem jedem jeden jene jetzt keinem keinen keiner könnte seinem seinen seiner selbst \
                 solche sollte sondern sonst weil werde wieder während würde zwar",
        questions: "dein deine gibt habe haben ja kannst seit wieso viele",
    },
    FunctionWords {
        language: Language::French,
        both: "a ai au aucun aussi autre aux avec c ce ces cet cette chez comme comment d dans de des donc du elle \
                 elles en entre est et était été être eu fait il ils j je l la le les leur leurs lui m ma mais me même \
                 mes moi mon n ne nos notre nous on ont ou où par pas pendant peut plus pour pourquoi qu quand que quel \
                 quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur ta te toi ton tous tout toute \
                 toutes tu un une vers vos votre vous y",
        passages: "alors après avant avoir cela celle celles celui ceux chaque depuis dont encore étaient étant eux font \
                 ici jusqu lors moins ni parce peu tes très",
        questions: "à avait avons avez combien contre t",
    },
    FunctionWords {
        language: Language::Spanish,
        both: "a al algo ante antes como con contra cual cuales cuál cuáles cuando cuándo cuánto cuánta cuántos \
                 cuántas de del desde donde dónde durante e el él ella ellas ellos en entre era es esa ese eso esta \
                 está están estas este esto estos fue fueron ha han hasta hay la las le les lo los más me mi mis muy \
                 nada ni no nos nosotros o para pero por porque que qué quien quién quienes se según ser si sí sin \
                 sobre son su sus también te tiene tienen todo todos tu tus un una unas uno unos y ya yo",
        passages: "algunas algunos aquel aquella aunque cada eran esas esos estaba había mucho os otra otras otro otros \
                 poco pues sido tanto toda todas",
        questions: "cómo cuanta cuantas cuanto cuantos tener",
    },
    FunctionWords {
        language: Language::Italian,
        both: "a agli ai al alla alle allo anche c che chi ci come con cui d da dai dal dalla dalle dallo degli dei \
                 del della delle dello dentro di dopo dove e ed è era erano fra gli ha hanno ho i il in io l la le lei \
                 li lo loro lui ma mi mia mio nei nel nella nelle nello noi non nostra nostro o ogni per perché più \
                 quale quali quando quanta quante quanti quanto quella quello questa queste questi questo qui se senza \
                 si sia sono sta stato su sua sugli sui sul sulla suo tra tutti tutto tu un una uno vi voi",
        passages: "ad ancora avere aveva contro così dagli dell essere me ne negli no poi prima quelle quelli sei siamo \
                 sopra sotto stata sulle",
        questions: "cosa fino hai qual sarà sue",
    },
    FunctionWords {
        language: Language::Portuguese,
        both: "a à ao aos as às até com como da das de dela dele deles depois do dos e é ela elas ele eles em entre \
                 era eram essa esse esta está estão este estes eu foi foram há isso isto já lhe mais mas me mesmo meu \
                 minha muito na não nas nem no nos nós num numa o onde os ou para pela pelas pelo pelos por porque qual \
                 quais quando quanta quantas quanto quantos que quem se sem ser será seu seus só sobre sua suas também \
                 te tem têm um uma umas uns você",
        passages: "ainda essas esses estas la lhes são tinha vocês",
        questions: "aquela aquele durante meus nossa nosso per quê sob toda todos tu",
    },
    FunctionWords {
        language: Language::Dutch,
        both: "aan al als bij dan dat de der deze die dit doen door dus een en er ge geen haar had heb hebben heeft \
                 hem het hij hoe hoeveel hun ik in is ja je kan kunnen maar me meer men met mij mijn moet na naar niet \
                 nog nu of om omdat onder ons onze ook op over te tegen toch toen tot u uit uw van veel voor waar \
                 waarom waren was wat we wel welk welke wie wij wil worden wordt zal ze zich zij zijn zo zonder",
        passages: "alle altijd andere ben daar doch eens geweest hier iemand iets kon niets reeds werd wezen zelf zou",
        questions: "den jij jou sinds tussen wanneer",
    },
    FunctionWords {
        language: Language::Danish,
        both: "",
        passages: "af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse dog du \
                 efter eller en end er et for fra ham han hans har havde have hende hendes her hos hun hvad hvem \
                 hvilken hvis hvor hvordan hvorfor hvornår i ikke ind jeg jer jo kunne man mange med meget men mig min \
                 mine mit mod nogle noget når og også om op os over på selv sig sin sine sit skal skulle som sådan thi \
                 til ud under var vi vil ville vor være været",
        questions: "",
    },
    FunctionWords {
        language: Language::Norwegian,
        both: "",
        passages: "alle at av bare ble bli blir da de deg dem den denne der deres det dette din disse du eller en enn er \
                 et etter for fordi fra før ha hadde han hans har henne hennes her hun hva hvem hver hvilken hvis hvor \
                 hvordan hvorfor i ikke inn jeg kan kunne man mange med meg men mer min mine mot noe noen når og også \
                 om opp oss over på samme seg selv sin sine sitt skal skulle slik som så til ut under var vi vil ville \
                 vår være vært",
        questions: "",
    },
    FunctionWords {
        language: Language::Swedish,
        both: "",
        passages: "alla allt att av blev bli blir då de dem den denna deras dess dessa det detta dig din du där efter ej \
                 eller en er ett från för ha hade han hans har henne hennes hon honom hur här i icke ingen inom inte \
                 jag ju kan kunde man med mellan men mig min mitt mot mycket ni nu när något några och om oss på samma \
                 sedan sig sin sina sitt själv skall som så till under upp ut utan vad var vara varför vars vem vi vid \
                 vilka vilken vill är över",
        questions: "",
    },
    FunctionWords {
        language: Language::Finnish,
        both: "",
        passages: "ei eivät emme en eri että ette hän hänen hänet he heidän heille jo joka jolla jos jossa jota kaikki \
                 kanssa keiden keitä ketkä kuin kuka kun me meidän mikä miksi missä mitä mitkä mukaan mutta myös ne \
                 niiden niin niitä noin nyt ole olen olet olevan oli olisi olivat olla on ovat sekä se sen siellä siinä \
                 sitä tai tämä tämän te tuo tähän tästä tässä vaan vain vielä voi ja",
        questions: "",
    },
    FunctionWords {
        language: Language::Hungarian,
        both: "",
        passages: "a ahogy akkor alatt amely amelyek ami amit annak arra át az azok azon azt azzal be csak de e egy egyes \
                 el ez ezek ezen ezt fel hanem hogy hol honnan így illetve is itt jól ki kik le lehet lesz lett már meg \
                 még mely melyek mert mi miért mikor minden mint mit mivel nagyon ne nekem nem nincs ott össze pedig s \
                 saját sem több számára szerint tehát továbbá ugyanis után utána vagy vagyis valamint van vannak volt \
                 voltak",
        questions: "",
    },
    FunctionWords {
        language: Language::Romanian,
        both: "",
        passages: "a acea aceasta această aceea acel acest acesta aceste acestea acum ai aici al ale alt altă am ar are \
                 aș așa asta asupra au avea avut ca că când care căreia cărui ce cea cel cele cine cu cum dacă dar de \
                 deci decât deși din dintre doar după ea ei el ele era este eu fără fi fie fiind fost iar în înainte \
                 între la le lor lui mai mult ne nici nu o oricare pe pentru peste prin sa să săi sau se și sub sunt te \
                 toate tot toți tu un una unde unei unor unui va vom vor",
        questions: "",
    },
    FunctionWords {
        language: Language::Polish,
        both: "a aby albo ale bez być był była było były by co czy dla do gdy gdzie go i ich ile im ja jak jaka jaki \
                 jakie jako je jego jej jest jeśli już kiedy kto która które który lub ma może mnie na nad nam nas nie \
                 o od on ona one oni oraz po pod poza przed przez przy się są sobie ta tak także tam te tego tej ten to \
                 tu tylko w we więc z za że",
        passages: "ani bardzo będzie dlaczego innych jednak jeszcze każdy którego której których którym ku mają można \
                 nich niej nim też tych tym u wie wszystko",
        questions: "bo czyj kim którzy mi my niż ono swój twój ty według wy ze",
    },
    FunctionWords {
        language: Language::Turkish,
        both: "acaba ama ancak bana bazı ben bir biz bu bunu çok çünkü da daha de değil diye en gibi hangi hem hep \
                 her için ile ise kaç kadar kim mi mı mu mü nasıl ne neden nerede niçin niye o olan olarak oldu onlar \
                 onun sen siz sonra şey şu tüm var ve veya ya yok zaman",
        passages: "arasında belki beri bile birkaç böyle buna bunun diğer göre herkes ilgili kendi ki olduğu olmak olur \
                 on önce sadece tarafından yani",
        questions: "beni benim bize bizim hangisi hiç kime kimin nedir nereden nereye onu seni size",
    },
    FunctionWords {
        language: Language::Russian,
        both: "а без более бы был была были было быть в вам вас весь во вот все всех вы где да для до его ее если \
                 есть еще же за и из или им их к как какая какие какой ко когда которая которые который кто куда ли \
                 либо между меня мне мы на над не него нее нет ни них но о об он она они оно от по под при с сколько со \
                 так также там то того тоже только тот ты у уже чего чем что чтобы эта эти это этого этой этот я",
        passages: "даже ей здесь которого которой которых однако очень такой той том этом этих",
        questions: "её ещё ж зачем которое мой моя нам нас наш после почему про сам свой себя тебя ту чей через чья",
    },
    FunctionWords {
        language: Language::Greek,
        both: "",
        passages: "αλλά αν αντί από αυτά αυτές αυτή αυτό αυτοί αυτός αυτών για δεν εάν είναι ένα ένας εκείνο εκείνος εγώ \
                 εμείς εσείς εσύ ή η ήταν θα και κατά κι μα με μετά μη μην μία μια να ο οι όμως όπως όπου ότι όταν όσο \
                 παρά ποια ποιο ποιος πόσο που πού προς πως πώς σαν σε στα στη στην στις στο στον στους τα τη την της \
                 τι τις το τον του τους των ως",
        questions: "",
    },
];

/// The languages in which a word of a passage is a function word, as bits by [`Language::bit`].
pub(crate) fn languages_of(folded: &str) -> u32 {
    static LANGUAGES: LazyLock<HashMap<String, u32>> = LazyLock::new(|| {
        let mut languages = HashMap::new();
        for words in &FUNCTION_WORDS {
            for word in words.both.split_whitespace().chain(words.passages.split_whitespace()) {
                *languages.entry(fold(word).into_owned()).or_default() |= words.language.bit();
            }
        }
        languages
    });
    LANGUAGES.get(folded).copied().unwrap_or_default()
}

/// Returns the words that carry no content in a question, in lower case with their accents, each with its language. They are
/// known for ten languages; a word may be one of several languages.
pub fn question_function_words() -> impl Iterator<Item = (Language, &'static str)> {
    FUNCTION_WORDS.iter().flat_map(|it| {
        let words = it.both.split_whitespace().chain(it.questions.split_whitespace());
        words.map(|word| (it.language, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_words_are_told_by_language() {
        assert_eq!(languages_of("warum"), Language::German.bit());
        assert!(
            languages_of("die") & Language::German.bit() != 0 && languages_of("die") & Language::English.bit() == 0
        );
        assert_ne!(languages_of("fur") & Language::German.bit(), 0);
        for word in ["rent", "miete", "may", "31", ""] {
            assert_eq!(languages_of(word), 0, "{word}");
        }
    }

    #[test]
    fn word_is_in_one_list_of_its_language() {
        for words in &FUNCTION_WORDS {
            let lists = [words.both, words.passages, words.questions];
            let mut all: Vec<&str> = lists.iter().flat_map(|it| it.split_whitespace()).collect();
            all.sort_unstable();
            let twice: Vec<&[&str]> = all.windows(2).filter(|it| it[0] == it[1]).collect();
            assert!(twice.is_empty(), "{:?}: {twice:?}", words.language);
        }
    }

    #[test]
    fn questions_have_function_words_of_ten_languages() {
        let languages: std::collections::HashSet<Language> = question_function_words().map(|it| it.0).collect();
        assert_eq!(languages.len(), 10);
        let has = |language, word| question_function_words().any(|it| it == (language, word));
        assert!(has(Language::English, "whose") && has(Language::English, "within") && has(Language::German, "für"));
        assert!(!has(Language::English, "below") && languages_of("below") == Language::English.bit());
        assert_eq!(languages_of("within"), 0);
    }
}
