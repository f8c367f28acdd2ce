//! Objective-C's strings, numbers, paths and errors.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use objc2::exception;
use objc2::rc::Retained;
use objc2_foundation::{NSArray, NSError, NSNumber, NSString, NSURL};

use crate::runtime::RuntimeError;

/// An array of sizes.
pub(in crate::runtime) fn number_array(values: &[usize]) -> Retained<NSArray<NSNumber>> {
    let numbers: Vec<_> = values
        .iter()
        .map(|value| NSNumber::new_usize(*value))
        .collect();
    NSArray::from_retained_slice(&numbers)
}

/// What [`number_array`] makes an array of.
pub(in crate::runtime) fn numbers(array: &NSArray<NSNumber>) -> Vec<usize> {
    array.iter().map(|number| number.as_usize()).collect()
}

/// Run what may throw. `what` begins the sentence of the error: `Loading layer0`.
pub(in crate::runtime) fn catch<T>(
    what: &str,
    throwing: impl FnOnce() -> T,
) -> Result<T, RuntimeError> {
    // Unwind safe: after an exception the object that was to be made does not exist, and tensors hold numbers whatever happens.
    exception::catch(AssertUnwindSafe(throwing)).map_err(|thrown| RuntimeError::Failed {
        what: what.into(),
        said: match thrown {
            Some(exception) => format!("{exception:?}"),
            None => "an exception without a word".into(),
        },
    })
}

/// What the system said, with the numbers that one can search for.
pub(super) fn failed(what: &str, error: Option<&NSError>) -> RuntimeError {
    let said = match error {
        Some(error) => format!(
            "{} ({} {})",
            error.localizedDescription(),
            error.domain(),
            error.code()
        ),
        None => "the system gives no reason".into(),
    };
    RuntimeError::Failed {
        what: what.into(),
        said,
    }
}

/// What a callback got: an object, or why there is none.
///
/// # Safety
/// Both are valid or null.
pub(super) unsafe fn answered<T: objc2::Message>(
    what: &str,
    object: *mut T,
    error: *mut NSError,
) -> Result<Retained<T>, RuntimeError> {
    // SAFETY: see above.
    unsafe {
        Retained::retain(object).ok_or_else(|| failed(what, Retained::retain(error).as_deref()))
    }
}

/// A file's address.
pub(super) fn url(what: &str, path: &Path) -> Result<Retained<NSURL>, RuntimeError> {
    let text = path.to_str().ok_or_else(|| RuntimeError::Failed {
        what: what.into(),
        said: format!("{} is no Unicode", path.display()),
    })?;
    Ok(NSURL::fileURLWithPath(&NSString::from_str(text)))
}

/// Where a file's address points.
pub(super) fn path(url: &NSURL) -> Option<PathBuf> {
    url.path().map(|path| path.to_string().into())
}
