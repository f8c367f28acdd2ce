"""How MLX's CPU back end compiles its fused kernels on Linux: where to, and for which processor.

MLX runs `g++ -O3` from PATH when a fused function is first used, for any processor of its family, and exp stays a
function call of 28 ns a value. With the flags below the same loop runs in vectors: silu of 8 rows of the demo target
takes 35 instead of 430 us a layer, which is 12 ms of a pass, and of 512 rows of a prompt 1 instead of 22 ms. They
change no bit of a result: products and sums are not fused, and only the state of floating point exceptions, which
nobody reads, may differ.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from pathlib import Path

from core.files import replace_file
from core.machine import cpu_info
from core.paths import cache_dir

_FLAGS = "-march=native -ffp-contract=off -fno-trapping-math -finline-limit=2000"
# A compiler that does not know a flag, or an assembler that does not know the processor, gets its usual arguments.
_WRAPPER = """#!/bin/sh
# Written by Mirror SD: MLX compiles its CPU kernels with it.
{compiler} {flags} "$@" 2>/dev/null || exec {compiler} "$@"
"""


def compiler_environment() -> dict[str, str]:
    """Variables for a process with MLX: a folder of its own for kernels (MLX takes no lock), and on Linux our g++.

    The folder's name stands for the processor, so kernels are not taken along when a home folder moves. The variables
    have to be set before the first fused function of a process is compiled.
    """
    folder = cache_dir() / "mlx-cpu"
    compiler = _system_compiler(folder)
    if sys.platform != "linux" or compiler is None:
        folder.mkdir(exist_ok=True)
        return {"TMPDIR": str(folder)}
    wrapper = _WRAPPER.format(compiler=shlex.quote(compiler), flags=_FLAGS)
    identity = "\n".join([cpu_info("model name"), cpu_info("flags") or cpu_info("Features"), wrapper])
    kernels = folder / hashlib.sha256(identity.encode()).hexdigest()[:12]
    program = kernels / "bin" / "g++"
    if not program.is_file():  # the folder's name stands for the text
        program.parent.mkdir(parents=True, exist_ok=True)
        replace_file(program, wrapper.encode(), program=True)
    return {"TMPDIR": str(kernels), "PATH": os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])}


def _system_compiler(folder: Path) -> str | None:
    """The g++ on PATH that is not ours: a child may have our PATH already."""
    others = [entry for entry in os.get_exec_path() if not Path(entry).is_relative_to(folder)]
    return shutil.which("g++", path=os.pathsep.join(others))
