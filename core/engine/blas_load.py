"""Puts matrix libraries in front of the one that MLX was linked with.

With the standard library alone and in a file of its own: children that check a BLAS and the peers of benches, which
do not have our packages, run it by its path.
"""

from __future__ import annotations

import ctypes


def load(openblas: str, kernels: str) -> None:
    """Load the libraries at these paths; an empty one is left out. Has to happen before mlx is imported.

    MLX takes the first `cblas_sgemm` of the process: that of `kernels`, which computes products of few rows and hands
    the others to OpenBLAS, or computes all where there is none.
    """
    own = ctypes.CDLL(kernels, ctypes.RTLD_GLOBAL) if kernels else None
    system = ctypes.CDLL(openblas, ctypes.RTLD_GLOBAL) if openblas else None
    if own and system:
        own.mirror_sd_set_sgemm(ctypes.cast(system.cblas_sgemm, ctypes.c_void_p))
