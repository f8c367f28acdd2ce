"""Measures how many tokens of drafts are accepted: `bench_acceptance.py DRAFT... [--json FILE]`.

Greedy, on a hundred held-out prompts, by the engine and by the public dflash package, cut to the same width.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from peers.launch import dflash_peer, exported_target

from core.bench.acceptance import acceptance_rows, branch_row, held_out_prompts, our_walks, peer_walks
from core.bench.rows import Row, markdown_table, report, write_json
from core.engine.loader import load_pair_now
from core.engine.prompt import render_prompt
from core.pairs import pair_from_paths
from core.protocol import ChatMessage


def main() -> None:
    """Parse, measure, show, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("drafts", nargs="+", metavar="DRAFT", help="draft folders for the demo target")
    parser.add_argument("--width", type=int, default=8, metavar="N", help="rows of a verification")
    parser.add_argument("--prompts", type=int, default=100, metavar="N", help="how many of the held-out prompts")
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--skip-dflash", action="store_true", help="do not measure the public dflash package")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for draft in arguments.drafts:
        rows += _measured(draft, arguments)
        print(markdown_table(rows), flush=True)
    if arguments.json:
        write_json(report(rows, {}), arguments.json)


def _measured(draft: str, arguments: argparse.Namespace) -> list[Row]:
    """All rows of one draft."""
    loaded = load_pair_now(pair_from_paths(None, draft))
    chosen = held_out_prompts()[: arguments.prompts]
    prompts = [render_prompt(loaded.tokenizer, [ChatMessage("user", prompt)]).ids for prompt in chosen]
    walks = our_walks(loaded, prompts, arguments.width, arguments.max_tokens)
    name = Path(draft).name
    rows = [*acceptance_rows(name, walks, arguments.width), branch_row(name, loaded, walks)]
    if not arguments.skip_dflash:
        with dflash_peer(exported_target(loaded), draft) as peer:
            rows += acceptance_rows(f"{name}, dflash", peer_walks(peer, walks, arguments.width), arguments.width)
    return rows


if __name__ == "__main__":
    main()
