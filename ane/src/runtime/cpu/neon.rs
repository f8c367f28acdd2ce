//! Vectors of 64-bit Arm: pairs of 4 values.

use std::arch::aarch64::*;

use half::f16;

use super::half_lanes::{DROPPED_DIGITS, HalfLanes};
use crate::runtime::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct Neon([float32x4_t; 2]);

impl Neon {
    #[inline(always)]
    fn each(self, function: impl Fn(float32x4_t) -> float32x4_t) -> Self {
        Self([function(self.0[0]), function(self.0[1])])
    }

    #[inline(always)]
    fn both(self, other: Self, function: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        Self([
            function(self.0[0], other.0[0]),
            function(self.0[1], other.0[1]),
        ])
    }
}

// SAFETY (of the whole): pointers are good for what the trait says; every 64-bit Arm processor has the instructions.
impl Lanes for Neon {
    const LANES: usize = 8;
    const DOT_ROWS: usize = 4;
    const SUM_ROWS: usize = 3;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self::splat(0.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { Self([vdupq_n_f32(value); 2]) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self([vld1q_f32(from), vld1q_f32(from.add(4))]) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut values = [0.0; 8];
        unsafe {
            values.as_mut_ptr().copy_from_nonoverlapping(from, count);
            Self::load(values.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            vst1q_f32(to, self.0[0]);
            vst1q_f32(to.add(4), self.0[1]);
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        let mut values = [0.0; 8];
        unsafe {
            self.store(values.as_mut_ptr());
            to.copy_from_nonoverlapping(values.as_ptr(), count);
        }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        let sum = |i: usize| unsafe { vfmaq_f32(self.0[i], a.0[i], b.0[i]) };
        Self([sum(0), sum(1)])
    }
    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        self.both(other, |a, b| unsafe { vmulq_f32(a, b) })
    }
    #[inline(always)]
    unsafe fn sums(vectors: [Self; 4]) -> [f32; 4] {
        vectors.map(|Self([low, high])| unsafe { vaddvq_f32(vaddq_f32(low, high)) })
    }
    #[inline(always)]
    unsafe fn prefetch(_address: *const f32) {}
}

// SAFETY (of the whole): as above.
impl HalfLanes for Neon {
    const TOTALS: usize = 12;
    const MOST_VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> Self {
        unsafe {
            let halves = vreinterpretq_f16_u16(vld1q_u16(from.cast()));
            Self([
                vcvt_f32_f16(vget_low_f16(halves)),
                vcvt_high_f32_f16(halves),
            ])
        }
    }
    #[inline(always)]
    unsafe fn store_half(self, to: *mut f16) {
        unsafe {
            let halves = vcvt_high_f16_f32(vcvt_f16_f32(self.0[0]), self.0[1]);
            vst1q_u16(to.cast(), vreinterpretq_u16_f16(halves));
        }
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        unsafe {
            let values = vmovl_s8(vld1_s8(from));
            let (low, high) = (vmovl_s16(vget_low_s16(values)), vmovl_high_s16(values));
            Self([vcvtq_f32_s32(low), vcvtq_f32_s32(high)])
        }
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        self.both(other, |a, b| unsafe { vaddq_f32(a, b) })
    }
    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        self.both(other, |a, b| unsafe { vsubq_f32(a, b) })
    }
    #[inline(always)]
    unsafe fn over(self, other: Self) -> Self {
        self.both(other, |a, b| unsafe { vdivq_f32(a, b) })
    }
    #[inline(always)]
    unsafe fn maximum(self, other: Self) -> Self {
        self.both(other, |a, b| unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }
    #[inline(always)]
    unsafe fn absolute(self) -> Self {
        self.each(|a| unsafe { vabsq_f32(a) })
    }
    #[inline(always)]
    unsafe fn rounded_to_half(self) -> Self {
        self.each(|a| unsafe { vcvt_f32_f16(vcvt_f16_f32(a)) })
    }
    #[inline(always)]
    unsafe fn rounded_to_normal_half(self) -> Self {
        unsafe {
            let mask = vdupq_n_u32(0xFF80_0000);
            let power =
                self.each(|a| vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), mask)));
            let large = self.add_product(power, Self::splat(DROPPED_DIGITS));
            large.add_product(power, Self::splat(-DROPPED_DIGITS))
        }
    }
    #[inline(always)]
    unsafe fn nearest_integer(self) -> Self {
        self.each(|a| unsafe { vrndnq_f32(a) })
    }
    #[inline(always)]
    unsafe fn times_power_of_two(self, n: Self) -> Self {
        // In two steps, so that each power is a normal number.
        let scaled = |i: usize| unsafe {
            let n = vcvtq_s32_f32(n.0[i]);
            let half = vshrq_n_s32::<1>(n);
            let once = vmulq_f32(self.0[i], power_of_two(half));
            vmulq_f32(once, power_of_two(vsubq_s32(n, half)))
        };
        Self([scaled(0), scaled(1)])
    }
}

#[inline(always)]
unsafe fn power_of_two(n: int32x4_t) -> float32x4_t {
    // SAFETY: every 64-bit Arm processor has the instructions.
    unsafe { vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127)))) }
}
