//! The version of the server, and what it can do.

use std::fmt;

/// The version as the server states it, with its numbers where it has any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    text: String,
    numbers: Option<(u32, u32, u32)>,
}

/// What a server of some version can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Sparse vectors, and an inverted index of them: Milvus 2.4, Milvus Lite 3.
    pub has_sparse: bool,
    /// The index type `INVERTED` for numbers and text: Milvus 2.4, Milvus Lite 3.
    pub has_inverted_index: bool,
    /// The index type `HNSW`: Milvus, Milvus Lite 3.
    pub has_hnsw: bool,
    /// The server keeps the description of a collection. Milvus Lite drops it, but keeps the properties.
    pub keeps_description: bool,
    /// The server loads its collections again after a restart. Milvus Lite leaves them released.
    pub reloads_collections: bool,
    /// A read may be older than a write, unless it names the time of the write. Milvus Lite is always up to date.
    pub has_stale_reads: bool,
}

impl Version {
    pub(crate) fn parse(text: &str) -> Self {
        Self { text: crate::error::clean(text), numbers: numbers_of(text) }
    }

    /// The version as the server states it, such as `v2.5.4` or `milvus_lite-3.2.2`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Major, minor and patch number. `None` if the text has no such numbers.
    pub fn numbers(&self) -> Option<(u32, u32, u32)> {
        self.numbers
    }

    /// Whether the server is Milvus Lite. `v2.3.5-lite` is not: it is the full server in one process.
    pub fn is_lite(&self) -> bool {
        self.text.starts_with("milvus_lite") || self.text.starts_with("milvus-lite")
    }

    /// What this server can do. A server without a version number counts as a recent one.
    pub fn features(&self) -> Features {
        let is_lite = self.is_lite();
        let numbers = self.numbers.unwrap_or((u32::MAX, 0, 0));
        let since = |server: (u32, u32, u32)| numbers >= if is_lite { (3, 0, 0) } else { server };
        Features {
            has_sparse: since((2, 4, 0)),
            has_inverted_index: since((2, 4, 0)),
            has_hnsw: since((2, 0, 0)),
            keeps_description: !is_lite,
            reloads_collections: !is_lite,
            has_stale_reads: !is_lite,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first three numbers that dots join: `v2.3.5-lite` has 2, 3 and 5.
fn numbers_of(text: &str) -> Option<(u32, u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|part| {
        let mut numbers = part.split('.').map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        Some((next()?, next()?, next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_text_gives_numbers() {
        let cases = [
            ("milvus_lite-3.2.2", Some((3, 2, 2)), true),
            ("v2.3.5-lite", Some((2, 3, 5)), false),
            ("2.5.4", Some((2, 5, 4)), false),
            ("v2.6.0-rc1", Some((2, 6, 0)), false),
            ("master-20240101-abc", None, false),
            ("", None, false),
            ("2.5", None, false),
            ("99999999999.1.1", None, false),
        ];
        for (text, numbers, is_lite) in cases {
            let version = Version::parse(text);
            assert_eq!((version.numbers(), version.is_lite()), (numbers, is_lite), "{text}");
        }
    }

    #[test]
    fn features_follow_the_version() {
        let sparse = |text: &str| Version::parse(text).features().has_sparse;
        assert!(sparse("milvus_lite-3.2.2") && sparse("2.4.0") && sparse("master"));
        assert!(!sparse("v2.3.5-lite") && !sparse("milvus_lite-2.5.1"));
        assert!(!Version::parse("milvus_lite-3.2.2").features().keeps_description);
    }
}
