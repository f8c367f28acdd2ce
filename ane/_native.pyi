__all__ = ["AneError", "cpu_features", "tap_scale", "version"]

class AneError(ValueError):
    """A value that the crate cannot work with."""

def version() -> str:
    """The crate's version."""

def cpu_features() -> list[str]:
    """The instruction set extensions that CPU kernels may use on this machine, by rustc's names, oldest first.

    Those that matter to matrix kernels and that processor and operating system both offer:
    for example `avx2`, `avx512vnni`, or `neon`, `dotprod`.
    """

def tap_scale(largest: float) -> float:
    """The power of two by which a row of taps is multiplied before the cast to fp16.

    `largest` is the largest absolute value in the row, over all taps of one position, taken as a float32.
    The result is the largest power of two, 1 at most, with `largest * scale < 1024`. Rows are never scaled up.
    The norm behind the taps cancels the scale when its epsilon is multiplied by the square of it.

    Raises `AneError` when `largest` is NaN, infinite (also: too large for a float32) or negative.
    """
