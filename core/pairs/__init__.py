"""Pairs: a target model and the DFlash draft made for it.

`pair` and `demo` are what the engine and its messages need. `catalog` holds the pairs that are known, `found` the
models on this machine's disk, `facts` what configs and headers tell of a model, `compatibility` whether two models fit
and run, `memory` and `preparation` what that costs, `listing` and `inspection` put it together for terminal and window.
"""

from core.pairs.demo import DEMO_NAME, demo_draft, demo_pair, pair_by_name, pair_from_paths
from core.pairs.pair import Pair

__all__ = ["DEMO_NAME", "Pair", "demo_draft", "demo_pair", "pair_by_name", "pair_from_paths"]
