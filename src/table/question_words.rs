//! The English and German words that questions about tables use, and what they mean.

/// Words of a question that do not change which value is asked for.
const FILLER_WORDS: &str = "\
    the a an of in on at for to by is was were are be been did do does have has had we i you they it our my your \
    their us me and what which when how much many s that this there with from during all please show tell give find \
    according table sheet buy bought order ordered sell sold use used usage consumption consume consumed value \
    amount number der die das den dem des ein eine einen einem einer eines von vom im am an auf für zu zum zur mit \
    und ist war waren sind wir ich sie es unser unsere unseren unserer mein meine was welche welcher welches welchen \
    welchem wann wie viel viele wieviel wieviele hat haben hatte hatten habe wurde wurden bitte zeige nenne mir uns \
    bei aus gab gibt gekauft bestellt verkauft verbrauch verbraucht wert tabelle blatt";
const MOST_WORDS: &str = "\
    most highest largest biggest greatest maximum max meiste meisten höchste höchsten höchster höchstes größte \
    größten größter größtes grösste grössten grösster grösstes";
const LEAST_WORDS: &str = "\
    least lowest smallest fewest minimum min wenigste wenigsten niedrigste niedrigsten niedrigster niedrigstes \
    kleinste kleinsten kleinster kleinstes geringste geringsten geringster geringstes";
const DEAREST_WORDS: &str = "costliest teuerste teuersten teuerster teuerstes";
const CHEAPEST_WORDS: &str = "\
    cheapest billigste billigsten billigster billigstes günstigste günstigsten günstigster günstigstes";
const SUM_WORDS: &str = "\
    sum total altogether overall summe gesamt gesamte gesamten gesamtsumme insgesamt zusammen";
const MEAN_WORDS: &str = "\
    average mean avg durchschnitt durchschnittlich durchschnittliche durchschnittlichen durchschnittlicher \
    durchschnittliches mittelwert";
const COUNT_WORDS: &str = "count anzahl";
const MONEY_WORDS: &str = "\
    cost costs spend spent spending pay paid price money expensive kosten kostet kostete kosteten gekostet \
    ausgegeben bezahlt gezahlt preis betrag geld";
const MONEY_HEADS: &str = "\
    amount cost costs price total gross net sum paid spent betrag kosten preis brutto netto summe gesamt \
    gesamtbetrag montant value wert";
const PART_HEADS: &str = "\
    net netto vat tax taxes mwst ust steuer steuern unit each einzelpreis stückpreis rate discount rabatt tip";
const WHOLE_HEADS: &str = "gross brutto total gesamt gesamtbetrag";
const ROW_WORDS: &str = "\
    item items thing things entry entries purchase purchases expense expenses invoice invoices payment payments bill \
    bills orders transaction transactions row rows record records booking bookings receipt receipts posten ausgabe \
    ausgaben kauf käufe einkauf einkäufe rechnung rechnungen zahlung zahlungen eintrag einträge buchung buchungen \
    beleg belege zeile zeilen bestellung bestellungen";
const IDENTIFIERS: &str = "id no nr number nummer zip plz postcode phone telefon code year jahr";

/// What a word of a question means for a request about a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordMeaning {
    Most,
    Least,
    /// Asks for the row or group that costs most, such as `costliest`.
    Dearest,
    Cheapest,
    Sum,
    Mean,
    Count,
    Money,
    /// A noun that can stand for any row, such as `invoice`.
    Row,
    Filler,
}

/// Whether a list of words separated by blanks contains a word.
fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

/// Returns the meaning of a lower-case word; `None` if it may be the name of a column or a value.
pub(super) fn word_meaning(word: &str) -> Option<WordMeaning> {
    let lists = [
        (MOST_WORDS, WordMeaning::Most),
        (LEAST_WORDS, WordMeaning::Least),
        (DEAREST_WORDS, WordMeaning::Dearest),
        (CHEAPEST_WORDS, WordMeaning::Cheapest),
        (SUM_WORDS, WordMeaning::Sum),
        (MEAN_WORDS, WordMeaning::Mean),
        (COUNT_WORDS, WordMeaning::Count),
        (MONEY_WORDS, WordMeaning::Money),
        (ROW_WORDS, WordMeaning::Row),
        (FILLER_WORDS, WordMeaning::Filler),
    ];
    lists.into_iter().find(|it| is_in(it.0, word)).map(|it| it.1)
}

/// Returns the kind of period that a word names, such as `month`.
pub(super) fn period_of_word(word: &str) -> Option<crate::model::TablePeriod> {
    use crate::model::TablePeriod::{Day, Month, Quarter, Year};
    match word {
        "year" | "years" | "jahr" | "jahre" | "jahren" => Some(Year),
        "quarter" | "quarters" | "quartal" | "quartale" => Some(Quarter),
        "month" | "months" | "monat" | "monate" | "monaten" | "monats" => Some(Month),
        "day" | "days" | "tag" | "tage" | "tagen" => Some(Day),
        _ => None,
    }
}

/// Whether the word before a month name shows that it is a month: `in May`, but not `we may`.
pub(super) fn may_precede_month(word: &str) -> bool {
    matches!(word, "in" | "of" | "for" | "during" | "im" | "vom" | "von" | "für" | "monat")
}

/// Whether a word in a column header shows that the column has amounts of money.
pub(super) fn is_money_head(word: &str) -> bool {
    is_in(MONEY_HEADS, word)
}

/// Whether a word in a column header means the full amount, not a part such as tax.
pub(super) fn is_whole_head(word: &str) -> bool {
    is_in(WHOLE_HEADS, word)
}

/// Whether a word in a column header means a part of the amount, such as tax.
pub(super) fn is_part_head(word: &str) -> bool {
    is_in(PART_HEADS, word)
}

/// Whether a word in a column header shows that the numbers below are identifiers, not amounts.
pub(super) fn is_identifier(word: &str) -> bool {
    is_in(IDENTIFIERS, word)
}

/// Splits a text into words, in lower case and without punctuation.
pub(super) fn lowercase_words(text: &str) -> Vec<String> {
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Whether two words are equal, apart from plural endings.
pub(super) fn are_same_word(one: &str, other: &str) -> bool {
    fn stem(word: &str) -> &str {
        let cut = |end: &str| word.strip_suffix(end).filter(|it| it.chars().count() > 2);
        cut("s").or_else(|| cut("en")).or_else(|| cut("n")).or_else(|| cut("e")).unwrap_or(word)
    }
    one == other || stem(one) == stem(other)
}
