//! One bit of each number of a vector, to choose among many rows those that are worth comparing.
//!
//! A bit says whether a number lies above the mean of all vectors at its place. From the bits of a row and the question in
//! four bits a number follows an estimate of their cosine, by counting bits alone: with `r` the row less the mean and `s`
//! its signs, `<q, r>` is about `<q, s> * |r|^2 / <r, s>`, which is exact for a question like the row itself (RaBitQ,
//! Gao and Long, SIGMOD 2024, without the rotation). A row takes 1/8 of what its bytes take, and the scan, which waits for
//! memory, an eighth of the time.
//!
//! Rows lie in blocks of eight, the same word of all eight side by side: so the compiler counts for eight rows at once.

/// Rows of a block.
const BLOCK: usize = 8;

/// Numbers whose bits are in one word.
const WORD: usize = u64::BITS as usize;

/// Bits of a number of the question.
const PLANES: usize = 4;

/// The highest number of [`PLANES`] bits.
const QUERY_STEPS: f32 = ((1 << PLANES) - 1) as f32;

/// Signs of rows, and what turns a count of them into an estimate. Places behind the last row are zero.
#[derive(Debug)]
pub(super) struct Sketch {
    /// What rows are compared with, number by number.
    mean: Vec<f32>,
    /// Words of a row.
    words: usize,
    /// Number of rows.
    rows: usize,
    /// Signs, block by block: the first word of eight rows, their second, and so on.
    signs: Vec<[u64; BLOCK]>,
    /// `|r|^2 / <r, s>` of each row.
    factors: Vec<[f32; BLOCK]>,
    /// Number of signs of each row that are positive.
    positive: Vec<[f32; BLOCK]>,
}

/// A question, ready to be compared.
struct Asked {
    /// Word by word the four planes, from the lowest bit.
    planes: Vec<[u64; PLANES]>,
    /// What one step is worth.
    step: f32,
    /// What no step is worth.
    low: f32,
    sum: f32,
}

impl Sketch {
    /// Makes an empty sketch of vectors that scatter around this mean.
    pub(super) fn new(mean: Vec<f32>) -> Sketch {
        let words = mean.len().div_ceil(WORD);
        Sketch { mean, words, rows: 0, signs: Vec::new(), factors: Vec::new(), positive: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, vector: impl Iterator<Item = f32>) {
        let (block, at) = (self.rows / BLOCK, self.rows % BLOCK);
        if at == 0 {
            self.signs.resize(self.signs.len() + self.words, [0; BLOCK]);
            self.factors.push([0.0; BLOCK]);
            self.positive.push([0.0; BLOCK]);
        }
        let signs = &mut self.signs[block * self.words..];
        let (mut squares, mut sizes, mut positive) = (0.0, 0.0, 0.0);
        for (place, (number, mean)) in vector.zip(&self.mean).enumerate() {
            let rest = number - mean;
            squares += rest * rest;
            sizes += rest.abs();
            if rest > 0.0 {
                signs[place / WORD][at] |= 1 << (place % WORD);
                positive += 1.0;
            }
        }
        self.factors[block][at] = if sizes > 0.0 { squares / sizes } else { 0.0 };
        self.positive[block][at] = positive;
        self.rows += 1;
    }

    /// Drops a row. The last one takes its place.
    pub(super) fn swap_remove(&mut self, row: usize) {
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

    /// Hands over every row with its estimated cosine, less what is the same for all.
    pub(super) fn estimate(&self, query: &[f32], each: impl FnMut(u32, f32)) {
        let asked = Asked::of(query, self.words);
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "the compiler cannot know what the processor it runs on has")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512dq") && has!("avx512vpopcntdq") {
                // SAFETY: the processor has what the function was compiled for.
                return unsafe { estimate_avx512(self, &asked, each) };
            }
            if has!("avx2") && has!("popcnt") {
                // SAFETY: as above.
                return unsafe { estimate_avx2(self, &asked, each) };
            }
        }
        estimate_blocks(self, &asked, each);
    }
}

impl Asked {
    fn of(query: &[f32], words: usize) -> Asked {
        let low = query.iter().copied().fold(f32::INFINITY, f32::min);
        let high = query.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = if high > low { (high - low) / QUERY_STEPS } else { 1.0 };
        let mut asked = Asked { planes: vec![[0; PLANES]; words], step, low, sum: 0.0 };
        for (place, number) in query.iter().enumerate() {
            let steps = ((number - low) / step).round().clamp(0.0, QUERY_STEPS);
            asked.sum += low + step * steps;
            for (bit, plane) in asked.planes[place / WORD].iter_mut().enumerate() {
                *plane |= (steps as u64 >> bit & 1) << (place % WORD);
            }
        }
        asked
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512dq,avx512vpopcntdq")]
fn estimate_avx512(sketch: &Sketch, asked: &Asked, each: impl FnMut(u32, f32)) {
    estimate_blocks(sketch, asked, each);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn estimate_avx2(sketch: &Sketch, asked: &Asked, each: impl FnMut(u32, f32)) {
    estimate_blocks(sketch, asked, each);
}

/// Plain code, which the compiler makes vectors of: it is inlined, so that each caller has it in its own registers.
#[inline(always)]
fn estimate_blocks(sketch: &Sketch, asked: &Asked, mut each: impl FnMut(u32, f32)) {
    let facts = sketch.factors.iter().zip(&sketch.positive);
    for (block, (signs, (factors, positive))) in sketch.signs.chunks_exact(sketch.words).zip(facts).enumerate() {
        let mut steps = [0u64; BLOCK];
        for (signs, planes) in signs.iter().zip(&asked.planes) {
            for (steps, signs) in steps.iter_mut().zip(signs) {
                let count = |bit: usize| u64::from((signs & planes[bit]).count_ones()) << bit;
                *steps += count(0) + count(1) + count(2) + count(3);
            }
        }
        let mut estimates = [0.0; BLOCK];
        for at in 0..BLOCK {
            // The sum of the question's numbers where the sign is positive, twice, less the sum of all.
            let above = asked.low * positive[at] + asked.step * (steps[at] as i32 as f32);
            estimates[at] = (2.0 * above - asked.sum) * factors[at];
        }
        let first = block * BLOCK;
        let rows = BLOCK.min(sketch.rows - first);
        (first as u32..).zip(&estimates[..rows]).for_each(|(row, estimate)| each(row, *estimate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit vectors in a few directions, seeded.
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

    fn sketch(vectors: &[Vec<f32>]) -> Sketch {
        let mean = |place: usize| vectors.iter().map(|it| it[place]).sum::<f32>() / vectors.len() as f32;
        let mut sketch = Sketch::new((0..vectors[0].len()).map(mean).collect());
        vectors.iter().for_each(|it| sketch.push(it.iter().copied()));
        sketch
    }

    fn estimates(sketch: &Sketch, query: &[f32]) -> Vec<f32> {
        let mut estimates = Vec::new();
        sketch.estimate(query, |row, estimate| {
            assert_eq!(row as usize, estimates.len());
            estimates.push(estimate);
        });
        estimates
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn an_estimate_is_near_the_cosine_less_the_same_for_all() {
        for dimension in [384, 100] {
            let vectors = vectors(203, dimension);
            let sketch = sketch(&vectors);
            for query in vectors.iter().step_by(29) {
                let common = dot(query, &sketch.mean);
                let estimates = estimates(&sketch, query);
                assert_eq!(estimates.len(), vectors.len());
                let errors = estimates.iter().zip(&vectors).map(|(it, row)| (it + common - dot(query, row)).abs());
                let worst = errors.fold(0.0, f32::max);
                assert!(worst < 0.2, "{dimension} numbers: {worst}");
            }
        }
    }

    #[test]
    fn every_way_of_counting_gives_the_same() {
        let vectors = vectors(77, 384);
        let sketch = sketch(&vectors);
        let mut plain = Vec::new();
        estimate_blocks(&sketch, &Asked::of(&vectors[5], sketch.words), |_, it| plain.push(it));
        assert_eq!(estimates(&sketch, &vectors[5]), plain);
    }

    #[test]
    fn a_sketch_without_some_rows_is_that_of_the_others() {
        let mut left = vectors(50, 130);
        let mut sketch = sketch(&left);
        for row in [49, 0, 17, 40, 45, 3] {
            sketch.swap_remove(row);
            left.swap_remove(row);
        }
        let mut anew = Sketch::new(sketch.mean.clone());
        left.iter().for_each(|it| anew.push(it.iter().copied()));
        assert_eq!(estimates(&sketch, &left[9]), estimates(&anew, &left[9]));
        assert_eq!(sketch.signs, anew.signs);
    }
}
