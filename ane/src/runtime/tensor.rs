//! Tensors in memory that runtimes read and write without a copy.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use half::f16;

use super::RuntimeError;
#[cfg(not(target_os = "macos"))]
use super::plain_memory::PlainMemory as Memory;
#[cfg(target_os = "macos")]
use super::surface::Surface as Memory;
use crate::buffer::{Elements, ElementsMut, View, ViewMut};

/// A tensor of half precision, all 0 at first. Its memory starts at a line of the cache; rows of the last axis are contiguous,
/// each a [`Self::strides`] apart that may be longer than the row.
///
/// The memory stays where it is, but for one case: an output of a run that ended with [`RuntimeError::Timeout`] gets new
/// memory, since the old one may still be written to.
///
/// It moves between threads, but one at a time has it: a program that runs on it may take its memory from the processor.
pub struct Tensor {
    shape: Vec<usize>,
    strides: Vec<usize>,
    memory: Memory,
    one_thread: PhantomData<Cell<()>>,
}

impl Tensor {
    /// With sizes outermost first.
    ///
    /// # Errors
    /// [`RuntimeError::Memory`] where there is none of this size, or the shape has no elements; [`RuntimeError::Failed`] where
    /// the system does not share it as it should.
    pub fn new(shape: &[usize]) -> Result<Self, RuntimeError> {
        let memory = Memory::new(shape)?;
        Ok(Self {
            shape: shape.into(),
            strides: strides(shape, memory.row_stride()),
            memory,
            one_thread: PhantomData,
        })
    }

    /// Sizes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Distances in elements, outermost first. The last is 1.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// All rows and what lies between them.
    #[must_use]
    pub fn values(&self) -> &[f16] {
        self.memory.values()
    }

    /// As [`Self::values`], to write.
    pub fn values_mut(&mut self) -> &mut [f16] {
        self.memory.values_mut()
    }

    /// To read.
    ///
    /// # Panics
    /// Never: the memory has this shape.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::new(
            Elements::Fp16(self.memory.values()),
            &self.shape,
            &self.strides,
        )
        .expect("the memory is of this shape")
    }

    /// To write.
    ///
    /// # Panics
    /// Never: the memory has this shape.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::new(
            ElementsMut::Fp16(self.memory.values_mut()),
            &self.shape,
            &self.strides,
        )
        .expect("the memory is of this shape")
    }

    /// What Core ML takes.
    #[cfg(target_os = "macos")]
    pub(super) fn surface(&self) -> &Memory {
        &self.memory
    }

    /// Leave the memory to a run that did not end, and take new one, all 0.
    #[cfg(target_os = "macos")]
    pub(super) fn abandon(&mut self) {
        self.memory.abandon(&self.shape);
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("shape", &self.shape)
            .field("strides", &self.strides)
            .finish_non_exhaustive()
    }
}

/// The tensor as a matrix of rows of its last axis. None for one without elements, or of more than there can be.
pub(super) fn rows_and_columns(shape: &[usize]) -> Option<(usize, usize)> {
    let (&columns, outer) = shape.split_last()?;
    let rows = outer
        .iter()
        .try_fold(1usize, |rows, size| rows.checked_mul(*size))?;
    (rows > 0 && columns > 0).then_some((rows, columns))
}

/// Distances in elements where a row of the last axis starts every `row_stride`.
pub(super) fn strides(shape: &[usize], row_stride: usize) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    let mut stride = row_stride;
    for (axis, to) in strides.iter_mut().enumerate().rev().skip(1) {
        *to = stride;
        stride *= shape[axis];
    }
    strides
}

/// Whether strides lead to the same elements: of an axis with one index they may be anything.
#[cfg(any(test, target_os = "macos"))]
pub(super) fn same_places(shape: &[usize], a: &[usize], b: &[usize]) -> bool {
    let of_long_axes = |strides: &[usize]| {
        let long = shape.iter().zip(strides).filter(|(size, _)| **size > 1);
        long.map(|(_, stride)| *stride).collect::<Vec<_>>()
    };
    a.len() == shape.len() && b.len() == shape.len() && of_long_axes(a) == of_long_axes(b)
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{Tensor, same_places, strides};
    use crate::runtime::RuntimeError;

    #[test]
    fn outer_axes_step_over_whole_rows() {
        assert_eq!(strides(&[2, 3, 4, 5], 32), [384, 128, 32, 1]);
        assert_eq!(strides(&[7], 32), [1]);
    }

    #[test]
    fn strides_of_axes_with_one_index_do_not_matter() {
        assert!(same_places(&[1, 3, 1, 5], &[9, 32, 7, 1], &[96, 32, 32, 1]));
        assert!(!same_places(
            &[1, 3, 1, 5],
            &[96, 5, 5, 1],
            &[96, 32, 32, 1]
        ));
        assert!(!same_places(&[3, 5], &[32, 1], &[1, 32, 1]));
    }

    #[test]
    fn memory_is_zero_and_starts_at_a_line_of_the_cache_as_each_row_does() {
        for shape in [&[1, 3, 2, 5][..], &[1, 1, 4, 64], &[33]] {
            let tensor = Tensor::new(shape).unwrap();
            assert!(tensor.values().iter().all(|value| *value == f16::ZERO));
            let (start, rows) = (tensor.values().as_ptr() as usize, tensor.strides());
            assert_eq!(start % 64, 0);
            for stride in &rows[..rows.len() - 1] {
                assert_eq!(stride * size_of::<f16>() % 64, 0, "{tensor:?}");
            }
        }
    }

    #[test]
    fn what_is_written_through_a_view_is_read_through_one_and_stays_where_it_is() {
        let mut tensor = Tensor::new(&[1, 2, 2, 3]).unwrap();
        let start = tensor.values().as_ptr();
        let values: Vec<_> = (1..=12u8).map(f16::from).collect();
        tensor.view_mut().copy_from(&values);
        let tensor = std::thread::spawn(|| tensor).join().unwrap();
        let mut read = vec![f16::NAN; 12];
        tensor.view().copy_to(&mut read);
        assert_eq!(read, values);
        assert_eq!(tensor.values().as_ptr(), start);
        let second_row = tensor.strides()[2];
        assert_eq!(tensor.values()[second_row], values[3]);
        assert!(
            tensor.values()[3..second_row]
                .iter()
                .all(|gap| *gap == f16::ZERO)
        );
    }

    #[test]
    fn shapes_without_elements_and_beyond_all_memory_are_errors() {
        for shape in [
            &[][..],
            &[1, 0, 2],
            &[0],
            &[usize::MAX, 2, 64],
            &[usize::MAX],
            &[1 << 50, 1024],
        ] {
            let error = Tensor::new(shape).unwrap_err();
            assert_eq!(
                error,
                RuntimeError::Memory {
                    shape: shape.into()
                }
            );
            assert!(error.to_string().contains("no memory"), "{error}");
        }
    }
}
