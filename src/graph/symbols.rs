//! Interned strings: one copy of each, behind a number.

use std::collections::HashMap;

/// The number of a string.
pub(crate) type Symbol = u32;

/// Strings that do not change any more: some 8 bytes each beside their text.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    text: String,
    /// Where each ends.
    ends: Vec<u32>,
    /// Their numbers in the order of their texts.
    sorted: Vec<Symbol>,
}

impl Symbols {
    /// Returns a string.
    pub(crate) fn get(&self, symbol: Symbol) -> &str {
        let index = symbol as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.text[start..self.ends[index] as usize]
    }

    /// Returns the number of a string that is there.
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.sorted.binary_search_by(|it| self.get(*it).cmp(text)).ok().map(|at| self.sorted[at])
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.text.capacity() + (self.ends.capacity() + self.sorted.capacity()) * size_of::<u32>()
    }
}

/// Strings that are being collected.
#[derive(Debug, Default)]
pub(crate) struct SymbolBuilder {
    numbers: HashMap<Box<str>, Symbol>,
    symbols: Symbols,
}

impl SymbolBuilder {
    /// Returns the number of a string, new or known.
    pub(crate) fn add(&mut self, text: &str) -> Symbol {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.symbols.ends.len() as Symbol;
        self.symbols.text.push_str(text);
        self.symbols.ends.push(self.symbols.text.len() as u32);
        self.numbers.insert(text.into(), number);
        number
    }

    /// Ends the collection.
    pub(crate) fn build(self) -> Symbols {
        let mut symbols = self.symbols;
        drop(self.numbers);
        let mut sorted: Vec<Symbol> = (0..symbols.ends.len() as Symbol).collect();
        sorted.sort_unstable_by(|one, other| symbols.get(*one).cmp(symbols.get(*other)));
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
    fn a_string_has_one_number_and_comes_back() {
        let mut builder = SymbolBuilder::default();
        let numbers: Vec<Symbol> = ["b", "", "a", "b"].into_iter().map(|it| builder.add(it)).collect();
        assert_eq!(numbers, [0, 1, 2, 0]);
        let symbols = builder.build();
        assert_eq!((symbols.get(0), symbols.get(1), symbols.get(2)), ("b", "", "a"));
        assert_eq!((symbols.find("a"), symbols.find("b"), symbols.find("")), (Some(2), Some(0), Some(1)));
        assert_eq!(symbols.find("c"), None);
    }
}
