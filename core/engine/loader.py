"""Loads a pair: target, tokenizer and draft, then measures what a plain pass costs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import mlx.core as mx
from mlx_lm.utils import load_model

import ane
from core.check_messages import Verdict
from core.engine.beside import beside
from core.engine.calibrate import costs_of
from core.engine.controller import Controller
from core.engine.decode import Limits, decode
from core.engine.device import on_cpu
from core.engine.draft_weights import load_drafter
from core.engine.drafter import Drafter
from core.engine.drafter_mlx import MlxDrafter
from core.engine.gguf import load_gguf
from core.engine.loading import Loading
from core.engine.numerics import require_sound
from core.engine.prefix_store import limit_bytes
from core.engine.programs import MADE, Programs, load_programs
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.source_lookup import LOOKUP_ROWS
from core.engine.sources import PlainSource, SerialSource, Source
from core.engine.stats import PlainCost
from core.engine.target import Target
from core.engine.tokenizer import Tokenizer
from core.errors import Cancelled, DraftStopped, MissingFile, UnreadableModel, UnsupportedCache, UnsupportedModel
from core.kernel_messages import KernelProgress
from core.pairs import Pair
from core.protocol import GenerateOptions, LoadPart, Mode, Progress
from core.settings import Settings

_T = TypeVar("_T")

_WARM_UP_TOKENS = 12
_DEFAULT_CONTEXT = 4096


@dataclass
class LoadedPair:
    """Everything that answers: one pair and the session that its last conversation left."""

    pair: Pair
    target: Target
    tokenizer: Tokenizer
    drafter: MlxDrafter | None
    session: Session
    plain_cost: PlainCost
    programs: Programs | None = None
    """The draft as programs."""
    missing: dict[Mode, str] = field(default_factory=dict)
    """Why modes that the pair might have cannot be used."""
    controller: Controller | None = None
    """Chooses for mode `auto`; None where that can only be plain."""
    verdict: Verdict | None = None
    """Of the check that was made when it was loaded."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which this pair can decode."""
        without: tuple[Mode, ...] = () if "lookup" in self.missing else ("lookup",)
        with_draft: tuple[Mode, ...] = ("gpu",) if self.drafter else ()
        with_programs: tuple[Mode, ...] = ("ane", "mirror") if self.programs else ()
        return ("plain", *without, *with_draft, *with_programs, "auto")

    def close(self) -> None:
        """End what works beside the thread that owns MLX."""
        if self.programs is not None:
            self.programs.close()

    @property
    def block_size(self) -> int:
        """Rows of the draft's block; 0 without a draft."""
        return self.drafter.block_size if self.drafter else 0

    @property
    def most_rows(self) -> int:
        """Of a pass: the draft's block, or what prompt lookup is given without one."""
        return self.block_size or LOOKUP_ROWS


def load_pair(
    pair: Pair, cancelled: Callable[[], bool], loading: Loading | None = None, settings: Settings | None = None
) -> Generator[Progress, None, LoadedPair]:
    """Load a pair and warm it up; yields progress and returns the pair. `settings` limit context, threads and memory.

    `loading` tells how far it is, where that is a part of something longer. Raises `MissingFile`, `UnreadableModel`,
    `UnsupportedModel`, `PairMismatch`, `UnsupportedCache`, and `Cancelled` between stages and within the long ones.
    """
    loading = loading or Loading(load_parts(pair))
    target, tokenizer = yield from _part(loading, "target", cancelled, lambda: load_target(Path(pair.target)))
    settings = settings or Settings()
    if settings.context_limit:
        target.context_length = min(target.context_length, settings.context_limit)
    drafter = None
    if pair.draft is not None:
        folder, dtype = Path(pair.draft), mx.float32 if on_cpu() else None
        drafter = yield from _part(loading, "draft", cancelled, lambda: load_drafter(folder, target, dtype))
    session = Session(target, drafter, limit_bytes(settings.prefix_cache_mb))
    loaded = LoadedPair(pair, target, tokenizer, drafter, session, PlainCost())
    try:
        if drafter is not None:
            yield from _add_programs(loaded, loading, cancelled, settings.draft_threads)
        yield from _part(loading, "plain", cancelled, lambda: _warm_up(loaded, cancelled))
        yield from _part(loading, "costs", cancelled, lambda: _calibrate(loaded, cancelled))
    except BaseException:
        loaded.close()
        raise
    if drafter is not None and loaded.programs is None:
        yield loading.note(f"The draft runs in MLX alone: {loaded.missing['ane']}")
    return loaded


def load_parts(pair: Pair) -> tuple[LoadPart, ...]:
    """What loading the pair consists of."""
    of_draft: tuple[LoadPart, ...] = ("draft", "programs") if pair.draft else ()
    return ("target", *of_draft, "plain", "costs")


def load_pair_now(pair: Pair) -> LoadedPair:
    """`load_pair` for callers that neither show progress nor stop."""
    loading = load_pair(pair, lambda: False)
    while True:
        try:
            next(loading)
        except StopIteration as ended:
            loaded: LoadedPair = ended.value
            return loaded


def _add_programs(
    loaded: LoadedPair, loading: Loading, cancelled: Callable[[], bool], threads: int
) -> Generator[Progress]:
    """Give the pair its draft's programs; where they cannot be made or are not the draft, say why they are missing."""
    assert loaded.pair.draft is not None
    assert loaded.drafter is not None
    folder, target, selector = Path(loaded.pair.draft), loaded.target, loaded.drafter.draft.selector
    _go_on(cancelled)
    yield loading.begin("programs")

    def work(tell: Callable[[Progress], None]) -> Programs:
        return load_programs(
            folder, target, lambda *fields: tell(loading.within(KernelProgress(*fields))), selector=selector
        )

    try:
        loaded.programs = yield from beside(work, cancelled)
        loaded.programs.threads = threads
        require_sound(loaded.programs.drafter, loaded.drafter, target)
    except ane.AneError as error:
        _give_up_programs(loaded, error)
    else:
        if loaded.programs.origin != MADE:  # which was told when it began
            yield loading.note(loaded.programs.origin)


def _give_up_programs(loaded: LoadedPair, error: Exception) -> None:
    """The draft runs in MLX alone from now on."""
    loaded.close()
    loaded.programs = None
    loaded.missing = dict.fromkeys(("ane", "mirror"), str(error))


def _part(
    loading: Loading, part: LoadPart, cancelled: Callable[[], bool], work: Callable[[], _T]
) -> Generator[Progress, None, _T]:
    _go_on(cancelled)
    yield loading.begin(part)
    return work()


def _go_on(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("Stopped while loading.")


def load_target(path: Path) -> tuple[Target, Tokenizer]:
    """A target from a GGUF file or a Hugging Face folder. Raises as `load_pair` does."""
    if path.is_dir():
        return _load_folder(path)
    if not path.exists():
        raise MissingFile(f"The model {path} does not exist.", "Check the path, or choose another model.")
    # 4-bit kernels on a CPU are slower than float32 products; on a GPU memory traffic decides.
    model, info = load_gguf(path, dequantize=on_cpu())
    return Target(model, info.context_length), Tokenizer.from_gguf(info)


def _load_folder(folder: Path) -> tuple[Target, Tokenizer]:
    if not (folder / "config.json").is_file():
        raise MissingFile(f"The model folder {folder} has no config.json.", "Choose a Hugging Face model folder.")
    tokenizer = Tokenizer.from_folder(folder)
    try:
        model, config = load_model(folder)
    except FileNotFoundError as error:
        raise MissingFile(
            f"The model folder {folder} has no weights.", "Download the model again.", str(error)
        ) from error
    except ValueError as error:  # mlx-lm's error for unknown architectures and for custom code alike
        raise UnsupportedModel(f"The model {folder.name} cannot be run: {error}", "Choose another model.") from error
    except Exception as error:  # a damaged config or weight file fails anywhere inside the model classes
        raise UnreadableModel(
            f"The model {folder.name} is damaged.", "Download the model again.", f"{type(error).__name__}: {error}"
        ) from error
    if on_cpu():
        model.set_dtype(mx.float32)
        mx.eval(model.parameters())
    text_config = config.get("text_config") or config
    return Target(model, int(text_config.get("max_position_embeddings") or _DEFAULT_CONTEXT)), tokenizer


def _warm_up(loaded: LoadedPair, cancelled: Callable[[], bool]) -> None:
    """Run every kernel once (the first run compiles them), then time one-row passes."""
    sampler = Sampler(GenerateOptions(), loaded.target.vocab_size)
    prompt = [min(loaded.tokenizer.eos_ids, default=0)] * 2
    sources: list[Callable[[Session], Source]] = [lambda _: PlainSource()]
    if (drafter := loaded.drafter) is not None:
        sources.insert(0, lambda session: SerialSource(session, drafter, sampler))
    for make_source in sources:
        session = Session(loaded.target, loaded.drafter)
        session.read(prompt)
        source = make_source(session)
        limits = Limits(_WARM_UP_TOKENS, frozenset(), source.block_size)
        steps = []
        for step in decode(session, prompt[-1], source, sampler, limits):
            _go_on(cancelled)
            steps.append(step)
    for step in steps[2:]:
        loaded.plain_cost.add(step.verify_ms)


def _calibrate(loaded: LoadedPair, cancelled: Callable[[], bool]) -> None:
    """Know what steps cost. Programs that fail at it are given up; so is lookup on a target that cannot go back."""
    go_on = partial(_go_on, cancelled)
    if loaded.drafter is None:
        try:
            _try_a_wide_pass(loaded)
            loaded.controller = Controller(costs_of(loaded.pair, loaded.target, {}, None, go_on))
        except UnsupportedCache as error:
            loaded.missing = {**loaded.missing, "lookup": error.problem.sentence}
        return
    drafters: dict[Mode, Drafter] = {"gpu": loaded.drafter}
    if loaded.programs is not None:
        try:
            both: dict[Mode, Drafter] = {**drafters, "ane": loaded.programs.drafter}
            costs = costs_of(loaded.pair, loaded.target, both, loaded.programs, go_on)
            loaded.controller, loaded.programs.budget = Controller(costs), costs.budget
            return
        except (ane.AneError, DraftStopped) as error:
            _give_up_programs(loaded, error)
    loaded.controller = Controller(costs_of(loaded.pair, loaded.target, drafters, None, go_on))


def _try_a_wide_pass(loaded: LoadedPair) -> None:
    """Also compiles its kernels, which the draft's warm-up does where there is a draft.

    Raises `UnsupportedCache` where rows of a pass cannot be forgotten.
    """
    session = Session(loaded.target, None)
    mx.eval(session.forward(mx.zeros(loaded.most_rows, dtype=mx.uint32)).logits)
    session.commit([0], ())
