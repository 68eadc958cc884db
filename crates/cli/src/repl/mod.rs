//! `vic repl`: runs commands of vic line by line, with history and completion.

mod line_editor;

use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use console::Term;

use crate::command::{Cli, dispatch};
use crate::output::{self, Printer};
use crate::repl::line_editor::{History, KeyResult, LineEditor};
use crate::text::escape_controls;
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};

/// The prompt at which lines are typed.
const PROMPT: &str = "vic> ";

/// Runs the command until the input ends.
pub(crate) async fn run(config: &Config, printer: &mut Printer) -> Result<()> {
    match std::io::stdin().is_terminal() {
        true => run_interactive(config, printer).await,
        false => run_piped(config, printer).await,
    }
}

/// Runs the lines of a pipe, without a prompt. A failed line is reported with its number, and the following lines run;
/// the first failure determines the exit code.
async fn run_piped(config: &Config, printer: &mut Printer) -> Result<()> {
    let mut failed = 0;
    for number in 1.. {
        // Locks standard input for one line only, because a command may read the lines after it.
        let line = next_line(&mut std::io::stdin().lock());
        let done = match line {
            Ok(None) => break,
            Ok(Some(line)) => run_line(&line, config, printer).await,
            Err(error) if error.code == ErrorCode::InvalidArgument => Err(error),
            // Returns the error, because after a failed read no line will follow.
            Err(error) => return Err(error),
        };
        // Flushes the buffered results first, so that an error appears after them.
        printer.flush()?;
        match done {
            Ok(NextAction::End) => break,
            Ok(NextAction::Line) if failed == 0 => failed = std::mem::take(&mut printer.exit_code),
            Ok(NextAction::Line) => printer.exit_code = 0,
            Err(error) => {
                failed = if failed == 0 { error.code.exit_code() } else { failed };
                output::print_error_at(&format!("line {number}"), &error);
            }
        }
    }
    printer.exit_code = failed;
    Ok(())
}

/// Reads a line; returns `None` at the end of the input.
fn next_line(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line);
    match read.map_err(|error| Error::internal(format!("cannot read the next line: {error}")))? {
        0 => Ok(None),
        _ => String::from_utf8(line).map(Some).map_err(|_| Error::invalid("the line is not UTF-8")),
    }
}

/// Runs the lines that a user types at a terminal.
async fn run_interactive(config: &Config, printer: &mut Printer) -> Result<()> {
    let path = config.data_dir.join("repl_history");
    // Treats a missing or unreadable history file as empty.
    let mut history = History::parse(&std::fs::read_to_string(&path).unwrap_or_default());
    let (terminal, commands) = (Term::stdout(), Cli::command());
    loop {
        printer.flush()?;
        let typed = type_line(&terminal, &history, &commands)
            .map_err(|error| Error::internal(format!("cannot read from the terminal: {error}")))?;
        let Some(line) = typed else { break };
        history.add(&line);
        match run_line(&line, config, printer).await {
            Ok(NextAction::End) => break,
            // Clears the exit code, because the user has seen the failure and the session itself succeeds.
            Ok(NextAction::Line) => printer.exit_code = 0,
            Err(error) => {
                printer.flush()?;
                output::print_error(&error);
            }
        }
    }
    // Saves the history only if a command has created the data directory by starting the daemon.
    if config.data_dir.is_dir() { save_history(&history, &path) } else { Ok(()) }
}

/// Writes the history file, readable only for this user because questions are private.
fn save_history(history: &History, path: &Path) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut it| it.write_all(history.text().as_bytes())).io_context("write", path)
}

/// Lets the user type a line; returns `None` at the end of the input.
fn type_line(terminal: &Term, history: &History, commands: &clap::Command) -> std::io::Result<Option<String>> {
    let mut line = LineEditor::default();
    loop {
        terminal.clear_line()?;
        terminal.write_str(&format!("{PROMPT}{}", escape_controls(&line.text())))?;
        let after: String = line.after().iter().collect();
        let columns = console::measure_text_width(&escape_controls(&after));
        if columns > 0 {
            terminal.move_cursor_left(columns)?;
        }
        match line.apply_key(terminal.read_key_raw()?, history, |before, begun| completions(commands, before, begun)) {
            KeyResult::Changed => (),
            KeyResult::Done(text) => {
                terminal.write_line("")?;
                return Ok(Some(text));
            }
            KeyResult::Dropped => {
                terminal.write_line("")?;
                line = LineEditor::default();
            }
            KeyResult::End => {
                terminal.write_line("")?;
                return Ok(None);
            }
            KeyResult::Choices(all) => {
                terminal.write_line("")?;
                terminal.write_line(&all.join("  "))?;
            }
        }
    }
}

/// Whether the session continues after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextAction {
    Line,
    End,
}

/// Parses and runs a line.
async fn run_line(line: &str, config: &Config, printer: &mut Printer) -> Result<NextAction> {
    let words = split_words(line)?;
    match words.first().map(String::as_str) {
        None => return Ok(NextAction::Line),
        Some(first) if first.starts_with('#') => return Ok(NextAction::Line),
        Some("quit" | "exit") => return Ok(NextAction::End),
        Some("help" | "?") => {
            printer.raw(&Cli::command().render_help().to_string())?;
            return Ok(NextAction::Line);
        }
        Some(_) => (),
    }
    let typed = std::iter::once("vic".to_string()).chain(words);
    let cli = match Cli::try_parse_from(typed) {
        Ok(cli) => cli,
        // Prints help and version, which clap returns as errors.
        Err(error) if error.exit_code() == 0 => {
            printer.raw(&error.render().to_string())?;
            return Ok(NextAction::Line);
        }
        Err(error) => return Err(usage_error(&error)),
    };
    dispatch(cli.command, config, printer).await?;
    Ok(NextAction::Line)
}

/// Returns an error for wrong usage, with the word that the user may have meant.
fn usage_error(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let said = text.lines().find(|it| !it.trim().is_empty()).unwrap_or("wrong usage");
    let hint = match suggestion(error) {
        Some(word) => format!("did you mean `{word}`?"),
        None => "`help` lists the commands, and `COMMAND --help` the arguments of one".into(),
    };
    Error::new(ErrorCode::InvalidArgument, said.trim_start_matches("error: ").to_string()).hint(hint)
}

/// Returns the word that clap suggests instead of an unknown one.
fn suggestion(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue, ContextKind::SuggestedArg];
    let suggested = kinds.into_iter().find_map(|kind| error.get(kind))?;
    match suggested {
        ContextValue::String(word) => Some(word.clone()),
        // Takes the last word, which is the most similar one.
        ContextValue::Strings(words) => words.last().cloned(),
        _ => None,
    }
}

/// Splits a line into words like a shell: quotes group words, and a backslash makes the next character literal. An
/// apostrophe inside or after a word is literal, because users type questions here.
fn split_words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(it) = rest.next() {
        match (quote, it) {
            (None, it) if it.is_whitespace() => words.extend(word.take()),
            (None, '\'') if word.is_some() => word.get_or_insert_default().push(it),
            (None, '\'' | '"') => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            (Some(open), it) if it == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            (_, it) => word.get_or_insert_default().push(it),
        }
    }
    if quote.is_some() {
        return Err(
            Error::invalid("a quote is open at the end of the line").hint("close it, or put a backslash before it")
        );
    }
    words.extend(word);
    Ok(words)
}

/// Returns the completions of `begun` after the words `before`: subcommands, or options if it starts with `-`.
fn completions(command: &clap::Command, before: &str, begun: &str) -> Vec<String> {
    let mut command = command;
    for word in before.split_whitespace() {
        match command.find_subcommand(word) {
            Some(sub) => command = sub,
            None => break,
        }
    }
    let options = command.get_arguments().filter_map(|it| it.get_long().map(|it| format!("--{it}")));
    let subcommands = command.get_subcommands().map(|it| it.get_name().to_string());
    let mut all: Vec<String> = match begun.starts_with('-') {
        true => options.collect(),
        false => subcommands.collect(),
    };
    if before.trim().is_empty() && !begun.starts_with('-') {
        all.extend(["help".to_string(), "quit".into()]);
    }
    all.retain(|it| it.starts_with(begun));
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_splits_like_a_shell_but_keeps_apostrophes() {
        for (line, expected) in [
            ("llm ask find Node named b", vec!["llm", "ask", "find", "Node", "named", "b"]),
            ("ask \"who signed\" 'the \"x\"'", vec!["ask", "who signed", "the \"x\""]),
            ("a\\ b \"c\\\"d\" ''", vec!["a b", "c\"d", ""]),
            ("llm ask what's in the hives' book", vec!["llm", "ask", "what's", "in", "the", "hives'", "book"]),
            ("  ", vec![]),
        ] {
            assert_eq!(split_words(line).unwrap(), expected, "{line}");
        }
        assert!(split_words("ask \"who").is_err());
    }

    #[test]
    fn documented_commands_parse_as_one_line() {
        for line in [
            "llm status",
            "llm use mock",
            "llm use ollama",
            "llm use ollama nemotron-3-nano",
            "llm use command python3 scripts/axiograph_llm_plugin_mock.py --verbose",
            "llm model nemotron-3-nano",
            "llm ask find Node named b",
            "llm answer how do I reach c from a?",
            "llm agent what RPCs does the catalog's service have?",
        ] {
            let typed = std::iter::once("vic".to_string()).chain(split_words(line).unwrap());
            Cli::try_parse_from(typed).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn unknown_word_gets_nearest_suggestion() {
        for (line, nearest) in [
            ("lmm status", Some("llm")),
            ("llm agnet who?", Some("agent")),
            ("llm use olama", Some("ollama")),
            ("llm agent who? --trcae", Some("--trace")),
            ("llm ask who? --backend olama", Some("ollama")),
            ("graph qurey x", Some("query")),
            ("xyzzy", None),
        ] {
            let typed = std::iter::once("vic".to_string()).chain(split_words(line).unwrap());
            let error = usage_error(&Cli::try_parse_from(typed).unwrap_err());
            let expected = nearest.map(|it| format!("did you mean `{it}`?"));
            match expected {
                Some(expected) => assert_eq!(error.hint, Some(expected), "{line}: {error}"),
                None => assert!(error.hint.unwrap().contains("help"), "{line}"),
            }
        }
    }

    #[test]
    fn candidates_complete_commands_and_options() {
        let command = Cli::command();
        assert_eq!(completions(&command, "", "rep"), ["repl"]);
        assert_eq!(completions(&command, "llm ", "a"), ["agent", "answer", "ask"]);
        assert_eq!(completions(&command, "llm use ", ""), ["command", "mock", "ollama", "openai"]);
        assert_eq!(completions(&command, "llm agent ", "--tr"), ["--trace"]);
        assert!(completions(&command, "", "qui").contains(&"quit".to_string()));
    }
}
