//! The memory of tensors where there are no surfaces.

use std::slice;

use half::f16;

use super::RuntimeError;
use super::tensor::rows_and_columns;

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f16; PER_LINE]);

const PER_LINE: usize = 64 / size_of::<f16>();

/// Rows that start at lines of the cache, as those of surfaces do.
pub(super) struct PlainMemory {
    lines: Vec<Line>,
    row_stride: usize,
}

impl PlainMemory {
    /// All 0.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`].
    pub(super) fn new(shape: &[usize]) -> Result<Self, RuntimeError> {
        let no_memory = || RuntimeError::Memory {
            shape: shape.into(),
        };
        let (rows, columns) = rows_and_columns(shape).ok_or_else(no_memory)?;
        let lines_of_row = columns.div_ceil(PER_LINE);
        let count = rows.checked_mul(lines_of_row).ok_or_else(no_memory)?;
        let mut lines = vec![];
        lines.try_reserve_exact(count).map_err(|_| no_memory())?;
        lines.resize(count, Line([f16::ZERO; PER_LINE]));
        Ok(Self {
            lines,
            row_stride: lines_of_row * PER_LINE,
        })
    }

    /// In elements.
    pub(super) fn row_stride(&self) -> usize {
        self.row_stride
    }

    pub(super) fn values(&self) -> &[f16] {
        let count = self.lines.len() * PER_LINE;
        // SAFETY: a line is its elements and nothing else, and they are borrowed as the lines are.
        unsafe { slice::from_raw_parts(self.lines.as_ptr().cast(), count) }
    }

    pub(super) fn values_mut(&mut self) -> &mut [f16] {
        let count = self.lines.len() * PER_LINE;
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), count) }
    }
}
