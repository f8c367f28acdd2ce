//! Memory that programs compute in.

use std::cell::UnsafeCell;

/// Memory that starts at a line of the cache, all 0 at first.
pub(super) struct Lines(UnsafeCell<Vec<Line>>);

// SAFETY: the kernels of a run write to it, and a run borrows its program mutably.
unsafe impl Sync for Lines {}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read through pointers")] [u8; 64]);

impl Lines {
    /// For so many values of type T.
    pub(super) fn of<T>(count: usize) -> Self {
        let lines = (count * size_of::<T>()).div_ceil(size_of::<Line>());
        Self(vec![Line([0; 64]); lines].into())
    }

    pub(super) fn pointer<T>(&self) -> *mut T {
        // SAFETY: nobody holds a reference to the vector; its memory does not move.
        unsafe { (*self.0.get()).as_mut_ptr().cast() }
    }
}
