//! The memory of tensors on macOS: surfaces, which processor and Neural Engine share.
//!
//! Type-checked only; not verified on a Mac.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::slice;

use half::f16;
use objc2::AnyThread;
use objc2::rc::{Retained, autoreleasepool};
use objc2_core_foundation::{CFDictionary, CFRetained, CFString, CFType};
use objc2_core_ml::{MLFeatureValue, MLMultiArray};
use objc2_core_video::{
    CVPixelBuffer, CVPixelBufferCreate, CVPixelBufferGetBaseAddress, CVPixelBufferGetBytesPerRow,
    CVPixelBufferLockBaseAddress, CVPixelBufferLockFlags, CVPixelBufferUnlockBaseAddress,
    kCVPixelBufferIOSurfacePropertiesKey, kCVPixelFormatType_OneComponent16Half, kCVReturnSuccess,
};

use super::RuntimeError;
use super::coreml::objects::{catch, number_array, numbers};
use super::tensor::{rows_and_columns, same_places, strides};

/// A pixel buffer of half precision, one pixel an element, and how Core ML sees it.
///
/// Its memory is locked for the processor, except while it is lent: Core ML takes no locked buffer for an output.
pub(super) struct Surface {
    pixels: CFRetained<CVPixelBuffer>,
    array: Retained<MLMultiArray>,
    feature: Retained<MLFeatureValue>,
    start: NonNull<f16>,
    /// Of all rows, gaps included.
    count: usize,
    row_stride: usize,
    locked: Cell<bool>,
}

// SAFETY: a surface is one thread's at a time (it is not `Sync`), and none of its objects is bound to a thread.
unsafe impl Send for Surface {}

/// What fails where it does.
const SHARING: &str = "Sharing memory with Core ML";
const NO_FLAGS: CVPixelBufferLockFlags = CVPixelBufferLockFlags(0);

impl Surface {
    /// All 0.
    pub(super) fn new(shape: &[usize]) -> Result<Self, RuntimeError> {
        autoreleasepool(|_| Self::allocate(shape))
    }

    fn allocate(shape: &[usize]) -> Result<Self, RuntimeError> {
        let no_memory = || RuntimeError::Memory {
            shape: shape.into(),
        };
        let (rows, columns) = rows_and_columns(shape).ok_or_else(no_memory)?;
        let pixels = pixel_buffer(columns, rows).ok_or_else(no_memory)?;
        // Rows are padded as the device wants it.
        let row_bytes = CVPixelBufferGetBytesPerRow(&pixels);
        let row_stride = row_bytes / size_of::<f16>();
        let count = rows.checked_mul(row_stride).ok_or_else(no_memory)?;
        // SAFETY: the buffer's width is the last size and its height the product of the others, as Core ML asks.
        let (array, feature, seen) = catch(SHARING, || unsafe {
            let empty = MLMultiArray::alloc();
            let array =
                MLMultiArray::initWithPixelBuffer_shape(empty, &pixels, &number_array(shape));
            let feature = MLFeatureValue::featureValueWithMultiArray(&array);
            let seen = numbers(&array.strides());
            (array, feature, seen)
        })?;
        let expected = strides(shape, row_stride);
        if !row_bytes.is_multiple_of(size_of::<f16>()) || !same_places(shape, &seen, &expected) {
            return Err(RuntimeError::Failed {
                what: SHARING.into(),
                said: format!(
                    "a tensor {shape:?} with rows of {row_bytes} bytes has strides {seen:?}"
                ),
            });
        }
        let mut surface = Self {
            pixels,
            array,
            feature,
            start: NonNull::dangling(),
            count,
            row_stride,
            locked: Cell::new(false),
        };
        surface.start = surface.lock().ok_or_else(no_memory)?;
        surface.values_mut().fill(f16::ZERO);
        Ok(surface)
    }

    /// In elements.
    pub(super) fn row_stride(&self) -> usize {
        self.row_stride
    }

    pub(super) fn values(&self) -> &[f16] {
        // SAFETY: the buffer has so many rows of so many bytes there, all written once; the system keeps them mapped at this
        // address as long as the surface lives, and `self` is borrowed as they are. Nobody writes to them: see `lend`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    pub(super) fn values_mut(&mut self) -> &mut [f16] {
        // SAFETY: as above; and nobody else of this program has them, since `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }

    /// How Core ML sees it.
    pub(super) fn array(&self) -> &Retained<MLMultiArray> {
        &self.array
    }

    /// As an input.
    pub(super) fn feature(&self) -> &Retained<MLFeatureValue> {
        &self.feature
    }

    /// Whether Core ML's array has this memory.
    pub(super) fn is_behind(&self, array: &MLMultiArray) -> bool {
        // SAFETY: it only reads the array.
        let pixels = || unsafe { array.pixelBuffer() };
        ptr::eq(array, &*self.array)
            || pixels().is_some_and(|other| ptr::eq(&*other, &*self.pixels))
    }

    /// Leave the memory to Core ML, until [`Self::take_back`]. It writes only to a tensor that its caller has mutably borrowed
    /// for as long.
    pub(super) fn lend(&self) {
        if self.locked.replace(false) {
            // SAFETY: it was locked with the same flags.
            unsafe { CVPixelBufferUnlockBaseAddress(&self.pixels, NO_FLAGS) };
        }
    }

    /// # Errors
    /// [`RuntimeError::Failed`] where the system refuses, or the memory has moved.
    pub(super) fn take_back(&self) -> Result<(), RuntimeError> {
        if self.locked.get() || self.lock() == Some(self.start) {
            return Ok(());
        }
        Err(RuntimeError::Failed {
            what: "Reading memory that Core ML had".into(),
            said: "the system does not give it back".into(),
        })
    }

    /// Forget memory that Core ML may still write to, and take new one. Without that, a use of the tensor panics.
    pub(super) fn abandon(&mut self, shape: &[usize]) {
        match Self::new(shape) {
            // Core ML holds the old one as long as it needs it.
            Ok(new) => *self = new,
            Err(_) => (self.start, self.count) = (NonNull::dangling(), 0),
        }
    }

    /// Where the memory is now.
    fn lock(&self) -> Option<NonNull<f16>> {
        // SAFETY: no pointer is passed but the buffer.
        let code = unsafe { CVPixelBufferLockBaseAddress(&self.pixels, NO_FLAGS) };
        if code != kCVReturnSuccess {
            return None;
        }
        self.locked.set(true);
        NonNull::new(CVPixelBufferGetBaseAddress(&self.pixels).cast())
    }
}

impl Drop for Surface {
    fn drop(&mut self) {
        self.lend();
    }
}

/// One that a surface is behind.
fn pixel_buffer(width: usize, height: usize) -> Option<CFRetained<CVPixelBuffer>> {
    let surface = CFDictionary::<CFString, CFType>::empty();
    let mut created: *mut CVPixelBuffer = ptr::null_mut();
    // SAFETY: the attributes are as the key wants them, and `created` takes one pointer.
    unsafe {
        let attributes = CFDictionary::<CFString, CFType>::from_slices(
            &[kCVPixelBufferIOSurfacePropertiesKey],
            &[surface.as_ref()],
        );
        let code = CVPixelBufferCreate(
            None,
            width,
            height,
            kCVPixelFormatType_OneComponent16Half,
            Some(attributes.as_opaque()),
            NonNull::from(&mut created),
        );
        if code != kCVReturnSuccess {
            return None;
        }
        // The caller owns what a function with `Create` in its name returns.
        NonNull::new(created).map(|created| CFRetained::from_raw(created))
    }
}
