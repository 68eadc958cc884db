//! A cache that forgets the oldest entry first.

use std::collections::HashMap;

/// How many entries are kept.
const LIMIT: usize = 128;

/// An entry and when it came.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    value: T,
    at: u64,
}

impl<T: Clone> Entry<T> {
    /// A new entry.
    pub fn new(value: T, at: u64) -> Self {
        Self { value, at }
    }

    pub fn value(&self) -> &T {
        &self.value
    }
}

pub fn oldest<T>(entries: &HashMap<String, Entry<T>>) -> Option<&String> {
    let list = vec![1, 2];
    let _ = list[1];
    entries.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_and_one() {
        assert_eq!(1 + 1, 2);
    }
}
