//! What runs on the processor: the thread pool and the kernels. The only place for `unsafe` code.

#[cfg(target_os = "linux")]
mod cblas;
mod lanes;
pub mod pool;
pub mod skinny_gemm;
