//! The JSON request of `vic corpus`: as a word, in a file or on standard input.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Map, Value};

use vic_protocol::error::{Error, IoContext, Result};
use vic_protocol::proto::MAX_REQUEST;

/// Maximum bytes of a request; the daemon accepts no more.
const MAX_REQUEST_BYTES: u64 = MAX_REQUEST as u64;

/// Maximum time to wait for a request on standard input if the user gave no `-`. Without a limit, `vic` would wait forever
/// for a program that leaves the input open and writes nothing.
const STDIN_WAIT: Duration = Duration::from_secs(2);

/// Returns the request in a word: JSON, `-` for standard input, or `@FILE`. Returns `None` for any other word.
pub(crate) fn request_in(word: &str) -> Result<Option<Map<String, Value>>> {
    if word == "-" {
        return parse(&read(io::stdin().lock(), "standard input")?, "standard input").map(Some);
    }
    if let Some(path) = word.strip_prefix('@').filter(|it| !it.is_empty()) {
        let file = File::open(path).io_context("read", Path::new(path))?;
        return parse(&read(file, path)?, path).map(Some);
    }
    if word.starts_with('{') { parse(word, "the word").map(Some) } else { Ok(None) }
}

/// Returns the request on standard input, if the input is not a terminal and something arrives within [`STDIN_WAIT`].
pub(crate) fn request_on_stdin() -> Result<Option<Map<String, Value>>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let (tell, told) = mpsc::channel();
    // Reads in another thread, because a read cannot be interrupted: after a timeout, the thread waits until `vic` ends.
    std::thread::spawn(move || tell.send(read(io::stdin().lock(), "standard input")).ok());
    match told.recv_timeout(STDIN_WAIT) {
        Ok(text) => Some(text?).filter(|it| !it.trim().is_empty()).map(|it| parse(&it, "standard input")).transpose(),
        Err(_) => Ok(None),
    }
}

/// Reads a request to its end.
fn read(input: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_REQUEST_BYTES + 1).read_to_end(&mut bytes).io_context("read", Path::new(name))?;
    if bytes.len() as u64 > MAX_REQUEST_BYTES {
        return Err(Error::invalid(format!("the request in `{name}` is larger than {MAX_REQUEST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("the request in `{name}` is not UTF-8")))
}

fn parse(text: &str, name: &str) -> Result<Map<String, Value>> {
    let wrong = |why: String| {
        let hint = r#"write an object such as {"schema":"Code"}; `vic corpus help VERB` shows a request"#;
        Error::invalid(format!("the request in `{name}` is not a JSON object: {why}")).hint(hint)
    };
    match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Array(_)) => Err(wrong("it is a list".into())),
        Ok(_) => Err(wrong("it is a single value".into())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_word_and_file_are_requests() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("request.json");
        std::fs::write(&path, "\u{feff} {\"schema\": \"Code\"}\n").unwrap();
        let expected = json!({"schema": "Code"});
        for word in [r#"{"schema":"Code"}"#.to_string(), format!("@{}", path.display())] {
            assert_eq!(request_in(&word).unwrap().map(Value::Object), Some(expected.clone()), "{word}");
        }
        for word in ["Code", "@", "--schema", "[1]", ""] {
            assert_eq!(request_in(word).unwrap(), None, "{word}");
        }
    }

    #[test]
    fn broken_request_is_rejected_in_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("@{}", path.display())
        };
        let large = vec![b' '; MAX_REQUEST_BYTES as usize + 1];
        for (word, why) in [
            ("{'schema': 'Code'}".to_string(), "not a JSON object"),
            (r#"{"schema":"#.to_string(), "not a JSON object"),
            (file("list", b"[1, 2]"), "it is a list"),
            (file("empty", b""), "not a JSON object"),
            (file("bytes", b"\xff\xfe"), "not UTF-8"),
            (file("large", &large), "larger than"),
            ("@/no/such/request.json".to_string(), "/no/such/request.json"),
        ] {
            let error = request_in(&word).unwrap_err();
            assert!(error.message.contains(why), "{word}: {}", error.message);
        }
    }
}
