"""A button that copies, and says for a moment that it has."""

from __future__ import annotations

from PySide6.QtCore import QTimer

from app.icons import IconButton
from app.language import tr

_COPIED_MS = 1500


class CopyButton(IconButton):
    """Shows a tick for a moment after it has copied."""

    def __init__(self, icon: str, description: str) -> None:
        super().__init__(icon, description)
        self._usual = icon
        self._copied = QTimer(self)
        self._copied.setSingleShot(True)
        self._copied.setInterval(_COPIED_MS)
        self._copied.timeout.connect(lambda: self._show(self._usual, description))

    @property
    def has_copied(self) -> bool:
        """Whether the tick shows."""
        return self.icon_name == "done"

    def show_copied(self) -> None:
        """Something was copied."""
        self._show("done", tr("Copied"))
        self._copied.start()

    def _show(self, icon: str, description: str) -> None:
        self.show_icon(icon)
        self.setToolTip(description)
        self.setAccessibleName(description)
