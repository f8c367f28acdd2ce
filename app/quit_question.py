"""The one question before the window closes on an answer that is being written."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QMainWindow, QMessageBox

from app.language import tr


class QuitQuestion:
    """Asks without stopping the event loop: the first close is refused, and the answer closes the window again."""

    def __init__(self, window: QMainWindow, needed: Callable[[], bool]) -> None:
        """`needed`: whether something would be cut off now."""
        self._window = window
        self._needed = needed
        self.agreed = False
        """Nothing is asked any more."""
        self.box: QMessageBox | None = None

    def may_leave(self) -> bool:
        """Whether the window may close now; otherwise the user is asked."""
        if self.agreed or not self._needed():
            return True
        if self.box is None:
            self.box = self._make_box()
        self._window.show()  # it may be hidden
        self.box.open()
        self.box.activateWindow()
        return False

    def _make_box(self) -> QMessageBox:
        box = QMessageBox(self._window)
        box.setWindowTitle(tr("Quit Mirror SD?"))
        box.setText(tr("An answer is still being written."))
        box.setInformativeText(tr("If you quit now, it ends where it is."))
        leave = box.addButton(tr("Quit"), QMessageBox.ButtonRole.DestructiveRole)
        stay = box.addButton(tr("Go on"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(stay)
        box.setEscapeButton(stay)
        leave.clicked.connect(self._leave)
        return box

    def _leave(self) -> None:
        self.agreed = True
        self._window.close()
