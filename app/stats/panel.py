"""The column of live statistics."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.pairs.mode_selector import Devices
from app.stats import words
from app.stats.dial import Dial
from app.stats.figures import Figures, verdict
from app.stats.step_bar import StepBar
from app.theme import PANEL_WIDTH
from app.widgets import ElidedLabel, label, line, set_kind

_SIDE = 18
_SPEED_COLORS = {"faster": "good", "equal": "accent", "slower": "warn"}


class StatsPanel(QFrame):
    """Dials, tokens per step, times, context and memory of the answer under way or just ended."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_kind(self, "panel")
        self.setAccessibleName("Statistics")
        self.setFixedWidth(PANEL_WIDTH)
        self.speed = Dial("speed")
        self.acceptance = Dial("draft accepted")
        self.reference = label("", "muted")
        self.reference.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.per_step = label(words.MISSING, "number")
        self.per_step.setAccessibleName("Tokens per step")
        self.per_step_of = label("", "muted")
        self.step_bar = StepBar()
        self.rows = {
            name: _Row(title)
            for name, title in {
                "draft": "Draft",
                "verify": "Verify",
                "other": "Other work",
                "modes": "Decoded by",
                "first_token": "First token",
                "context": "Context",
                "memory": "Memory",
                "device": "Runs on",
                "blas": "Matrix library",
            }.items()
        }
        self._devices = Devices()
        self._lay_out()
        self.show_figures(Figures())

    def show_figures(self, figures: Figures) -> None:
        """Show these figures."""
        self._show_speed(figures)
        accepted = figures.acceptance
        self.acceptance.show_value(
            accepted,
            words.MISSING if accepted is None else f"{100 * accepted:.0f} %",
            "" if accepted is None else "of verified",
        )
        per_step = figures.tokens_per_step
        self.per_step.setText(words.MISSING if per_step is None else f"{per_step:.1f}")
        self.per_step_of.setText("" if figures.width is None else f"of at most {figures.width}")
        self.step_bar.show_value(per_step, figures.width)
        for name, text in {
            "draft": words.milliseconds(figures.draft_ms),
            "verify": words.milliseconds(figures.verify_ms),
            "other": words.milliseconds(figures.other_ms),
            "first_token": words.seconds(figures.time_to_first_token_s),
            "context": words.count_of(figures.context_used, figures.context_length),
            "memory": words.memory(figures.memory_bytes),
        }.items():
            self.rows[name].show_value(text)
        modes = words.decoded_by(figures.modes, self._devices) or [words.MISSING]
        self.rows["modes"].show_value(modes[0], ", ".join(modes[1:]), figures.mode_reason)

    def set_devices(self, devices: Devices) -> None:
        """What the modes run on."""
        self._devices = devices

    def show_device(self, device: str, blas: str) -> None:
        """What the engine runs on."""
        self.rows["device"].show_value(device)
        self.rows["blas"].show_value(blas)

    def _show_speed(self, figures: Figures) -> None:
        speed, plain = figures.tokens_per_second, figures.plain_tokens_per_second
        color = "accent"
        if speed is not None and plain is not None and figures.tokens_per_step is not None:
            color = _SPEED_COLORS[verdict(speed / plain)]
        self.speed.show_value(
            None if speed is None else speed / figures.dial_top,
            words.speed(speed),
            "tok/s",
            color,
            None if plain is None else plain / figures.dial_top,
        )
        self.reference.setText("" if plain is None else f"mark: plain decoding, measured {words.speed(plain)} tok/s")

    def _lay_out(self) -> None:
        body = QWidget()
        set_kind(body, "panel-body")
        layout = QVBoxLayout(body)
        layout.setContentsMargins(_SIDE, 18, _SIDE, 18)
        layout.setSpacing(10)
        dials = QHBoxLayout()
        dials.addWidget(self.speed)
        dials.addStretch()
        dials.addWidget(self.acceptance)
        layout.addLayout(dials)
        layout.addWidget(self.reference)
        layout.addWidget(line())
        layout.addWidget(label("Tokens per step", "strong"))
        numbers = QHBoxLayout()
        numbers.addWidget(self.per_step)
        numbers.addWidget(self.per_step_of, 1, Qt.AlignmentFlag.AlignBottom)
        layout.addLayout(numbers)
        layout.addWidget(self.step_bar)
        for title, names in _GROUPS:
            layout.addWidget(line())
            layout.addWidget(label(title, "strong"))
            for name in names:
                layout.addWidget(self.rows[name])
        layout.addStretch()
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(scroll)


_GROUPS = (
    ("Time of a step", ("draft", "verify", "other")),
    ("Answer", ("modes", "first_token", "context")),
    ("Engine", ("memory", "device", "blas")),
)


class _Row(QWidget):
    """A title on the left, a value on the right."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._value = ElidedLabel("value")
        self._value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(label(title, "muted"))
        layout.addWidget(self._value, 1)
        self.show_value(words.MISSING)

    @property
    def text(self) -> str:
        """The value as a whole."""
        return self._value.full_text()

    def show_value(self, text: str, *more: str) -> None:
        """`more` shows when the pointer rests on it."""
        self.setToolTip("\n".join((text, *filter(None, more))) if any(more) else "")
        if text != self._value.full_text():
            self._value.set_full_text(text)
            self._value.setAccessibleName(f"{self._title}: {text}")
