//! Prints all output of `vic`. Results go to standard output; progress, warnings and errors go to standard error.
//!
//! File names and file contents are untrusted: their control characters are escaped, see
//! [`crate::text::escape_controls`]. A closed pipe, as with `head`, is not an error.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use crate::text::{escape_controls, escape_controls_in_json};
use vic_protocol::client;
use vic_protocol::error::{Error, ErrorCode, Result};

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    Human,
    /// JSON for programs
    Json,
}

/// The option `--format` of a command whose default output is text for people.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
}

/// Writes results to standard output.
pub struct Printer {
    sink: Box<dyn Write>,
    /// Whether standard output is a terminal.
    pub terminal: bool,
    /// Whether colours are used: on a terminal, unless NO_COLOR is set.
    pub styled: bool,
    closed: bool,
    /// Exit code of a command that returns no [`Error`]: 0, or not 0 if the command printed a refusal or a failure itself.
    pub exit_code: u8,
}

impl Printer {
    /// Returns a printer for the standard output of this process.
    pub fn stdout() -> Printer {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let styled = terminal && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        Printer { sink: Box::new(BufWriter::new(stdout)), terminal, styled, closed: false, exit_code: 0 }
    }

    /// Prints a text unchanged; the caller must have escaped control characters.
    pub fn raw(&mut self, text: &str) -> Result<()> {
        let written = if self.closed { Ok(()) } else { self.sink.write_all(text.as_bytes()) };
        self.ignore_closed_pipe(written)
    }

    /// Prints a text and a line break.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.raw(text)?;
        self.raw("\n")
    }

    /// Prints a value as indented JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string_pretty(value).map_err(Error::internal)?;
        self.line(&escape_controls_in_json(&json))
    }

    /// Returns whether the pipe that standard output writes to was closed.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Writes all buffered output.
    pub fn flush(&mut self) -> Result<()> {
        let written = if self.closed { Ok(()) } else { self.sink.flush() };
        self.ignore_closed_pipe(written)
    }

    fn ignore_closed_pipe(&mut self, written: io::Result<()>) -> Result<()> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.map_err(|error| write_error(&error)),
        }
    }
}

/// Converts the error of a failed write to standard output, e.g. to `/dev/full` or on a full disk.
pub fn write_error(error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::StorageFull,
        _ => ErrorCode::Internal,
    };
    Error::new(code, format!("cannot write the result to standard output: {error}"))
        .hint("check the destination of the output: its disk may be full")
}

/// Prints an error and its hint to standard error.
pub fn print_error(error: &Error) {
    print_error_at("error", error);
}

/// Prints an error after the place where it occurred, e.g. a line number, and then its hint.
pub fn print_error_at(place: &str, error: &Error) {
    print_note(&format!("{place}: {}", error.message));
    if let Some(hint) = &error.hint {
        print_note(&format!("hint: {hint}"));
    }
}

/// Prints one line to standard error. Ignores an error, such as a closed pipe.
pub fn print_note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", escape_controls(line));
}

/// Runs a command with the printer of this process, and returns its exit code, see [`ErrorCode::exit_code`].
pub fn run_and_exit(command: impl FnOnce(&mut Printer) -> Result<()>) -> ExitCode {
    client::on_long_wait(print_note);
    let mut printer = Printer::stdout();
    match command(&mut printer).and_then(|()| printer.flush()) {
        Ok(()) => ExitCode::from(printer.exit_code),
        Err(error) => {
            // Flushes the buffered results first, so that the error appears after them.
            let _ = printer.flush();
            print_error(&error);
            ExitCode::from(error.code.exit_code())
        }
    }
}

/// Prints the help, the version, or a usage error, and returns the exit code.
pub fn print_usage(said: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(ErrorCode::InvalidArgument.exit_code()));
    match said.print() {
        Err(error) if !said.use_stderr() && error.kind() != std::io::ErrorKind::BrokenPipe => {
            let error = write_error(&error);
            print_error(&error);
            ExitCode::from(error.code.exit_code())
        }
        // Ignores a failed write, because a closed pipe is not an error.
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that accepts some bytes, and then fails like a closed pipe.
    struct Pipe(usize);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0 {
                0 => Err(io::ErrorKind::BrokenPipe.into()),
                left => {
                    let taken = left.min(bytes.len());
                    self.0 -= taken;
                    Ok(taken)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn broken_pipe_is_not_an_error() {
        let mut printer =
            Printer { sink: Box::new(Pipe(3)), terminal: false, styled: false, closed: false, exit_code: 0 };
        printer.line("one").unwrap();
        assert!(printer.closed());
        printer.line("two").unwrap();
        printer.flush().unwrap();
    }
}
