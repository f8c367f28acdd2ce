//! Which operating system this is.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::ptr;

use crate::runtime::RuntimeError;

unsafe extern "C" {
    /// Of the C library, which every program on macOS has: `man 3 sysctlbyname`.
    fn sysctlbyname(
        name: *const c_char,
        old: *mut c_void,
        old_bytes: *mut usize,
        new: *mut c_void,
        new_bytes: usize,
    ) -> c_int;
}

/// The build of the operating system, for example `25A354`, which every update changes. (What `NSProcessInfo` tells is for
/// people, in their language.)
///
/// # Errors
/// [`RuntimeError::Failed`].
pub fn os_build() -> Result<String, RuntimeError> {
    let failed = |said: String| RuntimeError::Failed {
        what: "Asking for the build of macOS".into(),
        said,
    };
    let mut text = [0_u8; 64];
    let mut bytes = text.len();
    // SAFETY: the name ends with a zero byte, the system writes at most `bytes` into `text`, and there is nothing to set.
    let status = unsafe {
        sysctlbyname(
            c"kern.osversion".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut bytes,
            ptr::null_mut(),
            0,
        )
    };
    if status != 0 {
        return Err(failed(io::Error::last_os_error().to_string()));
    }
    match CStr::from_bytes_until_nul(&text).map(CStr::to_str) {
        Ok(Ok(build)) if !build.is_empty() => Ok(build.into()),
        _ => Err(failed(format!("it is no text: {text:?}"))),
    }
}
