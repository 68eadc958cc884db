//! The formats of API keys and access tokens that have a distinctive prefix.

use std::sync::LazyLock;

use regex::Regex;

use crate::secrets::patterns::compile_alternatives;

/// One pattern for all formats. Uses ASCII word boundaries, because Unicode ones make the regex engine slow on text that is
/// not English.
pub(super) static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    compile_alternatives(&[
        r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)",
        r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{36,251}",
        r"(?-u:\b)github_pat_[A-Za-z0-9_]{22,255}",
        r"(?-u:\b)gl(?:pat|rt|dt|ptt)-[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.?[a-z0-9]{7,9}(?-u:\b))?",
        r"(?-u:\b)xox[abceoprs]-[A-Za-z0-9-]{10,250}",
        // Slack browser tokens, which appear percent-encoded, as in cookies.
        r"(?-u:\b)xoxd-[A-Za-z0-9%+/=_-]{10,500}",
        r"(?-u:\b)xapp-[0-9]-[A-Za-z0-9-]{10,250}",
        r"hooks\.slack\.com/services/T[A-Za-z0-9_]+/B[A-Za-z0-9_]+/[A-Za-z0-9_]{16,}",
        r"(?-u:\b)sk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{20,250}",
        r"(?-u:\b)AIza[A-Za-z0-9_-]{35}",
        r"(?-u:\b)ya29\.[A-Za-z0-9_-]{20,}",
        r"(?-u:\b)GOCSPX-[A-Za-z0-9_-]{20,64}",
        r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,250}",
        r"(?-u:\b)whsec_[A-Za-z0-9+/=]{24,250}",
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"(?-u:\b)npm_[A-Za-z0-9]{36}(?-u:\b)",
        r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}",
        r"(?-u:\b)cio[A-Za-z0-9]{32}(?-u:\b)",
        r"(?-u:\b)hf_[A-Za-z0-9]{34,}",
        r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
        r"(?-u:\b)dop_v1_[a-f0-9]{64}(?-u:\b)",
        r"(?-u:\b)dckr_pat_[A-Za-z0-9_-]{20,64}",
        r"(?-u:\b)shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}(?-u:\b)",
        r"[0-9]:AA[A-Za-z0-9_-]{33}(?-u:\b)",
        r"(?-u:\b)AGE-SECRET-KEY-1[0-9A-Z]{58}(?-u:\b)",
        r"(?-u:\b)AccountKey=[A-Za-z0-9+/=]{60,}",
    ])
});

#[cfg(test)]
mod tests {
    use crate::model::Redaction;
    use crate::secrets::Redactor;

    fn check(text: &str, expected: &str) {
        assert_eq!(Redactor::new(Redaction::Keys).redact(text), expected, "{text}");
        assert_eq!(Redactor::new(Redaction::None).redact(text), text);
    }

    // Case E13
    #[test]
    fn known_token_formats_are_redacted() {
        // Assembled here, so that secret scanners do not flag this file.
        for (prefix, rest) in [
            ("AKIA", "IOSFODNN7EXAMPLE"),
            ("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"),
            ("glpat-", "X1a2b3c4d5e6f7g8h9i0"),
            ("glpat-", "X1a2b3c4d5e6f7g8h9i0jklmnop.01.0w1abcdef"),
            ("glrt-", "X1a2b3c4d5e6f7g8h9i0"),
            ("glrt-", "t1_X1a2b3c4d5e6f7g8h9i0"),
            ("gldt-", "X1a2b3c4d5e6f7g8h9i0"),
            ("glptt-", "0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c0f3a9c2b"),
            ("xoxb-", "123456789012-abcdefGHIJ"),
            ("xoxc-", "123456789012-123456789012-0f3a9c2b7d6e5f4a"),
            ("xoxd-", "abcdefGHIJ%2Bklm%2Fnop%3D%3D"),
            ("xapp-", "1-A0123456789-1234567890123-0f3a9c2b7d6e5f4a"),
            ("sk-proj-", "abcdefghijklmnopqrstuvwx"),
            ("AIza", "SyA1234567890abcdefghijklmnopqrstuv"),
            ("GOCSPX-", "abcdefghijklmnopqrstuvwxyz-_"),
            ("sk_live_", "4eC39HqLyjWDarjtT1zdp7dc"),
            ("whsec_", "abcdefghijklmnopqrstuvwxyz012345"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.", "dozjgNryP4J3jVmNHl0w5N"),
            ("npm_", "abcdefghijklmnopqrstuvwxyz0123456789"),
            ("cio", "abcdefghijklmnopqrstuvwxyz012345"),
            ("dckr_pat_", "abcdefghijklmnopqrstuvwxyz-"),
            ("shpat_", "0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c"),
            ("shpca_", "0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c"),
            ("shppa_", "0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c"),
            ("shpss_", "0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c"),
        ] {
            check(&format!("a {prefix}{rest} b"), "a [redacted] b");
            check(&format!("Use {prefix}{rest}."), "Use [redacted].");
        }
    }

    #[test]
    fn words_with_token_prefix_are_kept() {
        for text in [
            "negociocionesdelasempresaslatinoamericanas",
            "cioabcdefghijklmnopqrstuvwxyz0123456",
            "shpat_of_the_shop and glrt-runner and xapp-1-A",
            "a whsec_signing_secret and a dckr_pat_here",
            "the sk-learn package, GOCSPX-like",
        ] {
            check(text, text);
        }
    }
}
