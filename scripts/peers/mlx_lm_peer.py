"""mlx-lm's own `stream_generate` as a peer, alone or speculating with a second model.

`mlx_lm_peer.py MODEL_FOLDER [--draft-model FOLDER] [LOADER OPENBLAS KERNELS]`
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import time
from importlib.metadata import version

_parser = argparse.ArgumentParser(description=__doc__)
_parser.add_argument("model")
_parser.add_argument("--draft-model", help="a model with the same tokenizer, which proposes")
_parser.add_argument("--proposals", type=int, default=4, help="of the second model in a step")
_parser.add_argument("load", nargs="*")
ARGUMENTS = _parser.parse_args()
if ARGUMENTS.load:
    runpy.run_path(ARGUMENTS.load[0])["load"](*ARGUMENTS.load[1:])  # the matrix libraries that we use ourselves

import mlx_lm  # noqa: E402


def main() -> None:
    """Answer requests until the end of input."""
    model, tokenizer = mlx_lm.load(ARGUMENTS.model)
    tokenizer.eos_token_ids = set()  # every answer has the length that was asked for
    second = {}
    if ARGUMENTS.draft_model:
        second = {"draft_model": mlx_lm.load(ARGUMENTS.draft_model)[0], "num_draft_tokens": ARGUMENTS.proposals}
    print(json.dumps({"mlx-lm": mlx_lm.__version__, "mlx": version("mlx")}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        began_s = time.perf_counter()
        times_s: list[float] = []
        tokens: list[int] = []
        step_tokens: list[int] = []
        proposed = 0
        for response in mlx_lm.stream_generate(
            model, tokenizer, request["prompt"], max_tokens=request["max_tokens"], **second
        ):
            if len(tokens) < request["max_tokens"]:
                tokens.append(int(response.token))
                times_s.append(time.perf_counter())
                proposed += response.from_draft
                if not response.from_draft:  # the target's own token ends a step
                    step_tokens.append(proposed + 1)
                    proposed = 0
        if proposed:
            step_tokens.append(proposed)
        answer = {
            "tokens": tokens,
            "first_token_s": times_s[0] - began_s,
            "decode_s": times_s[-1] - times_s[0],
            "step_tokens": step_tokens if second else step_tokens[1:],
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
