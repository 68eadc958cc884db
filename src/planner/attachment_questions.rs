//! Finds questions about mail attachments, e.g. `what was attached to the mail`, `mails with attachments`. Pure functions.

use crate::planner::file_types;
use crate::planner::words::{Words, is_in_list};

const ATTACHED: &str = "attached attach attachment attachments";
/// Verbs between `attachment` and the preposition before the mail: `attachments that came with the mail`.
const VERBS: &str = "that which was were is are came come comes sent arrived";
const PREPOSITIONS: &str = "to of in from with on";
const DETERMINERS: &str = "the my our an a his her their that this those these all any";
/// Words before `attached` that are not part of the search text: `show me the files attached to`.
const OPENERS: &str = "what which files file documents document was were is are the a an all any show me list find give see of my has \
     have been got please things";
/// Words between the mail and its attachments: `mails with attachments`.
const WITH_PHRASES: &[&str] =
    &["with", "having", "containing", "has", "have", "that has", "that have", "which has", "which have", "that had"];

/// The range of words in a question that asks for attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttachmentSpan {
    pub(super) start: usize,
    /// Index of the first word after the range.
    pub(super) end: usize,
    /// Whether the range includes the noun for mail (`attached to the mail`). If not, the noun is before the range (`mails
    /// with attachments`).
    pub(super) names_mail: bool,
}

/// Finds the words of a question that ask for attachments of mail.
pub(super) fn find_attachment_request(words: &Words) -> Option<AttachmentSpan> {
    let mut is_mail = false;
    (0..words.len()).find_map(|at| {
        let with =
            || AttachmentSpan { start: at, end: at + with_attachments(words, at).unwrap_or(0), names_mail: false };
        let span = attached_to(words, at).or_else(|| Some(with()).filter(|it| is_mail && it.end > at));
        is_mail |= mail_noun_length(words, at).is_some();
        span
    })
}

/// Matches a request at word `at` such as `attached to the mail` or `attachments that came with my mails`.
fn attached_to(words: &Words, at: usize) -> Option<AttachmentSpan> {
    if !is_in_list(ATTACHED, words.normalized_at(at)) {
        return None;
    }
    let mut next = at + 1;
    while is_in_list(VERBS, words.normalized_at(next)) {
        next += 1;
    }
    if !is_in_list(PREPOSITIONS, words.normalized_at(next)) {
        return None;
    }
    next += 1;
    while is_in_list(DETERMINERS, words.normalized_at(next)) || words.normalized_at(next).ends_with("'s") {
        next += 1;
    }
    let end = next + mail_noun_length(words, next)?;
    let mut start = at;
    while start > 0 && is_in_list(OPENERS, words.normalized_at(start - 1)) {
        start -= 1;
    }
    Some(AttachmentSpan { start, end, names_mail: true })
}

/// Matches a phrase at word `at` such as `with attachments`; returns its length in words.
pub(super) fn with_attachments(words: &Words, at: usize) -> Option<usize> {
    let mut length = words.match_longest(at, WITH_PHRASES)?;
    while is_in_list(DETERMINERS, words.normalized_at(at + length)) || words.normalized_at(at + length) == "some" {
        length += 1;
    }
    is_in_list("attachment attachments", words.normalized_at(at + length)).then_some(length + 1)
}

fn mail_noun_length(words: &Words, at: usize) -> Option<usize> {
    let mail = file_types::parse_noun(&words.lookahead(at)).filter(|it| file_types::is_mail(&it.extensions));
    mail.map(|it| it.length).or_else(|| is_in_list("message messages", words.normalized_at(at)).then_some(1))
}
