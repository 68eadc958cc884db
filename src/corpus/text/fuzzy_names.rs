//! Finds names with similar spelling without comparing every pair.
//!
//! Two names are similar if their Jaro-Winkler similarity is at least [`SAME_NAME`]. Similar names share almost all letters:
//! the share of unmatched letters in one name plus that in the other is at most 0.15 / (1 - 0.1 p), where p is the length of
//! the common prefix, at most 4. In two similar names of at most n letters, at most n times this bound are unmatched.
//!
//! The alphabet is split into one group more than that number. At least one group then has no unmatched letter, and both
//! names have exactly the same letters of this group. Only names that agree in such a group are compared. This is done
//! twice: for names with the same first two letters (p is 2 to 4), and with fewer groups for all others (p is 0 or 1).
//! Names too long for `MAX_GROUPS` groups are all compared with each other.
//!
//! No pair is missed: within the limits of time and memory, the result equals that of pairwise comparison.

use std::collections::HashMap;

use strsim::jaro_winkler;

/// Minimum Jaro-Winkler similarity of two spellings of one name.
pub(crate) const SAME_NAME: f64 = 0.95;

/// Lengths of a common prefix, each with the maximum sum of the shares of unmatched letters in two similar names.
const COMMON_PREFIX_LIMITS: [(usize, f64); 2] =
    [(2, 3.0 * (1.0 - SAME_NAME) / 0.6), (0, 3.0 * (1.0 - SAME_NAME) / 0.9)];

/// Maximum number of letter groups. Names that need more (over about 50 letters) are all compared with each other.
const MAX_GROUPS: usize = 12;

/// Tolerance for rounding errors in sums of floating-point numbers.
const EPSILON: f64 = 1e-9;

/// Maximum work for one answer, in inspected pairs of names. So much work takes under a minute; a hundred thousand personal
/// names need a twentieth of it. After the limit, names are no longer compared.
const MAX_WORK: u64 = 4_000_000_000;

/// Minimum work of comparing the spellings of two names, in inspected pairs. Long names take more, because each letter is
/// searched in the other name.
const COMPARISON_COST: u64 = 100;

/// Number of letter pairs of two compared names that count as one inspected pair of names.
const LETTER_PAIRS_PER_UNIT: usize = 16;

/// Maximum names stored for one answer; further names are only compared with stored ones. A name takes some 200 bytes.
const MAX_NAMES: usize = 500_000;

/// Maximum number of chains of candidate names. If this is not enough, several letter groups share a chain.
const MAX_CHAINS: usize = 1 << 22;

/// Index that marks the end of a chain.
const END_OF_CHAIN: u32 = u32::MAX;

/// A set of representative names; each represents all names with a similar spelling.
pub(crate) struct NameMatcher {
    /// Rank of each letter by frequency in all names. Letters with neighbouring ranks are in different groups.
    ranks: HashMap<char, u32>,
    representatives: Vec<Representative>,
    /// Hash table by the letters of a name in one group: the index of the first link in a chain of candidate names.
    /// Different letters may share a chain, which only makes the chain longer.
    chains: Vec<u32>,
    /// Links of the chains: the index of a name, and the index of the next link.
    links: Vec<(u32, u32)>,
    /// Id of the current search, stored in every inspected name: a name in several chains is then compared only once.
    search: u32,
    work: u64,
    max_work: u64,
    max_names: usize,
    /// Number of names that were not stored, because a limit was reached. Each represents itself. Their indexes follow those
    /// of all stored names, because no name is stored after a limit was reached.
    left_out: usize,
}

/// A representative name, with which later names are compared.
struct Representative {
    folded: String,
    marks: LetterSignature,
    /// Id of the last search that inspected this name.
    search: u32,
}

/// The letter count of a name and a bit set, with one bit for each letter and one for each repetition. If bits collide,
/// names only look more similar than they are.
#[derive(Clone, Copy)]
struct LetterSignature {
    letters: usize,
    bits: u64,
}

impl LetterSignature {
    fn new(ranks: &[u32]) -> LetterSignature {
        let (mut bits, mut before, mut times) = (0, None, 0);
        for rank in ranks {
            times = if before == Some(rank) { times + 1 } else { 0 };
            before = Some(rank);
            bits |= 1 << ((rank + 29 * times) % u64::BITS);
        }
        LetterSignature { letters: ranks.len(), bits }
    }

    /// Returns whether two names can be similar if their letters are in the most favourable order.
    fn may_be_alike(self, other: LetterSignature) -> bool {
        let lacking = |one: LetterSignature, other: LetterSignature| (one.bits & !other.bits).count_ones() as usize;
        let left = |one: LetterSignature, other: LetterSignature| one.letters.saturating_sub(lacking(one, other));
        let most = left(self, other).min(left(other, self)) as f64;
        2.0 - most / self.letters as f64 - most / other.letters as f64 <= COMMON_PREFIX_LIMITS[0].1 + EPSILON
    }
}

impl NameMatcher {
    /// Creates a matcher without representatives; ranks the letters of these names.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n String> + Clone) -> NameMatcher {
        let mut counts: HashMap<char, u64> = HashMap::new();
        for letter in names.clone().flat_map(|it| it.chars()).flat_map(char::to_lowercase) {
            *counts.entry(letter).or_default() += 1;
        }
        let mut letters: Vec<(char, u64)> = counts.into_iter().collect();
        letters.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        // Reserve 32 chains per name, because most names have about twenty groups in all.
        let chains = names.count().saturating_mul(32).min(MAX_CHAINS).next_power_of_two();
        NameMatcher {
            ranks: letters.into_iter().map(|it| it.0).zip(0..).collect(),
            representatives: Vec::new(),
            chains: vec![END_OF_CHAIN; chains],
            links: Vec::new(),
            search: 0,
            work: 0,
            max_work: MAX_WORK,
            max_names: MAX_NAMES,
            left_out: 0,
        }
    }

    /// Returns the index of the first representative with a similar spelling, or a new index if there is none. After the
    /// work limit, every name gets a new index. After either limit, the name is not stored as a representative.
    pub(crate) fn match_name(&mut self, name: &str) -> usize {
        let folded = name.to_lowercase();
        // Use the code point as the rank of a letter that has none, such as a final small sigma. If two letters share a
        // rank, names only look more similar.
        let mut ranks: Vec<u32> =
            folded.chars().map(|it| self.ranks.get(&it).copied().unwrap_or(u32::from(it))).collect();
        ranks.sort_unstable();
        let marks = LetterSignature::new(&ranks);
        let chains = if self.is_over_limit() { Vec::new() } else { self.candidate_chains(&folded, &ranks) };
        if let Some(known) = self.first_match(&folded, marks, &chains) {
            return known;
        }
        let number = self.representatives.len() + self.left_out;
        if self.is_over_limit() || number >= self.max_names {
            self.left_out += 1;
        } else {
            self.add(Representative { folded, marks, search: 0 }, chains);
        }
        number
    }

    fn add(&mut self, name: Representative, chains: Vec<usize>) {
        let number = self.representatives.len() as u32;
        for chain in chains {
            let next = std::mem::replace(&mut self.chains[chain], self.links.len() as u32);
            self.links.push((number, next));
        }
        self.representatives.push(name);
    }

    /// Returns whether the work limit is reached.
    fn is_over_limit(&self) -> bool {
        self.work >= self.max_work
    }

    /// Returns the number of names that were not compared or not stored because of a limit.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the first similar representative. Returns `None` once the work limit is reached, because the search may then
    /// have missed an earlier representative.
    fn first_match(&mut self, folded: &str, marks: LetterSignature, chains: &[usize]) -> Option<usize> {
        self.search += 1;
        let mut found = END_OF_CHAIN;
        for chain in chains {
            let mut link = self.chains[*chain];
            while link != END_OF_CHAIN {
                let (other, next) = self.links[link as usize];
                link = next;
                self.work += 1;
                if other < found && self.compare(other, folded, marks) {
                    found = other;
                }
                if self.is_over_limit() {
                    return None;
                }
            }
        }
        (found != END_OF_CHAIN).then_some(found as usize)
    }

    /// Returns whether a representative is similar, unless this search has already inspected it.
    fn compare(&mut self, standing: u32, folded: &str, marks: LetterSignature) -> bool {
        let standing = &mut self.representatives[standing as usize];
        if std::mem::replace(&mut standing.search, self.search) == self.search || !standing.marks.may_be_alike(marks) {
            return false;
        }
        let letters = standing.marks.letters.saturating_mul(marks.letters);
        self.work = self.work.saturating_add(COMPARISON_COST.max((letters / LETTER_PAIRS_PER_UNIT) as u64));
        // Do not compare if that would exceed the work limit: a name can be as long as a text.
        self.work < self.max_work && jaro_winkler(&standing.folded, folded) >= SAME_NAME
    }

    /// Returns the chains that contain a name and all names similar to it.
    fn candidate_chains(&self, folded: &str, ranks: &[u32]) -> Vec<usize> {
        let mut keys = Vec::new();
        for (first, most_lacking) in COMMON_PREFIX_LIMITS {
            let start = folded.chars().take(first).fold(first as u64, |key, it| mix_hash(key, u32::from(it)));
            // Use every possible group count: it depends on the longer name of a pair, this name or its partner.
            let groups = |letters: f64| (most_lacking * letters + EPSILON) as usize + 1;
            let letters = ranks.len() as f64;
            let (least, most) = (groups(letters), groups(letters / (1.0 - most_lacking)));
            for count in least..=most.min(MAX_GROUPS) {
                push_group_hashes(&mut keys, start, count, ranks);
            }
            if most > MAX_GROUPS {
                keys.push(mix_hash(start, 0));
            }
        }
        keys.into_iter().map(|it| (it ^ (it >> 32)) as usize & (self.chains.len() - 1)).collect()
    }
}

/// Appends a hash for each of `count` letter groups, computed from the letters of the name that belong to the group.
fn push_group_hashes(keys: &mut Vec<u64>, start: u64, count: usize, ranks: &[u32]) {
    let first = keys.len();
    keys.extend((0..count as u32).map(|group| mix_hash(mix_hash(start, count as u32), group)));
    for rank in ranks {
        let key = &mut keys[first + *rank as usize % count];
        *key = mix_hash(*key, *rank);
    }
}

fn mix_hash(key: u64, value: u32) -> u64 {
    (key.rotate_left(5) ^ (u64::from(value) + 1)).wrapping_mul(0x517c_c1b7_2722_0a95)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(names: &[String]) -> Vec<usize> {
        let mut spellings = NameMatcher::new(names.iter());
        names.iter().map(|it| spellings.match_name(it)).collect()
    }

    /// Returns the same indexes as [`placed`], found by pairwise comparison.
    fn placed_slowly(names: &[String]) -> Vec<usize> {
        let mut standing: Vec<String> = Vec::new();
        let place = |name: &String| {
            let folded = name.to_lowercase();
            let known = standing.iter().position(|it| jaro_winkler(it, &folded) >= SAME_NAME);
            known.unwrap_or_else(|| {
                standing.push(folded);
                standing.len() - 1
            })
        };
        names.iter().map(place).collect()
    }

    /// Creates names from a few parts, some of them with a letter removed, changed or swapped.
    fn names(count: usize) -> Vec<String> {
        const FIRST: [&str; 8] = ["Anna", "Klara", "Clara", "Jonathan", "Jonathon", "Mary Anne", "Dmitri", "Öykü"];
        const PARTS: [&str; 12] = ["ka", "no", "stei", "ber", "ger", "man", "wil", "ross", "ton", "field", "ov", "é"];
        let mut state = 7_u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        let name = |_| {
            let parts: Vec<&str> = (0..2 + next(5)).map(|_| PARTS[next(PARTS.len())]).collect();
            let mut letters: Vec<char> = format!("{} {}", FIRST[next(FIRST.len())], parts.concat()).chars().collect();
            let at = next(letters.len() - 1);
            match next(6) {
                0 => {
                    letters.remove(at);
                }
                1 => letters.swap(at, at + 1),
                2 => letters[at] = 'e',
                _ => {}
            }
            letters.into_iter().collect()
        };
        (0..count).map(name).collect()
    }

    #[test]
    fn result_equals_pairwise_comparison() {
        let mut names = names(1_500);
        // Add long names that differ in one letter.
        names.extend((0..40).map(|it| format!("A{}{} House{}", "bcdefghijk".repeat(5), it / 2, "s".repeat(it % 7))));
        let found = placed(&names);
        assert_eq!(found, placed_slowly(&names));
        assert!(found.iter().max().unwrap() + 100 < names.len(), "many names are similar");
    }

    #[test]
    fn few_pairs_are_inspected_for_many_names() {
        let names = names(20_000);
        let mut spellings = NameMatcher::new(names.iter());
        for name in &names {
            spellings.match_name(name);
        }
        let standing = spellings.representatives.len() as u64;
        let each_with_each = standing * standing / 2 * COMPARISON_COST;
        assert!(standing > 5_000 && spellings.left_out() == 0);
        assert!(spellings.work < each_with_each / 100, "{} of {each_with_each}", spellings.work);
    }

    #[test]
    fn names_over_work_limit_are_counted_as_left_out() {
        let names = ["Klara Novak", "Klara Nowak", "Ada Stone", "Ada Stome"].map(String::from);
        let mut spellings = NameMatcher::new(names.iter());
        let mut placed = |most_work: u64| {
            spellings.max_work = most_work;
            spellings.match_name(&names[spellings.search as usize])
        };
        assert_eq!([placed(MAX_WORK), placed(MAX_WORK), placed(0), placed(0)], [0, 0, 1, 2]);
        assert_eq!(spellings.left_out(), 2);
    }

    #[test]
    fn long_names_use_up_work_limit() {
        // Names of two thousand letters that differ in one letter, so that all are similar and share a chain.
        let names: Vec<String> = (b'a'..b'k').map(|it| format!("A{}{}", "b".repeat(1_999), char::from(it))).collect();
        let comparison = 2_001 * 2_001 / LETTER_PAIRS_PER_UNIT as u64;
        let mut spellings = NameMatcher::new(names.iter());
        spellings.max_work = 3 * comparison + comparison / 2;
        let placed: Vec<usize> = names.iter().map(|it| spellings.match_name(it)).collect();
        assert_eq!(placed, [0, 0, 0, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((spellings.left_out(), spellings.representatives.len()), (6, 1));
    }

    #[test]
    fn names_over_memory_limit_match_stored_or_are_left_out() {
        let names = ["Klara Novak", "Ada Stone", "Omar Idris", "Omar Idriss", "Klara Nowak"].map(String::from);
        let mut spellings = NameMatcher::new(names.iter());
        spellings.max_names = 2;
        assert_eq!(names.each_ref().map(|it| spellings.match_name(it)), [0, 1, 2, 3, 0]);
        assert_eq!((spellings.left_out(), spellings.representatives.len()), (2, 2));
    }

    #[test]
    fn chain_count_is_capped() {
        let name = "Ada Stone".to_string();
        assert_eq!(NameMatcher::new(std::iter::repeat_n(&name, 1 << 18)).chains.len(), MAX_CHAINS);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn edited_name_matches_as_in_pairwise_comparison(
            name in "[ab]{1,3}[a-f]{0,9} [a-zé]{1,30}", changes in prop::collection::vec((0_usize..60, 0_usize..3, prop::char::range('a', 'h')), 0..6)
        ) {
            let mut letters: Vec<char> = name.chars().collect();
            for (at, how, letter) in changes {
                let at = at % letters.len();
                match how {
                    0 => letters[at] = letter,
                    1 => letters.insert(at, letter),
                    _ => letters.swap(at, 0),
                }
            }
            let names = [name, letters.into_iter().collect()];
            prop_assert_eq!(placed(&names), placed_slowly(&names), "{:?}", names);
        }
    }
}
