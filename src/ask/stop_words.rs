//! Stop words and pronouns of ten languages. Answers and summaries skip stop words when they compare words. Pure functions.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Function and question words: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian, Turkish.
const STOP_WORDS: &str = "a an and are as at be been being by can could did do does done for from had has have he her him his how i if in into is \
it its me my no not of off on or our out she should so some than that the their them then there these they this those to too \
us was we were what when where which while who whom whose why will with would you your whats whos does doesnt didnt many much any \
please tell find show give know about say says said \
aber als am an auch auf aus bei bin bis da damit das dass dem den denn der des die dies diese dieser doch du durch ein eine einem \
einen einer eines er es für gibt hat hatte haben ich ihr im in ist ja kann kein keine mein mir mit nach nicht noch nun nur ob oder \
ohne sein sich sie sind so über um und uns unser unsere unter vom von vor wann war waren warum was welche welchem welchen welcher \
welches wenn wer wem wen wessen werden wie wieviel viel viele wird wir wo worden wurde wurden zu zum zur zwischen \
au aux avec ce ces cette chez comme comment combien dans de des du elle en est et été être eu il ils je la le les leur lui mais \
même nos notre nous on ou où par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi sa sans se sera ses son sont \
sur ta te toi ton tu un une vos votre vous y a-t-il \
al ante como con cuando cuándo cuál cuales cuanto cuánto cuánta cuántos cuántas del desde donde dónde el ella ellos entre era es esta \
este esto está están fue fueron ha han hay hasta la las lo los más mi muy nos o para pero por qué que quien quién se según ser si sin \
sobre su sus también te tiene un una uno unos y \
agli ai al alla alle allo anche che chi ci come cosa da dai dal dalla dei del della delle dello di dove e ed è era gli i il io la \
le lei lo loro ma mi nei nel nella non o per perché più quale quali quando quanta quante quanti quanto questa questo qui se si \
sono su sua sul sulla suo tra un una uno \
ao aos as até com como da das de dela dele do dos e ela ele em entre era essa esse esta este eu foi foram há isso isto já lhe mais \
mas me mesmo meu minha na nas não no nos num o onde os ou para pela pelo por porque qual quais quando quanta quantas quanto quantos que quem \
se sem ser seu sua são só também te tem um uma \
aan als bij dan dat de den der deze die dit door dus een en er ging haar had heb hebben heeft hem het hij hoe hoeveel hun ik in is je \
kan maar me men met mij mijn na naar niet nog nu of om onder ons onze ook op over te tegen toch toen tot u uit van veel voor waar \
waarom waren was wat we wel welk welke werd wie wil worden wordt zal ze zich zij zijn zo \
aby albo ale bez być był była było były by co czy dla do gdy gdzie go ich ile im jak jaka jaki jakie jako je jego jej jest już kiedy kto \
która które który ma mnie może na nad nie o od oraz po pod przed przez przy się są ta tak także tam te tego tej ten to tu tylko w we \
więc z za że \
а без бы был была были было быть в вам вас во вот все вы где да для до его ее если есть еще же за и из или им их к как какая какие какой \
ко когда которая которые который кто куда ли мне мы на над не него нет но о об он она они оно от по под при с сколько со так также \
там то того тоже только тот ты у уже чем что чтобы эта эти это я \
acaba ama ancak bana bazı ben bir biz bu çok da daha de değil diye en gibi hangi hem her için ile ise kaç kadar kim mi mı mu mü \
nasıl ne neden nerede nereye niçin o olan olarak oldu onlar onun sen şu var ve veya ya zaman";

/// Pronouns of these languages: a sentence that begins with one refers to the sentence before it.
const PRONOUNS: &str = "it he she they this these that those its his her their there then er sie es dieser diese dieses das dort il elle ils \
elles ce cela cette ces él ella ellos ellas esto este esta eso ese esa lo esso essa questo questa quello quella lui lei ele ela eles elas isto isso \
hij zij ze het dit dat deze die on ona ono oni ten ta to те он она оно они это этот эта bu o onlar şu";

/// The stop words, folded as the words of questions are.
static STOP_WORD_SET: LazyLock<HashSet<String>> =
    LazyLock::new(|| STOP_WORDS.split_whitespace().map(|it| vic_words::fold(it).into_owned()).collect());

/// Function words by which a question is recognized as German.
const GERMAN_WORDS: &[&str] = &[
    "der", "die", "das", "wer", "wann", "wie", "wo", "warum", "welche", "welcher", "welches", "ist", "wurde", "wird",
    "nicht", "und", "für", "ein", "eine", "hat", "wir", "zu", "viele", "viel", "im", "am", "zum", "zur",
];

/// Returns whether a word in lower case, folded or not, is a stop word.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORD_SET.contains(vic_words::fold(word).as_ref())
}

/// Returns whether a lower-case word is a pronoun, which refers to the text before it.
pub(super) fn is_pronoun(word: &str) -> bool {
    PRONOUNS.split_whitespace().any(|it| vic_words::fold(it) == vic_words::fold(word))
}

/// Returns whether a question is German. In German every noun has a capital, so a capital does not mean a name.
pub(super) fn is_german(question: &str) -> bool {
    let words: Vec<String> = question.split_whitespace().map(str::to_lowercase).collect();
    let count =
        words.iter().filter(|it| GERMAN_WORDS.contains(&it.trim_matches(|it: char| !it.is_alphanumeric()))).count();
    count >= 2 || words.first().is_some_and(|it| matches!(it.as_str(), "wer" | "wann" | "wo" | "wie" | "warum"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_cover_ten_languages_but_no_content_words() {
        for word in ["the", "wann", "combien", "dónde", "perché", "quanto", "hoeveel", "gdzie", "сколько", "nerede"]
        {
            assert!(is_stop_word(word), "{word}");
        }
        for word in ["rent", "miete", "loyer", "lease", "31", ""] {
            assert!(!is_stop_word(word), "{word}");
        }
    }

    #[test]
    fn is_pronoun_knows_pronouns_only() {
        assert!(is_pronoun("it") && is_pronoun("sie") && !is_pronoun("boat") && !is_pronoun(""));
    }

    #[test]
    fn is_german_distinguishes_english() {
        assert!(is_german("Wann wurde die Heizung gewartet?"));
        assert!(!is_german("When did the die roll?"));
    }
}
