//! The bearer key.

use axum::http::{HeaderMap, header};

/// The key that requests must show. Only its hash is kept, and hashes are compared in constant time, so that neither the
/// length nor the beginning of the key can be found out by measuring.
pub(crate) struct Key(blake3::Hash);

impl Key {
    pub(crate) fn new(key: &str) -> Key {
        Key(blake3::hash(key.as_bytes()))
    }

    /// Says whether the headers show the key: one `Authorization: Bearer KEY` and no second.
    pub(crate) fn opens(&self, headers: &HeaderMap) -> bool {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (shown.next(), shown.next()) else { return false };
        let Some((scheme, key)) = value.as_bytes().split_at_checked(7) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ") && blake3::hash(key.trim_ascii()) == self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        Key::new("s3cret").opens(&headers)
    }

    #[test]
    fn only_the_key_itself_opens() {
        assert!(check(&["Bearer s3cret"]));
        assert!(check(&["bearer  s3cret"]));
        for wrong in
            ["", "Bearer", "Bearer ", "s3cret", "Basic s3cret", "Bearer s3cre", "Bearer s3cret2", "Bearer S3CRET"]
        {
            assert!(!check(&[wrong]), "{wrong}");
        }
        assert!(!check(&[]));
        assert!(!check(&["Bearer s3cret", "Bearer s3cret"]), "two of them");
    }
}
