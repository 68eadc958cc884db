//! The words of a question as typed, before any rule reads them. Pure functions.

/// A part of a question: one word or one quotation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QuestionPart {
    pub(super) text: String,
    /// Whether the part was quoted; quoted text is searched literally, and rules never match it.
    pub(super) is_quoted: bool,
}

/// A word of a question.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// The word as typed, with punctuation.
    pub(super) text: String,
    /// The word in lower case without surrounding punctuation; empty in quoted text, so that no rule matches it.
    pub(super) plain: String,
    /// What the rules see: `plain`, or in a question in another language its English translation.
    pub(super) normalized: String,
    /// Whether a rule turned the word into a filter. Such words are not part of the search text.
    pub(super) is_used: bool,
    /// Whether the question is in another language than English, and `normalized` is a translation.
    pub(super) is_foreign: bool,
}

impl Word {
    /// Returns a word that the user did not type: the second English word for a single typed one.
    pub(super) fn without_text() -> Word {
        Word { text: String::new(), plain: String::new(), normalized: String::new(), is_used: false, is_foreign: true }
    }
}

/// Returns the words of a question as typed. Rules match none of the quoted ones.
pub(super) fn typed_words(pieces: &[QuestionPart]) -> Vec<Word> {
    let word = |piece: &QuestionPart, text: &str| {
        let plain = if piece.is_quoted { String::new() } else { normalize(text) };
        Word { text: text.to_string(), normalized: plain.clone(), plain, is_used: false, is_foreign: false }
    };
    let mut words: Vec<Word> = Vec::new();
    for (piece, text) in pieces.iter().flat_map(|it| it.text.split_whitespace().map(move |text| (it, text))) {
        match words.last_mut() {
            // French has a blank before `?`, `!` and `:`.
            Some(last) if !piece.is_quoted && matches!(text, "?" | "!" | ":" | ";" | ".") => last.text.push_str(text),
            _ => words.push(word(piece, text)),
        }
    }
    words
}

/// Whether a list of words separated by blanks contains a word; false for an empty word.
pub(super) fn is_in_list(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

fn normalize(text: &str) -> String {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let cut = lower.trim_end_matches([',', ';', ':', '.', '?', '!', ')', ']', '"', '\'', '»', '”', '…']);
    cut.trim_start_matches(['(', '[', '"', '\'', '¿', '¡', '«', '„', '“']).to_string()
}
