//! Limits the tokens of prose in answers, errors and help texts. Text beyond a limit can be requested: lists continue at
//! an offset, and `verbose` lifts the limit.

use serde_json::{Value, json};

use crate::corpus::api::error::ApiError;
use crate::corpus::text::words::words;
use crate::model::TokenCounter;

/// Maximum tokens of prose in an answer, unless the request sets `verbose`.
pub(crate) const PROSE_TOKENS: usize = 500;
/// Maximum tokens of an error with its suggested actions.
pub(crate) const ERROR_TOKENS: usize = 100;
/// Maximum tokens of a help text.
pub(crate) const HELP_TOKENS: usize = 200;

/// Maximum tokens of the method and the unknowns, as a part of [`PROSE_TOKENS`].
const METHOD_AND_UNKNOWNS_TOKENS: usize = 200;

/// Minimum words of a text that counts as prose; a shorter text is a name or a label.
const MIN_PROSE_WORDS: usize = 6;

/// Maximum tokens per text, tried in this order until at least one object of each list fits in the answer. Under the
/// last limit, no text has [`MIN_PROSE_WORDS`] words, so none counts as prose.
const CAPS: [usize; 6] = [200, 100, 50, 25, 12, MIN_PROSE_WORDS - 1];

/// Maximum characters that count as one token. Tokenizers count a word of a thousand letters as one unknown token, but
/// a language model that reads it needs many tokens.
const MAX_TOKEN_CHARS: usize = 8;

/// Maximum characters of a word that is kept whole; longer ones, such as encoded data, are cut.
const MAX_WORD_CHARS: usize = 100;

/// Fields whose text is a name, not prose, regardless of its length.
const NAME_FIELDS: [&str; 3] = ["path", "failures_file", "filter"];

/// Lists that have no offset, because other limits bound their length.
const UNPAGED_LISTS: [&str; 8] =
    ["options", "expected", "columns", "fields", "unknowns", "failures", "suggested_actions", "sessions"];

/// Counts tokens with the tokenizer of the embedder.
#[derive(Clone, Copy)]
pub(crate) struct TokenRuler<'t>(pub(crate) &'t dyn TokenCounter);

impl TokenRuler<'_> {
    pub(crate) fn count(self, text: &str) -> usize {
        self.0.token_spans(text).len().max(text.chars().count() / MAX_TOKEN_CHARS)
    }

    /// Returns the beginning of a text that has at most `most` tokens and ends with a whole word. A single word that is longer
    /// is cut.
    pub(crate) fn cut(self, text: &str, most: usize) -> String {
        let by_tokens = self.0.token_spans(text).get(most).map_or(text.len(), |it| it.0);
        let by_letters = text.char_indices().nth(most * MAX_TOKEN_CHARS).map_or(text.len(), |it| it.0);
        match by_tokens.min(by_letters) {
            all if all == text.len() => text.to_string(),
            end => text[..end_of_word_before(text, end)].trim_end().to_string(),
        }
    }
}

/// Returns the end of the last whole word before a position, or the position itself if a single long word reaches it.
fn end_of_word_before(text: &str, end: usize) -> usize {
    let ends_word = text[end..].chars().next().is_none_or(char::is_whitespace);
    let begin = text[..end].char_indices().rev().take(MAX_WORD_CHARS).find(|it| it.1.is_whitespace()).map(|it| it.0);
    match begin {
        Some(begin) if !ends_word && !text[..begin].trim().is_empty() => begin,
        _ => end,
    }
}

/// Returns whether a text counts as prose.
pub(crate) fn is_prose(text: &str) -> bool {
    words(text).filter(|it| it.1.chars().any(char::is_alphabetic)).nth(MIN_PROSE_WORDS - 1).is_some()
}

/// Names of fields that contain program code, which does not count as prose.
#[derive(Clone, Copy)]
struct ExemptFields(&'static [&'static str]);

impl ExemptFields {
    fn from_envelope(envelope: &Value) -> ExemptFields {
        match (envelope["data"]["schema"].as_str(), envelope["form"].as_str()) {
            (Some("Code"), _) => ExemptFields(&["text"]),
            (None, Some("code")) => ExemptFields(&["original", "canonical"]),
            _ => ExemptFields(&[]),
        }
    }

    fn has(self, name: &str) -> bool {
        NAME_FIELDS.contains(&name) || self.0.contains(&name)
    }
}

/// Counts the tokens of all prose in a value.
fn prose_tokens(value: &Value, exempt: ExemptFields, ruler: TokenRuler<'_>) -> usize {
    match value {
        Value::String(text) if is_prose(text) => ruler.count(text),
        Value::Array(list) => list.iter().map(|it| prose_tokens(it, exempt, ruler)).sum(),
        Value::Object(map) => {
            map.iter().filter(|it| !exempt.has(it.0)).map(|it| prose_tokens(it.1, exempt, ruler)).sum()
        }
        _ => 0,
    }
}

/// Subtracts the tokens of all prose in a value from `left`, and returns whether they fit. Stops as soon as they do not,
/// so that a long list is not counted to its end.
fn fits(value: &Value, left: &mut usize, exempt: ExemptFields, ruler: TokenRuler<'_>) -> bool {
    match value {
        Value::String(text) if is_prose(text) => match left.checked_sub(ruler.count(text)) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        },
        Value::Array(list) => list.iter().all(|it| fits(it, left, exempt, ruler)),
        Value::Object(map) => map.iter().filter(|it| !exempt.has(it.0)).all(|it| fits(it.1, left, exempt, ruler)),
        _ => true,
    }
}

fn has_prose(value: &Value, exempt: ExemptFields) -> bool {
    match value {
        Value::String(text) => is_prose(text),
        Value::Array(list) => list.iter().any(|it| has_prose(it, exempt)),
        Value::Object(map) => map.iter().any(|it| !exempt.has(it.0) && has_prose(it.1, exempt)),
        _ => false,
    }
}

/// Counts the tokens of all prose in an answer.
#[cfg(test)]
pub(crate) fn envelope_prose_tokens(envelope: &Value, ruler: TokenRuler<'_>) -> usize {
    let exempt = ExemptFields::from_envelope(envelope);
    ["data", "method", "unknowns"].iter().map(|it| prose_tokens(&envelope[it], exempt, ruler)).sum()
}

/// Truncates every text to `most` tokens; returns the number of truncated texts.
fn cap_texts(value: &mut Value, most: usize, exempt: ExemptFields, ruler: TokenRuler<'_>) -> usize {
    match value {
        Value::String(text) if is_prose(text) => {
            let cut = ruler.cut(text, most);
            if cut.len() == text.trim_end().len() {
                return 0;
            }
            *text = format!("{cut}…");
            1
        }
        Value::Array(list) => list.iter_mut().map(|it| cap_texts(it, most, exempt, ruler)).sum(),
        Value::Object(map) => {
            map.iter_mut().filter(|it| !exempt.has(it.0)).map(|it| cap_texts(it.1, most, exempt, ruler)).sum()
        }
        _ => 0,
    }
}

/// Limits the prose of an answer to [`PROSE_TOKENS`]. Truncated lists continue after `offset`, the request's offset.
pub(crate) fn limit_answer(envelope: &mut Value, offset: usize, ruler: TokenRuler<'_>) {
    let (exempt, mut left) = (ExemptFields::from_envelope(envelope), PROSE_TOKENS);
    if ["method", "unknowns", "data"].iter().all(|it| fits(&envelope[it], &mut left, exempt, ruler)) {
        return;
    }
    limit_method_and_unknowns(envelope, exempt, ruler);
    let around = prose_tokens(&envelope["method"], exempt, ruler) + prose_tokens(&envelope["unknowns"], exempt, ruler);
    let mut lists = take_prose_lists(&mut envelope["data"], exempt);
    let longest = lists.iter().map(|it| it.1.len()).max().unwrap_or(0);
    let rest = envelope["data"].clone();
    let mut fitted = FittedLists::default();
    for most in CAPS {
        fitted =
            FittedLists::new(rest.clone(), &lists, FitLimits { most, budget: PROSE_TOKENS - around, exempt, ruler });
        if fitted.fits && (fitted.taken > 0 || longest == 0) {
            break;
        }
    }
    envelope["data"] = fitted.rest;
    let mut left = 0;
    for ((pointer, all), shown) in lists.iter_mut().zip(fitted.shown) {
        left += all.len() - shown.len();
        if let Some(list) = envelope["data"].pointer_mut(pointer) {
            *list = Value::Array(shown);
        }
    }
    if left > 0 {
        report_next_offset(&mut envelope["unknowns"], left, offset + fitted.taken);
    }
    if let (true, Some(unknowns)) = (fitted.cut > 0, envelope["unknowns"].as_array_mut()) {
        unknowns.push(json!({"type": "cut_text", "count": fitted.cut, "detail": "`verbose` gives all"}));
    }
}

/// Shortens the method and the unknowns: first removes details, the last unknown's first, then truncates long texts.
fn limit_method_and_unknowns(envelope: &mut Value, exempt: ExemptFields, ruler: TokenRuler<'_>) {
    let around = |envelope: &Value| {
        prose_tokens(&envelope["method"], exempt, ruler) + prose_tokens(&envelope["unknowns"], exempt, ruler)
    };
    let mut left = envelope["unknowns"].as_array().map_or(0, Vec::len);
    while left > 0 && around(envelope) > METHOD_AND_UNKNOWNS_TOKENS {
        left -= 1;
        if let Some(unknown) = envelope["unknowns"][left].as_object_mut() {
            unknown.shift_remove("detail");
        }
    }
    for most in CAPS {
        if around(envelope) <= METHOD_AND_UNKNOWNS_TOKENS {
            break;
        }
        cap_texts(&mut envelope["method"], most, exempt, ruler);
    }
}

/// A list of an answer: its JSON pointer and its items.
type PagedList = (String, Vec<Value>);

/// Removes the lists with prose from the data and returns them: those at the top level, and those of each option.
fn take_prose_lists(data: &mut Value, exempt: ExemptFields) -> Vec<PagedList> {
    let mut pointers = Vec::new();
    for (name, value) in data.as_object().into_iter().flatten() {
        let escaped = |it: &str| it.replace('~', "~0").replace('/', "~1");
        match value {
            Value::Array(_) if !UNPAGED_LISTS.contains(&name.as_str()) => pointers.push(format!("/{}", escaped(name))),
            Value::Object(inner) if name.starts_with("evidence_") => {
                pointers.extend(inner.keys().map(|it| format!("/{}/{}", escaped(name), escaped(it))));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for pointer in pointers {
        let Some(list) = data.pointer_mut(&pointer).filter(|it| has_prose(it, exempt)) else { continue };
        if let Value::Array(items) = std::mem::replace(list, json!([])) {
            found.push((pointer, items));
        }
    }
    found
}

#[derive(Clone, Copy)]
struct FitLimits<'t> {
    /// Maximum tokens of one text.
    most: usize,
    /// Maximum tokens of the whole data.
    budget: usize,
    exempt: ExemptFields,
    ruler: TokenRuler<'t>,
}

/// The beginning of all lists that fits in the budget, with the same number of objects from each list.
#[derive(Default)]
struct FittedLists {
    rest: Value,
    shown: Vec<Vec<Value>>,
    taken: usize,
    /// Number of truncated texts.
    cut: usize,
    fits: bool,
}

impl FittedLists {
    fn new(mut rest: Value, lists: &[PagedList], bounds: FitLimits<'_>) -> FittedLists {
        let FitLimits { most, budget, exempt, ruler } = bounds;
        let mut cut = cap_texts(&mut rest, most, exempt, ruler);
        let around = prose_tokens(&rest, exempt, ruler);
        let mut left = budget.saturating_sub(around);
        let mut shown: Vec<Vec<Value>> = vec![Vec::new(); lists.len()];
        let longest = lists.iter().map(|it| it.1.len()).max().unwrap_or(0);
        let mut taken = 0;
        while taken < longest {
            let mut row: Vec<Option<Value>> = lists.iter().map(|it| it.1.get(taken).cloned()).collect();
            let own: usize = row.iter_mut().flatten().map(|it| cap_texts(it, most, exempt, ruler)).sum();
            let cost: usize = row.iter().flatten().map(|it| prose_tokens(it, exempt, ruler)).sum();
            // Take one object per list in any case: after an empty page, a client would repeat the same request forever.
            let is_last_way = taken == 0 && most == CAPS[CAPS.len() - 1];
            if cost > left && !is_last_way {
                break;
            }
            left = left.saturating_sub(cost);
            cut += own;
            taken += 1;
            shown.iter_mut().zip(row).for_each(|(shown, it)| shown.extend(it));
        }
        FittedLists { rest, shown, taken, cut, fits: around <= budget }
    }
}

/// Reports the offset at which the lists continue, in one `more_objects` unknown for all lists.
fn report_next_offset(unknowns: &mut Value, left: usize, offset: usize) {
    let Some(list) = unknowns.as_array_mut() else { return };
    let known = list.iter().filter(|it| it["type"] == "more_objects");
    let all = left + known.filter_map(|it| it["count"].as_u64()).sum::<u64>() as usize;
    list.retain(|it| it["type"] != "more_objects");
    list.push(json!({"type": "more_objects", "count": all, "detail": format!("go on at offset {offset}")}));
}

/// Returns an error with at most [`ERROR_TOKENS`]: first removes actions, the last first, then truncates the texts, which
/// then end with `…`.
pub(crate) fn limit_error(refusal: &ApiError, ruler: TokenRuler<'_>) -> Value {
    let mut shown = refusal.clone();
    let fits = |it: &ApiError| ruler.count(&it.value().to_string()) <= ERROR_TOKENS;
    while !fits(&shown) && shown.actions.len() > 1 {
        shown.actions.pop();
    }
    for most in [60, 40, 25, 12] {
        if fits(&shown) {
            break;
        }
        let part = if shown.actions.is_empty() { most } else { most / 2 };
        shown.message = cut_sentence(&shown.message, part, ruler);
        shown.actions.iter_mut().for_each(|it| *it = cut_sentence(it, part, ruler));
        shown.field = shown.field.map(|it| cut_sentence(&it, most / 3, ruler));
    }
    shown.value()
}

/// Returns a text with at most `most` tokens; a truncated text ends with a whole word and `…`.
fn cut_sentence(text: &str, most: usize, ruler: TokenRuler<'_>) -> String {
    if ruler.count(text) <= most {
        return text.to_string();
    }
    let cut = ruler.cut(text.trim_end_matches('…'), most.saturating_sub(1));
    format!("{}…", cut.trim_end_matches(|it: char| it.is_whitespace() || matches!(it, ',' | ';' | ':' | '…')))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::corpus::api::error::ApiErrorKind;

    /// A token counter that counts every word and every punctuation mark as one token.
    pub(crate) struct WordTokenCounter;

    impl TokenCounter for WordTokenCounter {
        fn token_spans(&self, text: &str) -> Vec<(usize, usize)> {
            use unicode_segmentation::UnicodeSegmentation;
            text.split_word_bound_indices()
                .filter(|it| !it.1.trim().is_empty())
                .map(|it| (it.0, it.0 + it.1.len()))
                .collect()
        }

        fn max_chunk_tokens(&self) -> usize {
            256
        }
    }

    #[test]
    fn long_error_is_cut_to_token_limit() {
        let long = "word ".repeat(500);
        let name = "x".repeat(4_000);
        let ruler = TokenRuler(&WordTokenCounter);
        for refusal in [
            ApiError::new(ApiErrorKind::TypeError, long.clone())
                .action(long.clone())
                .action(long.clone())
                .field("limit"),
            ApiError::new(ApiErrorKind::UnknownField, format!("there is no field `{name}`"))
                .field(name.clone())
                .action(long),
            ApiError::new(ApiErrorKind::UnknownFile, name.clone()).field(name.clone()).action(name.clone()),
            ApiError::new(ApiErrorKind::UnknownFile, format!("there is no `{}`", "folder name/".repeat(340)))
                .field("paths[0]"),
        ] {
            let shown = limit_error(&refusal, ruler);
            assert!(ruler.count(&shown.to_string()) <= ERROR_TOKENS, "{shown}");
            assert!(shown.to_string().len() <= ERROR_TOKENS * MAX_TOKEN_CHARS, "{shown}");
            assert_eq!(shown["type"], refusal.kind.name());
        }
    }

    #[test]
    fn is_prose_accepts_sentences_and_not_names() {
        assert!(!is_prose("The drift of gauges"));
        assert!(!is_prose("4.1 11.6 6.3 1 2 3 4 5"));
        assert!(is_prose("The gauge at the pier drifts more."));
        assert!(is_prose("潮位計は港にあり毎時読まれる"));
    }

    /// Creates an answer with a list of `objects` objects of `words` words each.
    fn wordy_answer(objects: usize, words: usize) -> Value {
        let list = (0..objects).map(|at| json!({"file": at, "text": "word ".repeat(words).trim_end()}));
        json!({
            "form": null, "method": {"name": "a method"},
            "data": {"schema": "Quote", "count": objects, "objects": list.collect::<Vec<_>>()}, "unknowns": [],
        })
    }

    #[test]
    fn long_list_is_paged_until_complete() {
        let (all, ruler) = (wordy_answer(30, 60), TokenRuler(&WordTokenCounter));
        let mut seen = Vec::new();
        while seen.len() < 30 {
            let mut page = all.clone();
            let list = all["data"]["objects"].as_array().unwrap()[seen.len()..].to_vec();
            page["data"]["objects"] = Value::Array(list);
            limit_answer(&mut page, seen.len(), ruler);
            assert!(envelope_prose_tokens(&page, ruler) <= PROSE_TOKENS);
            let shown = page["data"]["objects"].as_array().unwrap();
            assert!(!shown.is_empty(), "{page}");
            seen.extend(shown.iter().cloned());
            if seen.len() < 30 {
                let detail = format!("go on at offset {}", seen.len());
                let more = json!({"type": "more_objects", "count": 30 - seen.len(), "detail": detail});
                assert_eq!(page["unknowns"][0], more);
            }
        }
        assert_eq!(Value::Array(seen), all["data"]["objects"]);
    }

    #[test]
    fn long_single_text_is_cut_and_reported() {
        let ruler = TokenRuler(&WordTokenCounter);
        let mut answer = wordy_answer(2, 3_000);
        limit_answer(&mut answer, 0, ruler);
        assert!(envelope_prose_tokens(&answer, ruler) <= PROSE_TOKENS);
        assert!(answer["data"]["objects"][0]["text"].as_str().unwrap().ends_with("word…"));
        assert_eq!(answer["unknowns"][0]["type"], "cut_text");
    }

    #[test]
    fn prose_in_nested_fields_counts_towards_limit() {
        let ruler = TokenRuler(&WordTokenCounter);
        let long = "one two three four five six seven ".repeat(30);
        let rows: Vec<Value> = (0..40).map(|_| json!(["short", long])).collect();
        let mut answer = json!({
            "form": null, "method": {"name": long, "objective": long}, "unknowns": [{"type": "gap", "detail": long}],
            "data": {"schema": "Table", "objects": [{"rows": rows, "caption": long}], "topic": long,
                "evidence_for": {"a/b": [{"text": long}, {"text": long}]}},
        });
        limit_answer(&mut answer, 0, ruler);
        assert!(envelope_prose_tokens(&answer, ruler) <= PROSE_TOKENS, "{}", envelope_prose_tokens(&answer, ruler));
        assert_eq!(answer["data"]["objects"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn code_is_not_cut() {
        let mut answer = wordy_answer(30, 600);
        answer["data"]["schema"] = json!("Code");
        let before = answer.clone();
        limit_answer(&mut answer, 0, TokenRuler(&WordTokenCounter));
        assert_eq!(answer, before);
    }
}
