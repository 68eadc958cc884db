//! Compares the fast kernels of the processor with the plain ones, and the plain ones with their specification.

use super::*;

/// A deterministic pseudo-random number generator.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        self.bits() as usize % end
    }

    /// Returns a random number between -1 and 1.
    fn number(&mut self) -> f32 {
        self.bits() as f32 / (1u64 << 30) as f32 - 1.0
    }

    fn numbers(&mut self, count: usize, spread: f32) -> Vec<f32> {
        (0..count).map(|_| spread * self.number()).collect()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.bits() as u8).collect()
    }

    fn sums(&mut self, count: usize, largest: usize) -> Vec<i32> {
        (0..count).map(|_| self.below(2 * largest) as i32 - largest as i32).collect()
    }

    fn lanes(&mut self, middle: f32, spread: f32) -> [f32; LANES] {
        std::array::from_fn(|_| middle + spread * self.number())
    }

    fn outputs(&mut self, count: usize) -> Vec<OutputScales> {
        let group =
            |_| OutputScales { step: self.lanes(0.002, 0.001), sum: self.lanes(0.0, 0.5), bias: self.lanes(0.0, 1.0) };
        (0..count / LANES).map(group).collect()
    }

    fn norms(&mut self, count: usize) -> Vec<NormParameters> {
        (0..count / LANES)
            .map(|_| NormParameters { scale: self.lanes(1.0, 0.5), shift: self.lanes(0.0, 0.5) })
            .collect()
    }

    fn lines(&mut self, count: usize) -> Vec<PanelLine> {
        (0..count).map(|_| PanelLine(std::array::from_fn(|_| self.bits() as u8))).collect()
    }
}

/// Returns the plain and the fast kernels. Without fast ones, tests compare the plain ones with themselves and print so.
fn both() -> [&'static dyn Kernels; 2] {
    let fast = fastest();
    if fast.is_none() {
        println!("this processor has no fast kernels");
    }
    [plain(), fast.unwrap_or(plain())]
}

const LENGTHS: [usize; 5] = [64, 128, 384, 768, 1536];

/// Compares bytes that may differ by 1 in a few places, where rounding differs for a number halfway between two bytes.
fn assert_bytes(one: &[u8], other: &[u8]) {
    let apart = one.iter().zip(other).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(apart <= Some(1), "{apart:?}");
    let different = one.iter().zip(other).filter(|(a, b)| a != b).count();
    assert!(different * 50 <= one.len() + 50, "{different} of {}", one.len());
}

fn assert_numbers(one: &[f32], other: &[f32], bound: f32) {
    assert_eq!(one.len(), other.len());
    for (a, b) in one.iter().zip(other) {
        assert!((a - b).abs() <= bound * (1.0 + b.abs()), "{a} {b}");
    }
}

fn assert_codings(one: Quantisation, other: Quantisation, bound: f32) {
    assert_numbers(&[one.step * 255.0, one.low], &[other.step * 255.0, other.low], bound);
}

#[test]
fn dot_sums_inputs_times_weights() {
    let mut random = Random::new(1);
    let (depth, rows) = (48, 3);
    let (data, panel) = (random.bytes(rows * depth), random.lines(panel_lines(depth)));
    let mut sums = vec![0; rows * PANEL];
    plain().dot(Rows { data: &data, stride: depth, count: rows, depth }, &panel, &mut sums, PANEL);
    for row in 0..rows {
        for output in 0..PANEL {
            // The layout has four adjacent inputs per output, 16 outputs per line, and two lines for each four inputs.
            let weight = |input: usize| {
                let line = input / 4 * 2 + output / 16;
                i32::from(panel[line].0[output % 16 * 4 + input % 4].cast_signed())
            };
            let expect: i32 = (0..depth).map(|input| i32::from(data[row * depth + input]) * weight(input)).sum();
            assert_eq!(sums[row * PANEL + output], expect);
        }
    }
}

#[test]
fn dot_is_exact_for_every_tile_and_depth() {
    let [plain, fast] = both();
    let mut random = Random::new(2);
    for count in 1..=TILE {
        for depth in [16, 32, 48, 64, 336, 384] {
            let (stride, across) = (depth + random.below(40), PANEL + random.below(40));
            let (data, panel) = (random.bytes(count * stride), random.lines(panel_lines(depth)));
            let rows = Rows { data: &data, stride, count, depth };
            let untouched = random.sums(count * across, 1000);
            let (mut expect, mut sums) = (untouched.clone(), untouched);
            plain.dot(rows, &panel, &mut expect, across);
            fast.dot(rows, &panel, &mut sums, across);
            assert_eq!(sums, expect, "{count} {depth}");
        }
    }
}

#[test]
fn largest_products_do_not_overflow() {
    let depth = 4096;
    for kernels in both() {
        for weight in [-128i8, -127, 127] {
            let panel = vec![PanelLine([weight.cast_unsigned(); 64]); panel_lines(depth)];
            let mut sums = [0; PANEL];
            kernels.dot(Rows { data: &vec![255; depth], stride: depth, count: 1, depth }, &panel, &mut sums, PANEL);
            assert_eq!(sums, [4096 * 255 * i32::from(weight); PANEL]);
        }
    }
}

#[test]
#[should_panic(expected = "assertion failed")]
fn dot_with_missing_rows_panics() {
    let [_, fast] = both();
    let panel = vec![PanelLine::ZERO; panel_lines(32)];
    // Without fast kernels, panics with the expected message itself: the plain kernels panic with the message of a slice
    // index instead.
    if fast.name() == plain().name() {
        panic!("assertion failed: nothing to test");
    }
    fast.dot(Rows { data: &[0; 63], stride: 32, count: 2, depth: 32 }, &panel, &mut [0; 64], PANEL);
}

#[test]
fn quantisation_error_is_at_most_half_step() {
    let mut random = Random::new(3);
    for kernels in both() {
        for (length, spread) in LENGTHS.iter().zip([1e-3, 1.0, 30.0, 1.0, 1e4]) {
            let row = random.numbers(*length, spread);
            let (mut coded, mut coding) = (vec![0; *length], [Quantisation::default()]);
            kernels.quantise(&row, QuantisedRows { bytes: &mut coded, codings: &mut coding });
            let [Quantisation { step, low }] = coding;
            for (byte, number) in coded.iter().zip(&row) {
                assert!((low + step * f32::from(*byte) - number).abs() <= 0.5002 * step);
            }
        }
        let (mut bytes, mut codings) = ([7; 64], [Quantisation::default()]);
        kernels.quantise(&[-2.5; 64], QuantisedRows { bytes: &mut bytes, codings: &mut codings });
        assert_eq!((bytes, codings), ([0; 64], [Quantisation { step: 0.0, low: -2.5 }]));
    }
}

/// Rows of products, each with its own quantisation.
struct Products {
    sums: Vec<i32>,
    outputs: Vec<OutputScales>,
    codings: Vec<Quantisation>,
}

impl Products {
    fn random(random: &mut Random, rows: usize, length: usize) -> Products {
        let coding = |_| Quantisation { step: 0.02 + 0.01 * random.number(), low: random.number() - 1.0 };
        let codings = (0..rows).map(coding).collect();
        Products { sums: random.sums(rows * length, 200_000), outputs: random.outputs(length), codings }
    }

    fn all(&self) -> LayerSums<'_> {
        LayerSums { sums: &self.sums, outputs: &self.outputs, codings: &self.codings }
    }

    fn one(&self, row: usize) -> LayerSums<'_> {
        let length = self.outputs.len() * LANES;
        LayerSums { sums: &self.sums[row * length..][..length], codings: &self.codings[row..=row], ..self.all() }
    }
}

/// Creates buffers for quantised rows.
fn room(rows: usize, length: usize) -> (Vec<u8>, Vec<Quantisation>) {
    (vec![0; rows * length], vec![Quantisation::default(); rows])
}

fn coded(room: &mut (Vec<u8>, Vec<Quantisation>)) -> QuantisedRows<'_> {
    QuantisedRows { bytes: &mut room.0, codings: &mut room.1 }
}

fn assert_room(one: &(Vec<u8>, Vec<Quantisation>), other: &(Vec<u8>, Vec<Quantisation>), bound: f32) {
    assert_bytes(&one.0, &other.0);
    assert_eq!(one.1.len(), other.1.len());
    one.1.iter().zip(&other.1).for_each(|(one, other)| assert_codings(*one, *other, bound));
}

#[test]
fn norm_matches_with_and_without_product() {
    let [plain, fast] = both();
    let mut random = Random::new(4);
    for (length, rows) in LENGTHS.into_iter().zip([1, 3, 4, 5, 42]) {
        let (groups, products) = (random.norms(length), Products::random(&mut random, rows, length));
        let normal = LayerNorm { groups: &groups, epsilon: 1e-12 };
        let text: Vec<f32> = random.numbers(rows * length, 2.0).iter().map(|it| it + 3.0).collect();
        let (mut expect, mut got) = (text.clone(), text);
        let (mut expect_coded, mut got_coded) = (room(rows, length), room(rows, length));
        plain.add_norm(products.all(), normal, &mut expect, coded(&mut expect_coded));
        fast.add_norm(products.all(), normal, &mut got, coded(&mut got_coded));
        assert_numbers(&got, &expect, 1e-4);
        assert_room(&got_coded, &expect_coded, 1e-4);
        plain.norm(normal, &mut expect, coded(&mut expect_coded));
        fast.norm(normal, &mut got, coded(&mut got_coded));
        assert_numbers(&got, &expect, 2e-4);
        assert_room(&got_coded, &expect_coded, 2e-4);
    }
}

#[test]
fn row_result_is_independent_of_neighbours() {
    let mut random = Random::new(10);
    let (rows, length) = (9, 128);
    for kernels in both() {
        let (groups, products) = (random.norms(length), Products::random(&mut random, rows, length));
        let normal = LayerNorm { groups: &groups, epsilon: 1e-12 };
        let text = random.numbers(rows * length, 2.0);
        let (mut together, mut bytes, mut active) = (text.clone(), room(rows, length), room(rows, length));
        kernels.add_norm(products.all(), normal, &mut together, coded(&mut bytes));
        kernels.gelu(products.all(), &mut vec![0.0; rows * length], coded(&mut active));
        for row in 0..rows {
            let place = row * length..(row + 1) * length;
            let (mut alone, mut room_of_one) = (text[place.clone()].to_vec(), room(1, length));
            kernels.add_norm(products.one(row), normal, &mut alone, coded(&mut room_of_one));
            assert_eq!(alone, together[place.clone()]);
            assert_eq!((&room_of_one.0[..], room_of_one.1[0]), (&bytes.0[place.clone()], bytes.1[row]));
            kernels.gelu(products.one(row), &mut vec![0.0; length], coded(&mut room_of_one));
            assert_eq!((&room_of_one.0[..], room_of_one.1[0]), (&active.0[place], active.1[row]));
        }
    }
}

#[test]
fn constant_row_normalises_to_shift() {
    let mut random = Random::new(5);
    let groups = random.norms(64);
    for kernels in both() {
        let mut row = vec![1.0; 64];
        kernels.norm(LayerNorm { groups: &groups, epsilon: 1e-12 }, &mut row, coded(&mut room(1, 64)));
        let shift: Vec<f32> = groups.iter().flat_map(|it| it.shift).collect();
        assert_numbers(&row, &shift, 1e-6);
    }
}

/// Returns the GELU of `row`, which is passed to the kernel as the bias.
fn gelu(kernels: &dyn Kernels, row: &[f32]) -> Vec<f32> {
    let group = |it: &[f32; LANES]| OutputScales { step: [0.0; LANES], sum: [0.0; LANES], bias: *it };
    let outputs: Vec<OutputScales> = row.as_chunks().0.iter().map(group).collect();
    let (sums, mut work) = (vec![0; row.len()], vec![0.0; row.len()]);
    let product = LayerSums { sums: &sums, outputs: &outputs, codings: &[Quantisation::default()] };
    kernels.gelu(product, &mut work, coded(&mut room(1, row.len())));
    work
}

#[test]
fn gelu_error_is_at_most_6e_4() {
    let row: Vec<f32> = (0..64_000).map(|it| (it as f32 - 32_000.0) / 2_000.0).collect();
    let [expect, got] = both().map(|it| gelu(it, &row));
    let worst = got.iter().zip(&expect).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= 6e-4, "{worst}");
    // For large magnitudes, the GELU of a number is the number itself or zero.
    for kernels in both() {
        let far = gelu(kernels, &[[-100.0; LANES], [100.0; LANES], [0.0; LANES], [1.0; LANES]].concat());
        assert_numbers(&far[..LANES], &[0.0; LANES], 1e-3);
        assert_numbers(&far[LANES..2 * LANES], &[100.0; LANES], 1e-4);
        assert_eq!(far[2 * LANES..3 * LANES], [0.0; LANES]);
    }
}

#[test]
fn gelu_of_product_matches_plain_kernel() {
    let [plain, fast] = both();
    let mut random = Random::new(6);
    for (length, rows) in LENGTHS.into_iter().zip([1, 3, 4, 5, 42]) {
        let products = Products::random(&mut random, rows, length);
        let (mut work, mut expect, mut got) = (vec![0.0; rows * length], room(rows, length), room(rows, length));
        plain.gelu(products.all(), &mut work, coded(&mut expect));
        fast.gelu(products.all(), &mut work, coded(&mut got));
        assert_room(&got, &expect, 1e-3);
    }
}

#[test]
fn heads_are_quantised_by_their_largest_number() {
    let [plain, fast] = both();
    let mut random = Random::new(7);
    for (width, heads) in [(32, 2), (32, 12), (64, 1), (64, 12)] {
        let size = width * heads;
        let products = Products::random(&mut random, 1, 3 * size);
        let [expect, got] = [plain, fast].map(|kernels| {
            let (mut parts, mut steps) = ([vec![0; size], vec![0; size], vec![0; size]], vec![0.0; 3 * heads]);
            let [queries, keys, values] = &mut parts;
            kernels.quantise_heads(products.all(), width, HeadRow { queries, keys, values, steps: &mut steps });
            (parts, steps)
        });
        assert_numbers(&got.1, &expect.1, 1e-5);
        for (got, expect) in got.0.iter().zip(&expect.0) {
            assert!(got.iter().zip(expect).all(|(a, b)| a.wrapping_sub(*b).cast_signed().abs() <= 1));
        }
        // The largest number of each head is quantised to the largest byte.
        let signed = |byte: &u8, offset: u8| (byte ^ offset).cast_signed().unsigned_abs();
        for (part, offset) in expect.0.iter().zip([128, 0, 0]) {
            let most = |head: &[u8]| head.iter().map(|it| signed(it, offset)).max();
            assert!(part.chunks_exact(width).all(|head| most(head) == Some(127)));
        }
    }
}

#[test]
fn zero_head_has_zero_step() {
    let outputs = vec![OutputScales { step: [0.0; LANES], sum: [0.0; LANES], bias: [0.0; LANES] }; 3 * 64 / LANES];
    let product = LayerSums { sums: &[5; 3 * 64], outputs: &outputs, codings: &[Quantisation::default()] };
    for kernels in both() {
        let (mut queries, mut keys, mut values, mut steps) = ([1; 64], [1; 64], [1; 64], [1.0; 6]);
        let row = HeadRow { queries: &mut queries, keys: &mut keys, values: &mut values, steps: &mut steps };
        kernels.quantise_heads(product, 32, row);
        assert_eq!((queries, keys, values, steps), ([128; 64], [0; 64], [0; 64], [0.0; 6]));
    }
}

#[test]
fn softmax_matches_and_padding_keys_get_no_share() {
    let [plain, fast] = both();
    let mut random = Random::new(8);
    for (length, rows) in [16, 32, 48, 336, 512].into_iter().zip([1, 14, 4, 13, 5]) {
        for spread in [1e-4, 3e-3, 0.1] {
            let (there, stride) = (length - random.below(16), length + 16);
            let mut keys = vec![KeyParameters::NONE; length / LANES];
            for key in 0..there {
                let (group, lane) = (&mut keys[key / LANES], key % LANES);
                group.step[lane] = 0.5 + 0.4 * random.number();
                group.shift[lane] = random.below(2000) as i32 - 1000;
                group.lift[lane] = 3.0 * random.number();
                group.unlift[lane] = (-group.lift[lane]).exp2();
            }
            let (sums, factors) = (random.sums(rows * stride, 10_000), random.numbers(rows, spread));
            let [expect, got] = [plain, fast].map(|kernels| {
                let (mut sums, mut factors, mut shares) = (sums.clone(), factors.clone(), vec![9; rows * length]);
                kernels.softmax(&mut sums, stride, &keys, &mut factors, &mut shares);
                (factors, shares)
            });
            assert_numbers(&got.0, &expect.0, 1e-3);
            assert_bytes(&got.1, &expect.1);
            for shares in got.1.chunks_exact(length) {
                assert!(shares[there..].iter().all(|it| *it == 0));
                assert_eq!(shares.iter().max(), Some(&255));
            }
        }
    }
}

#[test]
fn shares_times_values_give_attention_mean() {
    // With three keys of equal scores whose values have different steps, the result is the mean of the values.
    let mut keys = [KeyParameters::NONE];
    let (steps, values) = ([0.5f32, 1.0, 4.0], [100.0f32, -20.0, 50.0]);
    for (lane, step) in steps.iter().enumerate() {
        (keys[0].lift[lane], keys[0].unlift[lane]) = (step.log2(), 1.0 / step);
    }
    for kernels in both() {
        let (mut shares, mut factor) = ([0; 16], [1.0]);
        kernels.softmax(&mut [0; 16], 16, &keys, &mut factor, &mut shares);
        let got: f32 = shares.iter().zip(values).map(|(share, value)| f32::from(*share) * value * factor[0]).sum();
        let expect = (0.5 * 100.0 - 20.0 + 4.0 * 50.0) / 3.0;
        assert!((got - expect).abs() < 0.5, "{got} {expect}");
    }
}

#[test]
fn scale_multiplies_sums_by_factor() {
    for kernels in both() {
        let mut row = [0.0; 32];
        kernels.scale(&std::array::from_fn::<i32, 32, _>(|it| it as i32 - 16), 0.5, &mut row);
        assert_eq!(row, std::array::from_fn::<f32, 32, _>(|it| (it as f32 - 16.0) / 2.0));
    }
}

#[test]
fn weave_matches_panel_layout() {
    let mut random = Random::new(9);
    let rows: [Vec<u8>; 4] = std::array::from_fn(|_| random.bytes(PANEL));
    for kernels in both() {
        let mut lines = [PanelLine::ZERO; 2];
        kernels.interleave([&rows[0], &rows[1], &rows[2], &rows[3]], &mut lines);
        for (input, row) in rows.iter().enumerate() {
            for (output, byte) in row.iter().enumerate() {
                assert_eq!(lines[output / 16].0[output % 16 * 4 + input], *byte);
            }
        }
    }
}
