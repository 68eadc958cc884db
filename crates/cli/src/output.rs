//! The one printer. Standard output carries results, standard error progress and errors.
//!
//! File names and file contents are not trusted: control characters that a terminal would obey are made visible (see
//! [`crate::text::visible`]). A reader that goes away early, as `head` does, is no error.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use crate::text::{visible, visible_json};
use vic_protocol::client;
use vic_protocol::error::{Error, ErrorCode, Result};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    Human,
    /// JSON for programs
    Json,
}

/// The format option of a command whose results people look at.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArgs {
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
}

/// Writes to standard output.
pub struct Printer {
    sink: Box<dyn Write>,
    /// Whether somebody looks at it.
    pub terminal: bool,
    /// Whether it may be coloured: a terminal, and NO_COLOR does not object.
    pub styled: bool,
    closed: bool,
    /// The exit code of a command that did not fail: that of a refusal, which was printed like an answer, or of a command
    /// that `vicd` ran.
    pub exit_code: u8,
}

impl Printer {
    /// Makes the printer of this process.
    pub fn stdout() -> Printer {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let styled = terminal && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        Printer { sink: Box::new(BufWriter::new(stdout)), terminal, styled, closed: false, exit_code: 0 }
    }

    /// Prints a text as it is. The caller has made it safe.
    pub fn raw(&mut self, text: &str) -> Result<()> {
        let written = if self.closed { Ok(()) } else { self.sink.write_all(text.as_bytes()) };
        self.quietly(written)
    }

    /// Prints a text and a line break.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.raw(text)?;
        self.raw("\n")
    }

    /// Prints a value as JSON over several lines.
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let json = serde_json::to_string_pretty(value).map_err(Error::internal)?;
        self.line(&visible_json(&json))
    }

    /// Says whether nobody reads any more.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Writes out what is held back.
    pub fn flush(&mut self) -> Result<()> {
        let written = if self.closed { Ok(()) } else { self.sink.flush() };
        self.quietly(written)
    }

    fn quietly(&mut self, written: io::Result<()>) -> Result<()> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.map_err(|error| unwritten(&error)),
        }
    }
}

/// Says that the result could not be written, as of `/dev/full` or a disk that is.
pub fn unwritten(error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::StorageFull,
        _ => ErrorCode::Internal,
    };
    Error::new(code, format!("cannot write the result to standard output: {error}"))
        .hint("look at where it is sent to: the disk behind it may be full")
}

/// Prints an error and its cure.
pub fn report(error: &Error) {
    report_at("error", error);
}

/// Prints an error with where it was made, and its cure.
pub fn report_at(place: &str, error: &Error) {
    note(&format!("{place}: {}", error.message));
    if let Some(hint) = &error.hint {
        note(&format!("hint: {hint}"));
    }
}

/// Prints one line to standard error. That nobody reads it is no reason to fail.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(line));
}

/// Runs a command with the printer of this process, and returns the exit code: see [`ErrorCode::exit_code`].
pub fn finish(command: impl FnOnce(&mut Printer) -> Result<()>) -> ExitCode {
    client::tell_waits(note);
    let mut printer = Printer::stdout();
    match command(&mut printer).and_then(|()| printer.flush()) {
        Ok(()) => ExitCode::from(printer.exit_code),
        Err(error) => {
            // What was printed so far belongs before the error.
            let _ = printer.flush();
            report(&error);
            ExitCode::from(error.code.exit_code())
        }
    }
}

/// Prints the help, the version, or what is wrong with the arguments.
pub fn usage(said: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(ErrorCode::InvalidArgument.exit_code()));
    match said.print() {
        Err(error) if !said.use_stderr() && error.kind() != std::io::ErrorKind::BrokenPipe => {
            let error = unwritten(&error);
            report(&error);
            ExitCode::from(error.code.exit_code())
        }
        // That nobody reads it is no reason to fail.
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes some bytes, then is gone.
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
    fn a_broken_pipe_is_quiet() {
        let mut printer =
            Printer { sink: Box::new(Pipe(3)), terminal: false, styled: false, closed: false, exit_code: 0 };
        printer.line("one").unwrap();
        assert!(printer.closed());
        printer.line("two").unwrap();
        printer.flush().unwrap();
    }
}
