"""Starts the peers of benches: mlx-lm in our own environment, dflash in one of its own that is made when missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from core.bench.decode import SPECULATIVE_PEER
from core.bench.peers import Peer
from core.engine import BLAS, blas_load
from core.engine.blas import CORE_TYPE
from core.engine.export import save_target
from core.engine.loader import LoadedPair
from core.paths import cache_dir

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


def mlx_lm_peer(model: Path) -> Peer:
    """mlx-lm on the target in the folder `model`."""
    return Peer("mlx-lm", [sys.executable, str(_HERE / "mlx_lm_peer.py"), str(model), *_blas()], _kernels())


def mlx_lm_speculative_peer(model: Path, second: Path) -> Peer:
    """mlx-lm on the same target, speculating with the model in the folder `second`, which has the same tokenizer."""
    command = [sys.executable, str(_HERE / "mlx_lm_peer.py"), str(model), *_blas(), "--draft-model", str(second)]
    return Peer(SPECULATIVE_PEER, command, _kernels())


def dflash_peer(model: Path, draft: str) -> Peer:
    """The public dflash package on the same target, with the draft in the folder `draft`."""
    python = _dflash_python()
    return Peer("dflash", [str(python), str(_HERE / "dflash_peer.py"), str(model), draft, *_blas()], _kernels())


def exported_target(loaded: LoadedPair) -> Path:
    """The target as a folder that every peer can load."""
    path = Path(loaded.pair.target)
    if path.is_dir():
        return path
    folder = cache_dir() / "bench" / path.stem
    if not (folder / "tokenizer.json").is_file():
        save_target(loaded.target, loaded.tokenizer, folder)
    return folder


def _blas() -> list[str]:
    """Arguments with which a peer multiplies as we do."""
    return [blas_load.__file__, BLAS.path, BLAS.kernels_path] if BLAS.verdict == "checked" else []


def _kernels() -> dict[str, str]:
    """The peers multiply with the kernels that we use."""
    return {CORE_TYPE: BLAS.core_type} if BLAS.core_type else {}


def _dflash_python() -> Path:
    """The Python of an environment with dflash and the same versions of everything else."""
    environment = cache_dir() / "bench" / "dflash-env"
    python = environment / "bin" / "python"
    uv = shutil.which("uv") or str(_ROOT / ".tools" / "uv" / "bin" / "uv")
    if not python.is_file():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        mlx = "mlx[cpu]" if sys.platform == "linux" else "mlx"
        subprocess.run([*install, "--constraint", str(_ROOT / "constraints.txt"), mlx, "mlx-lm"], check=True)
        subprocess.run([*install, "--no-deps", "dflash==0.1.0"], check=True)
    return python
