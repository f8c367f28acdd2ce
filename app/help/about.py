"""What this program is: its version, what runs it, the licences."""

from __future__ import annotations

import platform

import PySide6
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.combo_box import ComboBox
from app.help.licences import licence_texts
from app.language import tr
from app.widgets import label, push_button, set_kind
from core import __version__
from core.protocol import Hello

_SMALLEST, _FIRST_SIZE = QSize(520, 420), QSize(680, 560)


class About(QDialog):
    """Version, what runs, licences."""

    def __init__(self, hello: Hello | None, parent: QWidget | None = None) -> None:
        """`hello` is the engine process's, where one has run."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("About Mirror SD"))
        self.setMinimumSize(_SMALLEST)
        self.facts = "\n".join(_facts(hello))
        self._texts = licence_texts()
        self.which = ComboBox()
        self.which.setAccessibleName(tr("Which licence"))
        self.which.addItems(list(self._texts))
        self.which.currentTextChanged.connect(self._show)
        self.text = QPlainTextEdit()
        set_kind(self.text, "log")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(tr("Text of the licence"))
        self._lay_out()
        self._show(self.which.currentText())
        self.resize(_FIRST_SIZE)

    def _lay_out(self) -> None:
        copy = push_button(tr("Copy"), tr("Copy versions and devices, for a bug report"))
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.facts))
        close = push_button(tr("Close"), tr("Back to the chat"))
        close.clicked.connect(self.close)
        title = QHBoxLayout()
        title.addWidget(label("Mirror SD", "title"), 1)
        title.addWidget(copy)
        title.addWidget(close)
        facts = label(self.facts, "value", wraps=True)
        facts.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        licences = QHBoxLayout()
        licences.addWidget(label(tr("Licences"), "strong"), 1)
        licences.addWidget(self.which)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 20)
        layout.setSpacing(10)
        layout.addLayout(title)
        layout.addWidget(facts)
        layout.addLayout(licences)
        layout.addWidget(self.text, 1)

    def _show(self, title: str) -> None:
        self.text.setPlainText(self._texts[title])


def _facts(hello: Hello | None) -> list[str]:
    lines = [
        tr("Version {version}").format(version=__version__),
        f"Python {platform.python_version()}, Qt {PySide6.__version__}",
        platform.platform(),
    ]
    if hello is None:
        return [*lines, tr("The engine has not run yet.")]
    library = hello.blas.library if hello.blas.name != "Metal" else ""
    return [
        *lines,
        tr("MLX {version}, on {device}").format(version=hello.mlx_version, device=hello.device)
        + (f", {library}" if library else ""),
        f"ane {hello.ane_version}" + (f" ({', '.join(hello.ane_cpu_features)})" if hello.ane_cpu_features else ""),
    ]
