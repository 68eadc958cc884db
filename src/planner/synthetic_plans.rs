//! Generates training data for a planner (`vic synthetic-plans`): questions from templates, and the plans of the
//! rules. Pure functions.
//!
//! Each line is `{"question": "...", "plan": {...}}`, where the plan has the fields of [`QueryPlan`]. The same count, seed
//! and day give the same lines.

use std::collections::HashSet;

use chrono::NaiveDate;
use serde::Serialize;

use crate::error::Result;
use crate::model::{AskRequest, PrivacyMode, QueryPlan};
use crate::planner::rule_planner::plan_by_rules;

/// One line of training data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// The question, as a user would type it.
    pub question: String,
    /// The plan that the rules make for the question.
    pub plan: QueryPlan,
}

/// Generation stops after this many duplicate questions in a row, because the templates then yield hardly any new ones.
const MAX_REPEATS: usize = 1_000;

/// Templates of questions; each `{slot}` is replaced by one of its values in [`SLOTS`].
const TEMPLATES: &[&str] = &[
    "{find} {kinds} about {topic}",
    "{find} {kinds} about {topic} {where}",
    "{find} all {kinds} {dated}",
    "{kinds} {sized} {where}",
    "{kinds} {dated} about {topic}",
    "list all files {dated}",
    "list the {kinds} {where}",
    "which {kinds} mention {topic}?",
    "which files did I edit {recently}?",
    "how many {kinds} are there?",
    "how many files are owned by {owner}?",
    "files owned by {owner} {sized}",
    "summarize {topic}",
    "what is {topic}?",
    "where is {topic}?",
    "why was {topic} changed in {year}?",
    "how much did we pay for {topic} in {year}?",
    "{topic} in {year}",
    "who signed the {paper}?",
    "who signed the {paper} about {topic}?",
    "did {owner} sign the {paper} about {topic}? show the signature",
    "what is written on the stamp of the {paper} from {year}?",
    "what is the total of the {bill} for {topic}?",
    "{find} scanned {paper}s about {topic}",
    "show me the stamp on the {paper}",
    "what is the total amount on the {bill}?",
    "what does the table on page {digit} of the {paper} say?",
    "what does the scanned {paper} say about {topic}?",
    "what does the photo of {topic} show?",
    "which fields are filled in on the {paper} form?",
    "\"{topic}\" ext:{ext}",
    "{topic} ext:{ext} after:{year}",
    "{topic} path:{folder} -draft",
    "{topic} size:>{digit}MB lang:{lang}",
    "{lang} code about {topic}",
    "what does {topic} cost in the {folder} folder?",
    "{topic} {where}",
    "what did we decide about {topic} {recently}?",
];

const SLOTS: &[(&str, &[&str])] = &[
    ("find", &["find", "show me", "please find", "search for", "I need", "look for", "give me"]),
    (
        "kinds",
        &[
            "PDFs",
            "spreadsheets",
            "presentations",
            "emails",
            "notes",
            "photos",
            "word documents",
            "markdown files",
            "python scripts",
            "zip files",
            "screenshots",
            "documents",
        ],
    ),
    (
        "topic",
        &[
            "the roof repair",
            "mooring fees",
            "the lease",
            "solar panels",
            "the rowing club",
            "travel costs",
            "bread recipes",
            "the water meter",
            "tide gauges",
            "the flood gate",
            "home insurance",
            "the school trip",
            "heating oil",
            "the new website",
            "warranty claims",
            "the garden fence",
            "bicycle parts",
            "piano lessons",
        ],
    ),
    ("where", &["in the {folder} folder", "under projects/{folder}", "in ~/{folder}"]),
    (
        "dated",
        &[
            "modified {recently}",
            "from {year}",
            "since {month} {year}",
            "before {year}",
            "modified in {month} {year}",
            "from the last {digit} months",
            "between {month} {year} and now",
            "created before {month} {year}",
        ],
    ),
    ("recently", &["yesterday", "last week", "this month", "last year", "in the last {digit} days", "this week"]),
    ("sized", &["larger than {digit} MB", "under {digit}00 KB", "between {digit} and 20 MB", "over {digit} GB"]),
    ("month", &["January", "February", "March", "April", "June", "July", "September", "October", "December"]),
    ("year", &["2015", "2018", "2019", "2020", "2021", "2022", "2023", "2024", "2025"]),
    ("digit", &["2", "3", "4", "5", "6", "8"]),
    ("folder", &["contracts", "finance", "notes", "archive", "holiday", "research", "house"]),
    ("owner", &["anna", "ben", "carla", "root", "dmitri"]),
    ("paper", &["contract", "lease", "permit", "letter", "agreement", "certificate"]),
    ("bill", &["invoice", "receipt", "bill", "phone bill", "invoice of the plumber"]),
    ("ext", &["pdf", "md", "docx", "txt", "csv"]),
    ("lang", &["rust", "python", "java", "kotlin", "ruby"]),
];

/// Makes `count` distinct examples, or fewer if the templates yield fewer.
///
/// # Errors
/// None in practice: the rules can plan every template.
pub fn synthetic_plans(count: usize, seed: u64, today: NaiveDate) -> Result<Vec<Example>> {
    let mut random = Random(seed);
    let (mut seen, mut examples, mut repeats) = (HashSet::new(), Vec::new(), 0);
    while examples.len() < count && repeats < MAX_REPEATS {
        let question = random.fill(random.clone().pick(TEMPLATES));
        random.next();
        if !seen.insert(question.clone()) {
            repeats += 1;
            continue;
        }
        repeats = 0;
        let request = AskRequest { query: question.clone(), ..AskRequest::default() };
        examples.push(Example { plan: plan_by_rules(&request, PrivacyMode::LocalOnly, today)?, question });
    }
    Ok(examples)
}

/// Generator of deterministic pseudorandom numbers (SplitMix64).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[(self.next() % list.len() as u64) as usize]
    }

    /// Replaces the slots of a template by random values, also slots inside those values.
    fn fill(&mut self, template: &str) -> String {
        let Some((before, rest)) = template.split_once('{') else { return template.to_string() };
        let (slot, after) = rest.split_once('}').unwrap_or((rest, ""));
        let choices = SLOTS.iter().find(|(name, _)| *name == slot).map_or(&[][..], |(_, choices)| *choices);
        let filled = if choices.is_empty() {
            String::new()
        } else {
            let choice = self.pick(choices);
            self.fill(choice)
        };
        format!("{before}{filled}{}", self.fill(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::validate;

    fn check(count: usize, seed: u64) -> Vec<Example> {
        synthetic_plans(count, seed, NaiveDate::from_ymd_opt(2026, 3, 18).unwrap()).unwrap()
    }

    #[test]
    fn examples_are_distinct_varied_and_valid() {
        let examples = check(3_000, 1);
        assert_eq!(examples.len(), 3_000);
        for example in &examples {
            validate(&example.plan).unwrap();
            assert!(!example.question.contains(['{', '}']), "{}", example.question);
        }
        let share = |test: fn(&QueryPlan) -> bool| examples.iter().filter(|it| test(&it.plan)).count();
        // Training data must have many examples of each case, including questions without a filter.
        assert!(share(|it| it.l0_filters.is_none()) > 300);
        assert!(share(|it| it.l0_filters.is_some()) > 1_000);
        assert!(share(|it| it.requires_l2) > 200);
        for intent in crate::model::INTENTS {
            assert!(examples.iter().any(|it| it.plan.intent == *intent), "{intent}");
        }
    }

    #[test]
    fn same_seed_gives_same_examples() {
        assert_eq!(check(50, 7), check(50, 7));
        assert_ne!(check(50, 7), check(50, 8));
    }
}
