//! Memory that Python objects lend through the buffer protocol.

use std::ffi::CStr;
use std::ops::Range;
use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use super::LoadedProgram;
use crate::buffer::{Elements, ElementsMut, InvalidView, View, ViewMut};

#[derive(Clone, Copy, PartialEq)]
enum ElementType {
    Fp16,
    Fp32,
    Int32,
}

/// A lent buffer of a type that programs take.
pub struct HostBuffer {
    buffer: PyUntypedBuffer,
    element_type: ElementType,
    /// In elements.
    strides: Vec<usize>,
    /// From the first element to beyond the last.
    length: usize,
}

impl HostBuffer {
    /// Borrow the memory of `object`, also to write where `writable`.
    ///
    /// # Errors
    /// Python's where it lends no memory; as a sentence's end where programs cannot use it.
    pub fn lend(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Result<Self, String>> {
        let buffer = PyUntypedBuffer::get(object)?;
        Ok(Self::checked(buffer, writable))
    }

    fn checked(buffer: PyUntypedBuffer, writable: bool) -> Result<Self, String> {
        let element_type = element_type(buffer.format(), writable)?;
        if writable && buffer.readonly() {
            return Err("is read-only".into());
        }
        let size = buffer.item_size();
        let stride = |bytes: &isize| {
            let bytes = usize::try_from(*bytes).ok()?;
            bytes.is_multiple_of(size).then(|| bytes / size)
        };
        let strides: Option<Vec<_>> = buffer.strides().iter().map(stride).collect();
        let strides = strides.ok_or("has a negative or odd stride")?;
        if !(buffer.buf_ptr() as usize).is_multiple_of(size) || buffer.suboffsets().is_some() {
            return Err("does not lie in memory as programs read it".into());
        }
        let reach =
            |(size, stride): (&usize, &usize)| size.checked_sub(1).map(|last| last * stride);
        let reaches: Option<Vec<_>> = buffer.shape().iter().zip(&strides).map(reach).collect();
        let length = reaches.map_or(0, |reaches| reaches.iter().sum::<usize>() + 1);
        Ok(Self {
            buffer,
            element_type,
            strides,
            length,
        })
    }

    /// How many axes it has.
    #[must_use]
    pub fn axes(&self) -> usize {
        self.strides.len()
    }

    /// The addresses that the buffer reaches over, gaps included.
    fn addresses(&self) -> Range<usize> {
        let start = self.buffer.buf_ptr() as usize;
        start..start + self.length * self.buffer.item_size()
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.addresses(), other.addresses());
        a.start < b.end && b.start < a.end
    }

    /// # Safety
    /// Nobody writes to this memory while the view lives.
    unsafe fn view(&self) -> Result<View<'_>, InvalidView> {
        let (start, length) = (self.buffer.buf_ptr(), self.length);
        // SAFETY: the object lends this memory as long as the buffer lives. It is aligned, and as long as strides reach.
        let elements = unsafe {
            match self.element_type {
                ElementType::Fp16 => Elements::Fp16(slice::from_raw_parts(start.cast(), length)),
                ElementType::Fp32 => Elements::Fp32(slice::from_raw_parts(start.cast(), length)),
                ElementType::Int32 => Elements::Int32(slice::from_raw_parts(start.cast(), length)),
            }
        };
        View::new(elements, self.buffer.shape(), &self.strides)
    }

    /// For one that was lent to be written.
    ///
    /// # Safety
    /// Nobody else reads or writes this memory while the view lives.
    unsafe fn view_mut(&mut self) -> Result<ViewMut<'_>, InvalidView> {
        let (start, length) = (self.buffer.buf_ptr(), self.length);
        // SAFETY: as above.
        let elements = unsafe {
            match self.element_type {
                ElementType::Fp32 => {
                    ElementsMut::Fp32(slice::from_raw_parts_mut(start.cast(), length))
                }
                _ => ElementsMut::Fp16(slice::from_raw_parts_mut(start.cast(), length)),
            }
        };
        ViewMut::new(elements, self.buffer.shape(), &self.strides)
    }
}

/// Run a program on lent buffers, in the order of its ports.
///
/// # Errors
/// As a sentence without its full stop, where outputs share memory with other buffers, or the program refuses the buffers.
pub fn run(
    program: &mut dyn LoadedProgram,
    inputs: &[HostBuffer],
    outputs: &mut [HostBuffer],
) -> Result<(), String> {
    if let Some(index) = first_shared(inputs, outputs) {
        let name = program
            .outputs()
            .get(index)
            .map_or("an output", |port| &port.name);
        return Err(format!("The buffer of {name} shares memory with another"));
    }
    with_views(inputs, outputs, |views, written| {
        program
            .run(views, written)
            .map_err(|error| error.to_string())
    })?
}

/// What `work` makes of views of lent buffers. Python promises, as for every call without its lock, that nobody writes to them
/// meanwhile.
///
/// # Errors
/// As a sentence without its full stop, where outputs share memory with other buffers, or buffers are no tensors.
pub fn with_views<R>(
    inputs: &[HostBuffer],
    outputs: &mut [HostBuffer],
    work: impl FnOnce(&[View<'_>], &mut [ViewMut<'_>]) -> R,
) -> Result<R, String> {
    if first_shared(inputs, outputs).is_some() {
        return Err("The buffer of a result shares memory with another".into());
    }
    // SAFETY: outputs overlap nothing, and see above.
    let views: Result<Vec<_>, _> = inputs
        .iter()
        .map(|buffer| unsafe { buffer.view() })
        .collect();
    let views = views.map_err(|error| format!("There is no tensor in an input: {error}"))?;
    // SAFETY: as above.
    let written: Result<Vec<_>, _> = outputs
        .iter_mut()
        .map(|buffer| unsafe { buffer.view_mut() })
        .collect();
    let mut written =
        written.map_err(|error| format!("There is no tensor in an output: {error}"))?;
    Ok(work(&views, &mut written))
}

/// The first of `outputs` that shares memory with another buffer.
fn first_shared(inputs: &[HostBuffer], outputs: &[HostBuffer]) -> Option<usize> {
    (0..outputs.len()).find(|index| {
        let mut others = inputs.iter().chain(&outputs[..*index]);
        others.any(|other| other.overlaps(&outputs[*index]))
    })
}

/// The flags in a contiguous buffer of booleans, row-major.
///
/// # Errors
/// Python's where the object lends no memory; as a sentence's end where it is something else.
pub fn flags(object: &Bound<'_, PyAny>) -> PyResult<Result<Vec<bool>, String>> {
    let buffer = PyUntypedBuffer::get(object)?;
    if buffer.format().to_bytes() != b"?" || !buffer.is_c_contiguous() {
        return Ok(Err("must be contiguous booleans".into()));
    }
    let (start, length) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
    // SAFETY: the object lends so many bytes while the buffer lives, and Python's lock is held: nobody writes meanwhile.
    let bytes = unsafe { slice::from_raw_parts(start, length) };
    Ok(Ok(bytes.iter().map(|byte| *byte != 0).collect()))
}

/// From a format of Python's `struct` in the machine's byte order.
fn element_type(format: &CStr, writable: bool) -> Result<ElementType, String> {
    match format.to_bytes() {
        b"e" => Ok(ElementType::Fp16),
        b"f" => Ok(ElementType::Fp32),
        b"i" if !writable => Ok(ElementType::Int32),
        other => {
            let types = if writable {
                "float16 or float32"
            } else {
                "float16, float32 or int32"
            };
            Err(format!(
                "has elements of type {:?}, not {types}",
                String::from_utf8_lossy(other)
            ))
        }
    }
}
