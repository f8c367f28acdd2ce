"""The decode engine: the only room of `core` that imports mlx and ane.

Importing any module of it first takes a fast BLAS, which has to happen before the first import of mlx.
"""

from core.engine.blas import prepare as _prepare

BLAS = _prepare()
