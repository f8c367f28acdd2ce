"""Measures decoding in every mode against mlx-lm and the public dflash package: `bench_decode.py [--json FILE]`.

The peers run in processes of their own; dflash in an environment below the cache folder, which is made when missing.
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path

from peers.launch import dflash_peer, exported_target, mlx_lm_peer, mlx_lm_speculative_peer

from core.bench.decode import (
    SPECULATIVE_PEER,
    Measure,
    OurMode,
    decode_rows,
    first_token_rows,
    measure_in_turns,
    peer_measure,
)
from core.bench.prompts import PROMPTS
from core.bench.rows import markdown_table, report, write_json
from core.bench.side_by_side import long_answer_rows
from core.cpu_compiler import compiler_environment
from core.engine import BLAS
from core.engine.loader import load_pair_now
from core.engine.prompt import render_prompt
from core.pairs import pair_from_paths
from core.protocol import ChatMessage

FIRST_TOKEN_LENGTHS = (64, 512, 2048)


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", metavar="PATH")
    parser.add_argument("--draft", metavar="DIR")
    parser.add_argument("--prompts", type=int, default=10, metavar="N", help="how many of the fixed prompts")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument(
        "--long-answers", type=int, default=6, metavar="N", help="how many of each kind, for `auto` against plain"
    )
    parser.add_argument(
        "--width", type=int, metavar="N", help="rows of our verifications; the draft's block if left out"
    )
    parser.add_argument("--skip-dflash", action="store_true", help="do not measure the public dflash package")
    parser.add_argument(
        "--second-model", metavar="DIR", help="also measure mlx-lm speculating with this model; `self` takes the target"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    os.environ.update(compiler_environment())  # as in a worker
    loaded = load_pair_now(pair_from_paths(arguments.target, arguments.draft))
    chosen = PROMPTS[:: max(1, len(PROMPTS) // arguments.prompts)][: arguments.prompts]
    prompts = [render_prompt(loaded.tokenizer, [ChatMessage("user", prompt)]).ids for prompt in chosen]
    model = exported_target(loaded)
    with ExitStack() as stack:
        mlx_lm = stack.enter_context(mlx_lm_peer(model))
        ours = [OurMode(loaded, mode, arguments.width) for mode in loaded.modes]
        systems: dict[str, Measure] = {
            "mlx-lm stream_generate": peer_measure(mlx_lm),
            **{mode.name: mode for mode in ours},
        }
        versions = dict(mlx_lm.versions)
        if arguments.second_model:
            second = model if arguments.second_model == "self" else Path(arguments.second_model)
            systems[SPECULATIVE_PEER] = peer_measure(stack.enter_context(mlx_lm_speculative_peer(model, second)))
        if not arguments.skip_dflash:
            dflash = stack.enter_context(dflash_peer(model, loaded.pair.draft or ""))
            systems["dflash"] = peer_measure(dflash)
            versions |= dflash.versions
        results = measure_in_turns(systems, prompts, arguments.runs, arguments.max_tokens)
        rows = decode_rows(ours, results)
        rows += long_answer_rows(loaded, prompts, arguments.long_answers)
        text = loaded.tokenizer.encode(" ".join(PROMPTS), parse_special=False)
        rows += first_token_rows(
            OurMode(loaded, "gpu"), peer_measure(mlx_lm), text, FIRST_TOKEN_LENGTHS, arguments.runs
        )
    result = report(rows, {**versions, "blas": BLAS.library, "own kernels": BLAS.own_kernels or "none"})
    same = sum(len(set(texts)) == 1 for texts in zip(*(runs.texts for runs in results.values()), strict=True))
    print(markdown_table(result.rows))
    print(f"\nSame text in all systems: {same} of {len(prompts)} prompts.")
    print(" | ".join(f"{name}: {value}" for name, value in {**result.machine, **result.versions}.items()))
    if arguments.json:
        write_json(result, arguments.json)


if __name__ == "__main__":
    main()
