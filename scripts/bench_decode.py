"""Measures decoding against mlx-lm and the public dflash package: `bench_decode.py [--json FILE]`.

The peers run in processes of their own; dflash in an environment below the cache folder, which is made when missing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from core.bench.decode import OurMode, decode_rows, first_token_rows, measure_in_turns, peer_measure
from core.bench.peers import Peer
from core.bench.prompts import PROMPTS
from core.bench.rows import markdown_table, report, write_json
from core.engine import BLAS, blas_load
from core.engine.blas import CORE_TYPE
from core.engine.export import save_target
from core.engine.loader import LoadedPair, load_pair_now
from core.engine.prompt import render_prompt
from core.pairs import pair_from_paths
from core.paths import cache_dir
from core.protocol import ChatMessage

PEERS = Path(__file__).parent / "peers"
FIRST_TOKEN_LENGTHS = (64, 512, 2048)


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", metavar="PATH")
    parser.add_argument("--draft", metavar="DIR")
    parser.add_argument("--prompts", type=int, default=10, metavar="N", help="how many of the fixed prompts")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--skip-dflash", action="store_true", help="do not measure the public dflash package")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    loaded = load_pair_now(pair_from_paths(arguments.target, arguments.draft))
    chosen = PROMPTS[:: max(1, len(PROMPTS) // arguments.prompts)][: arguments.prompts]
    prompts = [render_prompt(loaded.tokenizer, [ChatMessage("user", prompt)]).ids for prompt in chosen]
    model = _exported(loaded)
    with ExitStack() as stack:
        mlx_lm = stack.enter_context(
            Peer("mlx-lm", [sys.executable, str(PEERS / "mlx_lm_peer.py"), str(model), *_blas()], _kernels())
        )
        plain, gpu = OurMode(loaded, "plain"), OurMode(loaded, "gpu")
        systems = {"mirror-sd plain": plain, "mlx-lm stream_generate": peer_measure(mlx_lm), "mirror-sd gpu": gpu}
        versions = dict(mlx_lm.versions)
        if not arguments.skip_dflash:
            dflash = stack.enter_context(Peer("dflash", _dflash_command(model, loaded.pair.draft or ""), _kernels()))
            systems["dflash"] = peer_measure(dflash)
            versions |= dflash.versions
        results = measure_in_turns(systems, prompts, arguments.runs, arguments.max_tokens)
        rows = decode_rows(plain, gpu, results)
        text = loaded.tokenizer.encode(" ".join(PROMPTS), parse_special=False)
        rows += first_token_rows(
            OurMode(loaded, "gpu"), peer_measure(mlx_lm), text, FIRST_TOKEN_LENGTHS, arguments.runs
        )
    result = report(rows, {**versions, "blas": BLAS.description})
    same = sum(len(set(texts)) == 1 for texts in zip(*(runs.texts for runs in results.values()), strict=True))
    print(markdown_table(result.rows))
    print(f"\nSame text in all systems: {same} of {len(prompts)} prompts.")
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


def _exported(loaded: LoadedPair) -> Path:
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


def _dflash_command(model: Path, draft: str) -> list[str]:
    """The command of the dflash peer, in an environment with the same versions of everything else."""
    environment = cache_dir() / "bench" / "dflash-env"
    python = environment / "bin" / "python"
    uv = shutil.which("uv") or str(Path(__file__).parents[1] / ".tools" / "uv" / "bin" / "uv")
    if not python.is_file():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        constraints = str(Path(__file__).parents[1] / "constraints.txt")
        mlx = "mlx[cpu]" if sys.platform == "linux" else "mlx"
        subprocess.run([*install, "--constraint", constraints, mlx, "mlx-lm"], check=True)
        subprocess.run([*install, "--no-deps", "dflash==0.1.0"], check=True)
    return [str(python), str(PEERS / "dflash_peer.py"), str(model), draft, *_blas()]


if __name__ == "__main__":
    main()
