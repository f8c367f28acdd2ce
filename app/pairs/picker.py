"""The picker: cards of all pairs, search and filters, a pair of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.language import tr
from app.notice import ProblemNotice
from app.pairs import words
from app.pairs.cards import Filter
from app.pairs.custom_panel import CustomPanel
from app.pairs.custom_row import CustomPair
from app.pairs.hub_results import HubResultList
from app.pairs.hub_search import HubResults
from app.pairs.leftovers import LeftoversRow
from app.pairs.pair_card import PairCard
from app.pairs.picker_model import PickerModel
from app.pairs.preparation_panel import PreparationPanel
from app.widgets import label, push_button, set_kind
from core.pairs import Pair
from core.pairs.found import FoundModel

_SMALLEST, _FIRST_SIZE = QSize(560, 420), QSize(860, 680)
_MOST_OTHERS = 30
_PAUSE_MS = 5  # between cards, which take some milliseconds each


class PairPicker(QDialog):
    """A window beside the chat's. Downloads go on while it is closed."""

    def __init__(self, model: PickerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Pairs"))
        self.setMinimumSize(_SMALLEST)
        self._model = model
        self._first_run = False
        self._cards: dict[str, PairCard] = {}
        self._others: list[QWidget] = []
        self.headline = label(tr("Choose a pair"), "title")
        self.advice = label("", "muted", wraps=True)
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search the catalog, this disk and the hub"))
        self.search.setAccessibleName(tr("Search the catalog, this disk and the hub"))
        self.search.setClearButtonEnabled(True)
        self.fitting = QCheckBox(tr("Fits this machine"))
        self.downloaded = QCheckBox(tr("Downloaded"))
        self.own = push_button(
            tr("A pair of your own"), tr("Name a target, and a draft if there is one, by folder or hub id")
        )
        self.own.setCheckable(True)
        self.custom = CustomPanel()
        self.custom.hide()
        self.hub_results = HubResultList()
        self.leftovers = LeftoversRow(model.leftovers)
        self.notice = ProblemNotice()
        self.empty = label("", "muted", wraps=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.preparation = PreparationPanel()
        self._chose = False  # here, what is prepared now
        self.close_button = push_button(tr("Close"), tr("Back to the chat; downloads go on"))
        self._making = QTimer(self)  # of cards
        self._making.setSingleShot(True)
        self._making.setInterval(_PAUSE_MS)
        self._making.timeout.connect(self._show_all)
        self._lay_out()
        self._connect()
        self._show_all()
        self.resize(_FIRST_SIZE)
        self.search.setFocus()

    def _lay_out(self) -> None:
        tools = QHBoxLayout()
        tools.setSpacing(12)
        tools.addWidget(self.fitting)
        tools.addWidget(self.downloaded)
        tools.addStretch(1)
        tools.addWidget(self.own)
        body = QWidget()
        set_kind(body, "picker")
        self._list = QVBoxLayout(body)
        self._list.setContentsMargins(20, 4, 20, 20)
        self._list.setSpacing(10)
        self._list.addWidget(self.custom)
        self._list.addWidget(self.empty)
        self._others_title = label(tr("Other models on this disk"), "strong")
        self._list.addWidget(self._others_title)
        self._list.addWidget(self.hub_results)
        self._list.addWidget(self.leftovers)
        self._list.addStretch(1)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(body)
        top = QVBoxLayout()
        top.setContentsMargins(20, 16, 20, 8)
        top.setSpacing(8)
        title = QHBoxLayout()
        title.addWidget(self.headline, 1)
        title.addWidget(self.close_button)
        top.addLayout(title)
        top.addWidget(self.advice)
        top.addWidget(self.search)
        top.addLayout(tools)
        top.addWidget(self.notice)
        top.addWidget(self.preparation)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addWidget(self.area, 1)

    def _connect(self) -> None:
        model = self._model
        model.listed.connect(self._show_all)
        model.card_changed.connect(self._show_card)
        model.problem_met.connect(lambda problem: self.notice.show_problem(problem, can_retry=True))
        model.pair_chosen.connect(self._on_chosen)
        model.inspected.connect(self.custom.show_outcome)
        model.hub_search.changed.connect(self._show_hub)
        self.hub_results.named.connect(self._name_pair)
        self.preparation.ready.connect(self._on_ready)
        self.notice.retry_requested.connect(self._read)
        self.search.textChanged.connect(self._filter)
        self.fitting.toggled.connect(self._filter)
        self.downloaded.toggled.connect(self._filter)
        self.own.toggled.connect(self._show_custom)
        self.custom.check_wanted.connect(model.inspect)
        self.custom.add_wanted.connect(self._add_custom)
        self.close_button.clicked.connect(self.close)
        QShortcut(QKeySequence("Ctrl+F"), self).activated.connect(self.search.setFocus)

    def open_now(self, first_run: bool = False) -> None:
        """Show what the disk holds now; `first_run`: there is no pair to chat with yet."""
        self._first_run = first_run
        self.headline.setText(tr("Choose a pair to begin") if first_run else tr("Choose a pair"))
        self._show_advice()
        self._read()
        self.show()
        self.activateWindow()

    def _read(self) -> None:
        self.notice.hide()
        self._model.reload()
        self._show_empty()

    def _filter(self) -> None:
        self._model.set_filter(Filter(self.search.text(), self.fitting.isChecked(), self.downloaded.isChecked()))
        self._show_hub()

    # ------------------------------------------------------------------- the list

    def _show_all(self) -> None:
        shown = [card.row.id for card in self._model.shown()]
        missing = [pair for pair in shown if pair not in self._cards]
        if missing:  # one, and the rest after what else waits: the window stays quick
            self._add_card(missing[0], shown)
            self._making.start()
        if len(missing) <= 1:
            self._show_order(shown)
        self._show_advice()
        self._show_empty()

    def _show_order(self, shown: list[str]) -> None:
        """All cards are there: each at its place, those that are filtered out hidden."""
        for pair, widget in self._cards.items():
            widget.setVisible(pair in shown)
        for index, pair in enumerate(shown):  # below the panel for a pair of the user's own
            if self._list.indexOf(self._cards[pair]) != index + 1:
                self._list.insertWidget(index + 1, self._cards[pair])
            self._show_card(pair)
        last: QWidget = self.custom.add
        for button in (button for pair in shown for button in self._cards[pair].tab_chain()):
            self.setTabOrder(last, button)
            last = button
        self._show_others()

    def _add_card(self, pair: str, shown: list[str]) -> None:
        widget = self._cards[pair] = PairCard(self._model.card(pair))
        widget.wanted.connect(lambda wish: self._act(pair, wish))
        before = [other for other in shown[: shown.index(pair)] if other in self._cards]
        self._list.insertWidget(len(before) + 1, widget)

    def _act(self, pair: str, wish: str) -> None:
        model = self._model
        actions: dict[str, Callable[[str], None]] = {
            "download": model.plan,
            "agree": model.agree,
            "dismiss": model.dismiss,
            "choose": model.choose,
            "load": lambda pair: model.load(pair, check=False),
            "load and check": lambda pair: model.load(pair, check=True),
            "delete": model.measure_removal,
            "remove": model.remove,
            "pause": model.pause,
            "resume": model.resume,
            "cancel": lambda pair: model.cancel(pair, keep=True),
            "cancel and delete": lambda pair: model.cancel(pair, keep=False),
        }
        actions[wish](pair)

    def _show_card(self, pair: str) -> None:
        if pair in self._cards:
            self._cards[pair].show_card(self._model.card(pair))

    def _show_advice(self) -> None:
        self.advice.setText(
            words.advice(self._model.recommended(), self._model.first_try() if self._first_run else None)
        )

    def _show_empty(self) -> None:
        if self._model.reading:
            text = tr("Looking for models on this disk …")
        elif self._model.shown() or self._model.other_models() or self._model.hub_search.results.candidates:
            text = ""
        elif self.downloaded.isChecked() and not self.search.text():
            text = tr("No pair is on this disk yet. Turn “Downloaded” off to see those that can be downloaded.")
        else:
            nothing = tr("The catalog and this disk have nothing for “{search}”.")
            text = nothing.format(search=self.search.text())
        self.empty.setText(text)
        self.empty.setVisible(bool(text))

    def _show_others(self) -> None:
        for widget in self._others:
            self._list.removeWidget(widget)
            widget.deleteLater()
        others = () if self.fitting.isChecked() else self._model.other_models()[:_MOST_OTHERS]
        self._others = [self._other(model) for model in others]
        self._others_title.setVisible(bool(others))
        at = self._list.indexOf(self._others_title) + 1
        for offset, widget in enumerate(self._others):
            self._list.insertWidget(at + offset, widget)

    def _other(self, found: FoundModel) -> QWidget:
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(16, 0, 16, 0)
        text = tr("{model}, kept by {program}").format(model=found.name, program=found.program)
        name: QLabel = label(text, "value", wraps=True)
        tip = tr("Name {model} as the target of a pair of your own").format(model=found.name)
        button: QPushButton = push_button(tr("As target …"), tip)
        button.setAccessibleName(tr("{model} as target").format(model=found.name))
        button.clicked.connect(lambda: self._name_target(found.path))
        layout.addWidget(name, 1)
        layout.addWidget(button)
        return row

    def _show_hub(self) -> None:
        """Without what the cards name already."""
        results, named = self._model.hub_search.results, self._model.named_repos()
        others = tuple(each for each in results.candidates if each.repo not in named)
        filtered = self.fitting.isChecked() or self.downloaded.isChecked()  # which nobody can tell of these
        self.hub_results.show_results(HubResults() if filtered else replace(results, candidates=others))
        self._show_empty()

    # ------------------------------------------------------------- a custom pair

    def _name_pair(self, target: str, draft: str) -> None:
        self.own.setChecked(True)
        self.custom.name(target, draft)
        self.area.verticalScrollBar().setValue(0)

    def _show_custom(self, shown: bool) -> None:
        self.custom.setVisible(shown)
        if shown:
            self.area.verticalScrollBar().setValue(0)
            self.custom.target.setFocus()

    def _name_target(self, path: str) -> None:
        self.own.setChecked(True)
        self.custom.target.setText(path)
        self.custom.draft.setFocus()
        self.area.verticalScrollBar().setValue(0)

    def _add_custom(self, pair: CustomPair) -> None:
        self.own.setChecked(False)
        self._model.add_custom(pair)

    def _on_chosen(self, _pair: Pair, _check: bool) -> None:
        self._chose = True

    def _on_ready(self, something_to_read: bool) -> None:
        """The pair that was chosen here is loaded: back to the chat, unless there is something to read first."""
        if self._chose and not something_to_read:
            self.close()
        self._chose = False
