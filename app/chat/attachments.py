"""The files attached to the message that is being typed."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.icons import IconButton
from app.language import tr, trn
from app.theme import scaled
from app.widgets import ElidedLabel, set_kind
from core.chats.attach import TextFile


class AttachmentRow(QWidget):
    """A chip for each file, with a button that takes it away."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._files: tuple[TextFile, ...] = ()
        self._chips: list[QFrame] = []
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 2)
        self._layout.setSpacing(6)
        self._layout.addStretch(1)
        self.hide()

    @property
    def files(self) -> tuple[TextFile, ...]:
        """The files, in the order in which they were attached."""
        return self._files

    def set_files(self, files: tuple[TextFile, ...]) -> None:
        """Show these files."""
        if files == self._files:
            return
        self._files = files
        for chip in self._chips:
            chip.hide()
            chip.deleteLater()
        self._chips = [self._chip(place, file) for place, file in enumerate(files)]
        for place, chip in enumerate(self._chips):
            self._layout.insertWidget(place, chip)
        self.setVisible(bool(files))
        self.changed.emit()

    def add(self, file: TextFile) -> None:
        """Attach one more; one of the same name and text is there already."""
        if file not in self._files:
            self.set_files((*self._files, file))

    def _chip(self, place: int, file: TextFile) -> QFrame:
        chip = QFrame()
        set_kind(chip, "attachment")
        name = ElidedLabel("value")
        name.set_full_text(file.name)
        name.setMaximumWidth(scaled(220))
        size = ElidedLabel("muted")
        size.set_full_text(size_in_words(file))
        remove = IconButton("close", tr("Do not attach {file}").format(file=file.name))
        remove.clicked.connect(lambda: self.set_files(self._files[:place] + self._files[place + 1 :]))
        layout = QHBoxLayout(chip)
        layout.setContentsMargins(10, 2, 2, 2)
        layout.setSpacing(6)
        for widget in (name, size, remove):
            layout.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        return chip

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Many files do not widen the window."""
        return QSize(0, super().minimumSizeHint().height())


def size_in_words(file: TextFile) -> str:
    """`1 character`, `12,345 characters`."""
    length = len(file.text)
    return trn("{characters:,} character", "{characters:,} characters", length).format(characters=length)
