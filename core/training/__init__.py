"""Training of DFlash drafts, on the engine's own target and draft modules.

`run.py` is the whole: conversations that the target writes with itself (`synthesis.py`, kept by `corpus.py`, handed
out by `feed.py`, on the CPU written ahead by a second process, `writer.py`) become blocks of random anchors
(`blocks.py`), whose loss (`objective.py`) trains (`learner.py`) a draft begun from the target's own layers or from
another draft (`start.py`); `checkpoint.py` keeps the state, `acceptance.py` says what the draft is worth.
"""

import core.engine  # takes a fast BLAS, before the first import of mlx  # noqa: F401
