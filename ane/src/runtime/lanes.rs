//! Vectors of float32 as the kernels use them, for each instruction set.
//!
//! Everything is `inline(always)`: an intrinsic is only inlined into a function that has its instruction set, which is the
//! one that the kernels start from. All functions are unsafe to call where the processor lacks the set; those with
//! pointers read or write `LANES` values there, or the first `count` of them.

/// A vector of float32 in registers.
pub(super) trait Lanes: Copy {
    /// Values in a vector.
    const LANES: usize;
    /// Rows of A that the kernels keep in registers against 3 rows of B; half as many against 6.
    const DOT_ROWS: usize;
    /// Rows of A that the kernels keep in registers against [`Self::VECTORS`] vectors of B.
    const SUM_ROWS: usize;

    unsafe fn zero() -> Self;
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// The first `count` values, then zeros. Reads nothing beyond them.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count` values.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// `self + a * b`, rounded once where the processor can.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    unsafe fn multiply(self, other: Self) -> Self;
    /// The sum of each vector's values. A vector is summed in the same order at every place.
    unsafe fn sums(vectors: [Self; 4]) -> [f32; 4];
    /// Brings the line at this address into the second cache: the next tile would crowd the nearest one. Any address may
    /// be given.
    unsafe fn prefetch(address: *const f32);
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(pub(in super::super) __m512);

    // SAFETY (of the whole): callers have AVX-512F, and their pointers are good for what the trait says.
    impl Lanes for Avx512 {
        const LANES: usize = 16;
        const DOT_ROWS: usize = 8;
        const SUM_ROWS: usize = 6;

        #[inline(always)]
        unsafe fn zero() -> Self {
            unsafe { Self(_mm512_setzero_ps()) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(value)) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm512_loadu_ps(from)) }
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            unsafe { Self(_mm512_maskz_loadu_ps(first_of_16(count), from)) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            unsafe { _mm512_mask_storeu_ps(to, first_of_16(count), self.0) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm512_fmadd_ps(a.0, b.0, self.0)) }
        }
        #[inline(always)]
        unsafe fn multiply(self, other: Self) -> Self {
            unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
            unsafe {
                // Pairs, then fours: each 128-bit lane becomes [a, b, c, d]. Then the four lanes.
                let ab = _mm512_add_ps(_mm512_unpacklo_ps(a.0, b.0), _mm512_unpackhi_ps(a.0, b.0));
                let cd = _mm512_add_ps(_mm512_unpacklo_ps(c.0, d.0), _mm512_unpackhi_ps(c.0, d.0));
                let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
                let abcd = _mm512_add_ps(
                    _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)),
                    _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)),
                );
                let high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(abcd), 1));
                sum_halves(_mm256_add_ps(_mm512_castps512_ps256(abcd), high))
            }
        }
        #[inline(always)]
        unsafe fn prefetch(address: *const f32) {
            unsafe { _mm_prefetch(address.cast(), _MM_HINT_T1) }
        }
    }

    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(pub(in super::super) __m256);

    // SAFETY (of the whole): callers have AVX2 and FMA, and their pointers are good for what the trait says.
    impl Lanes for Avx2 {
        const LANES: usize = 8;
        const DOT_ROWS: usize = 4;
        const SUM_ROWS: usize = 3;

        #[inline(always)]
        unsafe fn zero() -> Self {
            unsafe { Self(_mm256_setzero_ps()) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Self(_mm256_set1_ps(value)) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm256_loadu_ps(from)) }
        }
        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            unsafe { Self(_mm256_maskload_ps(from, first_of_8(count))) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            unsafe { _mm256_maskstore_ps(to, first_of_8(count), self.0) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm256_fmadd_ps(a.0, b.0, self.0)) }
        }
        #[inline(always)]
        unsafe fn multiply(self, other: Self) -> Self {
            unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
            unsafe {
                sum_halves(_mm256_hadd_ps(
                    _mm256_hadd_ps(a.0, b.0),
                    _mm256_hadd_ps(c.0, d.0),
                ))
            }
        }
        #[inline(always)]
        unsafe fn prefetch(address: *const f32) {
            unsafe { _mm_prefetch(address.cast(), _MM_HINT_T1) }
        }
    }

    #[inline(always)]
    fn first_of_16(count: usize) -> __mmask16 {
        ((1u32 << count) - 1) as __mmask16
    }

    #[inline(always)]
    unsafe fn first_of_8(count: usize) -> __m256i {
        unsafe {
            let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lane)
        }
    }

    #[inline(always)]
    unsafe fn sum_halves(vector: __m256) -> [f32; 4] {
        let mut sums = [0.0; 4];
        unsafe {
            let sum = _mm_add_ps(
                _mm256_castps256_ps128(vector),
                _mm256_extractf128_ps(vector, 1),
            );
            _mm_storeu_ps(sums.as_mut_ptr(), sum);
        }
        sums
    }
}

/// Plain Rust, which the compiler turns into the vectors of any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable(pub(super) [f32; 8]);

// SAFETY (of the whole): pointers are good for what the trait says.
impl Lanes for Portable {
    const LANES: usize = 8;
    const DOT_ROWS: usize = 2;
    const SUM_ROWS: usize = 1;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0.0; 8])
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 8])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self(from.cast::<[f32; 8]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut values = [0.0; 8];
        unsafe { values.as_mut_ptr().copy_from_nonoverlapping(from, count) };
        Self(values)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count) }
    }
    #[inline(always)]
    unsafe fn add_product(mut self, a: Self, b: Self) -> Self {
        for lane in 0..Self::LANES {
            // Without the instruction, `mul_add` calls a function of the C library.
            self.0[lane] = if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
                a.0[lane].mul_add(b.0[lane], self.0[lane])
            } else {
                self.0[lane] + a.0[lane] * b.0[lane]
            };
        }
        self
    }
    #[inline(always)]
    unsafe fn multiply(mut self, other: Self) -> Self {
        for lane in 0..Self::LANES {
            self.0[lane] *= other.0[lane];
        }
        self
    }
    #[inline(always)]
    unsafe fn sums(vectors: [Self; 4]) -> [f32; 4] {
        vectors.map(|Self(v)| ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])))
    }
    #[inline(always)]
    unsafe fn prefetch(_address: *const f32) {}
}
