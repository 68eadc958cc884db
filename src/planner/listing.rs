//! Recognizes a question that has no words but those of a condition on the date: `modified since yesterday`, `what changed
//! today?`. It asks for a list of files, although it names no files. Pure functions.

use chrono::NaiveDate;

use crate::planner::dates::{self, Bounds};
use crate::planner::words::{Words, is_in_list};

/// Verbs that are used of files only, so any date may follow them.
const FILE_VERBS: &str = "modified edited saved uploaded downloaded scanned";
/// Verbs and nouns that are also used of other things. Only a date that counts from today may follow them: `what changed in
/// 2021` may ask about a law.
const GENERIC_VERBS: &str = "changed changes created written updated added new";
/// Words without content in such a question.
const FILLERS: &str = "what what's whats which all everything anything things something stuff has have had was were is are been got did that \
     the it itself recently just any please show me list find tell give of here";
/// Words that make a date count from today.
const RELATIVE: &str = "today yesterday this last past previous ago since after newer monday tuesday wednesday thursday friday saturday sunday";

/// Returns the dates of a question that asks only which files have changed then; `None` if any other word is left.
pub(super) fn bare_period(words: &Words, today: NaiveDate) -> Option<Bounds> {
    let (mut bounds, mut relative) = (None::<Bounds>, false);
    let (mut file_verb, mut generic_verb) = (false, false);
    let mut at = 0;
    while at < words.len() {
        let word = words.normalized_at(at);
        if words.is_used(at) {
            at += 1;
        } else if let Some((found, length)) = dates::parse_bounds(&words.lookahead(at), today) {
            if bounds.is_some() {
                return None;
            }
            bounds = Some(found);
            relative = (at..at + length).any(|it| is_in_list(RELATIVE, words.normalized_at(it)));
            at += length;
        } else {
            file_verb |= is_in_list(FILE_VERBS, word);
            generic_verb |= is_in_list(GENERIC_VERBS, word);
            if !is_in_list(FILE_VERBS, word) && !is_in_list(GENERIC_VERBS, word) && !is_in_list(FILLERS, word) {
                return None;
            }
            at += 1;
        }
    }
    bounds.filter(|_| file_verb || generic_verb && relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::syntax;

    fn check(question: &str) -> Option<String> {
        let words = Words::new(&syntax::split_operators(question).1);
        let Bounds { after, before } = bare_period(&words, NaiveDate::from_ymd_opt(2026, 3, 18).unwrap())?;
        let show = |it: Option<NaiveDate>| it.map_or(String::new(), |it| it.to_string());
        Some(format!("{}..{}", show(after), show(before)))
    }

    #[test]
    fn question_of_verb_and_date_lists_files() {
        for (question, expected) in [
            ("modified since yesterday", "2026-03-17.."),
            ("MODIFIED SINCE YESTERDAY", "2026-03-17.."),
            ("what changed today?", "2026-03-18.."),
            ("what has changed this week", "2026-03-16.."),
            ("what's new since Monday?", "2026-03-16.."),
            ("edited last week", "2026-03-09..2026-03-16"),
            ("edited in 2024", "2024-01-01..2025-01-01"),
            ("changes since 3 days ago", "2026-03-15.."),
            ("geändert seit gestern", "2026-03-17.."),
            ("geandert seit gestern", "2026-03-17.."),
            ("was hat sich heute geändert?", "2026-03-18.."),
            ("Was wurde letzte Woche bearbeitet?", "2026-03-09..2026-03-16"),
            ("seit 3 Tagen geändert", "2026-03-15.."),
            ("modifiés depuis hier", "2026-03-17.."),
            ("qu'est-ce qui a changé aujourd'hui ?", "2026-03-18.."),
            ("qu\u{2019}est-ce qui a changé la semaine dernière ?", "2026-03-09..2026-03-16"),
            ("modifié depuis 2 jours", "2026-03-16.."),
            ("modificado desde ayer", "2026-03-17.."),
            ("¿qué cambió hoy?", "2026-03-18.."),
            ("que ha cambiado la semana pasada", "2026-03-09..2026-03-16"),
            ("modificados en los últimos 3 días", "2026-03-15.."),
        ] {
            assert_eq!(check(question).as_deref(), Some(expected), "{question}");
        }
    }

    #[test]
    fn question_with_content_lists_no_files() {
        for question in [
            "what changed in 2021?",
            "what changed in the lease last year?",
            "the changes since the last release of the protocol",
            "changes",
            "yesterday",
            "today",
            "since yesterday",
            "what happened today?",
            "who changed the lock yesterday?",
            "written in 1999",
            "\"changed\" today",
            "Was sich gestern Abend am Kai zutrug",
            "Was geschah heute im Hafen?",
            "Änderungen seit der letzten Fassung des Protokolls",
            "ce qui a changé dans le bail l'année dernière",
            "les modifications depuis la dernière réunion",
            "lo que cambió en el contrato ayer",
            "los cambios desde la última versión del protocolo",
        ] {
            assert_eq!(check(question), None, "{question}");
        }
    }
}
