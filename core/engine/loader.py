"""Loads a pair: target, tokenizer and draft, then measures what a plain pass costs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import mlx.core as mx
from mlx_lm.utils import load_model

import ane
from core.engine.beside import beside
from core.engine.calibrate import costs_of
from core.engine.controller import Controller
from core.engine.decode import Limits, decode
from core.engine.device import on_cpu
from core.engine.drafter import Drafter
from core.engine.drafter_mlx import MlxDrafter, load_drafter
from core.engine.gguf import load_gguf
from core.engine.loading import Loading, Part, earlier_times, keep_times
from core.engine.numerics import compare
from core.engine.programs import Programs, load_programs
from core.engine.sampling import Sampler
from core.engine.session import Session
from core.engine.sources import PlainSource, SerialSource, Source
from core.engine.stats import PlainCost
from core.engine.target import Target
from core.engine.tokenizer import Tokenizer
from core.errors import Cancelled, DraftStopped, MissingFile, UnreadableModel, UnsupportedModel
from core.kernel_messages import KernelProgress
from core.pairs import Pair
from core.protocol import GenerateOptions, Mode, Progress
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
    programs_on: str = ""
    """What runs them, in words."""
    missing: dict[Mode, str] = field(default_factory=dict)
    """Why modes that the pair might have cannot be used."""
    controller: Controller | None = None
    """Chooses for mode `auto`; None without a draft."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which this pair can decode."""
        with_draft: tuple[Mode, ...] = ("gpu",) if self.drafter else ()
        with_programs: tuple[Mode, ...] = ("ane", "mirror") if self.programs else ()
        return ("plain", *with_draft, *with_programs, "auto")

    def close(self) -> None:
        """End what works beside the thread that owns MLX."""
        if self.programs is not None:
            self.programs.close()

    @property
    def block_size(self) -> int:
        """Rows of the draft's block; 0 without a draft."""
        return self.drafter.block_size if self.drafter else 0


def load_pair(
    pair: Pair, cancelled: Callable[[], bool], settings: Settings | None = None
) -> Generator[Progress, None, LoadedPair]:
    """Load a pair and warm it up; yields progress and returns the pair. `settings` may limit context and threads.

    Raises `MissingFile`, `UnreadableModel`, `UnsupportedModel`, `PairMismatch`, `UnsupportedCache`, and `Cancelled`
    between stages.
    """
    parts: tuple[Part, ...] = ("target", "draft", "programs", "plain", "costs") if pair.draft else ("target", "plain")
    key = f"{pair.target}\n{pair.draft}"
    loading = Loading(parts, earlier_times(key))
    target, tokenizer = yield from _part(loading, "target", cancelled, lambda: load_target(Path(pair.target)))
    settings = settings or Settings()
    if settings.context_limit:
        target.context_length = min(target.context_length, settings.context_limit)
    drafter, programs = None, None
    missing: dict[Mode, str] = {}
    if pair.draft is not None:
        folder, dtype = Path(pair.draft), mx.float32 if on_cpu() else None
        drafter = yield from _part(loading, "draft", cancelled, lambda: load_drafter(folder, target, dtype))
        try:
            programs = yield from _checked_programs(loading, folder, target, drafter, cancelled)
            programs.threads = settings.draft_threads
        except ane.AneError as error:
            missing = dict.fromkeys(("ane", "mirror"), str(error))
    session, programs_on = Session(target, drafter), programs.device() if programs else ""
    loaded = LoadedPair(pair, target, tokenizer, drafter, session, PlainCost(), programs, programs_on, missing)
    yield from _part(loading, "plain", cancelled, lambda: _warm_up(loaded))
    if drafter is not None:
        yield from _part(loading, "costs", cancelled, lambda: _calibrate(loaded))
    loading.end_part()
    keep_times(key, loading.taken_s)
    return loaded


def load_pair_now(pair: Pair) -> LoadedPair:
    """`load_pair` for callers that neither show progress nor stop."""
    loading = load_pair(pair, lambda: False)
    while True:
        try:
            next(loading)
        except StopIteration as ended:
            loaded: LoadedPair = ended.value
            return loaded


def _checked_programs(
    loading: Loading, folder: Path, target: Target, drafter: MlxDrafter, cancelled: Callable[[], bool]
) -> Generator[Progress, None, Programs]:
    """Raises `ane.AneError` where programs cannot be made, or compute something else than the draft in MLX."""
    _go_on(cancelled)
    yield loading.begin("programs")

    def work(tell: Callable[[Progress], None]) -> Programs:
        return load_programs(folder, target, lambda *fields: tell(loading.within(KernelProgress(*fields))))

    programs = yield from beside(work, cancelled)
    try:
        numerics = compare(programs.drafter, drafter, target)
        if not numerics.sound:
            errors = ", ".join(f"{error:.2g}" for error in numerics.layer_errors)
            raise ane.AneError(f"The draft's programs compute something else than the draft: errors by layer {errors}.")
    except ane.AneError:
        programs.close()
        raise
    return programs


def _part(
    loading: Loading, part: Part, cancelled: Callable[[], bool], work: Callable[[], _T]
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


def _warm_up(loaded: LoadedPair) -> None:
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
        steps = list(decode(session, prompt[-1], source, sampler, limits))
    for step in steps[2:]:
        loaded.plain_cost.add(step.verify_ms)


def _calibrate(loaded: LoadedPair) -> None:
    """Know what steps cost. Programs that fail at it are given up."""
    if loaded.drafter is None:
        return
    drafters: dict[Mode, Drafter] = {"gpu": loaded.drafter}
    if loaded.programs is not None:
        try:
            both: dict[Mode, Drafter] = {**drafters, "ane": loaded.programs.drafter}
            loaded.controller = Controller(costs_of(loaded.pair, loaded.target, both, loaded.programs))
            return
        except (ane.AneError, DraftStopped) as error:
            loaded.programs.close()
            loaded.programs, loaded.programs_on = None, ""
            loaded.missing = dict.fromkeys(("ane", "mirror"), str(error))
    loaded.controller = Controller(costs_of(loaded.pair, loaded.target, drafters, None))
