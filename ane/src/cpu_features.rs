//! The instruction set extensions that CPU kernels may use on this machine.

/// Pairs each name with the verdict of the standard library's detection macro `$detected`.
macro_rules! present {
    ($detected:ident: $($name:tt)+) => {
        [$(($name, std::arch::$detected!($name))),+]
    };
}

/// The extensions that matter to matrix kernels and that processor and operating system both offer,
/// by the names that rustc's `target_feature` knows, in order of their age. Empty on a processor family without a list.
#[must_use]
pub fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let known = present!(is_x86_feature_detected:
        "avx" "f16c" "fma" "avx2" "avx512f" "avx512bw" "avx512vl" "avx512vnni" "avx512bf16" "avxvnni" "avx512fp16");
    #[cfg(target_arch = "aarch64")]
    let known =
        present!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "fhm" "bf16" "i8mm" "sve");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let known: [(&str, bool); 0] = [];

    known
        .into_iter()
        .filter_map(|(name, present)| present.then_some(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::cpu_features;

    /// What the compiler was told to rely on must be found at run time, or this test could not run at all.
    #[test]
    fn finds_what_the_build_relies_on() {
        let found = cpu_features();
        for (name, relied_on) in [
            ("avx2", cfg!(target_feature = "avx2")),
            ("fma", cfg!(target_feature = "fma")),
            ("neon", cfg!(target_feature = "neon")),
        ] {
            assert!(
                !relied_on || found.contains(&name),
                "{name} is not in {found:?}"
            );
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn wider_vectors_come_with_narrower_ones() {
        let found = cpu_features();
        for (wide, narrow) in [
            ("avx512f", "avx2"),
            ("avx2", "avx"),
            ("avx512vnni", "avx512f"),
        ] {
            assert!(
                !found.contains(&wide) || found.contains(&narrow),
                "{found:?}"
            );
        }
    }
}
