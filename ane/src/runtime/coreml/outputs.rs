//! Results that Core ML has put into memory of its own.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;

use block2::StackBlock;
use half::f16;
use objc2_core_ml::{MLMultiArray, MLMultiArrayDataType};

use super::objects::numbers;
use crate::buffer::{Elements, View};
use crate::runtime::RuntimeError;
use crate::runtime::tensor::Tensor;

/// Copy all elements of `array` into `tensor`, whatever its strides.
///
/// # Errors
/// [`RuntimeError::Failed`] where it has another shape, or elements that are no floating-point numbers.
pub(super) fn copy_array(
    what: &str,
    array: &MLMultiArray,
    tensor: &mut Tensor,
) -> Result<(), RuntimeError> {
    let failed = |said: String| RuntimeError::Failed {
        what: what.into(),
        said,
    };
    // SAFETY: these only read the array.
    let (shape, strides, data_type) = unsafe {
        (
            numbers(&array.shape()),
            numbers(&array.strides()),
            array.dataType(),
        )
    };
    if shape != tensor.shape() {
        let wanted = tensor.shape();
        return Err(failed(format!("an output is {shape:?}, not {wanted:?}")));
    }
    let dense = RefCell::new(Ok(vec![]));
    let read = StackBlock::new(|bytes: NonNull<c_void>, size: isize| {
        // SAFETY: Core ML lends so many bytes, aligned for their type, for as long as the block runs.
        let elements = unsafe { elements(bytes, size.unsigned_abs(), data_type) };
        *dense.borrow_mut() = elements
            .ok_or_else(|| format!("an output has elements of type {}", data_type.0))
            .and_then(|elements| dense_copy(elements, &shape, &strides));
    });
    // SAFETY: the block takes what it is declared to take, and is called before this returns.
    unsafe { array.getBytesWithHandler(&read) };
    tensor
        .view_mut()
        .copy_from(&dense.into_inner().map_err(failed)?);
    Ok(())
}

/// # Safety
/// There are so many bytes, aligned for the type, and nobody writes to them as long as the elements live.
unsafe fn elements<'a>(
    bytes: NonNull<c_void>,
    size: usize,
    data_type: MLMultiArrayDataType,
) -> Option<Elements<'a>> {
    let start = bytes.as_ptr();
    // SAFETY: see above.
    unsafe {
        match data_type {
            MLMultiArrayDataType::Float16 => Some(Elements::Fp16(slice::from_raw_parts(
                start.cast(),
                size / size_of::<f16>(),
            ))),
            MLMultiArrayDataType::Float32 => Some(Elements::Fp32(slice::from_raw_parts(
                start.cast(),
                size / size_of::<f32>(),
            ))),
            _ => None,
        }
    }
}

fn dense_copy(
    elements: Elements<'_>,
    shape: &[usize],
    strides: &[usize],
) -> Result<Vec<f16>, String> {
    let view = View::new(elements, shape, strides).map_err(|error| error.to_string())?;
    let mut dense = vec![f16::ZERO; shape.iter().product()];
    view.copy_to(&mut dense);
    Ok(dense)
}
