"""The choice of decoding mode, among those that the loaded pair has."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QComboBox, QWidget

from app.theme import colors
from core.protocol import MODES, Mode

_ARROW_RIGHT_PX = 16


@dataclass(frozen=True)
class Devices:
    """What the modes run on, as far as their names tell."""

    on_gpu: bool = True
    """MLX, and with it the target and the draft in MLX."""
    programs_on: str = ""
    """The draft's programs: `core.protocol.Loaded.programs_on`."""


def mode_label(mode: Mode, devices: Devices) -> str:
    """A mode in words. The MLX draft runs where MLX runs, which is not always a GPU."""
    labels: dict[Mode, str] = {
        "auto": "Auto",
        "plain": "Plain decoding",
        "gpu": "GPU draft" if devices.on_gpu else "CPU draft",
        "ane": "Neural Engine draft" if devices.programs_on == "Neural Engine" else "Compiled draft",
        "mirror": "Mirror",
        "lookup": "Prompt lookup",
    }
    return labels[mode]


class ModeSelector(QComboBox):
    """Offers modes; remembers what the user chose while a pair without that mode is loaded."""

    mode_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Decoding mode")
        self.setToolTip("How the next answer is decoded (Ctrl+Shift+M)")
        self._modes: tuple[Mode, ...] = MODES
        self._chosen: Mode = "auto"
        self._devices = Devices()
        self._fill()
        self.activated.connect(self._on_activated)

    @property
    def mode(self) -> Mode:
        """The mode of the next answer."""
        return self._modes[self.currentIndex()]

    def set_modes(self, modes: tuple[Mode, ...]) -> None:
        """Offer the modes of a loaded pair."""
        self._modes = tuple(mode for mode in MODES if mode in modes)
        self._fill()

    def set_devices(self, devices: Devices) -> None:
        """Say what the modes run on."""
        self._devices = devices
        self._fill()

    def choose(self, mode: Mode) -> None:
        """Choose as if the user had."""
        self.setCurrentIndex(self._modes.index(mode))
        self._on_activated(self.currentIndex())

    def show_mode(self, mode: Mode) -> None:
        """Show what a chat was told earlier; nobody is told."""
        self._chosen = mode
        self._fill()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The style sheet takes the arrow away, so draw one."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colors().muted), 1.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        x, y = self.width() - _ARROW_RIGHT_PX, self.height() / 2 + 2
        painter.drawPolyline([QPointF(x - 4, y - 4), QPointF(x, y), QPointF(x + 4, y - 4)])

    def _fill(self) -> None:
        self.clear()
        self.addItems([mode_label(mode, self._devices) for mode in self._modes])
        self.setCurrentIndex(self._modes.index(self._chosen) if self._chosen in self._modes else 0)

    def _on_activated(self, index: int) -> None:
        self._chosen = self._modes[index]
        self.mode_chosen.emit(self._chosen)
