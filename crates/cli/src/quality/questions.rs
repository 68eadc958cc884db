//! Parses the questions of `vic quality`: lines of JSON, or of values separated by tabs. Pure functions.

use std::collections::BTreeMap;

use serde::Deserialize;

use vic_protocol::error::{Error, Result};

/// A question with the files and the texts that answer it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KnownQuestion {
    pub(super) text: String,
    /// The files that answer the question (paths, or the ends of paths) and how useful each is. Empty if none does.
    pub(super) files: Vec<(String, f64)>,
    /// Accepted answers: the quotes must contain every text of one of them.
    pub(super) answers: Vec<Vec<String>>,
}

/// A line of JSON, as a user writes it.
#[derive(Deserialize)]
struct Line {
    question: String,
    #[serde(default, alias = "file", alias = "path", alias = "paths")]
    files: Files,
    #[serde(default, alias = "answer")]
    answers: Answers,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Files {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
    Graded(BTreeMap<String, f64>),
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Answers {
    #[default]
    None,
    One(String),
    Several(Vec<Accepted>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Accepted {
    Text(String),
    AllOf(Vec<String>),
}

/// Parses a file of questions. Lines that begin with `{` are JSON; others have the columns question, file and answer, and
/// lines with the same question belong together.
///
/// # Errors
/// A line is invalid, or there is no question. The message names the line.
pub(super) fn parse_questions(text: &str) -> Result<Vec<KnownQuestion>> {
    let mut questions: Vec<KnownQuestion> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let question = if line.trim_start().starts_with('{') { parse_json(line) } else { parse_columns(line) };
        let question =
            question.map_err(|it| Error::invalid(format!("line {number} of the questions: {it}")).hint(HINT))?;
        match question {
            Some(question) => add_question(&mut questions, question),
            // The first line may name the columns.
            None if number == 1 => (),
            None => return Err(Error::invalid(format!("line {number} of the questions has no question")).hint(HINT)),
        }
    }
    if questions.is_empty() {
        return Err(Error::invalid("the file has no questions").hint(HINT));
    }
    Ok(questions)
}

const HINT: &str = "write lines such as {\"question\": \"who signed the lease?\", \"files\": [\"lease.pdf\"]}, or \
                    question, file and answer separated by tabs";

fn parse_json(line: &str) -> Result<Option<KnownQuestion>, String> {
    let Line { question, files, answers } = serde_json::from_str(line).map_err(|it| it.to_string())?;
    let files = match files {
        Files::None => Vec::new(),
        Files::One(file) => vec![(file, 1.0)],
        Files::Several(files) => files.into_iter().map(|it| (it, 1.0)).collect(),
        Files::Graded(files) => files.into_iter().filter(|(_, grade)| *grade > 0.0).collect(),
    };
    let answers = match answers {
        Answers::None => Vec::new(),
        Answers::One(text) => vec![vec![text]],
        Answers::Several(accepted) => accepted
            .into_iter()
            .map(|it| match it {
                Accepted::Text(text) => vec![text],
                Accepted::AllOf(texts) => texts,
            })
            .collect(),
    };
    Ok(checked(KnownQuestion { text: question.trim().to_string(), files, answers }))
}

fn parse_columns(line: &str) -> Result<Option<KnownQuestion>, String> {
    let mut columns = line.split('\t').map(str::trim);
    let mut next = || columns.next().unwrap_or_default().to_string();
    let (text, file, answer) = (next(), next(), next());
    if columns.next().is_some() {
        return Err("more than three columns".into());
    }
    if text.eq_ignore_ascii_case("question") {
        return Ok(None);
    }
    let files = if file.is_empty() { Vec::new() } else { vec![(file, 1.0)] };
    let answers = if answer.is_empty() { Vec::new() } else { vec![vec![answer]] };
    Ok(checked(KnownQuestion { text, files, answers }))
}

/// Drops empty names and texts, which would match every path and every quote. `None` for a question without text.
fn checked(mut question: KnownQuestion) -> Option<KnownQuestion> {
    question.files.retain(|(name, _)| !name.trim_matches('/').is_empty());
    question.answers.iter_mut().for_each(|it| it.retain(|text| !text.trim().is_empty()));
    question.answers.retain(|it| !it.is_empty());
    Some(question).filter(|it| !it.text.is_empty())
}

/// Adds a question, or its files and answers to the question with the same text, if that was added directly before.
fn add_question(questions: &mut Vec<KnownQuestion>, added: KnownQuestion) {
    match questions.last_mut().filter(|it| it.text == added.text) {
        Some(question) => {
            for file in added.files {
                if !question.files.iter().any(|it| it.0 == file.0) {
                    question.files.push(file);
                }
            }
            question.answers.extend(added.answers);
        }
        None => questions.push(added),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<KnownQuestion> {
        parse_questions(text).unwrap()
    }

    fn known(text: &str, files: &[(&str, f64)], answers: &[&[&str]]) -> KnownQuestion {
        KnownQuestion {
            text: text.into(),
            files: files.iter().map(|(name, grade)| ((*name).into(), *grade)).collect(),
            answers: answers.iter().map(|it| it.iter().map(|it| (*it).into()).collect()).collect(),
        }
    }

    #[test]
    fn json_lines_take_files_grades_and_answers() {
        let text = "\u{feff}{\"question\": \"a\", \"files\": [\"x.md\", \"y.md\"]}\n\n\
             {\"question\": \"b\", \"files\": {\"x.md\": 2, \"y.md\": 0.5, \"z.md\": 0}, \"answers\": [\"9\", [\"p\", \"q\"]]}\n\
             {\"id\": 1, \"question\": \"c\", \"file\": \"x.md\", \"answer\": [[\"40 EUR\"]], \"kind\": \"who\"}\n\
             {\"question\": \"d\"}\n{\"question\": \"e\", \"path\": \"x.md\"}\n";
        let expected = [
            known("a", &[("x.md", 1.0), ("y.md", 1.0)], &[]),
            known("b", &[("x.md", 2.0), ("y.md", 0.5)], &[&["9"], &["p", "q"]]),
            known("c", &[("x.md", 1.0)], &[&["40 EUR"]]),
            known("d", &[], &[]),
            known("e", &[("x.md", 1.0)], &[]),
        ];
        assert_eq!(check(text), expected);
    }

    #[test]
    fn lines_with_tabs_are_joined_by_question() {
        let text = "question\tfile\tanswer\na b\tx.md\t9 EUR\na b\ty.md\na b\tx.md\t\r\nc\n";
        assert_eq!(check(text), [known("a b", &[("x.md", 1.0), ("y.md", 1.0)], &[&["9 EUR"]]), known("c", &[], &[])]);
    }

    #[test]
    fn empty_names_and_answers_are_dropped() {
        let text = "{\"question\": \"a\", \"files\": [\"\", \"/\"], \"answers\": [\"\", [\" \"]]}";
        assert_eq!(check(text), [known("a", &[], &[])]);
    }

    #[test]
    fn invalid_line_is_named() {
        for (text, named) in [
            ("a\tb\n{\"question\": 3}", "line 2"),
            ("a\tb\tc\td", "line 1"),
            ("a\n\tx.md", "line 2"),
            ("", "no questions"),
            ("question\tfile", "no questions"),
        ] {
            let error = parse_questions(text).unwrap_err();
            assert!(error.message.contains(named), "{text}: {error}");
        }
    }
}
