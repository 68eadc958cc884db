//! Finds statements of documents on a field, and decides whether two of them agree or contradict. Compares words and
//! numbers only: a paraphrase is not recognised, and the `method` of the answer says so.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::stored_passage::StoredPassage;
use crate::corpus::text::words::{self, jaccard, normalize_key, truncate_to_line};
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::model::FileId;
use crate::text::trimmed_sentences;

/// Maximum number of statements per topic that are compared pairwise: more would take minutes and give too many pairs.
pub(crate) const MAX_COMPARED: usize = 5_000;

/// Minimum Jaccard similarity of the stems of two statements on the same topic.
pub(crate) const SAME_TOPIC: f64 = 0.6;

/// Words that show that a sentence is a statement on a field.
const FIELD_CUES: &[(&str, &[&str])] = &[
    (
        "recommendation",
        &["recommend", "should", "advise", "advisable", "suggest", "prefer", "ought to", "it is best to"],
    ),
    ("best_practice", &["best practice", "always", "never", "should", "must", "avoid", "make sure"]),
    ("conclusion", &["we conclude", "in conclusion", "results show", "we found", "therefore"]),
    ("warning", &["warning", "caution", "danger", "do not", "must not", "beware", "never"]),
    ("limitation", &["limitation", "limited to", "drawback", "does not support"]),
    ("requirement", &["must", "require", "need to", "shall"]),
];

const NEGATIONS: &[&str] = &[
    "not",
    "never",
    "no",
    "don't",
    "avoid",
    "without",
    "against",
    "cannot",
    "can't",
    "shouldn't",
    "mustn't",
    "nor",
    "isn't",
    "aren't",
];

/// Pairs of words with opposite meanings.
const OPPOSITES: &[(&str, &str)] = &[
    ("increase", "decrease"),
    ("increases", "decreases"),
    ("increased", "decreased"),
    ("enable", "disable"),
    ("enabled", "disabled"),
    ("safe", "unsafe"),
    ("before", "after"),
    ("high", "low"),
    ("higher", "lower"),
    ("more", "less"),
    ("faster", "slower"),
    ("allow", "forbid"),
    ("allowed", "forbidden"),
    ("required", "optional"),
    ("open", "closed"),
    ("accept", "reject"),
    ("improves", "worsens"),
];

/// A sentence of a document that states something on a field.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) file: FileId,
    pub(crate) text: String,
    pub(crate) place: SourceLocation,
    /// Stems of the sentence's content words, without negations, opposites and numbers; they define its topic.
    pub(crate) topic_stems: Vec<String>,
    negative: bool,
    /// The [`OPPOSITES`] in the sentence, as (index of the pair, whether the sentence has its first word).
    sides: BTreeSet<(usize, bool)>,
    numbers: BTreeSet<String>,
}

impl Statement {
    fn new(file: FileId, text: &str, place: &SourceLocation) -> Statement {
        let lower: Vec<String> = words::words(text).map(|it| it.1.to_lowercase()).collect();
        let negative = lower.iter().filter(|it| NEGATIONS.contains(&it.as_str())).count() % 2 == 1;
        let mut sides = BTreeSet::new();
        for (at, (one, other)) in OPPOSITES.iter().enumerate() {
            sides.extend(lower.iter().filter_map(|it| match it.as_str() {
                word if word == *one => Some((at, true)),
                word if word == *other => Some((at, false)),
                _ => None,
            }));
        }
        let numbers = lower.iter().filter(|it| it.starts_with(|it: char| it.is_ascii_digit())).cloned().collect();
        let is_side = |word: &str| OPPOSITES.iter().any(|it| it.0 == word || it.1 == word);
        let telling = lower.iter().filter(|it| {
            let word = it.as_str();
            !words::is_stop_word(word)
                && !NEGATIONS.contains(&word)
                && !is_side(word)
                && !is_cue(word)
                && !word.starts_with(|it: char| it.is_ascii_digit())
        });
        let topic_stems = telling.map(|it| words::stem(it)).collect();
        Statement {
            file,
            text: truncate_to_line(text, 240),
            place: place.clone(),
            topic_stems,
            negative,
            sides,
            numbers,
        }
    }

    /// Returns whether two statements are on the same topic.
    pub(crate) fn same_topic(&self, other: &Statement) -> bool {
        jaccard(&self.topic_stems, &other.topic_stems) >= SAME_TOPIC
    }

    /// Returns why two statements on the same topic contradict each other, or `None` if they do not.
    pub(crate) fn contradicts(&self, other: &Statement) -> Option<&'static str> {
        let flipped = self
            .sides
            .iter()
            .any(|(at, side)| other.sides.contains(&(*at, !side)) && !other.sides.contains(&(*at, *side)));
        if (self.negative != other.negative) != flipped {
            return Some(if flipped { "opposite words" } else { "one negates the other" });
        }
        let differ = !self.numbers.is_empty() && !other.numbers.is_empty() && self.numbers != other.numbers;
        differ.then_some("different numbers")
    }

    /// Returns everything that decides which statements contradict this one; equal stances contradict the same statements.
    fn stance(&self) -> (bool, &BTreeSet<(usize, bool)>, &BTreeSet<String>) {
        (self.negative, &self.sides, &self.numbers)
    }

    pub(crate) fn value(&self) -> Value {
        let mut shown = Map::from_iter([("file".to_string(), json!(self.file))]);
        self.place.write(&mut shown);
        shown.insert("text".into(), json!(self.text));
        Value::Object(shown)
    }
}

fn is_cue(word: &str) -> bool {
    FIELD_CUES.iter().any(|it| it.1.contains(&word))
        || ["recommended", "advised", "suggested", "preferred"].contains(&word)
}

/// Returns the statements of a view on a field, in document order: sentences with cue words of the field, sentences
/// under a heading that names the field, and `field: value` pairs.
pub(crate) fn find_statements(corpus: &Corpus, field: &str) -> Vec<Statement> {
    corpus.documents.iter().flat_map(|it| document_statements(it, field)).collect()
}

/// Returns the statements of one document on a field, as [`find_statements`] does.
pub(crate) fn document_statements(paper: &CorpusDocument, field: &str) -> Vec<Statement> {
    let key = normalize_key(field);
    let cues = FIELD_CUES.iter().find(|it| it.0 == key || format!("{}s", it.0) == key).map(|it| it.1);
    let stems = words::stems(field);
    let mut found = Vec::new();
    for passage in paper.parsed.prose() {
        let below = !stems.is_empty() && contains_all(&words::stems(&passage.section), &stems);
        for range in trimmed_sentences(&passage.text) {
            let sentence = &passage.text[range];
            let holds = match cues {
                Some(cues) => has_cue(sentence, cues),
                None => !stems.is_empty() && contains_all(&words::stems(sentence), &stems),
            };
            if (below || holds) && sentence.split_whitespace().count() >= 3 {
                found.push(Statement::new(paper.file, sentence, &sentence_place(passage, sentence)));
            }
        }
    }
    if found.is_empty()
        && let Some((value, place)) = paper.parsed.stated.get(&key)
    {
        found.push(Statement::new(paper.file, &format!("{}: {value}", key.replace('_', " ")), place));
    }
    found
}

fn contains_all(stems: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|it| stems.contains(it))
}

fn has_cue(sentence: &str, cues: &[&str]) -> bool {
    let lower = format!(" {} ", sentence.to_lowercase().replace(|it: char| !it.is_alphanumeric() && it != '\'', " "));
    cues.iter().any(|it| match it.contains(' ') || it.len() <= 6 {
        true => lower.contains(&format!(" {it} ")),
        false => lower.contains(&format!(" {it}")),
    })
}

/// Returns the location of a sentence of a passage, exact to lines or bytes if these can be counted.
fn sentence_place(passage: &StoredPassage, sentence: &str) -> SourceLocation {
    let mut place = passage.place.clone();
    let at = sentence.as_ptr() as usize - passage.text.as_ptr() as usize;
    let breaks = || passage.text.matches('\n').count() as u32;
    if let Some((first, last)) = place.lines.filter(|it| it.1 - it.0 == breaks()) {
        let before = passage.text[..at].matches('\n').count() as u32;
        place.lines = Some((first + before, (first + before + sentence.matches('\n').count() as u32).min(last)));
    }
    if let Some((start, end)) = place.bytes.filter(|it| it.1 - it.0 == passage.text.len() as u64) {
        let start = start + at as u64;
        place.bytes = Some((start, (start + sentence.len() as u64).min(end)));
    }
    place
}

/// Statements on one topic.
#[derive(Clone, Debug)]
pub(crate) struct StatementTopic {
    pub(crate) statements: Vec<Statement>,
    /// Number of further statements on the topic, which are not compared.
    left_out: usize,
}

/// Groups statements by topic, in order of appearance.
pub(crate) fn group_by_topic(statements: Vec<Statement>) -> Vec<StatementTopic> {
    let mut topics: Vec<StatementTopic> = Vec::new();
    let mut with_stem: HashMap<String, Vec<usize>> = HashMap::new();
    for statement in statements.into_iter().filter(|it| !it.topic_stems.is_empty()) {
        let stems: BTreeSet<String> = statement.topic_stems.iter().cloned().collect();
        let found = candidate_topics(&with_stem, &stems).into_iter().find(|it| topics[*it].is_on(&statement));
        match found.map(|it| &mut topics[it]) {
            Some(topic) if topic.statements.len() >= MAX_COMPARED => topic.left_out += 1,
            Some(topic) => topic.statements.push(statement),
            None => {
                stems.into_iter().for_each(|it| with_stem.entry(it).or_default().push(topics.len()));
                topics.push(StatementTopic { statements: vec![statement], left_out: 0 });
            }
        }
    }
    topics
}

/// Returns the topics that can match these stems, in order, so that not every topic must be compared: a matching topic
/// shares at least one of the rarest stems, so only topics with one of these are looked up.
fn candidate_topics(with_stem: &HashMap<String, Vec<usize>>, stems: &BTreeSet<String>) -> BTreeSet<usize> {
    let shared = (SAME_TOPIC * stems.len() as f64 - 1e-9).ceil() as usize;
    let mut topics: Vec<&[usize]> =
        stems.iter().map(|it| with_stem.get(it).map(Vec::as_slice).unwrap_or_default()).collect();
    topics.sort_by_key(|it| it.len());
    topics.into_iter().take(stems.len() + 1 - shared.max(1)).flatten().copied().collect()
}

/// Reports in the answer how many statements were not compared.
pub(crate) fn report_not_compared<'t>(answer: &mut Answer, topics: impl IntoIterator<Item = &'t StatementTopic>) {
    let left_out: usize = topics.into_iter().map(|it| it.left_out).sum();
    if left_out > 0 {
        let detail = format!("only the first {MAX_COMPARED} statements of a topic are compared; name a smaller view");
        answer.push_unknown(Unknown::new("statements_not_compared", left_out).detail(detail));
    }
}

/// Two statements that contradict each other, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contradiction<'t> {
    pub(crate) one: &'t Statement,
    pub(crate) other: &'t Statement,
    pub(crate) why: &'static str,
}

impl Contradiction<'_> {
    pub(crate) fn value(&self) -> Value {
        json!({"why": self.why, "a": self.one.value(), "b": self.other.value()})
    }
}

impl StatementTopic {
    /// Returns whether a statement is on this topic, judged by the topic's first statement.
    fn is_on(&self, statement: &Statement) -> bool {
        self.statements[0].same_topic(statement)
    }

    /// Splits the statements into those that do not contradict a chosen statement, and the others. Chooses the statement
    /// with which most documents agree.
    pub(crate) fn split_sides(&self) -> (Vec<&Statement>, Vec<&Statement>) {
        let (mut best, mut most): (Vec<&Statement>, usize) = (Vec::new(), 0);
        let mut tried = BTreeSet::new();
        // Try only one statement per stance: statements with equal stances contradict the same statements.
        for first in self.statements.iter().filter(|it| tried.insert(it.stance())) {
            let side: Vec<&Statement> = self.statements.iter().filter(|it| first.contradicts(it).is_none()).collect();
            let count = distinct_files(&side).len();
            if count > most {
                (best, most) = (side, count);
            }
        }
        let rest = self.statements.iter().filter(|it| !best.iter().any(|own| std::ptr::eq(*own, *it))).collect();
        (best, rest)
    }

    /// Iterates over contradicting pairs of statements from different documents. The iterator is lazy, because a hundred
    /// reports on one topic have millions of pairs.
    pub(crate) fn contradictions(&self) -> impl Iterator<Item = Contradiction<'_>> {
        self.statements.iter().enumerate().flat_map(move |(at, one)| {
            let others = self.statements[at + 1..].iter().filter(move |it| it.file != one.file);
            others.filter_map(move |other| Some(Contradiction { one, other, why: one.contradicts(other)? }))
        })
    }
}

/// Returns the documents that make these statements.
pub(crate) fn distinct_files(statements: &[&Statement]) -> BTreeSet<FileId> {
    statements.iter().map(|it| it.file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(file: FileId, text: &str) -> Statement {
        Statement::new(file, text, &SourceLocation::default())
    }

    #[test]
    fn negations_opposites_and_numbers_contradict() {
        let keep = statement(1, "You should store the gauge indoors in winter.");
        for (other, why) in [
            ("You should not store the gauge indoors in winter.", Some("one negates the other")),
            ("You should never store the gauge indoors in winter.", Some("one negates the other")),
            ("Store the gauge indoors in winter.", None),
        ] {
            let other = statement(2, other);
            assert!(keep.same_topic(&other));
            assert_eq!(keep.contradicts(&other), why);
        }
        let (high, low) = (statement(1, "Salt increases the drift"), statement(2, "Salt decreases the drift"));
        assert_eq!(high.contradicts(&low), Some("opposite words"));
        let (five, six) = (statement(1, "Flush the pipe every 5 days"), statement(2, "Flush the pipe every 6 days"));
        assert_eq!(five.contradicts(&six), Some("different numbers"));
        assert!(!keep.same_topic(&five));
    }

    #[test]
    fn topic_lookup_equals_pairwise_comparison() {
        // Combine few words with few endings, so that many statements share stems.
        let word =
            |seed: usize| format!("{}{}", ["gauge", "pump", "valve", "weir"][seed % 4], ["ing", "", "s"][seed % 3]);
        let statements: Vec<Statement> = (0..600usize)
            .map(|it| (0..2 + it % 6).map(|at| format!("{}{} ", word(it * 7 + at * at), (it / 9 + at) % 11)).collect())
            .map(|text: String| statement(1, &text))
            .collect();
        let mut expected: Vec<Vec<String>> = Vec::new();
        let mut firsts: Vec<&Statement> = Vec::new();
        for statement in &statements {
            match firsts.iter().position(|it| it.same_topic(statement)) {
                Some(at) => expected[at].push(statement.text.clone()),
                None => {
                    firsts.push(statement);
                    expected.push(vec![statement.text.clone()]);
                }
            }
        }
        assert!((20..500).contains(&expected.len()), "{}", expected.len());
        let text = |it: &StatementTopic| it.statements.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
        assert_eq!(group_by_topic(statements).iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn topics_of_20000_statements_take_seconds() {
        let words = |it: usize| (0..6).map(|at| format!("w{}x ", it * 6 + at)).collect::<String>();
        let statements: Vec<Statement> = (0..20_000).map(|it| statement(1, &words(it))).collect();
        let begun = std::time::Instant::now();
        assert_eq!(group_by_topic(statements).len(), 20_000);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    /// Creates `days` reports of `sentences` sentences each; each sentence states a different number.
    fn reports(days: i64, sentences: i64) -> Vec<Statement> {
        let reports = (0..days).flat_map(|day| (0..sentences).map(move |it| (day, day * sentences + it)));
        reports.map(|(day, it)| statement(day, &format!("The temperature at the buoy was {it} degrees"))).collect()
    }

    #[test]
    fn contradictions_are_lazy_and_bounded_per_topic() {
        let topics = group_by_topic(reports(100, 24));
        assert_eq!(topics.len(), 1);
        assert_eq!(topics[0].contradictions().count(), 2_400 * 2_399 / 2 - 100 * 24 * 23 / 2);
        let mut answer = Answer::new("a method");
        report_not_compared(&mut answer, &topics);
        assert!(answer.unknowns.is_empty());
        let topics = super::group_by_topic(reports(2, 2_510));
        assert_eq!((topics[0].statements.len(), topics[0].contradictions().count()), (5_000, 2_510 * 2_490));
        report_not_compared(&mut answer, &topics);
        assert_eq!(answer.unknowns[0].value()["type"], "statements_not_compared");
        assert_eq!(answer.unknowns[0].value()["count"], 20);
    }
}
