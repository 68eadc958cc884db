//! Turns the output of a model into plain text without links, images or active markup.
//!
//! Terminals and apps turn addresses into links and load images, so instructions injected into a document could make the
//! model leak data to the server of the document's author. The words stay, but links and markup are broken up, for Markdown,
//! HTML and terminals, and for apps that search rendered text for addresses. Bare host names stay, because many file names,
//! such as `notes.md`, look like host names.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The `://` of an address, also with backslashes: Markdown ignores a backslash, and some browsers read it as a slash.
static ADDRESS_SLASHES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\*:([\\/]{2,})").expect("a constant"));
/// URL schemes that become links without slashes, such as `mailto:`. If a blank follows, the word is harmless.
static SCHEMES: LazyLock<Regex> = LazyLock::new(|| {
    let all = "javascript|vbscript|data|file|mailto|tel|sms|xmpp|blob|about|magnet|view-source|vscode|intent";
    Regex::new(&format!(r"(?i)({all})\\*:")).expect("a constant")
});
/// The `www.` of addresses without a scheme.
static WWW: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)(www)\\*\.").expect("a constant"));
/// The `@` of mail addresses, which apps turn into links without any markup.
static MAIL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"([\w.+-])\\*@").expect("a constant"));
/// HTML character references such as `&lt;`, which become markup again when rendered as HTML.
static ENTITY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"&(#|(?:lt|gt|amp|quot)\b|[A-Za-z][A-Za-z0-9]{1,31};)").expect("a constant"));
/// `<` before a possible HTML tag, address or mention of a user.
static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<([\p{Alphabetic}/!?@#])").expect("a constant"));
/// Character pairs that begin images, links, link definitions and footnotes in Markdown and wikis.
const PAIRS: [[char; 2]; 6] = [['!', '['], [']', '('], [']', '['], [']', ':'], ['[', '['], ['!', '(']];

/// Returns the text without links, images, active markup, and invisible or control characters.
pub fn sanitize(text: &str) -> String {
    let text = remove_invisible(text);
    // Replaces backticks, because a code span could hide from one renderer what another one shows.
    let text = text.replace('`', "'");
    let text = ENTITY.replace_all(&text, "& $1");
    let text = TAG.replace_all(&text, "\u{2039}$1");
    let text = ADDRESS_SLASHES.replace_all(&text, |it: &Captures<'_>| format!("[:]{}", &it[1]));
    let text = break_matches(&SCHEMES, &text, "[:]");
    let text = break_matches(&WWW, &text, "[.]");
    let text = break_matches(&MAIL, &text, "[@]");
    // Runs last, because a replacement such as `[:]` may now precede a parenthesis and form the pair `](`.
    separate_pairs(&text)
}

/// Replaces the separator at the end of each match (`:`, `.` or `@`) by `mark`, such as `[:]`. A match before a blank or at
/// the end of the text is harmless and stays.
fn break_matches(what: &Regex, text: &str, mark: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut from = 0;
    for found in what.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        if text[whole.end()..].starts_with(|it: char| !it.is_whitespace()) {
            out.push_str(&text[from..whole.start()]);
            out.push_str(&found[1]);
            out.push_str(mark);
            from = whole.end();
        }
    }
    out.push_str(&text[from..]);
    out
}

/// Removes invisible and control characters. Keeps tabs, and converts every kind of line break to `\n`.
fn remove_invisible(text: &str) -> String {
    let breaks = |it: char| matches!(it, '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let text = text.replace("\r\n", "\n");
    text.chars().map(|it| if breaks(it) { '\n' } else { it }).filter(|it| !is_hidden(*it)).collect()
}

/// Returns whether a character is a control character, a direction mark or has no width, and so could hide a message.
fn is_hidden(it: char) -> bool {
    let control = it.is_control() && it != '\n' && it != '\t';
    let unseen = matches!(it, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    control || unseen
}

/// Inserts a blank between the characters of each pair in `PAIRS`.
fn separate_pairs(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut before = None;
    for it in text.chars() {
        if before.is_some_and(|before| PAIRS.contains(&[before, it])) {
            out.push(' ');
        }
        out.push(it);
        before = Some(it);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_keeps_ordinary_text() {
        for text in [
            "The hive weighed 31 kg [1].",
            "1 < 2, a <- b, a <= b",
            "the data: 3, a file: none, 12:30, src/a.rs:7",
            "AT&T, R&D & co; notes.md, a/b/c.txt, C:\\notes\\bees.md",
            "plain ä 漢 עברית, 50 % (half) * 2_000 ~ x",
            "first\n\tsecond",
        ] {
            assert_eq!(sanitize(text), text);
        }
    }

    #[test]
    fn plain_breaks_links_markup_and_controls() {
        for (text, expected) in [
            // Links and images, inline and by reference, also nested.
            ("![x](https://evil.example/?q=1)", "! [x] (https[:]//evil.example/?q=1)"),
            ("!![x](u)", "!! [x] (u)"),
            ("[click](javascript:alert(1))", "[click] (javascript[:]alert(1))"),
            ("[a][b]\n[b]: http://e", "[a] [b]\n[b] : http[:]//e"),
            ("![][r]\n[r]:/p", "! [] [r]\n[r] :/p"),
            ("[[note]] ![[note]]", "[ [note]] ! [ [note]]"),
            ("[^1]: see", "[^1] : see"),
            ("[x]\u{200b}(http://e)", "[x] (http[:]//e)"),
            // A broken scheme must not create a new link.
            ("javascript:(x) www.(//e) data:[a](b)", "javascript[:] (x) www[.] (//e) data[:] [a] (b)"),
            // HTML tags and character references.
            ("<img src=x>", "\u{2039}img src=x>"),
            ("</a><!-- x -->", "\u{2039}/a>\u{2039}!-- x -->"),
            ("<\u{0}script>x", "\u{2039}script>x"),
            ("<<b>", "<\u{2039}b>"),
            ("&lt;img&gt; &#60;b &lt b &colon; &amp;lt;", "& lt;img& gt; & #60;b & lt b & colon; & amp;lt;"),
            // Web and mail addresses without markup.
            ("<https://e>", "\u{2039}https[:]//e>"),
            ("see WWW.evil.example", "see WWW[.]evil.example"),
            ("JavaScript:x Data:y MAILTO:z xmpp:a", "JavaScript[:]x Data[:]y MAILTO[:]z xmpp[:]a"),
            ("https\\://e http:\\/\\/e http:\\\\e", "https[:]//e http[:]\\/\\/e http[:]\\\\e"),
            ("ask ada@quill.example, <ada@quill.example>", "ask ada[@]quill.example, \u{2039}ada[@]quill.example>"),
            ("<@U1> <#c|general>", "\u{2039}@U1> \u{2039}#c|general>"),
            ("www\\.evil.example ada\\@e.example", "www[.]evil.example ada[@]e.example"),
            // Escape sequences and control characters of terminals.
            ("\u{1b}]8;;http://e\u{7}x\u{1b}]8;;\u{7}", "]8;;http[:]//ex]8;;"),
            ("\u{1b}[2J\u{9b}31mred", "[2J31mred"),
            ("a\rb\r\nc\u{2028}d\u{8}", "a\nb\nc\nd"),
            // Invisible characters and direction marks.
            ("java\u{200b}script:x java\u{ad}script:x", "javascript[:]x javascript[:]x"),
            ("\u{202e}gpj.exe\u{202c} \u{2066}x\u{2069} \u{61c}y", "gpj.exe x y"),
            ("a\u{e0041}\u{e0100}\u{fe0f}b", "ab"),
            ("`http://e`", "'http[:]//e'"),
        ] {
            assert_eq!(sanitize(text), expected, "{text}");
            assert_eq!(sanitize(expected), expected, "what is plain stays the same");
        }
    }

    #[test]
    fn plain_breaks_random_mixtures_of_marks() {
        let marks = ["!", "[", "]", "(", ")", ":", "/", "\\", "<", "a", "www.", "data:", "&", "#", ";", "@", ".", " "];
        // Tests a fixed pseudo-random sample, because all sequences of these marks would take too long.
        let mut state: u64 = 7;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(marks[(state >> 33) as usize % marks.len()]);
            }
            let made = sanitize(&text);
            for active in ["![", "](", "][", "]:", "[[", "://", "<a", "</", "&#", "a@a"] {
                assert!(!made.contains(active), "{text:?} became {made:?}, which has `{active}`");
            }
            assert_eq!(sanitize(&made), made, "{text:?}");
        }
    }
}
