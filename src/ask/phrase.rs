//! Words that stand together: a passage that holds the question word for word is what was meant. Pure.
//!
//! Both legs look at words one by one. Among the best files this puts those first that hold a long run of the question,
//! stop words included: `score + (1 - score) * 0.4 * (run / words)^2`, where `run` is the longest sequence of the question's
//! words that stands in the passage in the same order with nothing between.

/// Part of the way to 1 that a passage goes that holds the whole question.
const WEIGHT: f32 = 0.4;
/// Shorter runs are chance, unless they are the whole question.
const MIN_RUN: usize = 3;

/// The words of a text as they are compared: lower case, without apostrophes.
pub(crate) fn words(text: &str) -> Vec<String> {
    let plain: String = text.chars().filter(|it| !matches!(it, '\'' | '\u{2019}')).collect();
    plain.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).map(str::to_lowercase).collect()
}

/// Returns the score of a passage that had `score` before its runs were looked at.
pub(crate) fn lift(score: f32, question: &[String], passage: &str) -> f32 {
    let run = longest_run(question, &words(passage));
    if question.len() < 2 || run < MIN_RUN.min(question.len()) {
        return score;
    }
    let share = run as f32 / question.len() as f32;
    score + (1.0 - score) * WEIGHT * share * share
}

/// Length of the longest sequence of words that both have, nothing between. Takes time and space in the product of the
/// lengths of a question and a passage; a question of hundreds of words is cut.
fn longest_run(question: &[String], passage: &[String]) -> usize {
    const MOST_WORDS: usize = 64;
    let question = &question[..question.len().min(MOST_WORDS)];
    // runs[i] is the length of the run that ends at question word i and the passage word before the present one.
    let mut runs = vec![0; question.len() + 1];
    let mut longest = 0;
    for word in passage {
        for at in (0..question.len()).rev() {
            runs[at + 1] = if question[at] == *word { runs[at] + 1 } else { 0 };
            longest = longest.max(runs[at + 1]);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, passage: &str) -> f32 {
        lift(0.5, &words(question), passage)
    }

    #[test]
    fn the_whole_question_word_for_word_goes_furthest() {
        let whole = check("they're the ones who see", "Here's to the crazy ones. Theyre the ones who see things.");
        let part = check("they're the ones who see", "The ones who came late.");
        assert!((whole - 0.7).abs() < 1e-6, "{whole}");
        assert!(0.5 < part && part < whole, "{part}");
    }

    #[test]
    fn chance_is_no_run() {
        assert_eq!(check("where is the harbour office now", "the harbour is closed; the office moved"), 0.5);
        assert_eq!(check("harbour", "harbour"), 0.5);
    }

    #[test]
    fn a_phrase_of_two_words_counts_when_whole() {
        assert!(check("quince jelly", "A recipe for Quince-Jelly.") > 0.5);
        assert_eq!(check("quince jelly", "jelly of quince"), 0.5);
    }

    #[test]
    fn a_score_never_exceeds_one() {
        assert!(lift(1.0, &words("a b c"), "a b c") <= 1.0);
    }
}
