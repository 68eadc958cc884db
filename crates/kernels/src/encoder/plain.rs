//! The reference implementation of the encoder kernels: simple and slow.

use crate::encoder::operands::{
    HeadRow, Kernels, KeyParameters, LANES, LayerNorm, LayerSums, PANEL, PanelLine, Quantisation, QuantisedRows, Rows,
    panel_lines, weight_position,
};

/// Offset added to a signed byte to make it unsigned.
const OFFSET: i32 = 128;

/// Encoder kernels in plain Rust, without vector instructions, for every processor.
pub(super) struct Plain;

impl Kernels for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn dot(&self, rows: Rows<'_>, panel: &[PanelLine], sums: &mut [i32], stride: usize) {
        let panel = &panel[..panel_lines(rows.depth)];
        for row in 0..rows.count {
            let bytes = &rows.data[row * rows.stride..][..rows.depth];
            for (output, sum) in sums[row * stride..][..PANEL].iter_mut().enumerate() {
                let product = |(input, byte): (usize, &u8)| {
                    let (line, at) = weight_position(input, output);
                    i32::from(*byte) * i32::from(panel[line].0[at].cast_signed())
                };
                *sum = bytes.iter().enumerate().map(product).sum();
            }
        }
    }

    fn norm(&self, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
        for row in rows.chunks_exact_mut(normal.groups.len() * LANES) {
            let count = row.len() as f32;
            let mean = row.iter().sum::<f32>() / count;
            let variance = row.iter().map(|it| (it - mean).powi(2)).sum::<f32>() / count;
            let factor = 1.0 / (variance + normal.epsilon).sqrt();
            for (row, norm) in row.chunks_exact_mut(LANES).zip(normal.groups) {
                for (value, (scale, shift)) in row.iter_mut().zip(norm.scale.iter().zip(&norm.shift)) {
                    *value = (*value - mean) * factor * scale + shift;
                }
            }
        }
        self.quantise(rows, coded);
    }

    fn add_norm(&self, product: LayerSums<'_>, normal: LayerNorm<'_>, rows: &mut [f32], coded: QuantisedRows<'_>) {
        rows.iter_mut().zip(dequantise(product)).for_each(|(value, number)| *value += number);
        self.norm(normal, rows, coded);
    }

    fn gelu(&self, product: LayerSums<'_>, work: &mut [f32], coded: QuantisedRows<'_>) {
        let width = product.width();
        let rows = product.sums.chunks_exact(width).zip(product.codings);
        let coded = coded.bytes.chunks_exact_mut(width).zip(coded.codings.chunks_exact_mut(1));
        for ((sums, coding), (bytes, codings)) in rows.zip(coded) {
            let product = LayerSums { sums, codings: std::slice::from_ref(coding), ..product };
            work.iter_mut().zip(dequantise(product)).for_each(|(value, number)| *value = gelu(number));
            self.quantise(&work[..width], QuantisedRows { bytes, codings });
        }
    }

    fn quantise_heads(&self, product: LayerSums<'_>, width: usize, row: HeadRow<'_>) {
        let numbers: Vec<f32> = dequantise(product).collect();
        let size = row.queries.len();
        let parts = [(row.queries, OFFSET), (row.keys, 0), (row.values, 0)];
        let steps = row.steps.chunks_exact_mut(size / width);
        for (((coded, offset), numbers), steps) in parts.into_iter().zip(numbers.chunks_exact(size)).zip(steps) {
            let heads = numbers.chunks_exact(width).zip(coded.chunks_exact_mut(width));
            for ((numbers, coded), step) in heads.zip(steps) {
                *step = quantise_head(numbers, offset, coded);
            }
        }
    }

    fn softmax(&self, sums: &mut [i32], stride: usize, keys: &[KeyParameters], factors: &mut [f32], shares: &mut [u8]) {
        let shares = shares.chunks_exact_mut(keys.len() * LANES);
        for ((sums, factor), shares) in sums.chunks(stride).zip(factors).zip(shares) {
            let score = |at: usize| {
                let (keys, lane) = (&keys[at / LANES], at % LANES);
                (sums[at] - keys.shift[lane]) as f32 * keys.step[lane] * *factor + keys.lift[lane]
            };
            let most = (0..shares.len()).map(score).fold(f32::MIN, f32::max);
            let mut total = 0.0;
            for (at, byte) in shares.iter_mut().enumerate() {
                let share = 255.0 * (score(at) - most).exp2();
                total += share * keys[at / LANES].unlift[at % LANES];
                *byte = share.round_ties_even() as u8;
            }
            *factor = 1.0 / total;
        }
    }

    fn scale(&self, sums: &[i32], factor: f32, row: &mut [f32]) {
        row.iter_mut().zip(sums).for_each(|(value, sum)| *value = *sum as f32 * factor);
    }

    fn quantise(&self, rows: &[f32], coded: QuantisedRows<'_>) {
        let width = rows.len() / coded.codings.len().max(1);
        let rows = rows.chunks_exact(width).zip(coded.bytes.chunks_exact_mut(width));
        for ((row, bytes), coding) in rows.zip(coded.codings) {
            let low = row.iter().copied().fold(f32::MAX, f32::min);
            let step = (row.iter().copied().fold(f32::MIN, f32::max) - low) / 255.0;
            let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
            bytes
                .iter_mut()
                .zip(row)
                .for_each(|(byte, value)| *byte = ((value - low) * inverse).round_ties_even() as u8);
            *coding = Quantisation { step, low };
        }
    }

    fn interleave(&self, rows: [&[u8]; 4], lines: &mut [PanelLine]) {
        for (input, row) in rows.iter().enumerate() {
            for (output, byte) in row[..PANEL].iter().enumerate() {
                let (line, at) = weight_position(input, output);
                lines[line].0[at] = *byte;
            }
        }
    }
}

/// Returns the dequantised products as numbers, row by row.
fn dequantise(product: LayerSums<'_>) -> impl Iterator<Item = f32> {
    let rows = product.sums.chunks_exact(product.width()).zip(product.codings);
    rows.flat_map(move |(sums, coding)| {
        sums.iter().enumerate().map(move |(at, sum)| {
            let (outputs, lane) = (&product.outputs[at / LANES], at % LANES);
            *sum as f32 * coding.step * outputs.step[lane] + coding.low * outputs.sum[lane] + outputs.bias[lane]
        })
    })
}

fn quantise_head(numbers: &[f32], offset: i32, coded: &mut [u8]) -> f32 {
    let most = numbers.iter().fold(0f32, |most, it| most.max(it.abs()));
    let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
    for (number, byte) in numbers.iter().zip(coded) {
        // The cast keeps the lowest eight bits, which are a signed byte if the offset is 0.
        *byte = ((number * inverse).round_ties_even() as i32 + offset) as u8;
    }
    most / 127.0
}

/// Returns the exact GELU, up to the error of 1.5e-7 in `erf`.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// Returns the error function, by the approximation 7.1.26 of Abramowitz and Stegun.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [0.254_829_6, -0.284_496_74, 1.421_413_7, -1.453_152, 1.061_405_4];
    let sum = series.iter().rev().fold(0.0, |sum, it| (sum + it) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}
