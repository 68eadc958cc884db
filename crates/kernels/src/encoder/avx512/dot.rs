//! Dot products of unsigned and signed bytes: nearly all of the work of the encoder.
//!
//! The loop is written in assembly, because a compiler loads the inputs of many rows ahead of their use and then lacks
//! registers for the sums: it moved half of them to memory, and the loop was 25% slower.

use std::arch::asm;

use crate::encoder::operands::{PANEL, PanelLine, Rows, STEP, TILE, panel_lines};

/// Implements [`crate::encoder::Kernels::dot`].
pub(super) fn dot(rows: Rows<'_>, panel: &[PanelLine], sums: &mut [i32], stride: usize) {
    let Rows { data, count, depth, .. } = rows;
    if count == 0 || depth == 0 {
        return;
    }
    assert!(count <= TILE && depth.is_multiple_of(STEP) && panel.len() >= panel_lines(depth));
    assert!(data.len() >= (count - 1) * rows.stride + depth && sums.len() >= (count - 1) * stride + PANEL);
    let tile = Tile { rows: data.as_ptr(), stride: rows.stride, depth, panel: panel.as_ptr() };
    // SAFETY: the assertions above guarantee that all rows, lines and sums of a tile of `count` rows exist, and this
    // function is called only where the processor supports the instructions.
    unsafe {
        tile.multiply(count, sums.as_mut_ptr(), stride * size_of::<i32>());
    }
}

/// Raw pointers to the rows, and to the panel by which they are multiplied.
struct Tile {
    rows: *const u8,
    stride: usize,
    depth: usize,
    panel: *const PanelLine,
}

/// The address of the next inputs of a row; three consecutive rows are addressed from one base register.
#[rustfmt::skip]
macro_rules! inputs {
    (0) => { "r8" };
    (1) => { "r8 + r9" };
    (2) => { "r8 + 2*r9" };
    (3) => { "r10" };
    (4) => { "r10 + r9" };
    (5) => { "r10 + 2*r9" };
    (6) => { "r11" };
    (7) => { "r11 + r9" };
    (8) => { "r11 + 2*r9" };
    (9) => { "r12" };
    (10) => { "r12 + r9" };
    (11) => { "r12 + 2*r9" };
    (12) => { "r13" };
    (13) => { "r13 + r9" };
}

/// The register of the first 16 sums of a row.
#[rustfmt::skip]
macro_rules! left {
    (0) => { "zmm4" };
    (1) => { "zmm6" };
    (2) => { "zmm8" };
    (3) => { "zmm10" };
    (4) => { "zmm12" };
    (5) => { "zmm14" };
    (6) => { "zmm16" };
    (7) => { "zmm18" };
    (8) => { "zmm20" };
    (9) => { "zmm22" };
    (10) => { "zmm24" };
    (11) => { "zmm26" };
    (12) => { "zmm28" };
    (13) => { "zmm30" };
}

/// The register of the last 16 sums of a row.
#[rustfmt::skip]
macro_rules! right {
    (0) => { "zmm5" };
    (1) => { "zmm7" };
    (2) => { "zmm9" };
    (3) => { "zmm11" };
    (4) => { "zmm13" };
    (5) => { "zmm15" };
    (6) => { "zmm17" };
    (7) => { "zmm19" };
    (8) => { "zmm21" };
    (9) => { "zmm23" };
    (10) => { "zmm25" };
    (11) => { "zmm27" };
    (12) => { "zmm29" };
    (13) => { "zmm31" };
}

/// Multiplies the four inputs at byte `$offset` of each row by the two lines at bytes `$first` and `$second`.
macro_rules! four {
    ($offset:literal, $first:literal, $second:literal; $($row:tt)*) => {
        concat!(
            "vmovdqa64 zmm0, [rdi + ", $first, "]\n",
            "vmovdqa64 zmm1, [rdi + ", $second, "]\n",
            $(
                "vpbroadcastd zmm2, dword ptr [", inputs!($row), " + ", $offset, "]\n",
                "vpdpbusd ", left!($row), ", zmm2, zmm0\n",
                "vpdpbusd ", right!($row), ", zmm2, zmm1\n",
            )*
        )
    };
}

/// Computes and stores all products of the listed rows.
macro_rules! multiply {
    ($tile:ident, $sums:ident, $stride:ident; $($row:tt)*) => {
        asm!(
            $(concat!("vpxord ", left!($row), ", ", left!($row), ", ", left!($row)),)*
            $(concat!("vpxord ", right!($row), ", ", right!($row), ", ", right!($row)),)*
            "lea rax, [r9 + 2*r9]",
            "lea r10, [r8 + rax]",
            "lea r11, [r10 + rax]",
            "lea r12, [r11 + rax]",
            "lea r13, [r12 + rax]",
            ".p2align 5",
            "2:",
            four!("0", "0", "64"; $($row)*),
            four!("4", "128", "192"; $($row)*),
            four!("8", "256", "320"; $($row)*),
            four!("12", "384", "448"; $($row)*),
            "add r8, 16",
            "add r10, 16",
            "add r11, 16",
            "add r12, 16",
            "add r13, 16",
            "add rdi, 512",
            "sub rcx, 16",
            "jnz 2b",
            $(
                concat!("vmovdqu64 [rsi], ", left!($row)),
                concat!("vmovdqu64 [rsi + 64], ", right!($row)),
                "add rsi, rdx",
            )*
            inout("r8") $tile.rows => _,
            in("r9") $tile.stride,
            inout("rdi") $tile.panel => _,
            inout("rcx") $tile.depth => _,
            inout("rsi") $sums => _,
            in("rdx") $stride,
            out("r12") _,
            out("r13") _,
            clobber_abi("sysv64"),
            options(nostack),
        )
    };
}

impl Tile {
    /// Multiplies `count` rows by the panel. The sums of consecutive rows start `stride` bytes apart.
    ///
    /// # Safety
    /// The processor must support the instructions, `count` must be 1 to [`TILE`], `depth` a positive multiple of
    /// [`STEP`], and the rows, the lines of the panel, and the memory for the sums must be valid.
    unsafe fn multiply(self, count: usize, sums: *mut i32, stride: usize) {
        let tile = self;
        // SAFETY: as the caller guarantees, reads stay inside the rows and the panel, which has two lines per four inputs, and
        // writes stay inside the sums.
        unsafe {
            match count {
                1 => multiply!(tile, sums, stride; 0),
                2 => multiply!(tile, sums, stride; 0 1),
                3 => multiply!(tile, sums, stride; 0 1 2),
                4 => multiply!(tile, sums, stride; 0 1 2 3),
                5 => multiply!(tile, sums, stride; 0 1 2 3 4),
                6 => multiply!(tile, sums, stride; 0 1 2 3 4 5),
                7 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6),
                8 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7),
                9 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7 8),
                10 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7 8 9),
                11 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7 8 9 10),
                12 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7 8 9 10 11),
                13 => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7 8 9 10 11 12),
                _ => multiply!(tile, sums, stride; 0 1 2 3 4 5 6 7 8 9 10 11 12 13),
            }
        }
    }
}
