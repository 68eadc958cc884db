//! Interned strings: each distinct string is stored once and identified by a number, its symbol.

use std::collections::HashMap;

/// The number of an interned string.
pub(crate) type Symbol = u32;

/// Immutable table of interned strings; each takes some 12 bytes besides its text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interner {
    text: String,
    /// End of each string in `text`; `usize`, because the texts of many files may exceed 4 GiB.
    ends: Vec<usize>,
    /// All symbols, sorted by their texts.
    sorted: Vec<Symbol>,
}

impl Interner {
    /// Returns the text of a symbol.
    pub(crate) fn get(&self, symbol: Symbol) -> &str {
        let index = symbol as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// Returns the symbol of a text, if the text is in the table.
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.sorted.binary_search_by(|it| self.get(*it).cmp(text)).ok().map(|at| self.sorted[at])
    }

    /// Returns all strings with their symbols, in the order of the symbols.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Symbol, &str)> {
        (0..self.ends.len() as Symbol).map(|it| (it, self.get(it)))
    }

    /// Returns the symbols of the strings that begin with a text, sorted by their strings.
    pub(crate) fn with_prefix(&self, prefix: &str) -> &[Symbol] {
        let rest = &self.sorted[self.sorted.partition_point(|it| self.get(*it) < prefix)..];
        &rest[..rest.partition_point(|it| self.get(*it).starts_with(prefix))]
    }

    /// Returns the number of strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>() + self.sorted.capacity() * size_of::<Symbol>()
    }
}

/// Collects the strings of a new table.
#[derive(Debug, Default)]
pub(crate) struct InternerBuilder {
    /// All strings, first the existing and then the new ones. Until `build`, its index `sorted` has only the existing ones.
    symbols: Interner,
    /// Symbols of the strings that were added or looked up so far.
    numbers: HashMap<Box<str>, Symbol>,
}

impl InternerBuilder {
    /// Starts with the strings of an existing table, which keep their symbols.
    pub(crate) fn extending(symbols: &Interner) -> InternerBuilder {
        InternerBuilder { symbols: symbols.clone(), numbers: HashMap::new() }
    }

    /// Returns the symbol of a string; adds the string if it is new.
    pub(crate) fn add(&mut self, text: &str) -> Symbol {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.symbols.find(text).unwrap_or_else(|| {
            self.symbols.text.push_str(text);
            self.symbols.ends.push(self.symbols.text.len());
            (self.symbols.ends.len() - 1) as Symbol
        });
        self.numbers.insert(text.into(), number);
        number
    }

    /// Returns the table of all strings.
    pub(crate) fn build(self) -> Interner {
        let mut symbols = self.symbols;
        drop(self.numbers);
        let mut new: Vec<Symbol> = (symbols.sorted.len() as Symbol..symbols.ends.len() as Symbol).collect();
        new.sort_unstable_by(|one, other| symbols.get(*one).cmp(symbols.get(*other)));
        let mut sorted = Vec::with_capacity(symbols.ends.len());
        let mut rest = symbols.sorted.as_slice();
        for symbol in new {
            // Finds the position of each new string by binary search, because few are new, and copies the range before it.
            let (before, after) = rest.split_at(rest.partition_point(|it| symbols.get(*it) < symbols.get(symbol)));
            sorted.extend_from_slice(before);
            sorted.push(symbol);
            rest = after;
        }
        sorted.extend_from_slice(rest);
        symbols.sorted = sorted;
        symbols.text.shrink_to_fit();
        symbols.ends.shrink_to_fit();
        symbols
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_gets_one_symbol_and_is_found() {
        let mut builder = InternerBuilder::default();
        let numbers: Vec<Symbol> = ["b", "", "a", "b"].into_iter().map(|it| builder.add(it)).collect();
        assert_eq!(numbers, [0, 1, 2, 0]);
        let symbols = builder.build();
        assert_eq!((symbols.get(0), symbols.get(1), symbols.get(2)), ("b", "", "a"));
        assert_eq!((symbols.find("a"), symbols.find("b"), symbols.find("")), (Some(2), Some(0), Some(1)));
        assert_eq!(symbols.find("c"), None);
    }

    #[test]
    fn later_strings_are_merged_into_order() {
        let mut builder = InternerBuilder::default();
        assert_eq!(["m", "c", "x"].map(|it| builder.add(it)), [0, 1, 2]);
        let before = builder.build();
        let mut builder = InternerBuilder::extending(&before);
        assert_eq!(["z", "c", "a", "n", "a"].map(|it| builder.add(it)), [3, 1, 4, 5, 4]);
        let symbols = builder.build();
        let all = ["a", "c", "m", "n", "x", "z"];
        assert_eq!(all.map(|it| symbols.find(it)), [4, 1, 0, 5, 2, 3].map(Some));
        assert_eq!((symbols.len(), symbols.get(5)), (6, "n"));
    }

    #[test]
    fn strings_are_listed_and_found_by_prefix() {
        let mut builder = InternerBuilder::default();
        for text in ["plan.md", "b", "plan", "plane", "plum"] {
            builder.add(text);
        }
        let symbols = builder.build();
        assert_eq!(symbols.iter().map(|it| it.1).collect::<Vec<_>>(), ["plan.md", "b", "plan", "plane", "plum"]);
        assert_eq!(symbols.with_prefix("plan"), [2, 0, 3]);
        assert_eq!((symbols.with_prefix("c").len(), symbols.with_prefix("").len()), (0, 5));
    }
}
