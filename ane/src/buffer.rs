//! Tensors in the caller's memory, as programs read and write them.

use std::error::Error;
use std::fmt;

use half::f16;
use half::slice::HalfFloatSliceExt;

/// The elements of a buffer that is read, from the first to beyond the last that its view shows.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// Half precision.
    Fp16(&'a [f16]),
    /// Single precision.
    Fp32(&'a [f32]),
    /// Signed 32 bits.
    Int32(&'a [i32]),
}

/// As [`Elements`], for a buffer that is written.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// Half precision.
    Fp16(&'a mut [f16]),
    /// Single precision.
    Fp32(&'a mut [f32]),
}

/// A shape whose elements do not lie in the buffer, or not one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidView {
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Distances in elements.
    pub strides: Vec<usize>,
    /// How many elements there are.
    pub length: usize,
}

impl fmt::Display for InvalidView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shape,
            strides,
            length,
        } = self;
        write!(
            f,
            "a buffer of {length} elements has no tensor of shape {shape:?} and strides {strides:?}"
        )
    }
}

impl Error for InvalidView {}

/// A tensor to read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    elements: Elements<'a>,
    shape: &'a [usize],
    strides: &'a [usize],
}

impl<'a> View<'a> {
    /// `shape` with `strides` in elements, both outermost first, at the start of `elements`.
    ///
    /// # Errors
    /// [`InvalidView`] where some of it lies beyond the elements.
    pub fn new(
        elements: Elements<'a>,
        shape: &'a [usize],
        strides: &'a [usize],
    ) -> Result<Self, InvalidView> {
        let length = match elements {
            Elements::Fp16(values) => values.len(),
            Elements::Fp32(values) => values.len(),
            Elements::Int32(values) => values.len(),
        };
        check(shape, strides, length)?;
        Ok(Self {
            elements,
            shape,
            strides,
        })
    }

    /// Sizes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Distances in elements, outermost first.
    #[must_use]
    pub fn strides(&self) -> &'a [usize] {
        self.strides
    }

    /// The memory, where rows of the last axis can be read in half precision as they lie.
    #[must_use]
    pub fn half_rows(&self) -> Option<&'a [f16]> {
        match self.elements {
            Elements::Fp16(values) if self.strides.last() == Some(&1) => Some(values),
            _ => None,
        }
    }

    /// Copy row `row` of the last axis, counted row-major, into `to` in single precision.
    pub fn read_row(&self, row: usize, to: &mut [f32]) {
        let start = row_start(row, self.shape, self.strides);
        let step = self.strides.last().copied().unwrap_or(1);
        match self.elements {
            Elements::Fp16(from) if step == 1 => {
                from[start..start + to.len()].convert_to_f32_slice(to);
            }
            Elements::Fp32(from) if step == 1 => to.copy_from_slice(&from[start..start + to.len()]),
            Elements::Fp16(from) => fill(to, |i| from[start + i * step].to_f32()),
            Elements::Fp32(from) => fill(to, |i| from[start + i * step]),
            Elements::Int32(from) => fill(to, |i| from[start + i * step] as f32),
        }
    }

    /// Copy all elements into `to`, row-major, rounded to half precision.
    pub fn copy_to(&self, to: &mut [f16]) {
        let Some((&columns, &step)) = self.shape.last().zip(self.strides.last()) else {
            return;
        };
        for (row, to) in to.chunks_exact_mut(columns).enumerate() {
            let start = row_start(row, self.shape, self.strides);
            match self.elements {
                Elements::Fp16(from) if step == 1 => {
                    to.copy_from_slice(&from[start..start + columns])
                }
                Elements::Fp32(from) if step == 1 => {
                    to.convert_from_f32_slice(&from[start..start + columns])
                }
                Elements::Fp16(from) => fill(to, |i| from[start + i * step]),
                Elements::Fp32(from) => fill(to, |i| f16::from_f32(from[start + i * step])),
                Elements::Int32(from) => fill(to, |i| f16::from_f32(from[start + i * step] as f32)),
            }
        }
    }
}

/// A tensor to write.
#[derive(Debug)]
pub struct ViewMut<'a> {
    elements: ElementsMut<'a>,
    shape: &'a [usize],
    strides: &'a [usize],
}

impl<'a> ViewMut<'a> {
    /// As [`View::new`].
    ///
    /// # Errors
    /// [`InvalidView`] where some of it lies beyond the elements, or on the same.
    pub fn new(
        elements: ElementsMut<'a>,
        shape: &'a [usize],
        strides: &'a [usize],
    ) -> Result<Self, InvalidView> {
        let length = match &elements {
            ElementsMut::Fp16(values) => values.len(),
            ElementsMut::Fp32(values) => values.len(),
        };
        let repeated = shape
            .iter()
            .zip(strides)
            .any(|(size, stride)| *size > 1 && *stride == 0);
        check(shape, strides, if repeated { 0 } else { length })?;
        Ok(Self {
            elements,
            shape,
            strides,
        })
    }

    /// Sizes, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Fill with the elements of `from`, row-major.
    pub fn copy_from(&mut self, from: &[f16]) {
        let Some((&columns, &step)) = self.shape.last().zip(self.strides.last()) else {
            return;
        };
        for (row, from) in from.chunks_exact(columns).enumerate() {
            let start = row_start(row, self.shape, self.strides);
            match &mut self.elements {
                ElementsMut::Fp16(to) if step == 1 => {
                    to[start..start + columns].copy_from_slice(from)
                }
                ElementsMut::Fp32(to) if step == 1 => {
                    from.convert_to_f32_slice(&mut to[start..start + columns])
                }
                ElementsMut::Fp16(to) => {
                    for (i, value) in from.iter().enumerate() {
                        to[start + i * step] = *value;
                    }
                }
                ElementsMut::Fp32(to) => {
                    for (i, value) in from.iter().enumerate() {
                        to[start + i * step] = value.to_f32();
                    }
                }
            }
        }
    }
}

fn check(shape: &[usize], strides: &[usize], length: usize) -> Result<(), InvalidView> {
    let end = shape
        .iter()
        .zip(strides)
        .try_fold(1usize, |end, (size, stride)| {
            end.checked_add(size.checked_sub(1)?.checked_mul(*stride)?)
        });
    if shape.is_empty() || shape.len() != strides.len() || end.is_none_or(|end| end > length) {
        return Err(InvalidView {
            shape: shape.into(),
            strides: strides.into(),
            length,
        });
    }
    Ok(())
}

/// Where a row of the last axis starts.
fn row_start(mut row: usize, shape: &[usize], strides: &[usize]) -> usize {
    let mut start = 0;
    for (size, stride) in shape.iter().zip(strides).rev().skip(1) {
        start += row % size * stride;
        row /= size;
    }
    start
}

fn fill<T>(to: &mut [T], value: impl Fn(usize) -> T) {
    for (i, to) in to.iter_mut().enumerate() {
        *to = value(i);
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{Elements, ElementsMut, View, ViewMut};

    fn halves(values: &[f32]) -> Vec<f16> {
        values.iter().map(|value| f16::from_f32(*value)).collect()
    }

    #[test]
    fn any_type_and_stride_is_read_in_row_major_order() {
        let single = [0.0f32, 1.0, 2.0, f32::NAN, 4.0, 5.0, 6.0];
        let whole: Vec<i32> = (0..7).collect();
        let wanted = halves(&[0.0, 1.0, 2.0, 4.0, 5.0, 6.0]);
        let half = halves(&single);
        for elements in [
            Elements::Fp32(&single),
            Elements::Fp16(&half),
            Elements::Int32(&whole),
        ] {
            let mut read = vec![f16::ZERO; 6];
            View::new(elements, &[2, 3], &[4, 1])
                .unwrap()
                .copy_to(&mut read);
            assert_eq!(read, wanted);
            let mut read = vec![f16::ZERO; 6];
            View::new(elements, &[3, 2], &[1, 4])
                .unwrap()
                .copy_to(&mut read);
            assert_eq!(read, halves(&[0.0, 4.0, 1.0, 5.0, 2.0, 6.0]));
            let mut row = [f32::NAN; 2];
            View::new(elements, &[3, 2], &[1, 4])
                .unwrap()
                .read_row(1, &mut row);
            assert_eq!(row, [1.0, 5.0]);
            View::new(elements, &[2, 3], &[4, 1])
                .unwrap()
                .read_row(1, &mut row);
            assert_eq!(row, [4.0, 5.0]);
        }
    }

    #[test]
    fn what_lies_between_written_rows_is_left_alone() {
        let values = halves(&[1.0, 2.0, 3.0, 4.0]);
        let mut single = [9.0f32; 5];
        ViewMut::new(ElementsMut::Fp32(&mut single), &[2, 2], &[3, 1])
            .unwrap()
            .copy_from(&values);
        assert_eq!(single, [1.0, 2.0, 9.0, 3.0, 4.0]);
        let mut half = halves(&[9.0; 7]);
        ViewMut::new(ElementsMut::Fp16(&mut half), &[2, 2], &[1, 4])
            .unwrap()
            .copy_from(&values);
        assert_eq!(half, halves(&[1.0, 3.0, 9.0, 9.0, 2.0, 4.0, 9.0]));
    }

    #[test]
    fn views_that_do_not_lie_in_the_buffer_are_errors() {
        let single = [0.0f32; 6];
        for (shape, strides) in [
            (&[2, 3][..], &[4, 1][..]),
            (&[7], &[1]),
            (&[2, 3], &[3]),
            (&[], &[]),
            (&[0], &[1]),
            (&[usize::MAX], &[usize::MAX]),
        ] {
            let error = View::new(Elements::Fp32(&single), shape, strides).unwrap_err();
            assert!(error.to_string().contains("6 elements"), "{error}");
        }
        let mut single = single;
        assert!(ViewMut::new(ElementsMut::Fp32(&mut single), &[2, 3], &[0, 1]).is_err());
    }
}
