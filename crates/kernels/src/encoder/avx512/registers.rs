//! Operations on registers of sixteen numbers: loads and stores within bounds, and functions that have no instruction.

use std::arch::x86_64::{
    __m512, __m512i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEG_INF, _mm_storeu_si128, _mm512_cvtepi32_epi8, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_packs_epi32, _mm512_packus_epi16,
    _mm512_permutexvar_epi32, _mm512_range_ps, _mm512_reduce_ps, _mm512_scalef_ps, _mm512_set1_ps, _mm512_setr_epi32,
    _mm512_storeu_ps, _mm512_storeu_si512,
};

use crate::encoder::operands::{LANES, PanelLine};

/// Coefficients of a polynomial for `2^x` with x in 0 to 1, from the lowest power up.
const EXP2: [f32; 4] = [0.999_925_26, 0.695_833_15, 0.226_067_9, 0.078_024_11];

/// Maximum magnitude for which the GELU polynomial is used; at most 1/6000 of the normal distribution lies beyond.
const GELU_END: f32 = 3.6;

/// Coefficients in powers of x², lowest first, of the normal distribution function minus one half, divided by x. At
/// [`GELU_END`], x times the polynomial is one half, so that GELU beyond it is the number itself or zero.
const GELU: [f32; 6] =
    [0.396_223_5, -0.062_284_73, 0.007_732_949, -0.000_598_505_7, 0.000_025_488_875, -0.000_000_451_884_7];

/// Loads 16 floats into a register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load(numbers: &[f32; LANES]) -> __m512 {
    // SAFETY: the array is as long as the register, and the load needs no alignment.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

/// Loads 16 integers into a register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn load_integers(numbers: &[i32; LANES]) -> __m512i {
    // SAFETY: the array is as long as the register, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

/// Stores the 16 floats of a register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store(numbers: &mut [f32; LANES], values: __m512) {
    // SAFETY: the array is as long as the register, and the store needs no alignment.
    unsafe {
        _mm512_storeu_ps(numbers.as_mut_ptr(), values);
    }
}

/// Stores the 16 integers of a register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_integers(numbers: &mut [i32; LANES], values: __m512i) {
    // SAFETY: the array is as long as the register, and the store needs no alignment.
    unsafe {
        _mm512_storeu_si512(numbers.as_mut_ptr().cast(), values);
    }
}

/// Stores the lowest byte of each of the 16 integers of a register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_bytes(bytes: &mut [u8; LANES], values: __m512i) {
    // SAFETY: the array is as long as the register, and the store needs no alignment.
    unsafe {
        _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(values));
    }
}

/// Stores 64 integers of 0 to 255 as bytes. Packing four registers takes as long as narrowing one.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn store_four(bytes: &mut [[u8; LANES]; 4], values: [__m512i; 4]) {
    let [a, b, c, d] = values;
    let packed = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    // Reorders the bytes, because packing works per 128-bit lane: each lane has four bytes of each register.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let ordered = _mm512_permutexvar_epi32(order, packed);
    // SAFETY: the array is as long as the register, and the store needs no alignment.
    unsafe {
        _mm512_storeu_si512(bytes.as_mut_ptr().cast(), ordered);
    }
}

/// Stores a register as a line of a weight panel.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_line(line: &mut PanelLine, values: __m512i) {
    // SAFETY: the line is exactly as long as the register.
    unsafe {
        _mm512_storeu_si512(line.0.as_mut_ptr().cast(), values);
    }
}

/// Returns 2 to the power of each number. The error is at most 1e-4, far below the resolution of a byte.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(super) fn exp2(x: __m512) -> __m512 {
    const FLOOR: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    let fraction = _mm512_reduce_ps::<FLOOR>(x);
    let series = polynomial(fraction, &EXP2);
    // Multiplies by 2 to the power of the whole part of `x`.
    _mm512_scalef_ps(series, x)
}

/// Returns the GELU of each number, `x * (1/2 + x * P(x^2))`, with an error of at most 6e-4. The `x` in parentheses is
/// clamped to [`GELU_END`].
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(super) fn gelu(x: __m512) -> __m512 {
    // Mode of the range instruction: returns the operand of smaller magnitude, with the sign of the first operand.
    const SMALLER_MAGNITUDE: i32 = 0b0010;
    let inner = _mm512_range_ps::<SMALLER_MAGNITUDE>(x, _mm512_set1_ps(GELU_END));
    let series = polynomial(_mm512_mul_ps(inner, inner), &GELU);
    _mm512_mul_ps(x, _mm512_fmadd_ps(inner, series, _mm512_set1_ps(0.5)))
}

/// Evaluates a polynomial whose coefficients start with the lowest power.
#[target_feature(enable = "avx512f")]
#[inline]
fn polynomial<const N: usize>(x: __m512, coefficients: &[f32; N]) -> __m512 {
    let mut sum = _mm512_set1_ps(coefficients[N - 1]);
    for coefficient in coefficients[..N - 1].iter().rev() {
        sum = _mm512_fmadd_ps(sum, x, _mm512_set1_ps(*coefficient));
    }
    sum
}
