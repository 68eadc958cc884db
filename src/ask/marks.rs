//! Finds the words of texts that match a question, to highlight them. Pure functions.
//!
//! A word matches if it has a term of the question, as in the keyword index: in any inflection, case and width.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use vic_words::{Language, SegmentKind, fold, question_terms, segments};

use crate::ask::search_legs::begun_word;
use crate::model::{Marks, MarksRequest};
use crate::planner::syntax;

/// Maximum number of terms that are looked for within runs of Thai, Lao, Khmer or Burmese: each is looked for in each run, so that
/// their number limits the time.
const MAX_PARTS: usize = 64;

/// Finds the matches of one question in texts. Remembers which words match, because words recur.
pub(crate) struct QuestionMatcher {
    terms: HashSet<String>,
    /// The terms that are looked for within the runs of scripts without blanks between words.
    parts: Vec<String>,
    /// The beginning of a word, folded.
    prefix: Option<String>,
    known: HashMap<String, bool>,
}

impl QuestionMatcher {
    /// Makes a matcher for a question with its operators.
    pub(crate) fn new(question: &str) -> QuestionMatcher {
        let words = syntax::parse(question).free_text;
        let mut terms: HashSet<String> = question_terms(&words, &Language::ALL).into_iter().collect();
        for segment in segments(&words).filter(|it| it.kind == SegmentKind::Word) {
            let word = fold(&words[segment.range]);
            // Some language has a stem for every word, as `per` for `period`; one that keeps so little marks other words.
            let is_too_short = |term: &String| 2 * term.chars().count() <= word.chars().count();
            for term in question_terms(&word, &Language::ALL).into_iter().filter(|it| is_too_short(it)) {
                terms.remove(&term);
            }
        }
        if terms.is_empty() {
            // A question of function words alone: they are what it looks for.
            terms = segments(&words).map(|it| fold(&words[it.range]).into_owned()).collect();
        }
        let parts = terms.iter().filter(|it| !it.is_ascii()).take(MAX_PARTS).cloned().collect();
        QuestionMatcher { terms, parts, prefix: None, known: HashMap::new() }
    }

    /// Makes a matcher for a question whose last word is being typed.
    fn with_begun_word(question: &str) -> QuestionMatcher {
        let prefix = begun_word(&syntax::parse(question).free_text);
        QuestionMatcher { prefix, ..QuestionMatcher::new(question) }
    }

    /// Returns the byte ranges of the words of a text that match, in order and without overlaps.
    pub(crate) fn ranges(&mut self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        if self.terms.is_empty() && self.prefix.is_none() {
            return found;
        }
        for segment in segments(text) {
            let (word, at) = (&text[segment.range.clone()], segment.range.start);
            match segment.kind {
                SegmentKind::Word if self.is_match(word) => found.push(segment.range),
                SegmentKind::Word => (),
                SegmentKind::EastAsian => self.push_pairs(word, at, &mut found),
                SegmentKind::SouthEastAsian => self.push_parts(word, at, &mut found),
            }
        }
        merge(&mut found);
        found
    }

    fn is_match(&mut self, word: &str) -> bool {
        if let Some(known) = self.known.get(word) {
            return *known;
        }
        let folded = fold(word);
        let is_match = self.terms.contains(folded.as_ref())
            || self.prefix.as_ref().is_some_and(|it| folded.starts_with(it.as_str()))
            || question_terms(word, &Language::ALL).iter().any(|it| self.terms.contains(it));
        self.known.insert(word.to_string(), is_match);
        is_match
    }

    /// Adds the characters of a run of Han, kana or Hangul that are a term, two together or one alone.
    fn push_pairs(&self, run: &str, at: usize, found: &mut Vec<Range<usize>>) {
        let starts: Vec<usize> = run.char_indices().map(|it| it.0).chain([run.len()]).collect();
        for characters in 1..=2 {
            for window in starts.windows(characters + 1) {
                let range = window[0]..window[characters];
                if self.terms.contains(fold(&run[range.clone()]).as_ref()) {
                    found.push(at + range.start..at + range.end);
                }
            }
        }
    }

    /// Adds the parts of a run of Thai, Lao, Khmer or Burmese that are terms.
    fn push_parts(&self, run: &str, at: usize, found: &mut Vec<Range<usize>>) {
        for term in &self.parts {
            found.extend(run.match_indices(term.as_str()).map(|(start, it)| at + start..at + start + it.len()));
        }
    }
}

fn push_merged(found: &mut Vec<Range<usize>>, range: Range<usize>) {
    match found.last_mut() {
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => found.push(range),
    }
}

fn merge(found: &mut Vec<Range<usize>>) {
    found.sort_unstable_by_key(|it| (it.start, it.end));
    let mut merged = Vec::with_capacity(found.len());
    found.drain(..).for_each(|it| push_merged(&mut merged, it));
    *found = merged;
}

/// Returns the matches of a question in each text, in UTF-16 code units.
pub fn find_marks(request: &MarksRequest) -> Marks {
    let mut matcher = match request.prefix {
        true => QuestionMatcher::with_begun_word(&request.query),
        false => QuestionMatcher::new(&request.query),
    };
    Marks { marks: request.texts.iter().map(|it| utf16_ranges(it, &matcher.ranges(it))).collect() }
}

/// Converts sorted byte ranges to ranges of UTF-16 code units.
fn utf16_ranges(text: &str, ranges: &[Range<usize>]) -> Vec<(u32, u32)> {
    let (mut byte, mut unit) = (0, 0);
    let mut advance = |to: usize| {
        unit += text[byte..to].encode_utf16().count();
        byte = to;
        u32::try_from(unit).unwrap_or(u32::MAX)
    };
    ranges.iter().map(|it| (advance(it.start), advance(it.end))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the marked parts of a text.
    fn check(query: &str, text: &str) -> Vec<String> {
        let request = MarksRequest { query: query.into(), texts: vec![text.into()], prefix: false };
        let units: Vec<u16> = text.encode_utf16().collect();
        let part = |(start, end): &(u32, u32)| String::from_utf16(&units[*start as usize..*end as usize]).unwrap();
        find_marks(&request).marks[0].iter().map(part).collect()
    }

    #[test]
    fn inflections_case_and_accents_match() {
        assert_eq!(check("who signed the lease", "The LEASES were signed; a signature."), ["LEASES", "signed"]);
        assert_eq!(check("größe", "Die Größen, GROESSE, Grosse"), ["Größen", "GROESSE", "Grosse"]);
        assert_eq!(check("the who", "The Who, live"), ["The", "Who"]);
        assert_eq!(check("period of notice", "EUR per month, periods"), ["periods"]);
    }

    #[test]
    fn operators_are_not_marked() {
        assert_eq!(
            check("ext:pdf +rent -dog \"total amount\"", "pdf rent dog, the total amount"),
            ["rent", "total", "amount"]
        );
    }

    #[test]
    fn words_of_scripts_without_blanks_match() {
        assert_eq!(check("发票", "这是发票。发货"), ["发票"]);
        assert_eq!(check("租赁合同", "这是租赁合同的副本。"), ["租赁合同"]);
        assert_eq!(check("カメラの修理", "カメラ、修理"), ["カメラ", "修理"]);
        assert_eq!(check("บ้าน", "😀บ้านหลังใหญ่"), ["บ้าน"]);
    }

    #[test]
    fn positions_are_utf16_units() {
        let request =
            MarksRequest { query: "rent".into(), texts: vec!["😀 rent".into(), String::new()], prefix: false };
        assert_eq!(find_marks(&request).marks, [vec![(3, 7)], vec![]]);
    }

    #[test]
    fn parts_of_identifiers_match_as_a_whole() {
        assert_eq!(check("request", "let maxRequestBytes = 1;"), ["maxRequestBytes"]);
        assert_eq!(check("", "anything"), Vec::<String>::new());
    }

    #[test]
    fn begun_word_matches_longer_words() {
        let texts = vec!["the workshop works".to_string()];
        let request = MarksRequest { query: "the works".into(), texts, prefix: true };
        assert_eq!(find_marks(&request).marks, [vec![(4, 12), (13, 18)]]);
    }
}
