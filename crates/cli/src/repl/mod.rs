//! `vic repl`: every command of vic, one a line, with history and completion.

mod line;

use std::io::{BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use console::Term;

use crate::output::{self, Printer};
use crate::text::visible;
use crate::{Cli, Command, dispatch};
use line::{History, Line, Typed};
use vic_protocol::config::Config;
use vic_protocol::error::{Error, ErrorCode, IoContext, Result};

/// What stands before a line.
const PROMPT: &str = "vic> ";

/// Arguments of `vic repl`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Reads lines until the end.
pub(crate) async fn run(_args: Args, config: &Config, printer: &mut Printer) -> Result<()> {
    match std::io::stdin().is_terminal() {
        true => edited(config, printer).await,
        false => piped(config, printer).await,
    }
}

/// Lines of a program: no prompt. One that fails is told by its number and the next is done; the first failure is that of all.
async fn piped(config: &Config, printer: &mut Printer) -> Result<()> {
    let mut failed = 0;
    for number in 1.. {
        // Locked for one line only: a command may read what follows.
        let line = next_line(&mut std::io::stdin().lock());
        let done = match line {
            Ok(None) => break,
            Ok(Some(line)) => obey(&line, config, printer).await,
            Err(error) if error.code == ErrorCode::InvalidArgument => Err(error),
            // Nothing more will come.
            Err(error) => return Err(error),
        };
        // What was printed so far belongs before the error.
        printer.flush()?;
        match done {
            Ok(Next::End) => break,
            Ok(Next::Line) if failed == 0 => failed = std::mem::take(&mut printer.exit_code),
            Ok(Next::Line) => printer.exit_code = 0,
            Err(error) => {
                failed = if failed == 0 { error.code.exit_code() } else { failed };
                output::report_at(&format!("line {number}"), &error);
            }
        }
    }
    printer.exit_code = failed;
    Ok(())
}

/// Reads a line; none when there are no more.
fn next_line(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line);
    match read.map_err(|error| Error::internal(format!("cannot read the next line: {error}")))? {
        0 => Ok(None),
        _ => String::from_utf8(line).map(Some).map_err(|_| Error::invalid("the line is not UTF-8")),
    }
}

/// Lines of a person.
async fn edited(config: &Config, printer: &mut Printer) -> Result<()> {
    let path = config.data_dir.join("repl_history");
    // None yet, or one that cannot be read: a session without a past.
    let mut history = History::of(&std::fs::read_to_string(&path).unwrap_or_default());
    let (terminal, commands) = (Term::stdout(), Cli::command());
    loop {
        printer.flush()?;
        let typed = type_line(&terminal, &history, &commands)
            .map_err(|error| Error::internal(format!("cannot read from the terminal: {error}")))?;
        let Some(line) = typed else { break };
        history.add(&line);
        match obey(&line, config, printer).await {
            Ok(Next::End) => break,
            // Whoever typed it has seen it; the end of the session is no failure.
            Ok(Next::Line) => printer.exit_code = 0,
            Err(error) => {
                printer.flush()?;
                output::report(&error);
            }
        }
    }
    // The directory is there once a command has started the daemon.
    if config.data_dir.is_dir() { keep(&history, &path) } else { Ok(()) }
}

/// Writes the history, for this user only: questions are private.
fn keep(history: &History, path: &Path) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut it| it.write_all(history.text().as_bytes())).at("write", path)
}

/// Lets somebody type a line; None when nothing more will be typed.
fn type_line(terminal: &Term, history: &History, commands: &clap::Command) -> std::io::Result<Option<String>> {
    let mut line = Line::default();
    loop {
        terminal.clear_line()?;
        terminal.write_str(&format!("{PROMPT}{}", visible(&line.text())))?;
        let after: String = line.after().iter().collect();
        let columns = console::measure_text_width(&visible(&after));
        if columns > 0 {
            terminal.move_cursor_left(columns)?;
        }
        match line.key(terminal.read_key_raw()?, history, |before, begun| candidates(commands, before, begun)) {
            Typed::Changed => (),
            Typed::Done(text) => {
                terminal.write_line("")?;
                return Ok(Some(text));
            }
            Typed::Dropped => {
                terminal.write_line("")?;
                line = Line::default();
            }
            Typed::End => {
                terminal.write_line("")?;
                return Ok(None);
            }
            Typed::Choices(all) => {
                terminal.write_line("")?;
                terminal.write_line(&all.join("  "))?;
            }
        }
    }
}

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    End,
}

/// Does what a line says.
async fn obey(line: &str, config: &Config, printer: &mut Printer) -> Result<Next> {
    let words = words(line)?;
    match words.first().map(String::as_str) {
        None => return Ok(Next::Line),
        Some(first) if first.starts_with('#') => return Ok(Next::Line),
        Some("quit" | "exit") => return Ok(Next::End),
        Some("help" | "?") => {
            printer.raw(&Cli::command().render_help().to_string())?;
            return Ok(Next::Line);
        }
        Some(_) => (),
    }
    let typed = std::iter::once("vic".to_string()).chain(words);
    let cli = match Cli::try_parse_from(typed) {
        Ok(cli) => cli,
        // Help and the version are no mistakes.
        Err(error) if error.exit_code() == 0 => {
            printer.raw(&error.render().to_string())?;
            return Ok(Next::Line);
        }
        Err(error) => return Err(usage(&error)),
    };
    if matches!(cli.command, Command::Repl(_)) {
        return Err(Error::invalid("this is the repl already"));
    }
    // A command in a command: its future holds one of its own kind.
    Box::pin(dispatch(cli.command, config, printer)).await?;
    Ok(Next::Line)
}

/// What is wrong with a line, and the nearest word that there is.
fn usage(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let said = text.lines().find(|it| !it.trim().is_empty()).unwrap_or("wrong usage");
    let hint = match meant(error) {
        Some(word) => format!("did you mean `{word}`?"),
        None => "`help` lists the commands, and `COMMAND --help` what one takes".into(),
    };
    Error::new(ErrorCode::InvalidArgument, said.trim_start_matches("error: ").to_string()).hint(hint)
}

/// The word that was probably meant, where one was typed that nobody knows.
fn meant(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue, ContextKind::SuggestedArg];
    let suggested = kinds.into_iter().find_map(|kind| error.get(kind))?;
    match suggested {
        ContextValue::String(word) => Some(word.clone()),
        // The nearest is last.
        ContextValue::Strings(words) => words.last().cloned(),
        _ => None,
    }
}

/// The words of a line, as a shell has them: quotes hold words together, a backslash makes anything plain. Only an
/// apostrophe within a word or behind it is just that: questions are typed here.
fn words(line: &str) -> Result<Vec<String>> {
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

/// What can stand after some words: subcommands, or options once a `-` is typed.
fn candidates(command: &clap::Command, before: &str, begun: &str) -> Vec<String> {
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
    fn a_line_is_taken_apart_as_a_shell_does() {
        for (line, expected) in [
            ("llm ask find Node named b", vec!["llm", "ask", "find", "Node", "named", "b"]),
            ("ask \"who signed\" 'the \"x\"'", vec!["ask", "who signed", "the \"x\""]),
            ("a\\ b \"c\\\"d\" ''", vec!["a b", "c\"d", ""]),
            ("llm ask what's in the hives' book", vec!["llm", "ask", "what's", "in", "the", "hives'", "book"]),
            ("  ", vec![]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert!(words("ask \"who").is_err());
    }

    #[test]
    fn every_command_of_the_documents_is_one_line() {
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
            let typed = std::iter::once("vic".to_string()).chain(words(line).unwrap());
            Cli::try_parse_from(typed).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn a_lost_word_gets_the_nearest_one() {
        for (line, nearest) in [
            ("lmm status", Some("llm")),
            ("llm agnet who?", Some("agent")),
            ("llm use olama", Some("ollama")),
            ("llm agent who? --trcae", Some("--trace")),
            ("llm ask who? --backend olama", Some("ollama")),
            ("graph qurey x", Some("query")),
            ("xyzzy", None),
        ] {
            let typed = std::iter::once("vic".to_string()).chain(words(line).unwrap());
            let error = usage(&Cli::try_parse_from(typed).unwrap_err());
            let expected = nearest.map(|it| format!("did you mean `{it}`?"));
            match expected {
                Some(expected) => assert_eq!(error.hint, Some(expected), "{line}: {error}"),
                None => assert!(error.hint.unwrap().contains("help"), "{line}"),
            }
        }
    }

    #[test]
    fn commands_and_options_are_completed() {
        let command = Cli::command();
        assert_eq!(candidates(&command, "", "rep"), ["repl"]);
        assert_eq!(candidates(&command, "llm ", "a"), ["agent", "answer", "ask"]);
        assert_eq!(candidates(&command, "llm use ", ""), ["command", "mock", "ollama", "openai"]);
        assert_eq!(candidates(&command, "llm agent ", "--tr"), ["--trace"]);
        assert!(candidates(&command, "", "qui").contains(&"quit".to_string()));
    }
}
