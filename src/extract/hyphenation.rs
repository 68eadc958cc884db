//! Joins words of a PDF that were hyphenated at the end of a line. Does no I/O.
//!
//! A hyphen at the end of a line may or may not be part of the word. If the document has the word elsewhere, in one piece
//! or with a hyphen inside a line, that spelling decides; otherwise word lists and the form of the two halves decide. A
//! reader sees one file only, so the words of other files are not available.

use std::collections::{HashMap, HashSet};

/// Character that replaces the hyphen and the line break between the two halves of a hyphenated word.
pub(crate) const CUT_MARK: char = '\u{2}';

/// Maximum bytes of a word half. A longer half is truncated: in a text without spaces, it could be as long as the text.
const MAX_HALF_BYTES: usize = 64;

/// Minimum letters of a first half. The other occurrences of a shorter one in the document are not evidence for the hyphen.
const MIN_EVIDENCE_LETTERS: usize = 3;

/// A document counts as English if at least this many of a thousand words are `the`.
const ENGLISH_PER_MILLE: usize = 20;

/// Prefixes that are usually written together with the word after them. If another word of the
/// document has such a prefix with a hyphen (`inter-city`), this does not prove that `inter-national` keeps its hyphen.
const JOINED_PREFIXES: &str = "
    anti auto bio cardio chemo counter cyber down electro endo ever every extra fore geo hetero homo hydro hyper hypo immuno
    infra inter intra iso macro mega meta micro mini mis mono morpho multi nano neuro never off omni out over para pan per
    phospho photo poly post pre pro proto pseudo psycho radio retro some sub super sur tele thermo trans tri ultra uni
    under up with mit auf aus ein vor zer ver ent bei nach unter über ober wieder zusammen contre entre sous sobre entre
";

/// Second halves that keep the hyphen if the first half is itself a word (not in English text): `celui-ci`, `trata-se`,
/// `кто-то`.
const CLITICS: &str = "
    ci là même mêmes moi toi lui elle elles eux nous vous ils il on je tu leur les
    se lo la los las me te lhe lhes nos vos o os a as
    то нибудь либо таки
";

/// Second halves that keep the hyphen after any first half: `peut-être`, `eux-mêmes`, `disse-lhe`, `какой-нибудь`.
const HYPHENATED_SUFFIXES: &str = "là même mêmes être delà lhe lhes нибудь либо";

/// English first halves that keep the hyphen before any second half that is not in [`ENDINGS`]: `self-control`.
const COMPOUND_PREFIXES: &str = "
    non self well quasi high low long short wide old new two three four five six seven eight nine ten half cross large
    small deep open single double first second third full left right hard soft real far near late early best better
    worst so much ill fine state vice step close
";

/// English second halves that keep the hyphen, because they form compounds: `time-dependent`.
const COMPOUND_SUFFIXES: &str = "
    based dependent specific driven oriented induced mediated friendly sided ranging defined level order free aware rich
    quality term scale effective efficient related style wise party known intensive invasive linear zero negative
    positive bearing binding activated competitive associated directed containing treated responsive bound coupled linked
    limiting forming operated enriched stimulated deficient resistant sensitive derived reviewed targeted matched adjusted
    controlled blind selective labeled labelled art in up off on out of to the and by
";

/// Second halves that are word endings, and are joined to any first half without a hyphen.
const ENDINGS: &str = "
    ly er ers or ed es est ness nesses ing ings ware age ages ish y en ens ship ships ling some land ful less ment
    ments tion tions sion sions al ally ance ence ity ities ism ist ists able ible dom hood wood fold time times ward
    wards way ways ize ized izes izing ization ise ised ises ising isation fully light lights wide spread site sites long
";

/// Short words that are not taken for the first half of a compound, because they often begin longer words: `be-cause`,
/// `to-day`.
const SHORT_WORDS: &str = "
    a ad al all an and any art as at ba be bar bat but by can car cat con cop cow do for fun go gen had has he her him his how
    i if imp in is it man mar mat may me men met mod mud my no not now of on one or our pan par pen per pet pit pot pro
    put ran rat red res rob sat see set she sir sit sub sun tar ten than that the then there they this thus to too
    tor us van was we were what when where who why with you your
";

/// Replaces each [`CUT_MARK`] in the texts of one document by a hyphen or by nothing. Takes time linear in their length.
pub(crate) fn join_cut_words<'t>(texts: impl Iterator<Item = &'t mut String>) {
    let mut texts: Vec<&mut String> = texts.collect();
    let cut: Vec<usize> = (0..texts.len()).filter(|at| texts[*at].contains(CUT_MARK)).collect();
    if cut.is_empty() {
        return;
    }
    let vocabulary = WordCounts::from_texts(&texts, &cut);
    for at in cut {
        *texts[at] = join_words(texts[at], &vocabulary);
    }
}

fn join_words(text: &str, vocabulary: &WordCounts) -> String {
    let mut whole = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        if character != CUT_MARK {
            whole.push(character);
        } else if WordHalves::around_cut(text, at).is_none_or(|it| vocabulary.keeps_hyphen(&it)) {
            whole.push('-');
        }
    }
    whole
}

/// The halves of a hyphenated word, before and after the cut.
struct WordHalves<'t> {
    left: &'t str,
    right: &'t str,
}

impl<'t> WordHalves<'t> {
    /// Returns the word halves around the [`CUT_MARK`] at byte `at` of a text; `None` if there is not a word on both sides.
    fn around_cut(text: &'t str, at: usize) -> Option<WordHalves<'t>> {
        let before = &text[text.ceil_char_boundary(at.saturating_sub(MAX_HALF_BYTES))..at];
        let behind = &text[(at + CUT_MARK.len_utf8()).min(text.len())..];
        let behind = &behind[..behind.floor_char_boundary(MAX_HALF_BYTES)];
        let left = before.rsplit(|it| !is_word_character(it)).next().unwrap_or_default();
        let right = behind.split(|it| !is_word_character(it)).next().unwrap_or_default();
        (!left.is_empty() && !right.is_empty()).then_some(WordHalves { left, right })
    }

    fn lowercase(&self) -> (String, String) {
        (self.left.to_lowercase(), self.right.to_lowercase())
    }
}

/// Word counts of a document, to decide whether the hyphen of a hyphenated word is kept. Only such words and their halves
/// are counted.
struct WordCounts {
    counts: HashMap<String, usize>,
    is_english: bool,
    lists: WordLists,
}

/// The constant word lists of this file as sets, for fast lookup.
struct WordLists {
    joined_prefixes: HashSet<&'static str>,
    hyphenated_suffixes: HashSet<&'static str>,
    clitics: HashSet<&'static str>,
    compound_prefixes: HashSet<&'static str>,
    compound_suffixes: HashSet<&'static str>,
    endings: HashSet<&'static str>,
    short_words: HashSet<&'static str>,
}

impl WordLists {
    fn new() -> WordLists {
        let set = |list: &'static str| list.split_whitespace().collect();
        WordLists {
            joined_prefixes: set(JOINED_PREFIXES),
            hyphenated_suffixes: set(HYPHENATED_SUFFIXES),
            clitics: set(CLITICS),
            compound_prefixes: set(COMPOUND_PREFIXES),
            compound_suffixes: set(COMPOUND_SUFFIXES),
            endings: set(ENDINGS),
            short_words: set(SHORT_WORDS),
        }
    }
}

impl WordCounts {
    fn from_texts(texts: &[&mut String], cut: &[usize]) -> WordCounts {
        let mut counts = HashMap::new();
        for text in cut.iter().map(|at| &texts[*at]) {
            for (at, _) in text.match_indices(CUT_MARK) {
                let Some(halves) = WordHalves::around_cut(text, at) else { continue };
                let (left, right) = halves.lowercase();
                let keys = [format!("{left}{right}"), format!("{left}-{right}"), format!("{left}-"), left, right];
                counts.extend(keys.into_iter().map(|it| (it, 0)));
            }
        }
        let mut vocabulary = WordCounts { counts, is_english: false, lists: WordLists::new() };
        let (mut words, mut articles) = (0, 0);
        for text in texts {
            for word in
                text.split(|it| !is_word_character(it) && !is_hyphen(it) && it != CUT_MARK).filter(|it| !it.is_empty())
            {
                words += 1;
                articles += usize::from(word.eq_ignore_ascii_case("the"));
                vocabulary.count_word(word);
            }
        }
        vocabulary.is_english = articles * 1_000 >= words * ENGLISH_PER_MILLE;
        vocabulary
    }

    /// Counts a word. For a word with hyphens, counts each pair of adjacent parts. Ignores words with a [`CUT_MARK`].
    fn count_word(&mut self, word: &str) {
        if word.contains(CUT_MARK) {
            return;
        }
        let mut previous: Option<String> = None;
        for part in word.split(is_hyphen) {
            if part.is_empty() || part.len() > MAX_HALF_BYTES {
                previous = None;
                continue;
            }
            let part = part.to_lowercase();
            if let Some(previous) = previous.take() {
                self.increment(&format!("{previous}-{part}"));
                self.increment(&format!("{previous}-"));
            } else if part.len() == word.len() {
                self.increment(&part);
            }
            previous = Some(part);
        }
    }

    fn increment(&mut self, key: &str) {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
        }
    }

    fn count_of(&self, key: &str) -> usize {
        self.counts.get(key).copied().unwrap_or(0)
    }

    /// Returns whether the hyphen between two halves is part of the word, judged by the document's words and the word
    /// lists.
    fn keeps_hyphen(&self, halves: &WordHalves<'_>) -> bool {
        let (left, right) = halves.lowercase();
        let (left, right) = (left.as_str(), right.as_str());
        if is_range(halves) {
            return true;
        }
        let (whole, hyphenated) = (self.count_of(&format!("{left}{right}")), self.count_of(&format!("{left}-{right}")));
        if whole != hyphenated {
            return hyphenated > whole;
        }
        if has_shape_of_compound(halves) || self.lists.hyphenated_suffixes.contains(right) {
            return true;
        }
        let telling = left.chars().count() >= MIN_EVIDENCE_LETTERS && !self.lists.joined_prefixes.contains(left);
        let left_is_word = self.count_of(left) > 0;
        (telling && self.count_of(&format!("{left}-")) > 0 && !self.lists.endings.contains(right))
            || (telling && left_is_word && self.lists.clitics.contains(right) && !self.is_english)
            || (self.is_english && telling && self.is_english_compound(left, right))
    }

    fn is_english_compound(&self, left: &str, right: &str) -> bool {
        if self.lists.endings.contains(right) {
            return false;
        }
        let adverb = left.len() > 5 && left.ends_with("ly") && right.len() > 4 && right.ends_with("ed");
        let both_words = self.count_of(left) > 0
            && self.count_of(right) > 0
            && !self.lists.short_words.contains(left)
            && right.len() > 3;
        adverb
            || both_words
            || self.lists.compound_prefixes.contains(left)
            || self.lists.compound_suffixes.contains(right) && left.len() > 3
    }
}

/// Returns whether the halves form a range of numbers, such as `2000-2001`.
fn is_range(halves: &WordHalves<'_>) -> bool {
    halves.left.ends_with(char::is_numeric) && halves.right.starts_with(char::is_numeric)
}

/// Returns whether the halves cannot form one word without a hyphen: one has a digit, is a single letter or an acronym, or
/// the second begins with a capital letter.
fn has_shape_of_compound(halves: &WordHalves<'_>) -> bool {
    let WordHalves { left, right } = halves;
    let digit = |it: &str| it.contains(char::is_numeric);
    let single = |it: &str| it.chars().nth(1).is_none();
    let upper = |it: &str| it.chars().all(char::is_uppercase);
    let acronym = left.ends_with(char::is_uppercase) && left.chars().filter(|it| it.is_uppercase()).count() > 1;
    let name = right.starts_with(char::is_uppercase) && !(upper(left) && upper(right));
    digit(left) || digit(right) || single(left) || single(right) || name || acronym && !upper(right)
}

/// Returns whether a character belongs to a word: letters, digits and combining marks.
fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '\u{300}'..='\u{36F}')
}

fn is_hyphen(character: char) -> bool {
    matches!(character, '-' | '\u{2010}' | '\u{2011}')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Checks how the hyphenated words of a text are joined; `|` in `text` stands for [`CUT_MARK`].
    fn assert_joined(text: &str, expected: &str) {
        let mut text = text.replace('|', &CUT_MARK.to_string());
        join_cut_words(std::iter::once(&mut text));
        assert_eq!(text, expected);
    }

    #[test]
    fn join_follows_spelling_elsewhere_in_document() {
        assert_joined("acous|tical, an acoustical thing", "acoustical, an acoustical thing");
        assert_joined("in|house, the In-house one", "in-house, the In-house one");
        assert_joined("re|use: re-use, reuse, Reuse", "reuse: re-use, reuse, Reuse");
        assert_joined("state-of-the|art is state-of-the-art", "state-of-the-art is state-of-the-art");
        assert_joined("the Mc|Donald of McDonald", "the McDonald of McDonald");
    }

    #[test]
    fn join_counts_words_of_all_texts() {
        let mut texts = [
            format!("cross{CUT_MARK}bow"),
            "a crossbow".to_string(),
            format!("tide{CUT_MARK}gate"),
            "tide-gate".into(),
        ];
        join_cut_words(texts.iter_mut());
        assert_eq!(texts, ["crossbow", "a crossbow", "tide-gate", "tide-gate"]);
    }

    #[test]
    fn compound_with_same_first_half_keeps_hyphen() {
        assert_joined("tide|driven, tide-bound", "tide-driven, tide-bound");
        assert_joined("pre|sent, pre-trained", "present, pre-trained");
    }

    #[test]
    fn unknown_word_is_decided_by_form_of_halves() {
        assert_joined(
            "mini|mization popu|lation Versorgungs|leitung naj|lepszy",
            "minimization population Versorgungsleitung najlepszy",
        );
        assert_joined(
            "2000|2001 Stuttgart|Hohenheim e|mail USB|Kabel A|4",
            "2000-2001 Stuttgart-Hohenheim e-mail USB-Kabel A-4",
        );
        assert_joined("ACOUS|TICAL", "ACOUSTICAL");
        assert_joined("eux|mêmes peut|être какой|нибудь", "eux-mêmes peut-être какой-нибудь");
        assert_joined("la trata|se: trata disso", "la trata-se: trata disso");
        assert_joined(
            "the non|sandbar and the self|made, well|known and wide|ranging",
            "the non-sandbar and the self-made, well-known and wide-ranging",
        );
        assert_joined(
            "the strongly|coupled, the short|age, the wide|ly, the sys|tem",
            "the strongly-coupled, the shortage, the widely, the system",
        );
        assert_joined("the old parenthesis is a note|book", "the old parenthesis is a notebook");
    }

    #[test]
    fn cut_without_words_around_becomes_hyphen() {
        assert_joined("a| b |c | d| .|. é|", "a- b -c - d- .-. é-");
    }

    #[test]
    fn join_time_is_linear_in_number_of_cuts() {
        for (text, times) in
            [("ab|", 400_000), ("a|", 400_000), ("|", 1_000_000), ("ab|cd ", 200_000), ("é", 1_000_000)]
        {
            let begun = Instant::now();
            let mut text = format!("{}|b", text.repeat(times)).replace('|', &CUT_MARK.to_string());
            join_cut_words(std::iter::once(&mut text));
            assert!(!text.contains(CUT_MARK) && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        }
    }
}
