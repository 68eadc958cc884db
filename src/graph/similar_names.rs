//! Compares a few wanted names, e.g. misspelled ones, with very many existing names, and finds the existing names that are
//! spelled similarly. One pass over the existing names is enough for all wanted names.
//!
//! Before two names are compared, their lengths and their sets of characters must agree up to the highest number of edits.
//! The number of comparisons is limited, so a pass over a million names takes a fraction of a second.

use std::collections::HashMap;

/// Maximum number of edits (changed characters) between two similar names. With more, short names would be similar to any.
const MAX_EDITS: usize = 3;
/// Maximum number of characters of a name, one for each bit of a word; longer ones are texts rather than names, and are not
/// compared.
const MAX_CHARS: usize = u128::BITS as usize;
/// Maximum number of comparisons of one pass; after that, the pass finds nothing more. A comparison takes 0.1 to 0.4
/// microseconds.
const MAX_COMPARISONS: usize = 2_000_000;

/// A name for which similar names are searched, prepared for comparisons.
#[derive(Debug)]
struct Wanted {
    length: usize,
    letters: u64,
    most: usize,
    /// For each ASCII character, a bit mask of the positions at which the name contains it.
    ascii_positions: Vec<u128>,
    /// Characters of the name that are not ASCII, each with such a bit mask.
    other_positions: Vec<(char, u128)>,
}

impl Wanted {
    fn new(folded: &[char], most: usize) -> Wanted {
        let mut ascii_positions = vec![0; 128];
        let mut other_positions: Vec<(char, u128)> = Vec::new();
        for (position, character) in folded.iter().take(MAX_CHARS).enumerate() {
            match ascii_positions.get_mut(*character as usize) {
                Some(positions) => *positions |= 1 << position,
                None => match other_positions.iter_mut().find(|it| it.0 == *character) {
                    Some((_, positions)) => *positions |= 1 << position,
                    None => other_positions.push((*character, 1 << position)),
                },
            }
        }
        Wanted { length: folded.len(), letters: letter_set(folded), most, ascii_positions, other_positions }
    }

    fn positions(&self, character: char) -> u128 {
        let other = || self.other_positions.iter().find(|it| it.0 == character).map_or(0, |it| it.1);
        self.ascii_positions.get(character as usize).copied().unwrap_or_else(other)
    }

    /// Returns the number of inserted, deleted, replaced and swapped characters between two names, if it is at most `most`.
    /// Hyyrö's algorithm: each bit of a word is the difference between adjacent cells in a column of the table of distances.
    fn edits(&self, name: &[char]) -> Option<usize> {
        let last = 1_u128 << (self.length - 1);
        let (mut vertical_plus, mut vertical_minus, mut diagonal_zero, mut before) =
            (u128::MAX, 0_u128, 0_u128, 0_u128);
        let mut edits = self.length;
        for (position, character) in name.iter().enumerate() {
            let here = self.positions(*character);
            let swapped = ((!diagonal_zero & here) << 1) & before;
            let carried = (here & vertical_plus).wrapping_add(vertical_plus) ^ vertical_plus;
            diagonal_zero = carried | here | vertical_minus | swapped;
            let horizontal_plus = vertical_minus | !(diagonal_zero | vertical_plus);
            let horizontal_minus = diagonal_zero & vertical_plus;
            edits += usize::from(horizontal_plus & last != 0);
            edits -= usize::from(horizontal_minus & last != 0);
            // Stops if the remaining characters cannot lower the distance enough: each lowers it by at most one.
            if edits > self.most + name.len() - position - 1 {
                return None;
            }
            let (plus, minus) = ((horizontal_plus << 1) | 1, horizontal_minus << 1);
            vertical_plus = minus | !(diagonal_zero | plus);
            vertical_minus = plus & diagonal_zero;
            before = here;
        }
        Some(edits).filter(|it| *it <= self.most)
    }
}

/// A search for names that are similar to the wanted ones, with the number of comparisons that it may still make.
#[derive(Debug)]
pub(crate) struct NameSearch {
    wanted: Vec<Wanted>,
    /// The indices in `wanted` of the names that an existing name can be similar to. The key is a hash of the digits of the
    /// existing name (0 if digits may differ), and the position in the list is its length in characters.
    candidates: HashMap<u64, Vec<Vec<u32>>>,
    requires_same_digits: bool,
    longest: usize,
    comparisons_left: usize,
    folded: Vec<char>,
}

impl NameSearch {
    /// Searches names that a user may have meant by these misspelled names: up to a third of the characters may differ.
    pub(crate) fn for_typos<'a>(names: impl IntoIterator<Item = &'a str>) -> NameSearch {
        NameSearch::new(names, false, |length| (length / 3).clamp(1, MAX_EDITS).min(length.saturating_sub(1)))
    }

    /// Searches names that these new names may be misspellings of. Such a name has the same digits, and differs by at most
    /// one edit, or by two if the new name has at least eight characters.
    pub(crate) fn for_lookalikes<'a>(names: impl IntoIterator<Item = &'a str>) -> NameSearch {
        NameSearch::new(names, true, |length| if length < 8 { 1 } else { 2 })
    }

    fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        requires_same_digits: bool,
        most: fn(usize) -> usize,
    ) -> NameSearch {
        let mut search = NameSearch {
            wanted: Vec::new(),
            candidates: HashMap::new(),
            requires_same_digits,
            longest: 0,
            comparisons_left: MAX_COMPARISONS,
            folded: Vec::new(),
        };
        for (number, name) in (0..).zip(names) {
            // Adds a name that is too long to `wanted` only, so that the indices fit, but not to `candidates`.
            let digits = search.fold(name, MAX_CHARS);
            let folded = std::mem::take(&mut search.folded);
            let most = most(folded.len());
            if let Some(digits) = digits.filter(|_| (1..=MAX_CHARS).contains(&folded.len())) {
                let lengths = search.candidates.entry(digits).or_default();
                lengths.resize_with(lengths.len().max(folded.len() + most + 1), Vec::new);
                let near = folded.len() - most.min(folded.len())..=folded.len() + most;
                near.for_each(|length| lengths[length].push(number));
                search.longest = search.longest.max(folded.len() + most);
            }
            search.wanted.push(Wanted::new(&folded, most));
        }
        search
    }

    /// Writes the lower-case characters of a name to `folded`. Returns a hash of its digits, or 0 if digits may differ.
    /// Returns `None` if the name has more than `longest` characters.
    fn fold(&mut self, name: &str, longest: usize) -> Option<u64> {
        self.folded.clear();
        let mut digits = 0;
        for character in name.chars() {
            if self.folded.len() == longest {
                return None;
            }
            match character.is_ascii() {
                true => self.folded.push(character.to_ascii_lowercase()),
                false => self.folded.extend(character.to_lowercase()),
            }
            if self.requires_same_digits && character.is_ascii_digit() {
                digits = (digits ^ u64::from(character)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        Some(digits)
    }

    /// Compares an existing name with the wanted ones. Calls `found` for each wanted name that is similar to it, with the
    /// index of the wanted name and the number of edits.
    pub(crate) fn compare(&mut self, name: &str, mut found: impl FnMut(usize, usize)) {
        // A character has one to four bytes, so most long texts are skipped without decoding them.
        if name.len() > self.longest * 4 || self.comparisons_left == 0 {
            return;
        }
        let Some(digits) = self.fold(name, self.longest) else { return };
        let Some(near) = self.candidates.get(&digits).and_then(|it| it.get(self.folded.len())) else { return };
        if near.is_empty() {
            return;
        }
        let letters = letter_set(&self.folded);
        for number in near {
            let wanted = &self.wanted[*number as usize];
            let (missing, extra) = (wanted.letters & !letters, letters & !wanted.letters);
            if missing.count_ones().max(extra.count_ones()) as usize > wanted.most {
                continue;
            }
            self.comparisons_left = self.comparisons_left.saturating_sub(1);
            if let Some(edits) = wanted.edits(&self.folded) {
                found(*number as usize, edits);
            }
        }
    }

    /// Returns whether no name was skipped because of the limit on comparisons.
    pub(crate) fn is_complete(&self) -> bool {
        self.comparisons_left > 0
    }
}

/// Returns the set of characters as bits; characters may share a bit.
fn letter_set(characters: &[char]) -> u64 {
    characters.iter().fold(0, |set, it| set | 1 << (u32::from(*it) % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(search: &mut NameSearch, names: &[&str]) -> Vec<(usize, String, usize)> {
        let mut found = Vec::new();
        for name in names {
            search.compare(name, |wanted, edits| found.push((wanted, (*name).to_string(), edits)));
        }
        found
    }

    fn characters(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    proptest! {
        #[test]
        fn edits_match_reference(one in "[abä]{1,9}", other in "[abä]{0,9}", most in 0..4usize) {
            let expected = Some(strsim::osa_distance(&one, &other)).filter(|it| *it <= most);
            prop_assert_eq!(Wanted::new(&characters(&one), most).edits(&characters(&other)), expected);
        }

        #[test]
        fn no_near_name_is_filtered_out(one in "[a-c1ä]{1,9}", other in "[a-c1ä]{1,9}") {
            let most = (one.chars().count() / 3).clamp(1, MAX_EDITS).min(one.chars().count() - 1);
            let edits = strsim::osa_distance(&one, &other);
            let expected = if edits <= most { vec![(0, other.clone(), edits)] } else { Vec::new() };
            prop_assert_eq!(found(&mut NameSearch::for_typos([one.as_str()]), &[&other]), expected);
        }
    }

    #[test]
    fn typos_are_found_for_each_name_in_one_pass() {
        let mut search = NameSearch::for_typos(["Foo", "SUBMTI.FN.01", "x", &"long".repeat(99)]);
        let names = ["Food", "Fodder", "Submit.FN.001", "y", "", &"long".repeat(99)];
        let expected = [(0, "Food".to_string(), 1), (1, "Submit.FN.001".to_string(), 2)];
        assert_eq!(found(&mut search, &names), expected);
    }

    #[test]
    fn lookalikes_have_same_digits_and_few_edits() {
        let mut search = NameSearch::for_lookalikes(["Submit2", "Review.FN.001", "Verdict"]);
        let names = ["Submit3", "Sumbit2", "Reviwe.FN.001", "Review.FN.002", "verdict", "Verdigris"];
        let found: Vec<String> = found(&mut search, &names).into_iter().map(|it| it.1).collect();
        assert_eq!(found, ["Sumbit2", "Reviwe.FN.001", "verdict"]);
    }

    #[test]
    fn comparisons_are_limited() {
        let mut search = NameSearch::for_typos(["name"]);
        search.comparisons_left = 2;
        assert_eq!(found(&mut search, &["names", "nameless"]).len(), 1);
        assert!(search.is_complete(), "a name of another length costs no comparison");
        assert_eq!(found(&mut search, &["nam", "nme"]).len(), 1);
        assert!(!search.is_complete());
    }
}
