"""What the worker does with requests: holds the loaded pair and answers each request with events.

Everything here runs on the thread that owns MLX.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

import mlx.core as mx

import ane
from core import __version__
from core.check_messages import Check
from core.engine import BLAS, kernels
from core.engine.prompt import thinks_by_itself
from core.errors import BadRequest, Cancelled
from core.kernel_messages import KernelRequest
from core.lock import EngineLock
from core.pairs import Pair
from core.pairs.memory import PROGRAMS_CONTEXT
from core.protocol import (
    Benchmark,
    Done,
    Event,
    Generate,
    Hello,
    Load,
    Loaded,
    MissingMode,
    Request,
    Unload,
    Unloaded,
)
from core.settings import Settings

if TYPE_CHECKING:
    from core.engine.loader import LoadedPair

IsCancelled = Callable[[], bool]


class Service:
    """One worker's state: at most one loaded pair, and the engine lock while there is one."""

    def __init__(self, owner: str, read_settings: Callable[[], Settings] = Settings) -> None:
        """`read_settings` is asked at each load."""
        self._read_settings = read_settings
        self._lock = EngineLock(owner)
        self._loaded: LoadedPair | None = None
        self._load_s = 0.0

    def hello(self) -> Hello:
        """What this worker runs on."""
        return Hello(
            version=__version__,
            pid=os.getpid(),
            mlx_version=version("mlx"),
            device=_device_name(),
            blas=BLAS,
            ane_version=ane.version(),
            ane_cpu_features=tuple(ane.cpu_features()),
        )

    def held_bytes(self) -> int:
        """What the loaded pair holds of earlier conversations. Any thread may ask."""
        loaded = self._loaded
        return loaded.session.held_bytes if loaded else 0

    def answer(self, request: Request, cancelled: IsCancelled) -> Generator[Event, None, None]:
        """The events that answer a request, the last one included. Raises `MirrorError` types."""
        if isinstance(request, Load):
            yield from self._load(request.pair, cancelled, request.check)
            yield self._loaded_event()
        elif isinstance(request, Unload):
            self._unload()
            yield Unloaded()
        elif isinstance(request, Generate):
            yield from self._generate(request, cancelled)
        elif isinstance(request, Benchmark):
            yield from self._benchmark(request, cancelled)
        elif isinstance(request, Check):
            yield from self._check(request, cancelled)
        elif isinstance(request, KernelRequest):
            yield from kernels.answer(request, cancelled)
        else:
            raise BadRequest(f"The engine does not answer {type(request).__name__}.")

    def close(self) -> None:
        """Free everything; this thread's MLX streams end with it, or the interpreter would crash at exit."""
        self._unload()
        mx.synchronize()
        mx.clear_streams()

    def _load(self, pair: Pair, cancelled: IsCancelled, check: bool = False) -> Iterator[Event]:
        """Make `pair` the loaded one, and `check` it then; no event where it is already."""
        if self._loaded is not None and self._loaded.pair == pair:
            return
        self._lock.acquire()
        self._unload(keep_lock=True)
        began_s = time.perf_counter()
        # mlx_lm takes seconds to import: only a worker that loads a model pays for it.
        from core.engine.loader import load_pair, load_parts
        from core.engine.loading import Loading

        settings = self._read_settings()
        loading = Loading((*load_parts(pair), *(("check",) if check else ())), f"{pair.target}\n{pair.draft}")
        try:
            self._loaded = yield from load_pair(pair, cancelled, loading, settings)
        finally:
            if self._loaded is None:
                self._unload()
        if check:
            from core.engine.first_check import first_check

            self._loaded.verdict = yield from first_check(self._loaded, loading, cancelled)
        loading.keep()
        self._load_s = time.perf_counter() - began_s
        kernels.keep_below(settings.kernels_limit_gb * 10**9, pair.draft)

    def _loaded_event(self) -> Loaded:
        loaded = self._pair()
        return Loaded(
            pair=loaded.pair,
            modes=loaded.modes,
            missing=tuple(MissingMode(mode, reason) for mode, reason in loaded.missing.items()),
            block_size=loaded.block_size,
            context_length=loaded.target.context_length,
            load_s=self._load_s,
            plain_tokens_per_second=loaded.plain_cost.tokens_per_second,
            programs_on=loaded.programs.device if loaded.programs else "",
            programs_origin=loaded.programs.origin if loaded.programs else "",
            programs_context=PROGRAMS_CONTEXT if loaded.programs else 0,
            verdict=loaded.verdict,
            thinks=thinks_by_itself(loaded.tokenizer),
        )

    def _generate(self, request: Generate, cancelled: IsCancelled) -> Iterator[Event]:
        was_loaded = self._loaded is not None and self._loaded.pair == request.pair
        try:
            yield from self._load(request.pair, cancelled)
        except Cancelled:
            yield Done.nothing(request.options.mode)
            return
        if not was_loaded:
            yield self._loaded_event()
        from mlx_lm.generate import wired_limit

        from core.engine.answer import Answer

        loaded = self._pair()
        with wired_limit(loaded.target.model):
            yield from Answer(loaded, request, cancelled).events()

    def _benchmark(self, request: Benchmark, cancelled: IsCancelled) -> Iterator[Event]:
        yield from self._load(request.pair, cancelled)
        from core.engine.measure import measure_modes

        yield from measure_modes(self._pair(), request, cancelled)

    def _check(self, request: Check, cancelled: IsCancelled) -> Iterator[Event]:
        yield from self._load(request.pair, cancelled)
        from mlx_lm.generate import wired_limit

        from core.engine.check import PairCheck

        loaded = self._pair()
        with wired_limit(loaded.target.model):
            yield from PairCheck(loaded, request, cancelled).events()

    def _pair(self) -> LoadedPair:
        assert self._loaded is not None
        return self._loaded

    def _unload(self, keep_lock: bool = False) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
            gc.collect()  # models hold reference cycles
            mx.clear_cache()
        if not keep_lock:
            self._lock.release()


def _device_name() -> str:
    device = mx.default_device()
    if device == mx.Device(mx.cpu):
        return "cpu"
    return f"{mx.device_info().get('device_name', 'unknown')} (gpu)"
