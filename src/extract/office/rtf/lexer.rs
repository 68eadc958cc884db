//! Splits RTF into tokens: braces, control words, control symbols and bytes of text.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Opening brace `{`, which begins a group.
    Open,
    /// Closing brace `}`, which ends a group.
    Close,
    /// A control word and its numeric parameter, such as `\fs24`.
    Word(&'a str, Option<i32>),
    /// A control symbol such as `\~`.
    Symbol(u8),
    /// A byte written in hexadecimal as `\'hh`.
    Hex(u8),
    /// Bytes of text, not decoded.
    Text(&'a [u8]),
}

/// Iterator over the tokens of an RTF file. Skips binary data and line breaks.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Lexer<'a> {
        Lexer { rest: bytes }
    }

    fn lex_control(&mut self, rest: &'a [u8]) -> Option<Token<'a>> {
        let letters = rest.iter().take_while(|it| it.is_ascii_alphabetic()).count();
        if letters == 0 {
            return self.lex_symbol(rest);
        }
        let (word, rest) = rest.split_at(letters);
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..].iter().take_while(|it| it.is_ascii_digit()).count();
        let (number, rest) = if digits > 0 { rest.split_at(sign + digits) } else { (&rest[..0], rest) };
        // Skips one space, which ends a control word and is not text.
        self.rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let word = std::str::from_utf8(word).ok()?;
        let number = std::str::from_utf8(number).ok()?.parse::<i32>().ok();
        if word == "bin" {
            let length = usize::try_from(number.unwrap_or(0)).unwrap_or(0);
            self.rest = self.rest.get(length..).unwrap_or_default();
        }
        Some(Token::Word(word, number))
    }

    fn lex_symbol(&mut self, rest: &'a [u8]) -> Option<Token<'a>> {
        let (&symbol, rest) = rest.split_first()?;
        self.rest = rest;
        if symbol != b'\'' {
            return Some(Token::Symbol(symbol));
        }
        let hex = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        match hex.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            Some(byte) => {
                self.rest = &rest[2..];
                Some(Token::Hex(byte))
            }
            None => Some(Token::Symbol(symbol)),
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while let [b'\r' | b'\n' | 0, rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (&first, rest) = self.rest.split_first()?;
        match first {
            b'{' | b'}' => {
                self.rest = rest;
                Some(if first == b'{' { Token::Open } else { Token::Close })
            }
            b'\\' => self.lex_control(rest),
            _ => {
                let end = self.rest.iter().position(|it| matches!(it, b'{' | b'}' | b'\\' | b'\r' | b'\n' | 0));
                let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                Some(Token::Text(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexer_splits_words_symbols_bytes_and_binary() {
        let tokens: Vec<_> = Lexer::new(b"{\\a-12 b\\'e9\\~\\bin3 }}}c\r\nd\\'zz\\bin99999 x").collect();
        use Token::*;
        assert_eq!(
            tokens,
            [
                Open,
                Word("a", Some(-12)),
                Text(b"b"),
                Hex(0xe9),
                Symbol(b'~'),
                Word("bin", Some(3)),
                Text(b"c"),
                Text(b"d"),
                Symbol(b'\''),
                Text(b"zz"),
                Word("bin", Some(99999)),
            ]
        );
        assert_eq!(Lexer::new(b"\\").count(), 0);
        assert_eq!(Lexer::new(b"\\u999999999999-").collect::<Vec<_>>(), [Word("u", None), Text(b"-")]);
    }
}
