//! Computes the measures of `vic quality` from the paths and quotes of an answer. Pure functions.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use vic_protocol::model::{AnswerOutcome, AskResponse};

use super::questions::KnownQuestion;

/// Number of hits that nDCG and `hit@10` look at, as is usual in the literature.
pub(super) const TOP: usize = 10;
/// The text between an archive and its member in a path.
const MEMBER: &str = "!/";

/// The measures of one question. A measure is absent if the question has no known file or no known answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct QuestionResult {
    pub(super) question: String,
    /// The known files, as the user named them.
    pub(super) wanted: Vec<String>,
    /// The first ten files that vic found.
    pub(super) found: Vec<String>,
    /// nDCG@10: 1 if the known files are the first hits, best first.
    pub(super) ndcg: Option<f64>,
    /// Share of the known files that are among the hits.
    pub(super) recall: Option<f64>,
    /// Rank of the first known file, starting at 1.
    pub(super) rank: Option<usize>,
    /// Whether the quotes contain an accepted answer.
    pub(super) is_answered: Option<bool>,
    /// Whether vic says that no file answers a question that no file answers.
    pub(super) is_refused: Option<bool>,
    /// Time of the answer.
    pub(super) milliseconds: f64,
    /// Why vic rejected the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl QuestionResult {
    /// Whether a known file is among the first `top` hits; `None` without known files.
    pub(super) fn is_hit(&self, top: usize) -> Option<bool> {
        self.ndcg.map(|_| self.rank.is_some_and(|it| it <= top))
    }
}

/// Computes the measures of one answer.
pub(super) fn measure(question: &KnownQuestion, response: &AskResponse) -> QuestionResult {
    let paths = ranked_files(question, response);
    let grades = grades_by_rank(question, &paths);
    let is_known = !question.files.is_empty();
    QuestionResult {
        question: question.text.clone(),
        wanted: question.files.iter().map(|(name, _)| name.clone()).collect(),
        found: paths.iter().take(TOP).cloned().collect(),
        ndcg: is_known.then(|| ndcg(&grades, &question.files.iter().map(|it| it.1).collect::<Vec<_>>())),
        recall: is_known.then(|| grades.iter().filter(|it| **it > 0.0).count() as f64 / question.files.len() as f64),
        rank: grades.iter().position(|it| *it > 0.0).map(|it| it + 1),
        is_answered: (!question.answers.is_empty()).then(|| is_answered(question, response)),
        is_refused: question.has_no_answer().then(|| says_nothing(response)),
        milliseconds: 0.0,
        error: None,
    }
}

impl KnownQuestion {
    /// Whether the user says that no file answers the question.
    pub(super) fn has_no_answer(&self) -> bool {
        self.files.is_empty() && self.answers.is_empty()
    }
}

/// Returns the distinct files of the hits in order. A member counts as its archive, unless the user names a member.
fn ranked_files(question: &KnownQuestion, response: &AskResponse) -> Vec<String> {
    let with_members = question.files.iter().any(|(name, _)| name.contains(MEMBER));
    let mut files: Vec<String> = Vec::new();
    for hit in &response.hits {
        let path = hit.metadata.get("absolute_path").and_then(|it| it.as_str()).unwrap_or(&hit.path);
        let file = if with_members { path } else { path.split(MEMBER).next().unwrap_or(path) };
        if !files.iter().any(|it| it == file) {
            files.push(file.to_string());
        }
    }
    files
}

/// Returns the grade of each ranked file; 0 for a file that is not known. Each known file counts once.
fn grades_by_rank(question: &KnownQuestion, paths: &[String]) -> Vec<f64> {
    let mut left: Vec<&(String, f64)> = question.files.iter().collect();
    let grade_of = |path: &String| {
        // A name that is the end of several names, such as `a.md`, gives way to a longer one.
        let matching = left.iter().enumerate().filter(|(_, (name, _))| is_end_of_path(name, path));
        let Some((index, _)) = matching.max_by_key(|(_, (name, _))| name.len()) else { return 0.0 };
        left.remove(index).1
    };
    paths.iter().map(grade_of).collect()
}

/// Whether a path is, or ends in, the named path. Both may be composed differently (`ü` as one character or two).
fn is_end_of_path(name: &str, path: &str) -> bool {
    let plain = |text: &str| text.trim_start_matches("./").nfc().collect::<String>();
    let (name, path) = (plain(name), plain(path));
    let name = name.trim_start_matches('/');
    path.strip_suffix(name).is_some_and(|it| it.is_empty() || it.ends_with('/'))
}

/// Returns the normalised discounted cumulative gain of the best hits: each grade divided by the logarithm of its rank,
/// compared with the best possible order.
fn ndcg(grades: &[f64], known: &[f64]) -> f64 {
    let gain = |grades: &[f64]| -> f64 {
        grades.iter().take(TOP).enumerate().map(|(rank, grade)| grade / ((rank + 2) as f64).log2()).sum()
    };
    let mut ideal = known.to_vec();
    ideal.sort_by(|one, other| other.total_cmp(one));
    gain(grades) / gain(&ideal)
}

/// Whether the quotes contain every text of one accepted answer, as whole words.
fn is_answered(question: &KnownQuestion, response: &AskResponse) -> bool {
    let quotes: Vec<&str> = response.answer.iter().flat_map(|it| &it.quotes).map(|it| it.text.as_str()).collect();
    let text = plain(&quotes.join(" "));
    question.answers.iter().any(|all| all.iter().all(|part| contains_words(&text, &plain(part))))
}

fn says_nothing(response: &AskResponse) -> bool {
    response.answer.as_ref().is_some_and(|it| it.outcome == AnswerOutcome::Nothing)
}

/// Normalises a text for comparison: compatible characters, lower case, single blanks.
fn plain(text: &str) -> String {
    let text: String = text.nfkc().collect();
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `text` contains `part`, not within a longer word or number.
fn contains_words(text: &str, part: &str) -> bool {
    let first = part.chars().next().is_some_and(char::is_alphanumeric);
    let last = part.chars().next_back().is_some_and(char::is_alphanumeric);
    let is_word = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
    // Scripts without blanks between words have no word boundaries to check.
    let spaced = part.chars().all(|it| it.is_ascii() || !is_unspaced(it));
    text.match_indices(part).any(|(at, _)| {
        let before = is_word(text[..at].chars().next_back());
        let after = is_word(text[at + part.len()..].chars().next());
        !spaced || !(first && before || last && after)
    })
}

/// Whether a character belongs to a script that is written without blanks between words: Thai to Khmer, kana, Han.
fn is_unspaced(it: char) -> bool {
    matches!(it, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use vic_protocol::model::{Answer, AnswerQuote, samples};

    fn question(files: &[(&str, f64)], answers: &[&[&str]]) -> KnownQuestion {
        KnownQuestion {
            text: "q".into(),
            files: files.iter().map(|(name, grade)| ((*name).into(), *grade)).collect(),
            answers: answers.iter().map(|it| it.iter().map(|it| (*it).into()).collect()).collect(),
        }
    }

    fn response(paths: &[&str], quotes: &[&str]) -> AskResponse {
        let mut response = samples::answer("q");
        let sample = response.hits[0].clone();
        response.hits = paths
            .iter()
            .map(|path| {
                let mut hit = sample.clone();
                hit.path = path.trim_start_matches("/root/").into();
                hit.metadata.insert("absolute_path".into(), (*path).into());
                hit
            })
            .collect();
        let quotes: Vec<AnswerQuote> = quotes
            .iter()
            .map(|text| AnswerQuote { hit: 1, text: (*text).into(), place: String::new(), checked: true })
            .collect();
        let outcome = if quotes.is_empty() { AnswerOutcome::Nothing } else { AnswerOutcome::Answered };
        response.answer = Some(Answer { outcome, confidence: 0.5, quotes });
        response
    }

    fn near(one: Option<f64>, other: f64) -> bool {
        one.is_some_and(|it| (it - other).abs() < 1e-4)
    }

    #[test]
    fn ndcg_equals_value_computed_by_hand() {
        // One known file at rank 1, 2, 3: 1, 1/log2(3), 1/log2(4).
        for (paths, expected) in [
            (&["/root/a.md", "/root/b.md"][..], 1.0),
            (&["/root/b.md", "/root/a.md"], 0.6309),
            (&["/root/c.md", "/root/b.md", "/root/a.md"], 0.5),
            (&["/root/c.md"], 0.0),
        ] {
            let result = measure(&question(&[("a.md", 1.0)], &[]), &response(paths, &[]));
            assert!(near(result.ndcg, expected), "{paths:?}: {result:?}");
        }
        // Grades 2 and 1 in the wrong order: (1 + 2/log2(3)) / (2 + 1/log2(3)) = 2.26186 / 2.63093.
        let graded = question(&[("a.md", 2.0), ("b.md", 1.0)], &[]);
        let result = measure(&graded, &response(&["/root/b.md", "/root/a.md"], &[]));
        assert!(near(result.ndcg, 0.85972), "{result:?}");
        assert_eq!((result.recall, result.rank), (Some(1.0), Some(1)));
    }

    #[test]
    fn rank_beyond_ten_counts_for_recall_only() {
        let names: Vec<String> = (0..11).map(|it| format!("/root/{it}.md")).collect();
        let paths: Vec<&str> = names.iter().map(String::as_str).collect();
        let result = measure(&question(&[("10.md", 1.0), ("missing.md", 1.0)], &[]), &response(&paths, &[]));
        assert_eq!((result.ndcg, result.recall, result.rank), (Some(0.0), Some(0.5), Some(11)));
        assert_eq!(result.found.len(), TOP);
    }

    #[test]
    fn name_matches_end_of_path_at_a_folder() {
        for (name, path, expected) in [
            ("a.md", "/root/x/a.md", true),
            ("x/a.md", "/root/x/a.md", true),
            ("/root/x/a.md", "/root/x/a.md", true),
            ("./x/a.md", "/root/x/a.md", true),
            ("a.md", "/root/x/aa.md", false),
            ("y/a.md", "/root/x/a.md", false),
            ("u\u{308}ber.md", "/root/\u{fc}ber.md", true),
        ] {
            assert_eq!(is_end_of_path(name, path), expected, "{name} {path}");
        }
    }

    #[test]
    fn member_counts_as_its_archive_once() {
        let answer = response(&["/root/x.zip!/a.md", "/root/x.zip!/b.md", "/root/c.md"], &[]);
        let result = measure(&question(&[("x.zip", 1.0)], &[]), &answer);
        assert_eq!((result.found.len(), result.rank), (2, Some(1)));
        let result = measure(&question(&[("x.zip!/b.md", 1.0)], &[]), &answer);
        assert_eq!((result.found.len(), result.rank), (3, Some(2)));
    }

    #[test]
    fn two_known_files_with_the_same_ending_count_each_once() {
        let both = question(&[("a.md", 1.0), ("x/a.md", 1.0)], &[]);
        let result = measure(&both, &response(&["/root/x/a.md", "/root/y/a.md", "/root/z/a.md"], &[]));
        assert_eq!((result.ndcg, result.recall), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn answer_needs_every_text_of_one_accepted_answer() {
        for (accepted, quotes, expected) in [
            (&[&["40 EUR"][..]][..], &["The fee is  40\u{a0}eur."][..], true),
            (&[&["40 EUR"]], &["The fee is 140 EUR."], false),
            (&[&["40 EUR"]], &["The fee is 40 EUROS."], false),
            (&[&["ada", "ben"]], &["Ada signed.", "Ben signed."], true),
            (&[&["ada", "ben"]], &["Ada signed."], false),
            (&[&["cleo"], &["ada"]], &["Ada signed."], true),
            (&[&["(a)"]], &["see (a)b"], true),
            (&[&["三千"]], &["费用为三千元"], true),
            (&[&["ada"]], &[], false),
        ] {
            let result = measure(&question(&[], accepted), &response(&["/root/a.md"], quotes));
            assert_eq!(result.is_answered, Some(expected), "{accepted:?} {quotes:?}");
            assert_eq!((result.ndcg, result.is_refused), (None, None));
        }
    }

    #[test]
    fn question_without_answer_wants_nothing() {
        assert_eq!(measure(&question(&[], &[]), &response(&["/root/a.md"], &[])).is_refused, Some(true));
        assert_eq!(measure(&question(&[], &[]), &response(&["/root/a.md"], &["x"])).is_refused, Some(false));
    }
}
