//! Taps: rows of the target's hidden states, which the draft reads in half precision.

use std::error::Error;
use std::fmt;

/// A row whose largest absolute value lies below this is sent as it is. fp16 ends at 65504, but the
/// projection behind the taps sums many of them.
pub const TAP_LIMIT: f32 = 1024.0;

/// The largest absolute value of a row was NaN, infinite or negative, so the row is no row of hidden states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidTap(pub f32);

impl fmt::Display for InvalidTap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the largest absolute value of a row of taps must be finite and not negative, not {}",
            self.0
        )
    }
}

impl Error for InvalidTap {}

/// The power of two by which a row of taps is multiplied before the cast to fp16.
///
/// `largest` is the largest absolute value in the row, over all taps of one position. The result is the largest
/// power of two, 1 at most, with `largest * scale < TAP_LIMIT`: small rows are never scaled up, since fp16 is as
/// precise for them. A power of two changes no mantissa, and the RMS norm behind the projection cancels it when
/// its epsilon is multiplied by the square of the scale.
///
/// # Errors
/// [`InvalidTap`] when `largest` is NaN, infinite or negative.
pub fn tap_scale(largest: f32) -> Result<f32, InvalidTap> {
    if !largest.is_finite() || largest < 0.0 {
        return Err(InvalidTap(largest));
    }
    if largest < TAP_LIMIT {
        return Ok(1.0);
    }
    // largest = m * 2^exponent with 1 <= m < 2 (no subnormal reaches the limit), so m * 2^9 < 1024.
    let exponent = (largest.to_bits() >> 23) as i32 - 127;
    Ok(2f32.powi(9 - exponent))
}

#[cfg(test)]
mod tests {
    use super::{InvalidTap, TAP_LIMIT, tap_scale};

    #[test]
    fn rows_below_the_limit_stay_as_they_are() {
        for largest in [
            0.0,
            -0.0,
            f32::MIN_POSITIVE,
            1.0,
            1023.0,
            1024f32.next_down(),
        ] {
            assert_eq!(tap_scale(largest), Ok(1.0), "{largest}");
        }
    }

    #[test]
    fn known_rows() {
        assert_eq!(tap_scale(1024.0), Ok(0.5));
        assert_eq!(tap_scale(2048f32.next_down()), Ok(0.5));
        assert_eq!(tap_scale(2048.0), Ok(0.25));
        assert_eq!(tap_scale(24_891.0), Ok(1.0 / 32.0)); // measured on the demo pair
        assert_eq!(tap_scale(f32::MAX), Ok(2f32.powi(-118)));
    }

    /// Every exponent at the limit and above, with its first, middle and last mantissa.
    #[test]
    fn scale_is_the_largest_power_of_two_that_fits() {
        for exponent in 10..=127 {
            let first = 2f32.powi(exponent);
            let last = f32::from_bits(first.to_bits() | 0x007f_ffff);
            for largest in [first, first * 1.5, last] {
                let scale = tap_scale(largest).unwrap();
                assert_eq!(
                    scale.to_bits() & 0x007f_ffff,
                    0,
                    "{scale} is no power of two"
                );
                assert!(largest * scale < TAP_LIMIT, "{largest}");
                assert!(largest * (2.0 * scale) >= TAP_LIMIT, "{largest}");
            }
        }
    }

    #[test]
    fn what_is_no_largest_absolute_value_is_an_error() {
        for largest in [f32::INFINITY, f32::NEG_INFINITY, -1.0] {
            assert_eq!(tap_scale(largest), Err(InvalidTap(largest)));
        }
        let error = tap_scale(f32::NAN).unwrap_err();
        assert!(error.to_string().ends_with("not NaN"), "{error}");
    }
}
