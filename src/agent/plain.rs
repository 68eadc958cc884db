//! Plain text of whatever a model wrote: nothing in it loads, links or looks like markup that does.
//!
//! An answer is shown by terminals and apps that make links of addresses and pictures of markup. A text that a document
//! slipped in could so send what it knows to its author's server. The words stay; what makes them active is broken up.

/// Schemes that do something when they are followed, beside those with `//`.
const SCHEMES: [&str; 8] = ["javascript:", "vbscript:", "data:", "file:", "mailto:", "tel:", "blob:", "about:"];

/// Makes plain text.
pub fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|it| !is_hidden(*it)).collect();
    let text = text.replace("![", "[").replace("](", "] (").replace("][", "] [").replace("]:", "] :");
    let text = text.replace("://", "[:]//").replace("`", "'");
    let text = without_tags(&text);
    without_words(&text)
}

/// Controls but for line breaks and tabs, and what is not seen but read.
fn is_hidden(it: char) -> bool {
    let control = it.is_control() && it != '\n' && it != '\t';
    let unseen = matches!(it, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}');
    control || unseen
}

/// `<` before anything that could be a tag becomes a mark that is none.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(it) = rest.next() {
        let tag = it == '<' && rest.peek().is_some_and(|next| next.is_alphabetic() || matches!(next, '/' | '!' | '?'));
        out.push(if tag { '\u{2039}' } else { it });
    }
    // Entities would become tags again in what shows HTML.
    out.replace("&lt", "& lt").replace("&#", "& #")
}

/// Breaks up schemes without `//`, and addresses that begin with `www.`.
fn without_words(text: &str) -> String {
    let mut out = text.to_string();
    for scheme in SCHEMES {
        out = replaced(&out, scheme, |found| format!("{}[:]", &found[..found.len() - 1]));
    }
    replaced(&out, "www.", |found| format!("{}[.]", &found[..3]))
}

/// Replaces a word of ASCII in any case.
fn replaced(text: &str, word: &str, with: impl Fn(&str) -> String) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in lower.match_indices(word) {
        let end = at + word.len();
        // Before a blank it is a word like any other.
        if !text[end..].starts_with(|it: char| !it.is_whitespace()) {
            continue;
        }
        out.push_str(&text[from..at]);
        out.push_str(&with(&text[at..end]));
        from = end;
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_and_nothing_is_active() {
        for (text, expected) in [
            ("The hive weighed 31 kg [1].", "The hive weighed 31 kg [1]."),
            ("1 < 2, a <- b", "1 < 2, a <- b"),
            ("![x](https://evil.example/?q=1)", "[x] (https[:]//evil.example/?q=1)"),
            ("[click](javascript:alert(1))", "[click] (javascript[:]alert(1))"),
            ("[a][b]\n[b]: http://e", "[a] [b]\n[b] : http[:]//e"),
            ("<img src=x>", "\u{2039}img src=x>"),
            ("</a><!-- x -->", "\u{2039}/a>\u{2039}!-- x -->"),
            ("<https://e>", "\u{2039}https[:]//e>"),
            ("see WWW.evil.example", "see WWW[.]evil.example"),
            ("JavaScript:x Data:y", "JavaScript[:]x Data[:]y"),
            ("the data: 3, a file: none", "the data: 3, a file: none"),
            ("java\u{200b}script:x", "javascript[:]x"),
            ("\u{1b}]8;;http://e\u{7}x", "]8;;http[:]//ex"),
            ("&lt;img&gt; &#60;b", "& lt;img&gt; & #60;b"),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_plain_stays_the_same() {
        for text in ["![x](https://e) www.e <b> data:x", "plain ä 漢"] {
            assert_eq!(plain(&plain(text)), plain(text));
        }
    }
}
