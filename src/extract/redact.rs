//! The last thing that happens to a text inside the worker: its keys and tokens are blacked out.

use crate::extract::{ReadResult, failure};
use crate::model::{Document, Reason, Redaction};
use crate::secrets::{Censor, MARK};

/// Blacks out secrets in a document. One of which nothing else remains is a secret itself.
pub(crate) fn redact(mut document: Document, redaction: Redaction) -> ReadResult<Document> {
    let mut censor = Censor::new(redaction);
    let mut blackened = 0;
    for block in &mut document.blocks {
        if let std::borrow::Cow::Owned(cleaned) = censor.clean(&block.text) {
            block.text = cleaned;
            // Its bytes in the file say something else now.
            block.anchor.verbatim = false;
            blackened += 1;
        }
    }
    let mut short = Censor::new(redaction);
    let links = document.links.iter_mut().flat_map(|it| [&mut it.target, &mut it.text]);
    for text in document.title.iter_mut().chain(&mut document.problems).chain(links) {
        *text = short.clean(text).into_owned();
    }
    if blackened == 0 {
        return Ok(document);
    }
    if document.blocks.iter().all(|it| it.text.replace(MARK, "").trim().is_empty()) {
        return Err(failure(Reason::Secret, "it holds keys and nothing else"));
    }
    let places = censor.found();
    document.problems.push(match places {
        1 => "a key or token is blacked out".to_string(),
        _ => format!("keys or tokens are blacked out at {places} places"),
    });
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::{Tools, extract_bytes};
    use crate::model::ExtractLimits;

    fn extract(name: &str, text: &str) -> ReadResult<Document> {
        extract_bytes(text.as_bytes(), name, &ExtractLimits::default(), &Tools::default())
    }

    #[test]
    fn a_key_is_blacked_out_and_its_place_is_no_longer_verbatim() {
        let document = extract("a.txt", "Before.\n\nOur key is AKIAIOSFODNN7EXAMPLE.\n\nAfter.").unwrap();
        assert!(!document.text().contains("AKIA") && document.text().contains("Our key is [redacted]."));
        let verbatim: Vec<bool> = document.blocks.iter().map(|it| it.anchor.verbatim).collect();
        assert_eq!(verbatim, [true, false, true]);
        assert_eq!(document.problems, ["a key or token is blacked out"]);
    }

    #[test]
    fn a_copy_of_a_key_under_another_name_is_a_secret() {
        let lines = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n".repeat(40);
        for name in ["notes.txt", "notes.md", "notes"] {
            let key = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}-----END OPENSSH PRIVATE KEY-----\n");
            assert_eq!(extract(name, &key).unwrap_err().reason, Reason::Secret, "{name}");
        }
    }

    #[test]
    fn nothing_is_blacked_out_when_the_owner_says_so() {
        let limits = ExtractLimits { redaction: Redaction::None, ..ExtractLimits::default() };
        let document = extract_bytes(b"AKIAIOSFODNN7EXAMPLE", "a.txt", &limits, &Tools::default()).unwrap();
        assert_eq!(document.text(), "AKIAIOSFODNN7EXAMPLE");
    }
}
