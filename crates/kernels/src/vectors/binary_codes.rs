//! Binary codes: one bit per number of a vector, to select candidates among many rows.
//!
//! A bit shows whether a number exceeds the mean of all vectors at its position. The cosine of a row and a query is
//! estimated by counting bits, from the code of the row and the numbers of the query quantised to four bits each. With
//! `q` the query, `r` the row minus the mean and `s` the signs of `r`, `<q, r>` is about `<q, s> * |r|^2 / <r, s>`.
//! This is exact for a query equal to the row (RaBitQ, Gao and Long, SIGMOD 2024, without the rotation). A code takes
//! 1/8 of the bytes of the row, and the memory-bound scan an eighth of the time.
//!
//! A block of eight rows stores the first words of all rows side by side, then the second words, and so on, so that the
//! compiler counts the bits of eight rows at once.

use std::ops::Range;

use crate::vectors::huge_pages::advise_huge_pages;
use crate::vectors::prefetch::prefetch;

/// Number of rows per block.
const BLOCK: usize = 8;

/// Number of vector elements that one machine word encodes: one bit for each.
const WORD: usize = u64::BITS as usize;

/// Number of bits to which each number of the query is quantised.
const QUERY_BITS: usize = 4;

/// The largest value of [`QUERY_BITS`] bits.
const QUERY_STEPS: f32 = ((1 << QUERY_BITS) - 1) as f32;

/// Number of blocks that are prefetched ahead of the scan.
const PREFETCH_BLOCKS: usize = 16;

/// Number of blocks estimated at once; their data stays in the L1 cache.
const BLOCKS_PER_RUN: usize = 32;

/// Number of vector elements processed at once when a row is added.
const LANES: usize = 16;

/// The signs of all rows, and for each row the values that turn a count of its signs into an estimate. Unused positions
/// of the last block are zero.
#[derive(Debug)]
pub struct BinaryCodes {
    /// The mean of the vectors, subtracted from each row.
    mean: Vec<f32>,
    /// Number of words per row.
    words: usize,
    /// Number of rows.
    rows: usize,
    /// Signs by block: the first words of the eight rows, then their second words, and so on.
    signs: Vec<[u64; BLOCK]>,
    /// `|r|^2 / <r, s>` of each row.
    factors: Vec<[f32; BLOCK]>,
    /// Number of positive signs of each row.
    positive: Vec<[f32; BLOCK]>,
}

/// A query whose numbers are quantised to four bits.
pub struct QueryCodes {
    /// The four bit planes of each word, from the lowest bit.
    planes: Vec<[u64; QUERY_BITS]>,
    /// Difference between two consecutive quantisation steps.
    step: f32,
    /// Value of quantisation step 0.
    low: f32,
    sum: f32,
}

impl BinaryCodes {
    /// Creates an empty collection of codes for vectors with this mean.
    pub fn new(mean: Vec<f32>) -> BinaryCodes {
        let words = mean.len().div_ceil(WORD);
        BinaryCodes { mean, words, rows: 0, signs: Vec::new(), factors: Vec::new(), positive: Vec::new() }
    }

    /// Reserves memory for this many rows.
    pub fn reserve(&mut self, rows: usize) {
        let blocks = rows.div_ceil(BLOCK);
        self.signs.reserve_exact(blocks * self.words);
        self.factors.reserve_exact(blocks);
        self.positive.reserve_exact(blocks);
        advise_huge_pages(&self.signs);
    }

    /// Adds the code of a vector as the last row.
    pub fn push(&mut self, vector: &[f32]) {
        let (block, at) = (self.rows / BLOCK, self.rows % BLOCK);
        if at == 0 {
            let room = self.signs.capacity();
            self.signs.resize(self.signs.len() + self.words, [0; BLOCK]);
            if self.signs.capacity() != room {
                advise_huge_pages(&self.signs);
            }
            self.factors.push([0.0; BLOCK]);
            self.positive.push([0.0; BLOCK]);
        }
        let signs = &mut self.signs[block * self.words..];
        let SignSums { squares, sizes, positive } = pack_signs(vector, &self.mean, |word, bits| signs[word][at] = bits);
        self.factors[block][at] = if sizes > 0.0 { squares / sizes } else { 0.0 };
        self.positive[block][at] = positive as f32;
        self.rows += 1;
    }

    /// Removes a row. The last row moves to its index.
    pub fn swap_remove(&mut self, row: usize) {
        let last = self.rows - 1;
        let (to, at, from, last_at) = (row / BLOCK, row % BLOCK, last / BLOCK, last % BLOCK);
        for word in 0..self.words {
            self.signs[to * self.words + word][at] = self.signs[from * self.words + word][last_at];
            self.signs[from * self.words + word][last_at] = 0;
        }
        self.factors[to][at] = std::mem::take(&mut self.factors[from][last_at]);
        self.positive[to][at] = std::mem::take(&mut self.positive[from][last_at]);
        self.rows = last;
        let blocks = last.div_ceil(BLOCK);
        self.signs.truncate(blocks * self.words);
        self.factors.truncate(blocks);
        self.positive.truncate(blocks);
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.factors.len()
    }

    /// Quantises a query.
    pub fn quantize_query(&self, query: &[f32]) -> QueryCodes {
        QueryCodes::new(query, self.words)
    }

    /// Passes the estimated cosines of the rows in these blocks to `each`, in groups of a few blocks, with the index of
    /// the first row of the group. The estimates lack a summand that is equal for all rows, so only their order is
    /// meaningful.
    pub fn estimate(&self, asked: &QueryCodes, blocks: Range<usize>, each: impl FnMut(u32, &[f32])) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512dq") && has!("avx512vpopcntdq") {
                // SAFETY: the processor supports the instructions for which the function was compiled.
                return unsafe { estimate_avx512(self, asked, blocks, each) };
            }
            if has!("avx2") && has!("popcnt") {
                // SAFETY: the processor supports the instructions for which the function was compiled.
                return unsafe { estimate_avx2(self, asked, blocks, each) };
            }
        }
        estimate_blocks(self, asked, blocks, each);
    }
}

impl QueryCodes {
    fn new(query: &[f32], words: usize) -> QueryCodes {
        let low = query.iter().copied().fold(f32::INFINITY, f32::min);
        let high = query.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = if high > low { (high - low) / QUERY_STEPS } else { 1.0 };
        let mut asked = QueryCodes { planes: vec![[0; QUERY_BITS]; words], step, low, sum: 0.0 };
        for (place, number) in query.iter().enumerate() {
            // Rounds by adding half a step and truncating, which is correct because `number - low` is never negative.
            let steps = ((number - low) / step + 0.5).min(QUERY_STEPS) as u64;
            asked.sum += low + step * steps as f32;
            for (bit, plane) in asked.planes[place / WORD].iter_mut().enumerate() {
                *plane |= (steps >> bit & 1) << (place % WORD);
            }
        }
        asked
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512dq,avx512vpopcntdq")]
fn estimate_avx512(sketch: &BinaryCodes, asked: &QueryCodes, blocks: Range<usize>, each: impl FnMut(u32, &[f32])) {
    estimate_blocks(sketch, asked, blocks, each);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn estimate_avx2(sketch: &BinaryCodes, asked: &QueryCodes, blocks: Range<usize>, each: impl FnMut(u32, &[f32])) {
    estimate_blocks(sketch, asked, blocks, each);
}

/// Portable code that the compiler vectorises. It is inlined, so that each caller compiles it for its own registers.
/// With a constant number of words per row, counting takes half the time. It counts the bits of all blocks of a group
/// before it computes the estimates, because switching between both takes as long for one block as for two.
#[inline(always)]
fn estimate_blocks(sketch: &BinaryCodes, asked: &QueryCodes, blocks: Range<usize>, mut each: impl FnMut(u32, &[f32])) {
    for start in blocks.clone().step_by(BLOCKS_PER_RUN) {
        let run = start..(start + BLOCKS_PER_RUN).min(blocks.end);
        let mut steps = [[0; BLOCK]; BLOCKS_PER_RUN];
        match sketch.words {
            6 => count_blocks::<6>(sketch, asked, run.clone(), &mut steps),
            12 => count_blocks::<12>(sketch, asked, run.clone(), &mut steps),
            16 => count_blocks::<16>(sketch, asked, run.clone(), &mut steps),
            _ => count_blocks::<0>(sketch, asked, run.clone(), &mut steps),
        }
        let facts = sketch.factors[run.clone()].as_flattened().iter().zip(sketch.positive[run.clone()].as_flattened());
        let mut estimates = [0.0; BLOCKS_PER_RUN * BLOCK];
        for ((estimate, steps), (factor, positive)) in estimates.iter_mut().zip(steps.as_flattened()).zip(facts) {
            // The estimate is twice the sum of the query's numbers at positive signs, minus the sum of all its numbers.
            let above = asked.low * positive + asked.step * (*steps as i32 as f32);
            *estimate = (2.0 * above - asked.sum) * factor;
        }
        let rows = run.start * BLOCK..sketch.rows.min(run.end * BLOCK);
        each(rows.start as u32, &estimates[..rows.len()]);
    }
}

/// Sums the query's steps for the rows of these blocks. `WORDS` is the number of words per row, or 0 if known only at run
/// time.
#[inline(always)]
fn count_blocks<const WORDS: usize>(
    sketch: &BinaryCodes,
    asked: &QueryCodes,
    run: Range<usize>,
    steps: &mut [[u64; BLOCK]; BLOCKS_PER_RUN],
) {
    let words = if WORDS > 0 { WORDS } else { sketch.words };
    let signs = sketch.signs[run.start * words..run.end * words].chunks_exact(words);
    let planes = &asked.planes[..words];
    for ((block, signs), steps) in run.zip(signs).zip(steps) {
        let ahead = (block + PREFETCH_BLOCKS) * words;
        prefetch(sketch.signs.get(ahead..ahead + words).unwrap_or_default());
        *steps = count_steps(&signs[..words], planes);
    }
}

/// Sums the query's steps at the positive signs of each row.
#[inline(always)]
fn count_steps(signs: &[[u64; BLOCK]], planes: &[[u64; QUERY_BITS]]) -> [u64; BLOCK] {
    let mut steps = [0u64; BLOCK];
    for (signs, planes) in signs.iter().zip(planes) {
        for (steps, signs) in steps.iter_mut().zip(signs) {
            let count = |bit: usize| u64::from((signs & planes[bit]).count_ones()) << bit;
            *steps += count(0) + count(1) + count(2) + count(3);
        }
    }
    steps
}

/// Sums over the numbers of a row minus the mean: of their squares, of their absolute values, and of their positive
/// signs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SignSums {
    squares: f32,
    sizes: f32,
    /// Number of positive signs in the row.
    positive: u32,
}

/// Passes the signs of a row minus the mean to `each`, word by word, and returns the sums over the row.
fn pack_signs(row: &[f32], mean: &[f32], each: impl FnMut(usize, u64)) -> SignSums {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("popcnt") {
            // SAFETY: the processor supports the instructions for which the function was compiled.
            return unsafe { pack_signs_avx2(row, mean, each) };
        }
    }
    pack_signs_plain(row, mean, each)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn pack_signs_avx2(row: &[f32], mean: &[f32], each: impl FnMut(usize, u64)) -> SignSums {
    pack_signs_plain(row, mean, each)
}

/// Plain code that the compiler vectorises. Each lane has its own sum, because additions to one sum cannot run in
/// parallel.
#[inline(always)]
fn pack_signs_plain(row: &[f32], mean: &[f32], mut each: impl FnMut(usize, u64)) -> SignSums {
    let (mut squares, mut sizes, mut positive) = ([0.0f32; LANES], [0.0f32; LANES], 0);
    for (word, (row, mean)) in row.chunks(WORD).zip(mean.chunks(WORD)).enumerate() {
        let mut above = [0u8; WORD];
        let lanes = row.chunks_exact(LANES).zip(mean.chunks_exact(LANES)).zip(above.chunks_exact_mut(LANES));
        for ((row, mean), above) in lanes {
            for lane in 0..LANES {
                let rest = row[lane] - mean[lane];
                squares[lane] += rest * rest;
                sizes[lane] += rest.abs();
                above[lane] = u8::from(rest > 0.0);
            }
        }
        for at in row.len() / LANES * LANES..row.len() {
            let rest = row[at] - mean[at];
            squares[0] += rest * rest;
            sizes[0] += rest.abs();
            above[at] = u8::from(rest > 0.0);
        }
        let bits = pack_bits(&above);
        positive += bits.count_ones();
        each(word, bits);
    }
    SignSums { squares: squares.iter().sum(), sizes: sizes.iter().sum(), positive }
}

/// Packs 64 bytes that are 0 or 1 into the bits of a word.
#[inline(always)]
fn pack_bits(bytes: &[u8; WORD]) -> u64 {
    // The multiplication moves the lowest bit of byte `n` to bit `56 + n`; no two of its partial products share a bit.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    bytes.as_chunks::<8>().0.iter().rev().fold(0, |bits, eight| {
        let gathered = u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56;
        bits << 8 | gathered
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns unit vectors in a few directions, from a fixed seed.
    fn vectors(count: usize, dimension: usize) -> Vec<Vec<f32>> {
        let mut seed = 11u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        let topics: Vec<Vec<f32>> = (0..7).map(|_| (0..dimension).map(|_| random()).collect()).collect();
        let vector = |number: usize| {
            let topic = &topics[number % topics.len()];
            let vector: Vec<f32> = topic.iter().map(|it| it + 0.3 + 0.5 * random()).collect();
            let norm = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
            vector.iter().map(|it| it / norm).collect()
        };
        (0..count).map(vector).collect()
    }

    fn sketch(vectors: &[Vec<f32>]) -> BinaryCodes {
        let mean = |place: usize| vectors.iter().map(|it| it[place]).sum::<f32>() / vectors.len() as f32;
        let mut sketch = BinaryCodes::new((0..vectors[0].len()).map(mean).collect());
        vectors.iter().for_each(|it| sketch.push(it));
        sketch
    }

    fn estimates(sketch: &BinaryCodes, query: &[f32]) -> Vec<f32> {
        let mut estimates = Vec::new();
        // Estimates the blocks in two parts, as two threads would.
        let cut = sketch.blocks() / 2;
        for part in [0..cut, cut..sketch.blocks()] {
            sketch.estimate(&sketch.quantize_query(query), part, |first, some| {
                assert_eq!(first as usize, estimates.len());
                estimates.extend_from_slice(some);
            });
        }
        estimates
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn estimate_is_near_cosine_up_to_constant() {
        for dimension in [384, 100] {
            // Each part has more than one run of blocks, and the last run is not full.
            let vectors = vectors(2 * (BLOCKS_PER_RUN + 7) * BLOCK + 3, dimension);
            let sketch = sketch(&vectors);
            for query in vectors.iter().step_by(29) {
                let common = dot(query, &sketch.mean);
                let estimates = estimates(&sketch, query);
                assert_eq!(estimates.len(), vectors.len());
                let errors = estimates.iter().zip(&vectors).map(|(it, row)| (it + common - dot(query, row)).abs());
                let worst = errors.fold(0.0, f32::max);
                assert!(worst < 0.25, "{dimension} numbers: {worst}");
            }
        }
    }

    #[test]
    fn all_counting_variants_agree() {
        for dimension in [100, 384, 768, 1_024] {
            let vectors = vectors((BLOCKS_PER_RUN + 2) * BLOCK - 3, dimension);
            let sketch = sketch(&vectors);
            let mut plain = Vec::new();
            let asked = sketch.quantize_query(&vectors[5]);
            estimate_blocks(&sketch, &asked, 0..sketch.blocks(), |_, some| plain.extend_from_slice(some));
            assert_eq!(estimates(&sketch, &vectors[5]), plain);
            for signs in sketch.signs.chunks(sketch.words) {
                let counted = |row: usize| -> u64 {
                    let steps = |place: usize| (0..QUERY_BITS).map(move |bit| (place, bit));
                    let step = |(place, bit): (usize, usize)| asked.planes[place / WORD][bit] >> (place % WORD) & 1;
                    let is_positive = |place: &usize| signs[place / WORD][row] >> (place % WORD) & 1 == 1;
                    (0..dimension).filter(is_positive).flat_map(steps).map(|it| step(it) << it.1).sum()
                };
                assert_eq!(count_steps(signs, &asked.planes), std::array::from_fn(counted));
            }
        }
    }

    #[test]
    fn all_sign_variants_agree() {
        for dimension in [384, 100, 7] {
            let vectors = vectors(3, dimension);
            let (row, mean) = (&vectors[0], &vectors[1]);
            let rest: Vec<f32> = row.iter().zip(mean).map(|(a, b)| a - b).collect();
            let mut plain = Vec::new();
            let sums = pack_signs_plain(row, mean, |_, bits| plain.push(bits));
            for (place, rest) in rest.iter().enumerate() {
                assert_eq!(
                    plain[place / WORD] >> (place % WORD) & 1 == 1,
                    *rest > 0.0,
                    "number {place} of {dimension}"
                );
            }
            assert_eq!(sums.positive as usize, rest.iter().filter(|it| **it > 0.0).count());
            assert!((sums.squares - dot(&rest, &rest)).abs() < 1e-4, "{sums:?}");
            assert!((sums.sizes - rest.iter().map(|it| it.abs()).sum::<f32>()).abs() < 1e-4, "{sums:?}");
            let mut wide = Vec::new();
            assert_eq!(pack_signs(row, mean, |_, bits| wide.push(bits)), sums);
            assert_eq!(wide, plain);
        }
    }

    #[test]
    fn removed_rows_leave_same_codes_as_fresh_build() {
        let mut left = vectors(50, 130);
        let mut sketch = sketch(&left);
        for row in [49, 0, 17, 40, 45, 3] {
            sketch.swap_remove(row);
            left.swap_remove(row);
        }
        let mut anew = BinaryCodes::new(sketch.mean.clone());
        left.iter().for_each(|it| anew.push(it));
        assert_eq!(estimates(&sketch, &left[9]), estimates(&anew, &left[9]));
        assert_eq!(sketch.signs, anew.signs);
    }
}
