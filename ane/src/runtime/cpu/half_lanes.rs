//! What the kernels of programs need of a vector beyond [`Lanes`]: half precision in memory, 8-bit weights, and the
//! functions of elements.

use half::f16;

#[cfg(target_arch = "x86_64")]
use crate::runtime::lanes::{Avx2, Avx512};
use crate::runtime::lanes::{Lanes, Portable};

/// A vector of float32 whose values come from half precision and go back to it. Unsafe as [`Lanes`] is.
pub(super) trait HalfLanes: Lanes {
    /// Vectors of running sums that stay in registers. Any of their divisors must be a divisor of 24.
    const TOTALS: usize;
    /// The most vectors of columns beside each other among them.
    const MOST_VECTORS: usize;

    unsafe fn load_half(from: *const f16) -> Self;
    /// Rounds to nearest, ties to even.
    unsafe fn store_half(self, to: *mut f16);
    unsafe fn load_i8(from: *const i8) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    unsafe fn minus(self, other: Self) -> Self;
    unsafe fn over(self, other: Self) -> Self;
    /// The larger; `other` where one of them is NaN.
    unsafe fn maximum(self, other: Self) -> Self;
    unsafe fn absolute(self) -> Self;
    /// To half precision and back.
    unsafe fn rounded_to_half(self) -> Self;
    /// As [`Self::rounded_to_half`], for 0 and values that are normal numbers in half precision.
    unsafe fn rounded_to_normal_half(self) -> Self;
    /// The nearest integer, ties to even.
    unsafe fn nearest_integer(self) -> Self;
    /// `self` times 2 to the power of `n`, integers from -252 to 252.
    unsafe fn times_power_of_two(self, n: Self) -> Self;

    /// The first `count` values, then zeros. Reads nothing beyond them.
    #[inline(always)]
    unsafe fn load_half_first(from: *const f16, count: usize) -> Self {
        let mut values = [f16::ZERO; MOST_LANES];
        // SAFETY: the caller vouches for `count` values.
        unsafe {
            values.as_mut_ptr().copy_from_nonoverlapping(from, count);
            Self::load_half(values.as_ptr())
        }
    }

    /// Writes the first `count` values.
    #[inline(always)]
    unsafe fn store_half_first(self, to: *mut f16, count: usize) {
        let mut values = [f16::ZERO; MOST_LANES];
        // SAFETY: the caller vouches for `count` values.
        unsafe {
            self.store_half(values.as_mut_ptr());
            to.copy_from_nonoverlapping(values.as_ptr(), count);
        }
    }
}

/// Values in the longest vector.
pub(super) const MOST_LANES: usize = 16;

/// e to the power of x, within 2 units in the last place of float32; infinite or 0 beyond its range.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, whose next term is below a tenth of a unit.
#[inline(always)]
pub(super) unsafe fn exp<V: HalfLanes>(x: V) -> V {
    // ln 2 in two parts: the first has few digits, so that its product with n is exact.
    const LN_2_HIGH: f32 = 0.693_145_75;
    const LN_2_LOW: f32 = 1.428_606_8e-6;
    const INVERSE_FACTORIALS: [f32; 7] = [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    // SAFETY: the caller has the instruction set.
    unsafe {
        let least = V::splat(-150.0).maximum(x);
        let x = V::zero().minus(V::splat(-130.0).maximum(V::zero().minus(least)));
        let n = x
            .multiply(V::splat(std::f32::consts::LOG2_E))
            .nearest_integer();
        let r = x.add_product(n, V::splat(-LN_2_HIGH));
        let r = r.add_product(n, V::splat(-LN_2_LOW));
        let mut sum = V::splat(1.0 / 5040.0);
        for coefficient in INVERSE_FACTORIALS {
            sum = V::splat(coefficient).add_product(sum, r);
        }
        sum.times_power_of_two(n)
    }
}

/// Half precision keeps 11 of the 24 digits of a normal number. Adding this many times the number's power of two leaves only
/// those, and taking it away again changes nothing.
pub(super) const DROPPED_DIGITS: f32 = 1.5 * (1u32 << 13) as f32;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Avx2, Avx512, DROPPED_DIGITS, HalfLanes};
    use crate::runtime::lanes::Lanes;
    use half::f16;
    use std::arch::x86_64::*;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    /// Sign and exponent of a float32.
    const POWER: i32 = 0xFF80_0000_u32 as i32;

    // SAFETY (of the whole): callers have AVX-512F, and their pointers are good for what the trait says.
    impl HalfLanes for Avx512 {
        const TOTALS: usize = 24;
        const MOST_VECTORS: usize = 4;

        #[inline(always)]
        unsafe fn load_half(from: *const f16) -> Self {
            unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn store_half(self, to: *mut f16) {
            unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<NEAREST>(self.0)) }
        }
        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe {
                let values = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()));
                Self(_mm512_cvtepi32_ps(values))
            }
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn minus(self, other: Self) -> Self {
            unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn over(self, other: Self) -> Self {
            unsafe { Self(_mm512_div_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn maximum(self, other: Self) -> Self {
            unsafe { Self(_mm512_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn absolute(self) -> Self {
            unsafe { Self(_mm512_abs_ps(self.0)) }
        }
        #[inline(always)]
        unsafe fn rounded_to_half(self) -> Self {
            unsafe { Self(_mm512_cvtph_ps(_mm512_cvtps_ph::<NEAREST>(self.0))) }
        }
        #[inline(always)]
        unsafe fn rounded_to_normal_half(self) -> Self {
            unsafe {
                let bits = _mm512_and_si512(_mm512_castps_si512(self.0), _mm512_set1_epi32(POWER));
                let power = Self(_mm512_castsi512_ps(bits));
                let large = self.add_product(power, Self::splat(DROPPED_DIGITS));
                large.add_product(power, Self::splat(-DROPPED_DIGITS))
            }
        }
        #[inline(always)]
        unsafe fn nearest_integer(self) -> Self {
            unsafe { Self(_mm512_roundscale_ps::<NEAREST>(self.0)) }
        }
        #[inline(always)]
        unsafe fn times_power_of_two(self, n: Self) -> Self {
            unsafe { Self(_mm512_scalef_ps(self.0, n.0)) }
        }
    }

    // SAFETY (of the whole): callers have AVX2, FMA and F16C, and their pointers are good for what the trait says.
    impl HalfLanes for Avx2 {
        const TOTALS: usize = 12;
        const MOST_VECTORS: usize = 2;

        #[inline(always)]
        unsafe fn load_half(from: *const f16) -> Self {
            unsafe { Self(_mm256_cvtph_ps(_mm_loadu_si128(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn store_half(self, to: *mut f16) {
            unsafe {
                _mm_storeu_si128(
                    to.cast(),
                    _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
                )
            }
        }
        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe {
                let values = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
                Self(_mm256_cvtepi32_ps(values))
            }
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            unsafe { Self(_mm256_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn minus(self, other: Self) -> Self {
            unsafe { Self(_mm256_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn over(self, other: Self) -> Self {
            unsafe { Self(_mm256_div_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn maximum(self, other: Self) -> Self {
            unsafe { Self(_mm256_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn absolute(self) -> Self {
            unsafe { Self(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)) }
        }
        #[inline(always)]
        unsafe fn rounded_to_half(self) -> Self {
            unsafe {
                Self(_mm256_cvtph_ps(
                    _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
                ))
            }
        }
        #[inline(always)]
        unsafe fn rounded_to_normal_half(self) -> Self {
            unsafe {
                let mask = _mm256_castsi256_ps(_mm256_set1_epi32(POWER));
                let power = Self(_mm256_and_ps(self.0, mask));
                let large = self.add_product(power, Self::splat(DROPPED_DIGITS));
                large.add_product(power, Self::splat(-DROPPED_DIGITS))
            }
        }
        #[inline(always)]
        unsafe fn nearest_integer(self) -> Self {
            unsafe { Self(_mm256_round_ps::<NEAREST>(self.0)) }
        }
        #[inline(always)]
        unsafe fn times_power_of_two(self, n: Self) -> Self {
            unsafe {
                // In two steps, so that each power is a normal number.
                let n = _mm256_cvtps_epi32(n.0);
                let half = _mm256_srai_epi32::<1>(n);
                let once = self.multiply(power_of_two(half));
                once.multiply(power_of_two(_mm256_sub_epi32(n, half)))
            }
        }
    }

    #[inline(always)]
    unsafe fn power_of_two(n: __m256i) -> Avx2 {
        unsafe {
            let exponent = _mm256_add_epi32(n, _mm256_set1_epi32(127));
            Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        }
    }
}

// SAFETY (of the whole): pointers are good for what the trait says.
impl HalfLanes for Portable {
    const TOTALS: usize = 6;
    const MOST_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> Self {
        let halves = unsafe { from.cast::<[f16; 8]>().read_unaligned() };
        Self(halves.map(f16::to_f32))
    }
    #[inline(always)]
    unsafe fn store_half(self, to: *mut f16) {
        let halves = self.0.map(f16::from_f32);
        unsafe { to.cast::<[f16; 8]>().write_unaligned(halves) }
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        Self(unsafe { from.cast::<[i8; 8]>().read() }.map(f32::from))
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }
    #[inline(always)]
    unsafe fn over(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] / other.0[i]))
    }
    #[inline(always)]
    unsafe fn maximum(self, other: Self) -> Self {
        let larger = |i: usize| {
            if self.0[i] > other.0[i] {
                self.0[i]
            } else {
                other.0[i]
            }
        };
        Self(std::array::from_fn(larger))
    }
    #[inline(always)]
    unsafe fn absolute(self) -> Self {
        Self(self.0.map(f32::abs))
    }
    #[inline(always)]
    unsafe fn rounded_to_half(self) -> Self {
        Self(self.0.map(|value| f16::from_f32(value).to_f32()))
    }
    #[inline(always)]
    unsafe fn rounded_to_normal_half(self) -> Self {
        Self(self.0.map(|value| {
            let power = f32::from_bits(value.to_bits() & 0xFF80_0000);
            (value + power * DROPPED_DIGITS) - power * DROPPED_DIGITS
        }))
    }
    #[inline(always)]
    unsafe fn nearest_integer(self) -> Self {
        Self(self.0.map(f32::round_ties_even))
    }
    #[inline(always)]
    unsafe fn times_power_of_two(self, n: Self) -> Self {
        let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
        let scaled = |i: usize| {
            let n = n.0[i] as i32;
            self.0[i] * power(n >> 1) * power(n - (n >> 1))
        };
        Self(std::array::from_fn(scaled))
    }
}
