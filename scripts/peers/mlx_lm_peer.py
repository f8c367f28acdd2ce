"""mlx-lm's own `stream_generate` as a peer: `mlx_lm_peer.py MODEL_FOLDER [LOADER OPENBLAS KERNELS]`."""

from __future__ import annotations

import json
import runpy
import sys
import time

if len(sys.argv) > 2:
    runpy.run_path(sys.argv[2])["load"](*sys.argv[3:])  # the matrix libraries that we use ourselves

import mlx.core as mx
import mlx_lm


def main() -> None:
    """Answer requests until the end of input."""
    model, tokenizer = mlx_lm.load(sys.argv[1])
    tokenizer.eos_token_ids = set()  # every answer has the length that was asked for
    print(json.dumps({"mlx-lm": mlx_lm.__version__, "mlx": mx.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        began_s = time.perf_counter()
        times_s, tokens = [], []
        for response in mlx_lm.stream_generate(model, tokenizer, request["prompt"], max_tokens=request["max_tokens"]):
            if len(tokens) < request["max_tokens"]:
                tokens.append(int(response.token))
                times_s.append(time.perf_counter())
        answer = {
            "tokens": tokens,
            "first_token_s": times_s[0] - began_s,
            "decode_s": times_s[-1] - times_s[0],
            "step_tokens": [1] * (len(tokens) - 1),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
