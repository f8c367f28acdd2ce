//! Kernels, compiled once for each instruction set and chosen at run time.

use super::half_lanes::HalfLanes;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use crate::runtime::lanes::Portable;
#[cfg(target_arch = "x86_64")]
use crate::runtime::lanes::{Avx2, Avx512};

/// The instruction sets that there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// AVX-512, and a matrix unit for convolutions.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
    /// 16 values a vector.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 8 values a vector, with conversion of half precision (F16C).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 4 values a vector, used in pairs.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// What the compiler makes of plain Rust.
    Portable,
}

impl InstructionSet {
    /// Those that this processor has, best first.
    #[must_use]
    pub fn present() -> Vec<Self> {
        let mut present = vec![];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                #[cfg(target_os = "linux")]
                if super::amx::available() {
                    present.push(Self::Amx);
                }
                present.push(Self::Avx512);
            }
            let needed = [
                is_x86_feature_detected!("avx2"),
                is_x86_feature_detected!("fma"),
                is_x86_feature_detected!("f16c"),
            ];
            if needed == [true; 3] {
                present.push(Self::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            present.push(Self::Neon);
        }
        present.push(Self::Portable);
        present
    }
}

/// Work on memory that is written once for all instruction sets. `run` must be `inline(always)`: see `lanes`.
pub(super) trait Kernel {
    /// # Safety
    /// The processor has the instruction set of V; the pointers in `self` are good for what the kernel does.
    unsafe fn run<V: HalfLanes>(&self);
}

/// Runs a kernel.
///
/// # Safety
/// The processor has `set`; the pointers in `kernel` are good for what it does.
pub(super) unsafe fn launch<K: Kernel>(set: InstructionSet, kernel: &K) {
    // SAFETY: the caller has this instruction set and vouches for the pointers.
    unsafe {
        match set {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            InstructionSet::Amx => launch_avx512(kernel),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => launch_avx512(kernel),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => launch_avx2(kernel),
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => kernel.run::<Neon>(), // every aarch64 of Rust's has it
            InstructionSet::Portable => kernel.run::<Portable>(),
        }
    }
}

/// # Safety
/// As for [`launch`], with AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn launch_avx512<K: Kernel>(kernel: &K) {
    // SAFETY: passed on.
    unsafe { kernel.run::<Avx512>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn launch_avx2<K: Kernel>(kernel: &K) {
    // SAFETY: passed on.
    unsafe { kernel.run::<Avx2>() }
}
