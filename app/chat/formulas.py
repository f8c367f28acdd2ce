"""Formulas as pictures: LaTeX is set by ziamath in a thread of its own, and kept for the next time.

Only what can be set quickly is tried: the time grows with the length and, steeply, with the depth of nesting.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QByteArray, QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication, QImage, QPainter

_log = logging.getLogger(__name__)

MOST_CHARS = 800
"""Longer sources are shown as they are."""
_LONGEST_S = 0.5
_CHAR_S = 0.7e-3  # measured: what a letter takes, and how a level of braces multiplies that
_NESTED_CHAR_S = 17e-6
_PER_LEVEL = 2.5
_MOST_PX = 4000
_KEPT = 300
_LEVEL = re.compile(r"\\[{}]|(?P<open>\{|\\left\b|\\begin\b)|(?P<close>\}|\\right\b|\\end\b)")
_REFUSED = re.compile(r"\\(?:\w*newcommand|renew\w*|provide\w*|e?def|gdef|let|newenvironment|DeclareMath\w*)\b")


@dataclass(frozen=True)
class FormulaKey:
    """What decides how a formula looks."""

    source: str
    display: bool
    """Set apart on lines of its own: larger operators."""
    text_px: int
    color: str
    """As `#rrggbb`."""


@dataclass(frozen=True)
class Formula:
    """A formula as a picture; sizes in device-independent pixels."""

    image: QImage
    width: float
    ascent: float
    """How far the picture reaches above the base line."""
    descent: float


Outcome = Formula | Literal["pending", "broken"]


class Formulas(QObject):
    """Gives pictures of formulas, at once where known; else they are set, and `ready` tells of them."""

    ready = Signal(object)
    """`FormulaKey`: `get` now gives its picture, or says that it is broken."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: OrderedDict[FormulaKey, Outcome] = OrderedDict()
        self._waiting: deque[FormulaKey] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def get(self, key: FormulaKey) -> Outcome:
        """The picture; `pending` where it is still to be set, `broken` where there will be none."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            if not is_quick(key.source):
                return "broken"
            self._keep(key, "pending")
            self._waiting.append(key)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="formulas")
                self._thread.start()
        return "pending"

    def stop(self) -> None:
        """Set nothing more; waits for the formula under way."""
        with self._lock:
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                key = self._waiting.popleft()
            outcome = _outcome(key)
            with self._lock:
                self._keep(key, outcome)
            self.ready.emit(key)

    def _keep(self, key: FormulaKey, outcome: Outcome) -> None:
        self._known[key] = outcome
        self._known.move_to_end(key)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)


def is_quick(source: str) -> bool:
    """Whether a formula can be set in about a second, by its length and nesting; definitions are not tried at all."""
    if len(source) > MOST_CHARS or not source.strip() or _REFUSED.search(source):
        return False
    level, at, nested_s = 0, 0, 0.0
    for match in _LEVEL.finditer(source):
        nested_s += (match.end() - at) * _NESTED_CHAR_S * _PER_LEVEL**level
        at = match.end()
        if match["open"]:
            level += 1
        elif match["close"]:
            level = max(level - 1, 0)
        if nested_s > _LONGEST_S:
            return False
    return len(source) * _CHAR_S + nested_s <= _LONGEST_S


def set_formula(key: FormulaKey, pixel_ratio: float) -> Formula:
    """Set a formula. Raises whatever ziamath raises for LaTeX that it cannot read, `ValueError` for huge pictures."""
    from PySide6.QtSvg import QSvgRenderer
    from ziamath.config import config  # slow to load
    from ziamath.zmath import Latex

    config.svg2 = False  # QtSvg knows no <symbol>
    text = Latex(key.source.strip(), size=key.text_px * 1.1, color=key.color, inline=not key.display)
    width, height = text.getsize()
    descent = max(-text.getyofst(), 0.0)
    if not (0 < width <= _MOST_PX and 0 < height <= _MOST_PX):
        raise ValueError(f"the picture would be {width:.0f} x {height:.0f} pixels")
    renderer = QSvgRenderer(QByteArray(text.svg().encode()))
    if not renderer.isValid():
        raise ValueError("the picture is no SVG")
    size = renderer.viewBoxF().size()
    image = QImage(
        max(round(size.width() * pixel_ratio), 1),
        max(round(size.height() * pixel_ratio), 1),
        QImage.Format.Format_ARGB32_Premultiplied,
    )
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    return Formula(image, size.width(), size.height() - descent, descent)


def _outcome(key: FormulaKey) -> Outcome:
    try:
        return set_formula(key, QGuiApplication.instance().devicePixelRatio())  # type: ignore[union-attr]
    except Exception as error:  # noqa: BLE001  # the library tells of bad LaTeX with errors of every kind
        _log.debug("The formula %r cannot be set: %r", key.source, error)
        return "broken"


_shared: Formulas | None = None


def formulas() -> Formulas:
    """The one of this process."""
    global _shared
    if _shared is None:
        application = QGuiApplication.instance()
        _shared = Formulas(application)
        if application is not None:
            application.aboutToQuit.connect(_shared.stop)
    return _shared
