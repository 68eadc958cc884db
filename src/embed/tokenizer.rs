//! Tokenizers: the model's own for in-process models, and an estimate for servers, which do not make theirs available.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::embed::unigram::UnigramTokenizer;
use crate::error::{Error, ErrorCode, Result};
use crate::model::TokenCounter;

/// A text is tokenized in pieces of this many bytes, because the tokenizer's time grows faster than the length of its
/// input.
const PIECE_BYTES: usize = 64 << 10;

/// Size in bytes of the pieces if only the beginning of a text is tokenized.
const HEAD_PIECE_BYTES: usize = 8 << 10;

/// Characters of a word that are estimated as one token. Real tokens are longer, so the estimate is high and the server
/// does not truncate texts.
const ESTIMATED_TOKEN_CHARS: usize = 4;

/// The tokenizer of a model: returns token ids for the model and the byte ranges of tokens for the chunker.
pub(crate) struct ModelTokenizer {
    engine: TokenEngine,
    before: Vec<u32>,
    after: Vec<u32>,
    max_tokens: usize,
    /// Tokens of the prefix of passages, which leave less room for their text.
    prefix_tokens: usize,
}

impl ModelTokenizer {
    /// Reads `tokenizer.json`. `max_tokens` is the longest input of the model, special tokens included; `prefix` is the text
    /// that is prepended to passages.
    pub(crate) fn open(path: &Path, max_tokens: usize, prefix: &str) -> Result<ModelTokenizer> {
        let engine = TokenEngine::open(path)?;
        let (before, after) = engine.frame()?;
        let prefix_tokens = if prefix.is_empty() { 0 } else { engine.ids(prefix)?.len() };
        if max_tokens <= before.len() + after.len() + prefix_tokens {
            return Err(Error::invalid(format!("max_tokens {max_tokens} is too low to embed any text")));
        }
        Ok(ModelTokenizer { engine, before, after, max_tokens, prefix_tokens })
    }

    /// Returns the token ids of a text, with special tokens added, truncated to the longest input of the model.
    pub(crate) fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = self.before.clone();
        ids.extend(self.head_ids(text, self.max_tokens - self.before.len() - self.after.len())?);
        ids.extend(&self.after);
        Ok(ids)
    }

    /// Returns the token ids of a question and a passage with special tokens, as cross-encoders read them, and the index at
    /// which the second segment begins. Truncates the question to half of the longest input, and the passage to the rest.
    pub(crate) fn pair_ids(&self, question: &str, passage: &str) -> Result<(Vec<u32>, usize)> {
        let room = self.max_tokens.saturating_sub(self.before.len() + 2 * self.after.len());
        let mut ids = self.before.clone();
        ids.extend(self.head_ids(question, room / 2)?);
        ids.extend(&self.after);
        let second = ids.len();
        ids.extend(self.head_ids(passage, (self.max_tokens - self.after.len()).saturating_sub(second))?);
        ids.extend(&self.after);
        Ok((ids, second))
    }

    /// Returns the first `most` token ids of a text, without special tokens.
    fn head_ids(&self, text: &str, most: usize) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for piece in Pieces::new(text, HEAD_PIECE_BYTES) {
            let free = most - ids.len();
            ids.extend(self.engine.ids(piece.1)?.into_iter().take(free));
            if ids.len() == most {
                break;
            }
        }
        Ok(ids)
    }

    /// Returns the fraction (0 to 1) of the tokens of a text that the model knows; 1 for a text without tokens. It knows no
    /// token outside its vocabulary, and no single letter of a longer word: the model has seen the letter, but not the word.
    pub(crate) fn known_share(&self, text: &str) -> f32 {
        let head = &text[..text.floor_char_boundary(HEAD_PIECE_BYTES)];
        let (Ok(tokens), Some(unknown)) = (self.engine.tokens(head), self.engine.unknown()) else { return 1.0 };
        let is_known =
            |(id, start, end): &&(u32, usize, usize)| *id != unknown && !is_letter_of_word(head, *start, *end);
        let known = tokens.iter().filter(is_known).count();
        if tokens.is_empty() { 1.0 } else { known as f32 / tokens.len() as f32 }
    }

    /// Whether a lower-case word is one token, or one token and a usual ending.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        const ENDINGS: [&str; 8] = ["s", "es", "ed", "d", "ing", "er", "ly", "n"];
        let (Ok(tokens), Some(unknown)) = (self.engine.tokens(word), self.engine.unknown()) else { return true };
        let is_ending = |start: usize| word.get(start..).is_some_and(|it| ENDINGS.contains(&it));
        match tokens.as_slice() {
            [(id, ..)] => *id != unknown,
            [(id, ..), (_, start, _)] => *id != unknown && is_ending(*start),
            _ => false,
        }
    }

    /// Returns the vocabulary size of the tokenizer.
    pub(crate) fn vocabulary(&self) -> usize {
        match &self.engine {
            TokenEngine::Library(tokenizer) => tokenizer.get_vocab_size(true),
            TokenEngine::Unigram(tokenizer) => tokenizer.vocabulary(),
        }
    }

    /// Returns the maximum length of a text in tokens, special tokens included.
    pub(crate) fn max_tokens(&self) -> usize {
        self.max_tokens
    }
}

/// What cuts texts into tokens.
enum TokenEngine {
    /// The general library.
    Library(Box<Tokenizer>),
    /// The compact one for the tokenizers of converted models.
    Unigram(Box<UnigramTokenizer>),
}

impl TokenEngine {
    fn open(path: &Path) -> Result<TokenEngine> {
        if let Some(tokenizer) = UnigramTokenizer::open(path) {
            return Ok(TokenEngine::Unigram(Box::new(tokenizer)));
        }
        let broken = |error: tokenizers::Error| {
            Error::new(ErrorCode::DataLoss, format!("cannot read the tokenizer `{}`: {error}", path.display()))
                .hint("fetch the model again with `vic models pull`")
        };
        let mut tokenizer = Tokenizer::from_file(path).map_err(broken)?;
        // Removes the truncation and padding that the file may set, because they would change the model's input.
        tokenizer.with_truncation(None).map_err(broken)?;
        tokenizer.with_padding(None);
        Ok(TokenEngine::Library(Box::new(tokenizer)))
    }

    /// Returns the special tokens before and after every text.
    fn frame(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let tokenizer = match self {
            TokenEngine::Library(tokenizer) => tokenizer,
            TokenEngine::Unigram(tokenizer) => {
                let [before, after] = tokenizer.frame();
                return Ok((vec![before], vec![after]));
            }
        };
        let plain = tokenizer.encode_fast("a", false).map_err(Error::internal)?.get_ids().to_vec();
        let framed = tokenizer.encode_fast("a", true).map_err(Error::internal)?.get_ids().to_vec();
        let at = framed.windows(plain.len().max(1)).position(|it| it == plain).unwrap_or(0);
        Ok((framed[..at].to_vec(), framed[(at + plain.len()).min(framed.len())..].to_vec()))
    }

    fn ids(&self, text: &str) -> Result<Vec<u32>> {
        Ok(match self {
            TokenEngine::Library(tokenizer) => {
                tokenizer.encode_fast(text, false).map_err(Error::internal)?.get_ids().to_vec()
            }
            TokenEngine::Unigram(tokenizer) => tokenizer.encode(text).iter().map(|it| it.id).collect(),
        })
    }

    /// Returns the token for text that is not in the vocabulary.
    fn unknown(&self) -> Option<u32> {
        match self {
            TokenEngine::Library(tokenizer) => ["[UNK]", "<unk>"].into_iter().find_map(|it| tokenizer.token_to_id(it)),
            TokenEngine::Unigram(tokenizer) => Some(tokenizer.unknown()),
        }
    }

    /// Returns the id of each token, and the start and the end of the bytes that it covers.
    fn tokens(&self, text: &str) -> Result<Vec<(u32, usize, usize)>> {
        Ok(match self {
            TokenEngine::Library(tokenizer) => {
                let found = tokenizer.encode(text, false).map_err(Error::internal)?;
                found.get_ids().iter().zip(found.get_offsets()).map(|(id, (start, end))| (*id, *start, *end)).collect()
            }
            TokenEngine::Unigram(tokenizer) => {
                tokenizer.encode(text).iter().map(|it| (it.id, it.start, it.end)).collect()
            }
        })
    }
}

/// Whether these bytes of a text are one letter with another letter beside it. A character of Chinese is a word.
fn is_letter_of_word(text: &str, start: usize, end: usize) -> bool {
    let is_ideograph =
        |it: char| matches!(u32::from(it), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff);
    let is_letter = |it: char| it.is_alphabetic() && !is_ideograph(it);
    let Some(mut piece) = text.get(start..end).map(str::chars) else { return false };
    let is_single = piece.next().is_some_and(is_letter) && piece.next().is_none();
    let beside = [text[..start].chars().next_back(), text[end..].chars().next()];
    is_single && beside.into_iter().flatten().any(is_letter)
}

impl TokenCounter for ModelTokenizer {
    fn token_spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        for (start, piece) in Pieces::new(text, PIECE_BYTES) {
            // A piece that cannot be tokenized has no tokens; the chunker then limits its size by bytes.
            let Ok(found) = self.engine.tokens(piece) else { continue };
            let mut end = 0;
            for (_, from, to) in found {
                // If several tokens share one character, assigns the bytes of the character to the first of these
                // tokens only.
                let from = from.max(end);
                if from < to {
                    spans.push((start + from, start + to));
                    end = to;
                }
            }
        }
        spans
    }

    fn max_chunk_tokens(&self) -> usize {
        self.max_tokens - self.before.len() - self.after.len() - self.prefix_tokens
    }
}

/// Estimates the tokens of a server's model: four characters of a word, or any other single character, count as one token.
pub(crate) struct TokenEstimate {
    max_tokens: usize,
}

impl TokenEstimate {
    /// Creates an estimate for a model with a longest input of `max_tokens`, special tokens included.
    pub(crate) fn new(max_tokens: usize) -> TokenEstimate {
        TokenEstimate { max_tokens }
    }
}

impl TokenCounter for TokenEstimate {
    fn token_spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut run = 0;
        for (at, letter) in text.char_indices() {
            let end = at + letter.len_utf8();
            let joins = letter.is_ascii_alphanumeric() || (letter.is_alphabetic() && end - at == 2);
            match spans.last_mut() {
                Some(last) if joins && run > 0 && run < ESTIMATED_TOKEN_CHARS => {
                    last.1 = end;
                    run += 1;
                }
                _ if letter.is_whitespace() => run = 0,
                _ => {
                    spans.push((at, end));
                    run = usize::from(joins);
                }
            }
        }
        spans
    }

    fn max_chunk_tokens(&self) -> usize {
        self.max_tokens - 2
    }
}

/// Truncates a text after the last token that the model accepts.
pub(crate) fn truncate_to_tokens<'a>(text: &'a str, tokens: &dyn TokenCounter) -> &'a str {
    // Skips counting if the text has no more bytes than the limit has tokens, because no token is empty.
    if text.len() <= tokens.max_chunk_tokens() {
        return text;
    }
    match tokens.token_spans(text).get(tokens.max_chunk_tokens()) {
        Some(&(start, _)) => text[..start].trim_end(),
        None => text,
    }
}

/// Iterator over the pieces of a text, each with its start offset. A piece ends after a line break if possible, else after
/// white space, else anywhere.
struct Pieces<'a> {
    text: &'a str,
    start: usize,
    size: usize,
}

impl<'a> Pieces<'a> {
    fn new(text: &'a str, size: usize) -> Pieces<'a> {
        Pieces { text, start: 0, size }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.text[self.start..];
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len();
        if end > self.size {
            let head = &rest[..rest.floor_char_boundary(self.size)];
            let space = || head.char_indices().rfind(|(_, it)| it.is_whitespace()).map(|(at, it)| at + it.len_utf8());
            end = head.rfind('\n').map(|at| at + 1).or_else(space).unwrap_or(head.len());
        }
        let piece = (self.start, &rest[..end]);
        self.start += end;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_text_and_end_at_line_breaks() {
        for text in ["", "short", "one two\nthree four\nfive", "ääääääääääääääääääää", "no break but spaces in here"]
        {
            let pieces: Vec<_> = Pieces::new(text, 10).collect();
            assert_eq!(pieces.iter().map(|it| it.1).collect::<String>(), text);
            assert!(pieces.iter().all(|(start, piece)| &text[*start..start + piece.len()] == *piece));
        }
        let first = Pieces::new("one\ntwo three four", 10).next().unwrap();
        assert_eq!(first.1, "one\n");
    }

    #[test]
    fn estimate_spans_are_ordered_on_char_boundaries() {
        let text = "Straßenbahn, 日本語 x";
        let spans = TokenEstimate::new(512).token_spans(text);
        let tokens: Vec<&str> = spans.iter().map(|&(from, to)| &text[from..to]).collect();
        assert_eq!(tokens, ["Stra", "ßenb", "ahn", ",", "日", "本", "語", "x"]);
    }

    #[test]
    fn long_text_is_cut_at_token_limit() {
        assert_eq!(truncate_to_tokens("one two six ten", &TokenEstimate::new(4)), "one two");
        assert_eq!(truncate_to_tokens("one two", &TokenEstimate::new(4)), "one two");
    }
}
