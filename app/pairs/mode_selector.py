"""The choice of decoding mode, among those that the loaded pair has."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QWidget

from app.combo_box import ComboBox
from app.language import tr
from core.protocol import MODES, Loaded, Mode

_LIST_MARGIN_PX = 32
_MOST_SHOWN = 70
_SPARE_PX = 4  # a text may be drawn a little wider than it advances
_SIMPLE_MODES: tuple[Mode, ...] = ("auto", "plain")


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
        "auto": tr("Auto"),
        "plain": tr("Plain decoding"),
        "gpu": tr("GPU draft") if devices.on_gpu else tr("CPU draft"),
        "ane": tr("Neural Engine draft") if devices.programs_on == "Neural Engine" else tr("Compiled draft"),
        "mirror": tr("Mirror"),
        "lookup": tr("Prompt lookup"),
    }
    return labels[mode]


class ModeSelector(ComboBox):
    """Offers modes; remembers what the user chose while a pair without that mode is loaded.

    Modes that the loaded pair cannot use are greyed, with the reason beside their names.
    """

    mode_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Decoding mode"))
        self.setSizeAdjustPolicy(ComboBox.SizeAdjustPolicy.AdjustToContents)  # the hint below follows the texts
        self._loaded: Loaded | None = None
        self._simple = False
        self._modes: tuple[Mode, ...] = MODES  # one an item
        self._chosen: Mode = "auto"
        self._devices = Devices()
        self._fill()
        self.activated.connect(self._on_activated)

    @property
    def mode(self) -> Mode:
        """The mode of the next answer."""
        return self._modes[self.currentIndex()]

    def set_loaded(self, loaded: Loaded) -> None:
        """Offer the modes of a loaded pair."""
        self._loaded = loaded
        self._fill()

    def set_devices(self, devices: Devices) -> None:
        """Say what the modes run on."""
        self._devices = devices
        self._fill()

    def set_simple(self, simple: bool) -> None:
        """Offer nothing but speculation and plain decoding, beside what was chosen before."""
        self._simple = simple
        self._fill()

    def choose(self, mode: Mode) -> None:
        """Choose as if the user had."""
        self.setCurrentIndex(self._modes.index(mode))
        self._on_activated(self.currentIndex())

    def show_mode(self, mode: Mode) -> None:
        """Show what a chat was told earlier; nobody is told."""
        self._chosen = mode
        self._fill()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for the modes' names; the reasons have theirs in the list."""
        hint, metrics = super().sizeHint(), self.fontMetrics()
        texts = max(metrics.horizontalAdvance(self.itemText(index)) for index in range(self.count()))
        names = max(metrics.horizontalAdvance(mode_label(mode, self._devices)) for mode in self._modes)
        return QSize(hint.width() - texts + names + _SPARE_PX, hint.height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """The same."""
        return self.sizeHint()

    def showPopup(self) -> None:  # noqa: N802
        """The list is as wide as the reasons need."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + _LIST_MARGIN_PX)
        super().showPopup()

    def _fill(self) -> None:
        self.clear()
        offered = (*_SIMPLE_MODES, self._chosen) if self._simple else MODES
        self._modes = tuple(mode for mode in MODES if mode in offered)
        reasons = []
        for index, mode in enumerate(self._modes):
            name = mode_label(mode, self._devices)
            reason = why_missing(mode, self._loaded) if self._loaded else ""
            self.addItem(f"{name}: {_shortened(reason)}" if reason else name)
            if reason:
                self._grey(index, reason)
                reasons.append(f"{name}: {reason}")
        self.setCurrentIndex(self._modes.index(self._chosen) if self._can(self._chosen) else self._instead())
        tip = "\n".join((tr("How the next answer is decoded (Ctrl+Shift+M)"), *reasons))
        self.setToolTip(tip)
        self.setAccessibleDescription(tip)
        self.updateGeometry()

    def _can(self, mode: Mode) -> bool:
        return mode in self._modes and not (self._loaded and why_missing(mode, self._loaded))

    def _instead(self) -> int:
        """The first mode that can run."""
        return next((index for index, mode in enumerate(self._modes) if self._can(mode)), 0)

    def _grey(self, index: int, reason: str) -> None:
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        item = model.item(index)
        item.setEnabled(False)
        item.setToolTip(reason)
        item.setData(reason, Qt.ItemDataRole.AccessibleDescriptionRole)

    def _on_activated(self, index: int) -> None:
        self._chosen = self._modes[index]
        if self._simple:
            self._fill()  # what was chosen before is offered no more
        self.mode_chosen.emit(self._chosen)


def why_missing(mode: Mode, loaded: Loaded) -> str:
    """Why the loaded pair cannot decode in this mode, as a sentence; empty where it can."""
    if mode in loaded.modes:
        return ""
    for missing in loaded.missing:
        if missing.mode == mode:
            return missing.reason
    return tr("This pair does not have this mode.") if loaded.block_size else tr("This pair has no draft.")


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _MOST_SHOWN else f"{reason[:_MOST_SHOWN].rstrip()}…"
