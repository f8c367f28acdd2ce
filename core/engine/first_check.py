"""The check at the end of a pair's preparation: a few short answers in every mode against plain decoding."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator

from mlx_lm.generate import wired_limit

from core.bench.prompts import FEW_PROMPTS
from core.check_messages import Check, CheckedPrompt, CheckStarted, Verdict
from core.engine.check import PairCheck
from core.engine.loader import LoadedPair
from core.engine.loading import Loading
from core.errors import Cancelled, MirrorError
from core.protocol import Progress

_PROMPTS = FEW_PROMPTS[:2]
_MAX_TOKENS = 24
_log = logging.getLogger("mirror_sd.loading")


def first_check(
    loaded: LoadedPair, loading: Loading, cancelled: Callable[[], bool]
) -> Generator[Progress, None, Verdict | None]:
    """Check the pair; None where that was stopped or could not be done, which a note tells: the pair stays loaded."""
    done, answers, verdict = 0, 0, None
    yield loading.begin("check")
    try:
        check = PairCheck(loaded, Check(loaded.pair, _PROMPTS, _MAX_TOKENS), cancelled)
        with wired_limit(loaded.target.model):
            for event in check.events():
                if isinstance(event, CheckStarted):
                    answers = event.prompts * len(event.modes)
                elif isinstance(event, CheckedPrompt):
                    done += 1
                    yield loading.checked(done, answers)
                elif isinstance(event, Verdict):
                    verdict = event
    except Cancelled:
        yield loading.note("The check was stopped; the pair can be used.")
    except MirrorError as error:
        _log.warning("the check: %s %s", error.problem.sentence, error.problem.detail)
        yield loading.note(f"The pair could not be checked: {error.problem.sentence}")
    return verdict
