//! Compares two runs of `vic quality` question by question. Pure functions.

use std::collections::HashMap;

use serde::Serialize;

use super::metrics::{QuestionResult, TOP};
use super::run::Run;

/// Number of bootstrap samples; more change the ends of an interval by less than a tenth of its width.
const SAMPLES: usize = 2_000;
/// Start of the random numbers; fixed, so that the same runs give the same intervals.
const SEED: u64 = 0x5eed;

/// The differences between an older and a newer run, over the questions that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Comparison {
    /// Model and version of the older run.
    pub(super) against: String,
    /// Number of questions that both runs have.
    pub(super) questions: usize,
    pub(super) measures: Vec<Difference>,
    /// Questions with a lower measure than before, the greatest loss first.
    pub(super) worse: Vec<Change>,
    /// Questions with a higher measure than before, the greatest gain first.
    pub(super) better: Vec<Change>,
}

/// The difference of the means of one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    pub(super) measure: &'static str,
    pub(super) before: f64,
    pub(super) now: f64,
    /// Mean of the differences of all questions.
    pub(super) difference: f64,
    /// Ends of the 95 % interval of the difference. If 0 lies between them, the difference may be chance.
    pub(super) interval: (f64, f64),
}

/// A question whose measure changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub(super) question: String,
    pub(super) measure: &'static str,
    pub(super) before: f64,
    pub(super) now: f64,
    pub(super) wanted: Vec<String>,
    /// The first file that vic finds now.
    pub(super) first: Option<String>,
}

/// A measure: its name, and its value for a question.
type Measure = (&'static str, fn(&QuestionResult) -> Option<f64>);

const MEASURES: [Measure; 6] = [
    ("nDCG@10", |it| it.ndcg),
    ("recall", |it| it.recall),
    ("hit@1", |it| it.is_hit(1).map(share)),
    ("hit@10", |it| it.is_hit(TOP).map(share)),
    ("answers", |it| it.is_answered.map(share)),
    ("refusals", |it| it.is_refused.map(share)),
];
/// The measures by which a question is better or worse; the others follow from them.
const TELLING: [&str; 3] = ["nDCG@10", "answers", "refusals"];

fn share(it: bool) -> f64 {
    f64::from(u8::from(it))
}

/// Compares a run with an older one.
pub(super) fn compare(before: &Run, now: &Run) -> Comparison {
    // The known files are part of the key, because two questions may have the same words.
    let key = |it: &QuestionResult| (it.question.clone(), it.wanted.clone());
    let old: HashMap<_, &QuestionResult> = before.questions.iter().map(|it| (key(it), it)).collect();
    let pairs: Vec<(&QuestionResult, &QuestionResult)> =
        now.questions.iter().filter_map(|it| Some((*old.get(&key(it))?, it))).collect();
    let measures = MEASURES.iter().filter_map(|it| difference(it, &pairs)).collect();
    let mut changes: Vec<Change> = MEASURES
        .iter()
        .filter(|(name, _)| TELLING.contains(name))
        .flat_map(|measure| pairs.iter().filter_map(|pair| change(measure, pair)))
        .collect();
    changes.sort_by(|one, other| (one.now - one.before).total_cmp(&(other.now - other.before)));
    let (worse, mut better): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(|it| it.now < it.before);
    better.reverse();
    let against = format!("{}, vic {}", before.model.as_deref().unwrap_or("no model"), before.vic);
    Comparison { against, questions: pairs.len(), measures, worse, better }
}

fn difference((name, value): &Measure, pairs: &[(&QuestionResult, &QuestionResult)]) -> Option<Difference> {
    let values: Vec<(f64, f64)> = pairs.iter().filter_map(|(old, new)| Some((value(old)?, value(new)?))).collect();
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let before = values.iter().map(|it| it.0).sum::<f64>() / count;
    let now = values.iter().map(|it| it.1).sum::<f64>() / count;
    let differences: Vec<f64> = values.iter().map(|(old, new)| new - old).collect();
    Some(Difference {
        measure: name,
        before,
        now,
        difference: now - before,
        interval: bootstrap_interval(&differences),
    })
}

/// Returns the change of a question; `None` if the measure is the same.
fn change((name, value): &Measure, (old, new): &(&QuestionResult, &QuestionResult)) -> Option<Change> {
    let (before, now) = (value(old)?, value(new)?);
    (before != now).then(|| Change {
        question: new.question.clone(),
        measure: name,
        before,
        now,
        wanted: new.wanted.clone(),
        first: new.found.first().cloned(),
    })
}

/// Returns the 2.5th and 97.5th percentile of the means of random samples, with replacement, of the values.
fn bootstrap_interval(values: &[f64]) -> (f64, f64) {
    let mut random = Random(SEED);
    let mut means: Vec<f64> = (0..SAMPLES)
        .map(|_| (0..values.len()).map(|_| values[random.below(values.len())]).sum::<f64>() / values.len() as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    (means[SAMPLES / 40], means[SAMPLES - 1 - SAMPLES / 40])
}

/// The generator SplitMix64: enough for samples, and the same on every machine.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to `count - 1`.
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::run::summarize;

    fn run(values: &[(&str, f64)]) -> Run {
        let questions: Vec<QuestionResult> = values
            .iter()
            .map(|(question, ndcg)| QuestionResult {
                question: (*question).into(),
                ndcg: Some(*ndcg),
                recall: Some(1.0),
                rank: Some(1),
                found: vec!["x.md".into()],
                ..QuestionResult::default()
            })
            .collect();
        let summary = summarize(&questions);
        Run { vic: "1".into(), model: None, chunks: None, limit: 100, summary, questions }
    }

    #[test]
    fn shared_questions_are_compared_in_pairs() {
        let before = run(&[("a", 1.0), ("b", 0.5), ("c", 0.25), ("old", 1.0)]);
        let now = run(&[("c", 0.5), ("new", 0.0), ("b", 0.5), ("a", 0.25)]);
        let found = compare(&before, &now);
        assert_eq!(found.questions, 3);
        let ndcg = &found.measures[0];
        assert_eq!((ndcg.measure, ndcg.before), ("nDCG@10", 1.75 / 3.0));
        assert!((ndcg.difference + 0.5 / 3.0).abs() < 1e-9, "{ndcg:?}");
        assert_eq!(
            found.measures.iter().map(|it| it.measure).collect::<Vec<_>>(),
            ["nDCG@10", "recall", "hit@1", "hit@10"]
        );
        let names = |changes: &[Change]| changes.iter().map(|it| it.question.clone()).collect::<Vec<_>>();
        assert_eq!((names(&found.worse), names(&found.better)), (vec!["a".to_string()], vec!["c".to_string()]));
    }

    #[test]
    fn interval_of_equal_differences_is_a_point() {
        assert_eq!(bootstrap_interval(&[0.25; 7]), (0.25, 0.25));
    }

    #[test]
    fn interval_is_that_of_the_normal_distribution_for_many_questions() {
        // 400 differences of +1 and -1: standard error 0.05, so the interval is about -0.098 to 0.098.
        let values: Vec<f64> = (0..400).map(|it| if it % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let (low, high) = bootstrap_interval(&values);
        assert!((-0.11..-0.085).contains(&low) && (0.085..0.11).contains(&high), "{low} {high}");
        assert_eq!(bootstrap_interval(&values), (low, high));
    }

    #[test]
    fn runs_without_shared_questions_have_no_measures() {
        let found = compare(&run(&[("a", 1.0)]), &run(&[("b", 1.0)]));
        assert_eq!((found.questions, found.measures.len()), (0, 0));
    }
}
