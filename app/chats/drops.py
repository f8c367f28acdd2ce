"""Files dropped anywhere on the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget

from app.chat.composer import files_in


class FileDrops(QObject):
    """Takes drops of files on a window; its fields take drops of text themselves."""

    dropped = Signal(object)
    """`Path`s."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Accept what holds files."""
        if isinstance(event, QDragEnterEvent) and files_in(event.mimeData()):
            event.acceptProposedAction()
            return True
        if isinstance(event, QDropEvent) and event.type() == QEvent.Type.Drop:
            event.acceptProposedAction()
            self.dropped.emit(files_in(event.mimeData()))
            return True
        return super().eventFilter(watched, event)
