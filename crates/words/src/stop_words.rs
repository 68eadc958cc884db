//! Function words by language. They tell the language of a text, and the keyword index leaves them out.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::folding::fold;
use crate::language::Language;

/// Function words of each language, separated by spaces. Words with a meaning of their own are no function words, although
/// they are frequent: `may`, `time`, `no.`.
const FUNCTION_WORDS: [(Language, &str); 17] = [
    (
        Language::English,
        "a about after again against all also am an and any are as at be because been before being below between both but by \
         can could did do does doing down during each few for from further had has have having he her here hers him his how i \
         if in into is it its itself me more most my nor not of off on once only or other our ours out over own same she \
         should so some such than that the their theirs them then there these they this those through to too under until up \
         upon us very was we were what when where which while who whom whose why will with would you your yours",
    ),
    (
        Language::German,
        "aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da damit dann das \
         dass dem den denn der des dessen die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem einen \
         einer eines er es etwas euch für gegen gewesen hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem \
         ihren ihrer im in indem ins ist jede jedem jeden jeder jedes jene jetzt kann kein keine keinem keinen keiner können \
         könnte mein meine mich mir mit muss nach nicht noch nun nur ob oder ohne sehr sein seine seinem seinen seiner selbst \
         sich sie sind so solche soll sollte sondern sonst um und uns unser unsere unter viel vom von vor war waren warum wann was \
         weil welche welchem welchen welcher welches wenn wer werde werden wem wen wessen wie wieder wieviel will wir wird wo \
         worden wurde wurden während würde zu zum zur zwar zwischen über",
    ),
    (
        Language::French,
        "a ai alors après au aucun aussi autre aux avant avec avoir c ce cela celle celles celui ces cet cette ceux chaque \
         chez comme comment d dans de depuis des donc dont du elle elles en encore entre est et étaient était étant été être \
         eu eux fait font ici il ils j je jusqu l la le les leur leurs lors lui m ma mais me même mes moi moins mon n ne ni \
         nos notre nous on ont ou où par parce pas pendant peu peut plus pour pourquoi qu quand que quel quelle quelles \
         quels qui quoi s sa sans se sera ses si son sont sous sur ta te tes toi ton tous tout toute toutes très tu un une \
         vers vos votre vous y",
    ),
    (
        Language::Spanish,
        "a al algo algunas algunos ante antes aquel aquella aunque cada como con contra cual cuales cuál cuáles cuando cuándo \
         cuánto cuánta cuántos cuántas de del desde donde dónde durante e el él ella ellas ellos en entre era eran es esa \
         esas ese eso esos esta está estaba están estas este esto estos fue fueron ha había han hasta hay la las le les lo \
         los más me mi mis mucho muy nada ni no nos nosotros o os otra otras otro otros para pero poco por porque pues que \
         qué quien quién quienes se según ser si sí sido sin sobre son su sus también tanto te tiene tienen toda todas todo \
         todos tu tus un una unas uno unos y ya yo",
    ),
    (
        Language::Italian,
        "a ad agli ai al alla alle allo anche ancora avere aveva c che chi ci come con contro così cui d da dagli dai dal \
         dalla dalle dallo degli dei del dell della delle dello dentro di dopo dove e ed è era erano essere fra gli ha hanno \
         ho i il in io l la le lei li lo loro lui ma me mi mia mio ne negli nei nel nella nelle nello no noi non nostra \
         nostro o ogni per perché più poi prima quale quali quando quanta quante quanti quanto quella quelle quelli quello \
         questa queste questi questo qui se sei senza si sia siamo sono sopra sotto sta stata stato su sua sugli sui sul \
         sulla sulle suo tra tutti tutto tu un una uno vi voi",
    ),
    (
        Language::Portuguese,
        "a à ainda ao aos as às até com como da das de dela dele deles depois do dos e é ela elas ele eles em entre era eram \
         essa essas esse esses esta está estão estas este estes eu foi foram há isso isto já la lhe lhes mais mas me mesmo \
         meu minha muito na não nas nem no nos nós num numa o onde os ou para pela pelas pelo pelos por porque qual quais \
         quando quanta quantas quanto quantos que quem são se sem ser será seu seus só sobre sua suas também te tem têm \
         tinha um uma umas uns você vocês",
    ),
    (
        Language::Dutch,
        "aan al alle als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een eens en er ge geen \
         geweest haar had heb hebben heeft hem het hier hij hoe hoeveel hun iemand iets ik in is ja je kan kon kunnen maar me \
         meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons onze ook op over reeds te tegen toch toen \
         tot u uit uw van veel voor waar waarom waren was wat we wel welk welke werd wezen wie wij wil worden wordt zal ze \
         zelf zich zij zijn zo zonder zou",
    ),
    (
        Language::Danish,
        "af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse dog du efter eller en \
         end er et for fra ham han hans har havde have hende hendes her hos hun hvad hvem hvilken hvis hvor hvordan hvorfor \
         hvornår i ikke ind jeg jer jo kunne man mange med meget men mig min mine mit mod nogle noget når og også om op os \
         over på selv sig sin sine sit skal skulle som sådan thi til ud under var vi vil ville vor være været",
    ),
    (
        Language::Norwegian,
        "alle at av bare ble bli blir da de deg dem den denne der deres det dette din disse du eller en enn er et etter for \
         fordi fra før ha hadde han hans har henne hennes her hun hva hvem hver hvilken hvis hvor hvordan hvorfor i ikke inn \
         jeg kan kunne man mange med meg men mer min mine mot noe noen når og også om opp oss over på samme seg selv sin \
         sine sitt skal skulle slik som så til ut under var vi vil ville vår være vært",
    ),
    (
        Language::Swedish,
        "alla allt att av blev bli blir då de dem den denna deras dess dessa det detta dig din du där efter ej eller en er \
         ett från för ha hade han hans har henne hennes hon honom hur här i icke ingen inom inte jag ju kan kunde man med \
         mellan men mig min mitt mot mycket ni nu när något några och om oss på samma sedan sig sin sina sitt själv skall \
         som så till under upp ut utan vad var vara varför vars vem vi vid vilka vilken vill är över",
    ),
    (
        Language::Finnish,
        "ei eivät emme en eri että ette hän hänen hänet he heidän heille jo joka jolla jos jossa jota kaikki kanssa keiden \
         keitä ketkä kuin kuka kun me meidän mikä miksi missä mitä mitkä mukaan mutta myös ne niiden niin niitä noin nyt ole \
         olen olet olevan oli olisi olivat olla on ovat sekä se sen siellä siinä sitä tai tämä tämän te tuo tähän tästä tässä \
         vaan vain vielä voi ja",
    ),
    (
        Language::Hungarian,
        "a ahogy akkor alatt amely amelyek ami amit annak arra át az azok azon azt azzal be csak de e egy egyes el ez ezek \
         ezen ezt fel hanem hogy hol honnan így illetve is itt jól ki kik le lehet lesz lett már meg még mely melyek mert mi \
         miért mikor minden mint mit mivel nagyon ne nekem nem nincs ott össze pedig s saját sem s csak több számára szerint \
         tehát továbbá ugyanis után utána vagy vagyis valamint van vannak volt voltak",
    ),
    (
        Language::Romanian,
        "a acea aceasta această aceea acel acest acesta aceste acestea acum ai aici al ale alt altă am ar are aș așa asta \
         asupra au avea avut ca că când care căreia cărui ce cea cel cele cine cu cum dacă dar de deci decât deși din dintre \
         doar după ea ei el ele era este eu fără fi fie fiind fost iar în înainte între la le lor lui mai mult ne nici nu o \
         oricare pe pentru peste prin sa să săi sau se și sub sunt te toate tot toți tu un una unde unei unor unui va vom vor",
    ),
    (
        Language::Polish,
        "a aby albo ale ani bardzo bez będzie być był była było były by co czy dla dlaczego do gdy gdzie go i ich ile im \
         innych ja jak jaka jaki jakie jako je jednak jego jej jest jeszcze jeśli już każdy kiedy kto która które którego \
         której który których którym ku lub ma mają może można mnie na nad nam nas nie nich niej nim o od on ona one oni oraz \
         po pod poza przed przez przy się są sobie ta tak także tam te tego tej ten też to tu tych tylko tym u w we wie więc \
         wszystko z za że",
    ),
    (
        Language::Turkish,
        "acaba ama ancak arasında bana bazı belki ben beri bile bir birkaç biz böyle bu buna bunu bunun çok çünkü da daha de \
         değil diğer diye en gibi göre hangi hem hep her herkes için ile ilgili ise kaç kadar kendi ki kim mi mı mu mü nasıl \
         ne neden nerede niçin niye o olan olarak oldu olduğu olmak olur on onlar onun önce sadece sen siz sonra şey şu \
         tarafından tüm var ve veya ya yani yok zaman",
    ),
    (
        Language::Russian,
        "а без более бы был была были было быть в вам вас весь во вот все всех вы где да даже для до его ее ей если есть еще \
         же за здесь и из или им их к как какая какие какой ко когда которая которого которой которые который которых кто \
         куда ли либо между меня мне мы на над не него нее нет ни них но о об однако он она они оно от очень по под при с \
         сколько со так также такой там то того тоже той только том тот ты у уже чего чем что чтобы эта эти это этого этой \
         этом этот этих я",
    ),
    (
        Language::Greek,
        "αλλά αν αντί από αυτά αυτές αυτή αυτό αυτοί αυτός αυτών για δεν εάν είναι ένα ένας εκείνο εκείνος εγώ εμείς εσείς \
         εσύ ή η ήταν θα και κατά κι μα με μετά μη μην μία μια να ο οι όμως όπως όπου ότι όταν όσο παρά ποια ποιο ποιος πόσο \
         που πού προς πως πώς σαν σε στα στη στην στις στο στον στους τα τη την της τι τις το τον του τους των ως",
    ),
];

/// The languages in which a word is a function word, as bits by [`Language::bit`].
pub(crate) fn languages_of(folded: &str) -> u32 {
    static LANGUAGES: LazyLock<HashMap<String, u32>> = LazyLock::new(|| {
        let mut languages = HashMap::new();
        for (language, words) in FUNCTION_WORDS {
            for word in words.split_whitespace() {
                *languages.entry(fold(word).into_owned()).or_default() |= language.bit();
            }
        }
        languages
    });
    LANGUAGES.get(folded).copied().unwrap_or_default()
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
}
