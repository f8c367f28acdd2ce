import sys

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot


def test_void_qt_methods_do_not_drop_references_of_none(qtbot: QtBot) -> None:
    """PySide6 6.12 on Python 3.11 drops one per call, until the interpreter aborts."""
    label = QLabel()
    qtbot.addWidget(label)
    before = sys.getrefcount(None)
    for _ in range(100):
        label.setText("text")
    assert sys.getrefcount(None) > before - 50
