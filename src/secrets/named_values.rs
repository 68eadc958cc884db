//! Detects secrets in texts by what comes before them: a name such as in `api_key = ...`, a URL, or a request header.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::Regex;

use crate::secrets::patterns::compile_alternatives;

/// A value of up to this many bytes is never split from its name; signed session tokens are shorter. Longer values are
/// redacted as well, but only the part in the same text as the name.
pub(super) const MAX_VALUE_BYTES: usize = 4 << 10;

/// A name that introduces a secret, such as `api_key`, with a quote that may follow, also an escaped one.
const NAME_PATTERN: &str = concat!(
    r"(?i:secret|token|passwd|password|passphrase|api[ _-]?key|access[ _-]?key|private[ _-]?key|auth[ _-]?key|bearer)",
    r#"[A-Za-z0-9_]*(?:\\*["'])?"#
);
/// A separator between a name and its value, also the bar between table cells.
const SEPARATOR_PATTERN: &str = r"\s*(?::=|=>|=|:|\|)\s*";
/// A value in quotes or without. The pattern has no maximum length, because a maximum would cost the regex engine a state
/// per character.
const VALUE_PATTERN: &str = r#"(?:\\*["'])?([A-Za-z0-9+/_=~.-]{16,})"#;

/// A name, a separator and a value, as in `api_key = ...`; group 1 is the value.
static ASSIGNED: LazyLock<Regex> =
    LazyLock::new(|| compile_alternatives(&[&format!(r"{NAME_PATTERN}(?:{SEPARATOR_PATTERN}|\s+){VALUE_PATTERN}")]));

/// A name that introduces a secret, at the end of a text; the value may be at the start of the next text.
static TRAILING_NAME: LazyLock<Regex> =
    LazyLock::new(|| compile_alternatives(&[&format!(r#"{NAME_PATTERN}(?:{SEPARATOR_PATTERN}|\s*)(?:\\*["'])?$"#)]));
/// A value at the start of a text; group 1 is the value.
static LEADING_VALUE: LazyLock<Regex> = LazyLock::new(|| compile_alternatives(&[&format!(r"^\s*{VALUE_PATTERN}")]));

/// The word `Basic` of a request header and a value; group 1, the value, may be an encoded user name and password.
static BASIC_AUTH: LazyLock<Regex> =
    LazyLock::new(|| compile_alternatives(&[r"(?-u:\b)(?i-u:basic)[ \t]+([A-Za-z0-9+/]{6,}=*)"]));

/// A user name and password in a URL; group 1 is the password.
static URL_PASSWORD: LazyLock<Regex> =
    LazyLock::new(|| compile_alternatives(&[r"://[^/\s:@<>{}$]{1,64}:([^/\s@<>{}$]{3,128})@"]));

/// Finds secrets with a name, header or URL before them. Returns the range of each match, and of the secret inside it.
pub(super) fn named_secrets(text: &str) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let is_secret = |it: &Range<usize>| looks_random(&text[it.clone()]) || is_aws_secret_key(text, it);
    let assigned = capture_ranges(&ASSIGNED, text).filter(move |(_, it)| is_secret(it));
    let headers = capture_ranges(&BASIC_AUTH, text).filter(|(_, it)| is_login(&text[it.clone()]));
    assigned.chain(headers).chain(capture_ranges(&URL_PASSWORD, text))
}

/// Returns the range of each match of a pattern, and of its group 1.
fn capture_ranges<'t>(regex: &'static Regex, text: &'t str) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + 't {
    regex.captures_iter(text).filter_map(|it| Some((it.get(0)?.range(), it.get(1)?.range())))
}

/// Returns the range of a random-looking value at the start of a text.
pub(super) fn leading_value(text: &str) -> Option<Range<usize>> {
    let found = LEADING_VALUE.captures(text)?.get(1)?;
    looks_random(found.as_str()).then(|| found.range())
}

/// Whether a text ends with a name such as `api_key:`, whose value may be in the next text.
pub(super) fn ends_with_name(text: &str) -> bool {
    /// Bytes examined at the end of a text: enough for a name with quotes.
    const NAME_BYTES: usize = 128;
    TRAILING_NAME.is_match(&text[text.ceil_char_boundary(text.len().saturating_sub(NAME_BYTES))..])
}

/// Whether a value looks generated, unlike words, names and calls: a long hexadecimal number, or a mixture of lower case,
/// upper case and digits. The fewer of these kinds a value has, the longer it must be, and the less like words and dates.
fn looks_random(value: &str) -> bool {
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let is_hex = || count(u8::is_ascii_hexdigit) >= 32 && value.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    let enough = match (count(u8::is_ascii_lowercase), count(u8::is_ascii_uppercase), digits) {
        (1.., 1.., 2..) => entropy(value) >= 3.5,
        (1.., 1.., 1) => (value.len() >= 32 || entropy(value) >= 4.2) && is_jumbled(value),
        (1.., 0, 4..) | (0, 1.., 4..) => value.len() >= 20 && entropy(value) >= 3.5 && is_jumbled(value),
        _ => false,
    };
    enough || (digits >= 4 && is_hex())
}

/// Returns the Shannon entropy of a value in bits per character.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    value.bytes().for_each(|it| counts[usize::from(it)] += 1);
    let total = value.len() as f64;
    counts.iter().filter(|it| **it > 0).map(|it| f64::from(*it) / total).map(|share| -share * share.log2()).sum()
}

/// Whether a value looks random. Dates and names of files or functions do not: they consist of words and numbers of several
/// characters, or have a separator every few characters.
fn is_jumbled(value: &str) -> bool {
    /// Minimum length of the longest part without separators.
    const MIN_PART_LENGTH: usize = 16;
    let parts = || value.split(|it: char| !it.is_ascii_alphanumeric());
    let longest = parts().map(str::len).max().unwrap_or_default();
    let letters: usize = parts().map(str::len).sum();
    let pieces: usize = parts().map(|it| count_words(it.as_bytes())).sum();
    // The parts have at most 3.5 characters on average; words are longer.
    longest >= MIN_PART_LENGTH && pieces * 7 >= letters * 2
}

/// Counts the words and numbers in letters and digits without separators, as in `getKey2OfHTTPServer`.
fn count_words(text: &[u8]) -> usize {
    let begins = |at: usize| {
        let (before, now) = (text[at - 1], text[at]);
        let ends_capitals = before.is_ascii_uppercase() && at > 1 && text[at - 2].is_ascii_uppercase();
        before.is_ascii_digit() != now.is_ascii_digit()
            || (before.is_ascii_lowercase() && now.is_ascii_uppercase())
            || (ends_capitals && now.is_ascii_lowercase())
    };
    usize::from(!text.is_empty()) + (1..text.len()).filter(|it| begins(*it)).count()
}

/// Whether a value has the name, length and letters of an AWS secret key. Not every such key looks random to
/// `looks_random`, because some contain no digit.
fn is_aws_secret_key(text: &str, value: &Range<usize>) -> bool {
    let near = &text[text.ceil_char_boundary(value.start.saturating_sub(48))..value.start];
    let name: String = near.chars().filter(char::is_ascii_alphabetic).map(|it| it.to_ascii_lowercase()).collect();
    let value = &text[value.clone()];
    value.len() == 40
        && value.bytes().all(|it| it.is_ascii_alphanumeric() || b"+/".contains(&it))
        && value.bytes().any(|it| it.is_ascii_lowercase())
        && value.bytes().any(|it| it.is_ascii_uppercase())
        && ["secretaccesskey", "awssecretkey"].iter().any(|it| name.ends_with(it))
}

/// Whether a value is the base64 form of `name:password`, as in request headers.
fn is_login(base64: &str) -> bool {
    let Ok(bytes) = STANDARD_NO_PAD.decode(base64.trim_end_matches('=')) else { return false };
    let login = str::from_utf8(&bytes).unwrap_or_default();
    let is_name = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_graphic() || it == b' ');
    let is_password = |it: &str| !it.is_empty() && !it.contains(char::is_control);
    login.split_once(':').is_some_and(|(name, password)| is_name(name) && is_password(password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Redaction;
    use crate::secrets::Redactor;

    fn check(text: &str, expected: &str) {
        assert_eq!(Redactor::new(Redaction::Keys).redact(text), expected, "{text}");
        assert_eq!(Redactor::new(Redaction::None).redact(text), text);
    }

    #[test]
    fn random_value_after_name_is_redacted() {
        check("api_key = \"Zk3vQ9mX2pLr8TnB5wYs\"", "api_key = \"[redacted]\"");
        check("\"clientSecret\": \"0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c\"", "\"clientSecret\": \"[redacted]\"");
        check("Authorization: Bearer q8Rt2LmZx7Vb4NcK9wPd", "Authorization: Bearer [redacted]");
        check("The API key: Zk3vQ9mX2pLr8TnB5wYs", "The API key: [redacted]");
        check("| api_key | Zk3vQ9mX2pLr8TnB5wYs |", "| api_key | [redacted] |");
        check(r#""api_key = \"Zk3vQ9mX2pLr8TnB5wYs\"""#, r#""api_key = \"[redacted]\"""#);
    }

    // Case E13
    #[test]
    fn jumbled_value_of_few_kinds_is_redacted() {
        for value in [
            // Assembled here, so that secret scanners do not flag this file.
            concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYEXAMPLEKEY"),
            concat!("key-3ax6xnjp29jd6f", "ds4gc373sgvjxteol0"),
            concat!("QWxhZGRpbjpvcGVu", "IHNlc2FtZQxYzKpLm"),
            concat!("ZkvQmXpLrTnBwYsR", "tKdHjGfCx7"),
            concat!("K7QX2M9PZ4", "TR8WB3NV6D"),
            concat!("550e8400-e29b-41d4", "-a716-446655440000"),
        ] {
            check(&format!("api_key = \"{value}\""), "api_key = \"[redacted]\"");
            check(&format!("Your token: {value}, keep it"), "Your token: [redacted], keep it");
        }
    }

    #[test]
    fn aws_secret_key_is_redacted_by_name_and_length() {
        let value = concat!("wJalrXUtnFEMIxKyMDENG", "xbPxRfiCYEXAMPLEKEY");
        for name in
            ["aws_secret_access_key = ", "AWS_SECRET_ACCESS_KEY=", "\"SecretAccessKey\": \"", "aws_secret_key: "]
        {
            check(&format!("{name}{value}\n"), &format!("{name}[redacted]\n"));
            check(&format!("{name}{value}s\n"), &format!("{name}{value}s\n"));
        }
        check(&format!("secret = {value}"), &format!("secret = {value}"));
    }

    #[test]
    fn words_calls_paths_and_dates_are_kept() {
        for text in [
            "token = parser.next_token_of_the_line()",
            "password: see the sheet in the kitchen",
            "password: see the handbook page 12",
            "secret_key_base = config.secretKeyFromFile2",
            "The token economy of Larkmouth2025 and others",
            "sha256 = 0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c",
            "The secret is in commit 0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c0f3a9c2b of May",
            "access_key_identifier_of_the_user",
            "api_key = os.environ[\"SERVICE_API_KEY_2\"]",
            "token = get_token_from_vault_v2()",
            "token = oauth2Client.fetchAccessTokenFromServerSide()",
            "secret = getTokenFromVaultForService2()",
            "private_key = /home/Anna/Projects/vic2/keys/ServerKeyOfTheDaemon",
            "private_key: ./etc/ssl/Private/my_rsa2.key",
            "password: Handbook-of-the-House-Page-7.docx",
            "token: release-2024-01-15-final-version",
            "secret: backup-2024-01-15-10-22-33.tar.gz",
            "token_file = x86_64-unknown-linux-gnu/sha256/s3-eu1",
            "password: averylongname20240115v2final",
            "password = internationalization2024",
            "token: SOME_LONG_Constant_Name_V2_FOR_ALL_OF_IT",
            "tokens: 2024-01-15-2024-02-15",
            "password ----------------------------------------",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn long_value_is_redacted_to_its_end() {
        for length in [256, 257, MAX_VALUE_BYTES, 100_000] {
            let value: String = "Zk3vQ9mX2pLr8TnB5wYs".chars().cycle().take(length).collect();
            check(&format!("token: {value} end"), "token: [redacted] end");
        }
    }

    // Case E13
    #[test]
    fn basic_auth_is_redacted_but_other_basic_is_kept() {
        let login = concat!("dXNlcjpw", "YXNzd29yZA==");
        check(&format!("Authorization: Basic {login}"), "Authorization: Basic [redacted]");
        check(&format!("curl -H 'authorization: basic {login}' x"), "curl -H 'authorization: basic [redacted]' x");
        check(&format!("{{\"Authorization\": \"Basic {login}\"}}"), "{\"Authorization\": \"Basic [redacted]\"}");
        check("Basic bTp4", "Basic bTp4");
        for text in [
            "Authorization: Basic understanding of the rules",
            "Basic Principles of Programming2024",
            "Visual Basic applications",
            "basic 3546dcec, basic OnBodyDropFn",
            "basic QWxhZGRpbg==",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn password_in_url_is_redacted_and_url_is_kept() {
        check("postgres://anna:hunter2@db.example/x", "postgres://anna:[redacted]@db.example/x");
        for text in ["http://127.0.0.1:8080/a@b", "https://<user>:<password>@host", "https://$USER:${TOKEN}@host"] {
            check(text, text);
        }
    }
}
