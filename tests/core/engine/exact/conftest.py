"""Tests of this folder need arithmetic that does not depend on the width of a pass: MLX's stock BLAS.

`test_lossless.py` beside this folder runs them in a process of their own with MIRROR_SD_BLAS=stock.
"""

import os

if os.environ.get("MIRROR_SD_BLAS") != "stock":
    collect_ignore_glob = ["test_*.py"]
