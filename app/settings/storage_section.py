"""The part of the settings page about what is kept on the disk: the hub's token, models, kernels, and cleaning."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.language import tr
from app.settings.storage import StorageModel
from app.theme import is_large_text
from app.widgets import label, line, push_button
from core.units import size

_TOKEN_WORDS = {
    "environment": tr("Set, by the environment (HF_TOKEN)."),
    "keyring": tr("Set, in the system's keyring."),
    "file": tr("Set, in the hub's own file, which other programs share."),
    None: tr("Not set: public models need none."),
}


class StorageSection(QWidget):
    """Tells sizes and cleans. What cannot be made or fetched again is removed only after a second click."""

    def __init__(self, model: StorageModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        model.changed.connect(self._show)
        self.token_state = label("", "muted", wraps=True)
        self.token = QLineEdit()
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setPlaceholderText(tr("New token"))
        self.token.setAccessibleName(tr("New token of the hub"))
        self.token.returnPressed.connect(self._save_token)
        self.save_token = push_button(tr("Set"), tr("Keep this token for gated and private models"))
        self.save_token.clicked.connect(self._save_token)
        self.forget_token = _Twice(tr("Remove"), tr("Remove the token, for other programs as well"), model.forget_token)
        self.models = label("", "muted", wraps=True)
        self.leftovers = label("", "muted", wraps=True)
        again = tr("Remove beginnings of downloads; they begin anew then")
        self.clean_leftovers = _Twice(tr("Remove"), again, model.remove_leftovers)
        self.kernels = label("", "muted", wraps=True)
        self.clean_kernels = push_button(tr("Remove"), tr("Remove kernels; they are prepared anew when needed"))
        self.clean_kernels.clicked.connect(model.remove_kernels)
        self.problem = label("", "bad", wraps=True)
        self._lay_out()
        self._show()

    def measure(self) -> None:
        """Look at the disk anew."""
        self.token.clear()
        self._model.measure()

    def words(self) -> str:
        """What a search looks in."""
        return tr("Disk hub token gated models downloads beginnings kernels cache size clean remove").lower()

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        layout.addWidget(line())
        layout.addWidget(label(tr("On the disk"), "strong"))
        token = _Row(tr("Token of the hub"), self.token_state, self.token, self.save_token, self.forget_token)
        layout.addWidget(token)
        layout.addWidget(_Row(tr("Downloaded models"), self.models))
        layout.addWidget(_Row(tr("Beginnings of downloads"), self.leftovers, self.clean_leftovers))
        layout.addWidget(_Row(tr("Prepared kernels"), self.kernels, self.clean_kernels))
        layout.addWidget(self.problem)

    def _save_token(self) -> None:
        token = self.token.text()
        self.token.clear()
        if token.strip():
            self._model.save_token(token)

    def _show(self) -> None:
        storage = self._model.storage
        looking = tr("Looking …")
        self.token_state.setText(_TOKEN_WORDS[storage.token] if storage.token_known else looking)
        self.forget_token.setEnabled(storage.token in ("keyring", "file"))
        models = tr("{size}. Pairs are removed where they are chosen.")
        self.models.setText(looking if storage.models_bytes is None else models.format(size=size(storage.models_bytes)))
        self._show_leftovers(looking)
        self._show_kernels(looking)
        problem = storage.problem
        self.problem.setText(f"{problem.sentence} {problem.hint}".strip() if problem else "")
        self.problem.setVisible(problem is not None)

    def _show_leftovers(self, looking: str) -> None:
        found = self._model.storage.leftovers
        if not found:
            self.leftovers.setText(looking if found is None else tr("None."))
        else:
            ours = sum(each.bytes for each in found if each.made_by == "Mirror SD")
            words = tr("{size} in {count} files that nobody is downloading; {ours} of it would go on where it stands.")
            whole = sum(each.bytes for each in found)
            self.leftovers.setText(words.format(size=size(whole), count=len(found), ours=size(ours)))
        self.clean_leftovers.setEnabled(bool(found))

    def _show_kernels(self, looking: str) -> None:
        found = self._model.storage.kernels
        idle = self._model.kernels_not_in_use()
        if found is None:
            self.kernels.setText(looking)
        else:
            whole, free = (sum(each.bytes for each in each_of) for each_of in (found, idle))
            words = tr("{size}; {free} of it is not in use now and can be made again.")
            self.kernels.setText(words.format(size=size(whole), free=size(free)) if found else tr("None."))
        self.clean_kernels.setEnabled(bool(idle))


class _Twice(QPushButton):
    """A button that asks before it acts: the first click changes its text, the second one is the answer."""

    def __init__(self, text: str, description: str, action: Callable[[], None]) -> None:
        super().__init__(text)
        self._text = text
        self.setAutoDefault(False)
        self.setToolTip(description)
        self.setAccessibleDescription(description)
        self._action = action
        self.clicked.connect(self._on_clicked)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Whoever goes elsewhere has not agreed."""
        self.setText(self._text)
        super().focusOutEvent(event)

    def _on_clicked(self) -> None:
        asked = self.text() != self._text
        self.setText(self._text if asked else tr("Really remove?"))
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        if asked:
            self._action()


class _Row(QWidget):
    """A title with what is known, and what can be done; beside large text there is no room, so below it."""

    def __init__(self, title: str, state: QWidget, *controls: QWidget) -> None:
        super().__init__()
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(label(title, "name"))
        texts.addWidget(state)
        below = QHBoxLayout()
        below.setSpacing(8)
        for control in controls:
            if isinstance(control, QPushButton):
                control.setAccessibleName(f"{title}: {control.text()}")
            below.addWidget(control, 0, Qt.AlignmentFlag.AlignTop)
        self._layout = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addLayout(texts, 1)
        self._layout.addLayout(below)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Text may have another size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    def _fit(self) -> None:
        large = is_large_text()
        self._layout.setDirection(QBoxLayout.Direction.TopToBottom if large else QBoxLayout.Direction.LeftToRight)
