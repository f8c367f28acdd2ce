//! 1x1 convolutions on the matrix unit of newer Xeon processors (AMX).
//!
//! It multiplies bfloat16, which has 8 digits, and adds in float32. A number of half precision has 11: it is the sum of two of
//! bfloat16, so four products give exactly what one of float32 gives. That is 4 times as fast as vectors of 16.
//! Reference: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

use half::f16;

use super::conv::{Columns, Scratch, Shared, store_row};
use super::half_lanes::HalfLanes;
use super::launch::{Kernel, launch_avx512};
use super::weight::{TILE, Values, Weight};
use crate::runtime::lanes::{Avx512, Lanes};
use crate::runtime::pool::Pool;

/// Rows of a tile: outputs, or pairs of inputs; and its columns.
const ROWS: usize = 16;
/// Inputs of a block. Input `i` and input `i + 16` of it stand beside each other.
const INPUTS: usize = TILE[1];
/// Values of 32 bits in a tile, each a pair of bfloat16 or a sum.
const VALUES: usize = ROWS * ROWS;
/// Distance of a tile's rows in memory.
const ROW_BYTES: usize = 64;
/// Tiles of sums in a job.
const SUMS: usize = 4;
/// Bytes of 8-bit weights by which memory is asked ahead.
const AHEAD: usize = 4096;

/// Whether this process may use the unit. Asks the kernel for it, once.
pub(super) fn available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        const AMX_BF16: u32 = 1 << 22;
        const AMX_TILE: u32 = 1 << 24;
        let wanted = AMX_BF16 | AMX_TILE;
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & wanted == wanted && is_permitted()
    })
}

/// `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`: without it, the first use of a tile ends the process.
fn is_permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    let result: isize;
    // SAFETY: a system call that reads no memory. The kernel overwrites rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => result, in("rdi") 0x1023, in("rsi") 18,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result == 0
}

/// Columns of x as tiles: for each block of inputs and 16 columns, the large parts of all pairs, then the small ones.
pub(super) struct Pairs {
    pub from: *const f16,
    pub from_stride: usize,
    /// As many values as x has with its rows rounded up to [`INPUTS`] and its columns to 16.
    pub to: *mut f32,
    pub rows: usize,
    pub columns: usize,
}

impl Kernel for Pairs {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        let mut to = self.to;
        for block in (0..self.rows).step_by(INPUTS) {
            for column in (0..self.columns).step_by(ROWS) {
                for pair in 0..ROWS {
                    // SAFETY: inside x; a tile's two parts follow each other.
                    unsafe {
                        let first = self.load(block + pair, column);
                        let second = self.load(block + pair + ROWS, column);
                        let to = to.add(pair * ROWS);
                        store_parts(first, second, to, to.add(VALUES));
                    }
                }
                to = to.wrapping_add(2 * VALUES);
            }
        }
    }
}

impl Pairs {
    /// 16 columns of an input, which is 0 beyond the last one.
    #[inline(always)]
    unsafe fn load(&self, row: usize, column: usize) -> Avx512 {
        // SAFETY: inside x; this runs with AVX-512.
        unsafe {
            if row >= self.rows {
                return Avx512::zero();
            }
            let from = self.from.add(row * self.from_stride + column);
            match self.columns - column {
                0..ROWS => Avx512::load_half_first(from, self.columns - column),
                _ => Avx512::load_half(from),
            }
        }
    }
}

/// Numbers of half precision as bfloat16: what their first 8 digits say to `large`, the rest to `small`. Each 32 bits hold one
/// of `first` below one of `second`.
#[inline(always)]
unsafe fn store_parts(first: Avx512, second: Avx512, large: *mut f32, small: *mut f32) {
    // SAFETY: the caller has AVX-512 and vouches for 16 values each.
    unsafe {
        let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
        let first_large = _mm512_and_si512(_mm512_castps_si512(first.0), upper);
        let second_large = _mm512_and_si512(_mm512_castps_si512(second.0), upper);
        let first_small = first.minus(Avx512(_mm512_castsi512_ps(first_large)));
        let second_small = second.minus(Avx512(_mm512_castsi512_ps(second_large)));
        let large_pair = _mm512_or_si512(_mm512_srli_epi32::<16>(first_large), second_large);
        let first_small = _mm512_srli_epi32::<16>(_mm512_castps_si512(first_small.0));
        let small_pair = _mm512_or_si512(first_small, _mm512_castps_si512(second_small.0));
        _mm512_storeu_si512(large.cast(), large_pair);
        _mm512_storeu_si512(small.cast(), small_pair);
    }
}

/// As `conv::convolve`, of columns that [`Pairs`] has made.
///
/// # Safety
/// The unit is [`available`]; x and `out` are as large as the weight and the columns say.
pub(super) unsafe fn convolve(
    weight: &Weight,
    columns: &Columns,
    (out, out_stride): (*mut f16, usize),
    pool: &Pool,
) {
    let (groups, tiles) = (
        weight.outputs.div_ceil(ROWS),
        columns.columns.div_ceil(ROWS),
    );
    // Sums of one tile wait for each other, so a job has several.
    let job_tiles = tiles.min(SUMS);
    let job_groups = SUMS / job_tiles;
    let parts = tiles.div_ceil(job_tiles);
    let shared = Shared((weight, columns, out));
    pool.run(groups.div_ceil(job_groups) * parts, &|index| {
        let (weight, columns, out) = shared.get();
        let (first_group, first_tile) = (index / parts * job_groups, index % parts * job_tiles);
        let job = Job {
            weight,
            columns,
            out,
            out_stride,
            first_group,
            groups: job_groups.min(groups - first_group),
            first_tile,
            tiles: job_tiles.min(tiles - first_tile),
        };
        // SAFETY: the caller vouches for the unit, with which comes AVX-512, and the memory.
        unsafe { launch_avx512(&job) };
    });
}

/// Some groups of outputs times some tiles of columns, together at most [`SUMS`].
struct Job<'a> {
    weight: &'a Weight,
    columns: &'a Columns,
    out: *mut f16,
    out_stride: usize,
    first_group: usize,
    groups: usize,
    first_tile: usize,
    tiles: usize,
}

/// 8 tiles of 16 rows of 64 bytes.
#[repr(align(64))]
struct Configuration(#[expect(dead_code, reason = "read by an instruction")] [u8; 64]);

static CONFIGURATION: Configuration = {
    let mut bytes = [0; 64];
    bytes[0] = 1; // the only palette
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64; // bytes of a row, two bytes a tile
        bytes[48 + tile] = ROWS as u8;
        tile += 1;
    }
    Configuration(bytes)
};

impl Kernel for Job<'_> {
    /// Tiles 0 to 3 hold sums, 4 and 5 the parts of weights, 6 and 7 those of columns. The compiler uses none of them.
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        let blocks = self.weight.inputs.div_ceil(INPUTS);
        let mut parts = Scratch([0.0; 2 * VALUES]);
        let mut sums = Scratch([0.0; SUMS * VALUES]);
        let (parts, sums) = (parts.0.as_mut_ptr(), sums.0.as_mut_ptr());
        // SAFETY: see `convolve`. Tiles are loaded from and stored to memory of their size.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack));
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                options(nostack)
            );
            for block in 0..blocks {
                for group in 0..self.groups {
                    self.unpack(self.first_group + group, block, parts);
                    asm!("tileloadd tmm4, [{large} + {row}]", "tileloadd tmm5, [{small} + {row}]",
                        large = in(reg) parts, small = in(reg) parts.add(VALUES), row = in(reg) ROW_BYTES,
                        options(nostack));
                    for tile in 0..self.tiles {
                        let tiles = self.columns.stride / ROWS;
                        let x = (block * tiles + self.first_tile + tile) * 2 * VALUES;
                        add_products(group * self.tiles + tile, self.columns.x.add(x));
                    }
                }
            }
            asm!("tilestored [{a} + {row}], tmm0", "tilestored [{b} + {row}], tmm1",
                "tilestored [{c} + {row}], tmm2", "tilestored [{d} + {row}], tmm3", "tilerelease",
                a = in(reg) sums, b = in(reg) sums.add(VALUES), c = in(reg) sums.add(2 * VALUES),
                d = in(reg) sums.add(3 * VALUES), row = in(reg) ROW_BYTES, options(nostack));
            for group in 0..self.groups {
                for tile in 0..self.tiles {
                    self.store(group, tile, sums.add((group * self.tiles + tile) * VALUES));
                }
            }
        }
    }
}

/// To the sums in a tile, the products of the weights in tiles 4 and 5 and the two parts of columns at `x`.
#[inline(always)]
unsafe fn add_products(sums: usize, x: *const f32) {
    macro_rules! add_products {
        ($sums:literal) => {
            asm!(
                "tileloadd tmm6, [{large} + {row}]",
                "tileloadd tmm7, [{small} + {row}]",
                concat!("tdpbf16ps ", $sums, ", tmm4, tmm6"),
                concat!("tdpbf16ps ", $sums, ", tmm4, tmm7"),
                concat!("tdpbf16ps ", $sums, ", tmm5, tmm6"),
                concat!("tdpbf16ps ", $sums, ", tmm5, tmm7"),
                large = in(reg) x, small = in(reg) x.add(VALUES), row = in(reg) ROW_BYTES, options(nostack)
            )
        };
    }
    // SAFETY: tiles are configured; `x` shows two of them.
    unsafe {
        match sums {
            0 => add_products!("tmm0"),
            1 => add_products!("tmm1"),
            2 => add_products!("tmm2"),
            _ => add_products!("tmm3"),
        }
    }
}

impl Job<'_> {
    /// A block of a group's weights in half precision, as the two parts of a tile.
    #[inline(always)]
    unsafe fn unpack(&self, group: usize, block: usize, parts: *mut f32) {
        let blocks = self.weight.inputs.div_ceil(INPUTS);
        let start = (group * blocks + block) * ROWS * INPUTS;
        for row in 0..ROWS {
            let at = start + row * INPUTS;
            // SAFETY: inside the weight, which is filled up to whole blocks; this runs with AVX-512.
            unsafe {
                let (first, second) = match &self.weight.values {
                    Values::Half(values) => {
                        let from = values.as_ptr().add(at);
                        Avx512::prefetch(from.wrapping_add(AHEAD / 2).cast());
                        (Avx512::load_half(from), Avx512::load_half(from.add(ROWS)))
                    }
                    Values::Bytes(values, scales) => {
                        let from = values.as_ptr().add(at);
                        Avx512::prefetch(from.wrapping_add(AHEAD).cast());
                        let scale = Avx512::splat(scales[group * ROWS + row]);
                        let [first, second] =
                            [Avx512::load_i8(from), Avx512::load_i8(from.add(ROWS))];
                        (
                            first.multiply(scale).rounded_to_normal_half(),
                            second.multiply(scale).rounded_to_normal_half(),
                        )
                    }
                };
                let large = parts.add(row * ROWS);
                store_parts(first, second, large, large.add(VALUES));
            }
        }
    }

    /// A tile of sums in half precision.
    #[inline(always)]
    unsafe fn store(&self, group: usize, tile: usize, sums: *const f32) {
        let (first_row, column) = (
            (self.first_group + group) * ROWS,
            (self.first_tile + tile) * ROWS,
        );
        for row in 0..ROWS.min(self.weight.outputs - first_row) {
            // SAFETY: inside the output.
            unsafe {
                let out = self.out.add((first_row + row) * self.out_stride + column);
                store_row::<Avx512>(
                    sums.add(row * ROWS),
                    out,
                    ROWS.min(self.columns.columns - column),
                );
            }
        }
    }
}
