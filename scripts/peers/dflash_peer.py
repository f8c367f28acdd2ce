"""The public `dflash` package as a peer: `dflash_peer.py MODEL_FOLDER DRAFT_FOLDER [LOADER OPENBLAS KERNELS]`.

Runs in an environment of its own, where dflash 0.1.0 is installed without its dependencies: it pins other versions.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from importlib.metadata import version

if len(sys.argv) > 3:
    runpy.run_path(sys.argv[3])["load"](*sys.argv[4:])  # the matrix libraries that we use ourselves

import dflash.model_mlx
import mlx.core as mx
import mlx_lm
from mlx.utils import tree_map

# It only knows how to load from the hub.
dflash.model_mlx.snapshot_download = lambda folder, **_options: folder


def main() -> None:
    """Answer requests until the end of input."""
    model, tokenizer = mlx_lm.load(sys.argv[1])
    tokenizer.eos_token_ids = set()  # every answer has the length that was asked for
    draft = dflash.model_mlx.load_draft(sys.argv[2])
    draft.update(tree_map(lambda weight: weight.astype(mx.float32), draft.parameters()))  # as ours on a CPU
    mx.eval(draft.parameters())
    print(json.dumps({"dflash": version("dflash"), "mlx": version("mlx")}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        began_s = time.perf_counter()
        times_s, steps = [], []
        for response in dflash.model_mlx.stream_generate(
            model,
            draft,
            tokenizer,
            mx.array(request["prompt"]),
            block_size=request["width"],
            max_tokens=request["max_tokens"],
        ):
            if response.tokens:
                steps.append([int(token) for token in response.tokens])
                times_s.append(time.perf_counter())
        answer = {
            "tokens": [token for step in steps for token in step],
            "first_token_s": times_s[0] - began_s,
            "decode_s": times_s[-1] - times_s[0],
            "step_tokens": [len(step) for step in steps[1:]],
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
