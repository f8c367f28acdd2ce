"""Answers to requests about kernels: `ane` works on a thread of its own, its progress becomes events."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

import ane
from core.engine.beside import beside
from core.errors import BadRequest, CorruptKernels, KernelsNotWritten, UnreadableModel
from core.kernel_messages import (
    BuildKernels,
    CleanKernels,
    CompileKernels,
    KernelEntry,
    KernelList,
    KernelOptions,
    KernelPackage,
    KernelProgress,
    KernelReport,
    KernelRequest,
    KernelsBuilt,
    KernelsCleaned,
    KernelsCompiled,
    KernelsPlaced,
    ListKernels,
    PlaceKernels,
    ProgramPlacement,
)
from core.kernels_folder import kernels_dir
from core.protocol import Event

log = logging.getLogger("mirror_sd.kernels")

IsCancelled = Callable[[], bool]
Tell = Callable[..., None]
"""Gets the fields of a `KernelProgress`; raises `Cancelled`."""


def answer(request: KernelRequest, cancelled: IsCancelled) -> Iterator[Event]:
    """The events that answer the request. Raises `MirrorError` types; `Cancelled` leaves nothing half made."""
    match request:
        case BuildKernels():
            yield from _working(lambda tell: _build(request, tell), cancelled)
        case CompileKernels():
            yield from _working(lambda tell: _compile(request, tell), cancelled)
        case PlaceKernels():
            yield from _working(lambda tell: _place(request, tell), cancelled)
        case ListKernels():
            with _errors_of_ane():
                entries = tuple(map(_entry, ane.list_kernels(kernels_dir())))
            yield KernelList(str(kernels_dir()), entries)
        case CleanKernels():
            with _errors_of_ane():
                cleaned = _clean(request)
            yield cleaned


def keep_below(limit_bytes: int, draft: str | None) -> None:
    """Remove the kernels used longest ago until the rest fits; those made of the folder `draft` stay. 0: no limit.

    What cannot be removed is logged: it is no reason not to answer.
    """
    if not limit_bytes:
        return
    try:
        entries = [_entry(kernels) for kernels in ane.list_kernels(kernels_dir())]
        entries.sort(key=lambda entry: (entry.draft == draft, entry.last_used_s), reverse=True)
        sizes = itertools.accumulate(entry.bytes for entry in entries)
        over = [
            entry.key
            for entry, size in zip(entries, sizes, strict=True)
            if size > limit_bytes and (draft is None or entry.draft != draft)
        ]
        if over:
            freed = ane.remove_kernels(kernels_dir(), over)
            log.info("Removed %d prepared kernels, %d bytes: the settings allow %d.", len(over), freed, limit_bytes)
    except ane.AneError as error:
        log.warning("Prepared kernels could not be removed: %s", error)


def _working(work: Callable[[Tell], Event], cancelled: IsCancelled) -> Iterator[Event]:
    """The progress of `work`, then its result."""

    def told(tell: Callable[[KernelProgress], None]) -> Event:
        return work(lambda *fields: tell(KernelProgress(*fields)))

    with _errors_of_ane():
        last = yield from beside(told, cancelled)
    yield last


@contextlib.contextmanager
def _errors_of_ane() -> Iterator[None]:
    try:
        yield
    except ane.InvalidDraft as error:
        raise UnreadableModel(str(error), "Download the draft again, or choose another.") from error
    except ane.WriteFailed as error:
        raise KernelsNotWritten(str(error), "Make room on the disk, or choose another folder.") from error
    except ane.CorruptKernels as error:
        raise CorruptKernels(str(error), "Prepare them again: damaged kernels are made anew.") from error
    except ane.AneError as error:
        raise BadRequest(str(error)) from error


def _build(request: BuildKernels, tell: Tell) -> Event:
    began_s = time.perf_counter()

    def progress(program: str, done: int, total: int) -> None:
        tell("build" if program else "done", program, done, total, time.perf_counter() - began_s)

    report = ane.build_packages(request.draft, request.out, progress=progress, **_fields(request.options))
    packages = tuple(KernelPackage(p.program, str(p.path), p.bytes) for p in report.packages)
    return KernelsBuilt(packages, _report(report))


def _compile(request: CompileKernels | PlaceKernels, tell: Tell) -> KernelsCompiled:
    began_s = time.perf_counter()
    kernels = _prepared(request, tell)
    return KernelsCompiled(
        entry=_entry(kernels),
        hit=kernels.hit,
        replaced=kernels.replaced or "",
        stage_s=kernels.seconds,
        elapsed_s=time.perf_counter() - began_s,
        report=_report(kernels),
    )


def _place(request: PlaceKernels, tell: Tell) -> Event:
    kernels = _prepared(request, tell)
    placements = tuple(
        ProgramPlacement(p.program, p.operations, p.neural_engine, p.gpu, p.cpu) for p in ane.place_kernels(kernels)
    )
    return KernelsPlaced(kernels.key, kernels.runtime, placements)


def _prepared(request: CompileKernels | PlaceKernels, tell: Tell) -> ane.Kernels:
    return ane.compile_kernels(request.draft, kernels_dir(), progress=tell, **_fields(request.options))


def _clean(request: CleanKernels) -> KernelsCleaned:
    keys = None if request.keys is None else list(request.keys)
    removed = len(ane.list_kernels(kernels_dir()) if keys is None else set(keys))
    return KernelsCleaned(removed, ane.remove_kernels(kernels_dir(), keys))


def _fields(options: KernelOptions) -> dict[str, Any]:
    return msgspec.structs.asdict(options)


def _report(report: ane.BuildReport | ane.Kernels) -> KernelReport:
    return KernelReport(report.relative_errors, tuple(report.kept_fp16), report.factors)


def _entry(kernels: ane.Kernels | ane.DamagedKernels) -> KernelEntry:
    if isinstance(kernels, ane.DamagedKernels):
        return KernelEntry(kernels.key, str(kernels.path), kernels.bytes, problem=kernels.problem)
    return KernelEntry(
        key=kernels.key,
        path=str(kernels.path),
        bytes=kernels.bytes,
        draft=str(kernels.draft),
        options=KernelOptions(kernels.precision, kernels.width, kernels.context),
        runtime=kernels.runtime,
        programs=tuple(kernels.programs),
        created_s=kernels.created_s,
        last_used_s=kernels.last_used_s,
    )
