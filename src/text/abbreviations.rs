//! Lists of abbreviations, and of words that often start sentences, in English, German, French, Spanish, Italian,
//! Portuguese, Dutch, Polish, Russian and Turkish. The lists are in lower case, without the final full stop. Abbreviations
//! of several words have no blanks (`z.b` for `z. B.`). An entry has a capital letter if it is an ordinary word in lower
//! case: `Sun.`, `Fa.`
//!
//! An abbreviation that is an ordinary word in another language has the class that causes the fewest errors there.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// When the full stop after an abbreviation ends a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopClass {
    /// Never ends a sentence: `Mr.`, `z. B.`
    Never,
    /// Ends a sentence only before a word that often starts sentences: `St.`, `u. a.`
    Loose,
    /// Ends a sentence before a word that often starts sentences, and before text that looks like a sentence: `Ltd.`,
    /// `Ave.`
    Company,
    /// Ends a sentence unless a number or a single letter follows: `Fig. 3`, `Vol. B`
    Number,
    /// Ends a sentence unless a digit follows: `No.`, `max.`
    Digit,
    /// Ends a sentence before a letter, except a lower-case letter, which callers handle earlier: `p.m.`, `kg.`, `Sept.`
    End,
    /// Ends a sentence before anything but a lower-case letter: `etc.`
    List,
}

const NEVER: &str = "
    mr mrs ms messrs dr drs prof lieut sgt capt cmdr e.g i.e viz approx cf
    hr fr frl dipl z.b z.t z.zt d.h i.d.r i.v.m o.g bzw ca ggf gem vgl sog evtl inkl zzgl abzgl bspw lt hl kath kgl
    mme mmes mlle mlles mgr vve p.ex c.-à-d c.à.d c.-a-d env boul fbg apr
    sra sres srta srtas dra dres dña ud uds vd vds profa excmo excma ilmo ilma rvdo p.ej ej aprox avda ctra d.ª
    sig sigg sig.ra sig.na sig.ri sig.re sigra dott dott.ssa prof.ssa avv geom egr gent p.za p.zza v.le c.so l.go p.es cfr
    exmo exma srs sras eng enga v.exa v.sa v.s lgo pça trav
    dhr mevr mej ir ds jhr bijv d.w.z dwz m.b.t m.a.w i.p.v t.a.v t.o.v t.g.v n.a.v i.v.m m.u.v o.l.v zgn ong
    ul inż hab lek św śp błp płk ppłk mjr kpt ppor sierż nadkom asp paraf proj np tj tzn tzw m.in wg zob inz
    ул пр-т просп корп обл р-н проф акад доц д-р г-н г-жа тов т.е т.н т.к т.наз т.о напр им см ср пос пер наб тел
 букв род англ лат нем фр    doç yrd yzb bnb orgn öğr gör uzm bkz örn sn şek
";

const LOOSE: &str = "
    pat rev revd hon gen gov sen rep col maj lt st sr mt ft mx vs eg ie esp incl excl resp al u.s u.k u.n op.cit ibid dept
    Fa ing mag med phil rer nat jur geb gest verh ev u.a u.u s.o s.u m.e i.a mio mrd mill tsd rd exkl str ph
    mm ste av bd pr éd réf ex coll dir
    lic arq gral cnel tte sto sta pza ee ff jj rr obs
    ing arch mons cav comm bcc c.a escl rev
    pe apt apto ap av seg
    mr mw drs bv nl evt afb hfst jo resp mi m.i o.a w.o
    ks bp ok os por mln mld tys ww jw pow woj gm im oo al pl tel
    гг пр пл кв ст пп св тыс млн млрд ок сб изд ред св
    av alb org op cad sok sk mah blv apt çev haz yay t.c vd krş m.ö m.s ö.ö
";

const COMPANY: &str = "
    ltd inc corp co plc llc llp bros jr esq ave blvd rd hwy assn univ ph.d m.d b.a m.a b.sc m.sc d.c
    cie ltda cia s.a s.l s.p.a s.r.l s.n.c soc a.ş aş şti o.o z.o.o b.v n.v u.s.a
";

const NUMBER: &str = "
    pp vol vols fig figs eq eqs sec sect ch chap ref refs tab tabs app art arts lit par para pt pos
    nr nrn abb kap bd bde ziff abs anm anl aufl ausg jg rn rdnr hs tz
    núm nº n.º n.o pág págs párr cap caps tít séc sect num
    pag pagg capp parr artt nn all
    aptº blz jl hfst lid
    rozdz rys tabl ryc ust pkt poz kod ss nry
    рис табл гл разд ч стр
    böl mad
";

const DIGIT: &str = "no max min op nos tel fax ext lot";

const END: &str = "
    a.m p.m am pm b.c a.d b.c.e c.e ed eds chr n.chr v.chr j.-c av.j.-c a.c n.e p.n.e н.э jh jhd jhdt yy
    std stdn sek eur usd
    janv févr avr juil sept oct nov déc
    ene abr ago dic fev giu lug sett ott mrt okt
    lun mié mer jeu ven dim sáb
    sty lut kwi lip sie wrz paź lis gru pon wt śr czw niedz szt zł godz
    янв фев февр апр авг сент окт нояб дек руб коп вв мин сек чел
    şub nis ağu
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun
    Jän Mrz Okt Dez Mo Di Mi Do Sa So
";

const LIST: &str = "
    etc usw usf u.v.m v.m u.a.m u.ä u.dgl u.s.w s.w u.s.f
    ecc e.d e.a enz e.v itp itd i.t.p t.p i.t.d t.d т.д т.п др vb
";

/// Words that often start sentences and are rarely names.
const SENTENCE_STARTERS: &str = "
    a an the this that these those it he she we they you i there here what when where who why how which if in on at by
    for from with as but and or so then yet after before while although though since until during under our his her
    its my your their no not all some many most each every both one two three please however also once only such to thus therefore hence whereas because here of
    der die das ein eine einer eines es er sie wir ihr ich man im in am an auf aus bei mit nach von vor zu zum zur für
    über unter durch gegen ohne um bis seit und oder aber doch denn wenn als da dann dort hier heute morgen so was wer
    wie wo warum welche dieser diese dieses jede jeder alle viele einige kein keine nicht auch nur noch sein seine ihre
    unser unsere bitte danach dazu dabei deshalb daher damit dem den des während trotz wegen so also weil obwohl zudem jedoch allerdings
    le la les un une des il elle ils elles on nous vous je tu ce cet cette ces c d l j qu n s dans sur sous avec pour
    par chez sans vers après avant pendant depuis et ou mais donc car si quand comme où qui que quel quelle aucun aucune
    tout tous toute toutes chaque plusieurs son sa ses leur leurs notre nos votre vos mon ma mes puis ensuite ici là à au
    aux en ainsi alors lorsque très aussi cependant toutefois enfin
    el los las una unos unas él ella ellos ellas yo tú usted nosotros se lo me te le nos este esta estos estas ese esa
    esto eso aquel en con por para sin sobre desde hasta entre y o pero si cuando como donde quien qué cuál cada todo
    todos toda todas muchos algunos ningún ninguna nadie su sus nuestro mi mis también después luego aquí allí hoy no al
    del más según tras así entonces aunque además ya
    il lo gli i le uno una lui lei noi voi loro io si ci questo questa questi queste quello quella nel nella nei nelle
    sul sulla con per tra fra da dal dalla di del della e ma se quando come dove chi che cosa ogni tutto tutti molti
    alcuni nessuno suo sua suoi nostro poi anche qui oggi dopo prima è non dei delle al alla ai così inoltre tuttavia infatti quindi
    o os as um uma uns umas ele ela eles elas eu nós você vocês esta este isto isso essa esse no na nos nas num numa do
    da dos das pelo pela com por para sem sobre até entre e ou mas se quando como onde quem que cada todo todos toda
    muitos alguns nenhum ninguém seu sua seus também depois aqui hoje não é ao à já assim então embora além foi
    de het een hij zij ze wij we jij u ik er dit dat deze die dan als maar en of want in op aan bij met naar van voor
    door over onder uit tot na om te zonder tegen sinds tijdens wat wie waar wanneer hoe welke elk elke alle veel
    sommige geen niet ook nog hun haar zijn onze mijn daar hier nu toen daarna dus echter omdat
    w we z ze na do od po o u za przed nad pod przy bez dla przez i a ale lub oraz że gdy kiedy jak gdzie kto co czy
    który która które to ten ta te tam tu on ona ono oni one my wy ja się jest są nie tak każdy każda wszyscy wiele
    niektóre jego jej ich nasz potem także tylko dziś wtedy więc jednak dlatego już
    в во на с со к ко о об от до по за из у при для без под над перед через между и а но или что если когда как где кто
    чей какой это этот эта эти тот та те там тут здесь он она оно они мы вы я ты не да нет так все всё каждый каждая
    многие его её их наш наша мой потом также только сегодня затем после поэтому однако ещё уже
    bu şu o biz siz onlar ben sen bir ve ile ama fakat ancak çünkü eğer için gibi kadar sonra önce daha çok her bütün
    tüm bazı hiç ne nasıl nerede kim neden hangi burada orada şimdi bugün artık ayrıca böylece herhalde aslında oysa yine
";

/// Words that often start sentences but also occur in names: `A. Le Pen`, `P. De Vries`.
const NAME_PARTICLES: &str =
    "le la les de di da do dos das des du del della den der die el los al van von ter ten te lo do to an in";

/// Months, and German and Turkish nouns: a number with a full stop before them is an ordinal, as in `3. Mai`.
const AFTER_ORDINALS: &str = "
    januar jänner februar märz april mai juni juli august september oktober november dezember jan feb apr jun jul aug
    sep sept okt nov dez jahrhundert jahrhunderts jh jhd auflage ausgabe klasse stock etage stockwerk weltkrieg kapitel
    abschnitt platz tag tages woche monat monats jahr quartal halbjahr runde spieltag liga geburtstag bundesliga
    jahrestag mal advent semester satz akt teil lebensjahr schuljahr
    ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık yüzyıl yüzyılda yüzyılın kat dünya bölüm
    sınıf cadde sokak lig gün ordu madde hafta
    stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
";

/// German words after which a number with a full stop is an ordinal: `am 3. Mai`, `der 1. Vorsitzende`.
const BEFORE_ORDINALS: &str = "
    am im vom zum zur beim der die das den dem des ab bis seit und oder jede jeder jedes jeden ein eine einen einem
    einer ihr ihre ihren ihrem sein seine seinen seinem mein meine unser unsere dieser diese dieses
";

/// Words that may follow a time of day without a new sentence: `8 p.m. GMT`.
const TIME_ZONES: &str = "eastern pacific central mountain gmt utc est edt pst pdt cst cdt et pt cet cest bst mez uhr";

static CLASSES: LazyLock<HashMap<&str, StopClass>> = LazyLock::new(|| {
    let lists = [
        (LOOSE, StopClass::Loose),
        (COMPANY, StopClass::Company),
        (NUMBER, StopClass::Number),
        (DIGIT, StopClass::Digit),
        (END, StopClass::End),
        (LIST, StopClass::List),
        (NEVER, StopClass::Never),
    ];
    lists.into_iter().flat_map(|(list, class)| list.split_whitespace().map(move |it| (it, class))).collect()
});

fn word_set(list: &'static str) -> HashSet<&'static str> {
    list.split_whitespace().collect()
}

static STARTER_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| word_set(SENTENCE_STARTERS));
static PARTICLE_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| word_set(NAME_PARTICLES));
static BEHIND_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| word_set(AFTER_ORDINALS));
static BEFORE_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| word_set(BEFORE_ORDINALS));
static ZONE_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| word_set(TIME_ZONES));

/// Returns the class of an abbreviation in lower case, except possibly its first letter; `None` for other words.
pub(super) fn abbreviation_class(word: &str) -> Option<StopClass> {
    CLASSES.get(word).copied()
}

/// Whether a lower-case word often starts sentences.
pub(super) fn is_starter(word: &str) -> bool {
    STARTER_SET.contains(word)
}

/// Whether a lower-case word occurs within names.
pub(super) fn is_particle(word: &str) -> bool {
    PARTICLE_SET.contains(word)
}

/// Whether a number with a full stop is an ordinal if this lower-case word follows, as in `3. Mai`.
pub(super) fn follows_ordinal(word: &str) -> bool {
    BEHIND_SET.contains(word)
}

/// Whether a number with a full stop is an ordinal if this lower-case word precedes it and a capital letter follows.
pub(super) fn precedes_ordinal(word: &str) -> bool {
    BEFORE_SET.contains(word)
}

/// Whether a lower-case word names a time zone.
pub(super) fn is_time_zone(word: &str) -> bool {
    ZONE_SET.contains(word)
}
