"""What a program holds, for tests that nothing grows."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter
from dataclasses import dataclass

import psutil
import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QApplication


@dataclass(frozen=True)
class Held:
    """A count of everything that could be left over."""

    objects: Counter[str]
    """Qt's and Python's, by type."""
    tasks: int
    threads: int
    processes: int
    files: int
    rss_bytes: int

    def more_than(self, before: Held) -> dict[str, int]:
        """What there is more of, apart from memory."""
        counts = {
            name: getattr(self, name) - getattr(before, name) for name in ("tasks", "threads", "processes", "files")
        }
        return {name: more for name, more in ((self.objects - before.objects) | Counter(counts)).items() if more > 0}


def held(loop: asyncio.AbstractEventLoop) -> Held:
    """What is held now, with nothing that only waits to be deleted."""
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    gc.collect()
    process = psutil.Process()
    return Held(
        Counter(dict(_qt_objects() + _python_objects())),
        len(asyncio.all_tasks(loop)),
        threading.active_count(),
        len(process.children(recursive=True)),
        len(os.listdir(f"/proc/{process.pid}/fd")) if os.path.isdir("/proc") else process.num_fds(),
        process.memory_info().rss,
    )


def _qt_objects() -> Counter[str]:
    """Of C++ too: every object below a widget without a parent, or below the application."""
    roots: list[QObject] = [QCoreApplication.instance(), *QApplication.topLevelWidgets()]  # type: ignore[list-item]
    seen: dict[int, str] = {}
    for root in roots:
        for each in (root, *root.findChildren(QObject)):
            seen[shiboken6.getCppPointer(each)[0]] = each.metaObject().className()
    return Counter(f"Qt {name}" for name in seen.values())


def _python_objects() -> Counter[str]:
    """Of our own types and Qt's: libraries keep caches."""
    kinds = Counter(type(each) for each in gc.get_objects())
    ours = {kind: count for kind, count in kinds.items() if _module_of(kind) in ("app", "core", "PySide6")}
    return Counter({f"{kind.__module__}.{kind.__qualname__}": count for kind, count in ours.items()})


def _module_of(kind: type) -> str:
    module = kind.__module__  # a descriptor in some types
    return module.partition(".")[0] if isinstance(module, str) else ""
