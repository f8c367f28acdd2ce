"""Formulas: set in a thread of their own, drawn on the line; what cannot be set stays as it was written."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.copying import markdown, plain_text
from app.chat.formats import FORMULA_SOURCE
from app.chat.formulas import FormulaKey, Formulas, is_quick, set_formula
from app.chat.prose import ProseView
from app.theme import Theme

WAIT_MS = 60_000
BOMBS = [
    r"\sqrt{" * 30 + "x" + "}" * 30,
    "x^{" * 30 + "y" + "}" * 30,
    r"\frac{1}{" * 30 + "x" + "}" * 30,
    r"\left(" * 20 + "x" + r"\right)" * 20,
    "x+" * 2000,
    r"\def\a{\a\a}\a",
    r"\newcommand{\a}{\b\b}\newcommand{\b}{xx}\a",
    "",
    "   ",
]


@pytest.fixture
def formulas(qtbot: QtBot) -> Iterator[Formulas]:  # noqa: ARG001
    made = Formulas()
    yield made
    made.stop()


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> ProseView:  # noqa: ARG001
    view = ProseView()
    qtbot.addWidget(view)
    view.resize(600, 10)
    view.show()
    return view


def pictures(document: QTextDocument) -> list[str]:
    """The sources of the formulas that show as pictures."""
    found = []
    block = document.begin()
    while block.isValid():
        iterator = block.begin()
        while not iterator.atEnd():
            form = iterator.fragment().charFormat()
            if form.isImageFormat():
                found += [str(form.property(FORMULA_SOURCE))] * iterator.fragment().length()
            iterator += 1
        block = block.next()
    return found


def test_a_formula_is_set_in_the_background_and_kept(formulas: Formulas, qtbot: QtBot) -> None:
    key = FormulaKey(r"\frac{1}{2}", False, 14, "#ff0000")
    with qtbot.waitSignal(formulas.ready, timeout=WAIT_MS) as told:
        assert formulas.get(key) == "pending"
    assert told.args == [key]
    formula = formulas.get(key)
    assert not isinstance(formula, str)
    assert formula.width > 5
    assert formula.ascent > formula.descent > 0
    red = {formula.image.pixelColor(x, y).red() for x in range(formula.image.width()) for y in range(4, 12)}
    assert max(red) > 200


@pytest.mark.parametrize("source", BOMBS)
def test_what_would_take_long_is_not_tried(formulas: Formulas, source: str) -> None:
    assert not is_quick(source)
    assert formulas.get(FormulaKey(source, True, 14, "#000000")) == "broken"
    assert formulas._thread is None


@pytest.mark.parametrize(
    "source", [r"\frac{a", r"\left(", r"\begin{matrix}", r"\rule{99999pt}{99999pt}", "\ud800", "&"]
)
def test_latex_that_cannot_be_read_is_broken(formulas: Formulas, qtbot: QtBot, source: str) -> None:
    key = FormulaKey(source, False, 14, "#000000")
    with qtbot.waitSignal(formulas.ready, timeout=WAIT_MS):
        formulas.get(key)
    assert formulas.get(key) == "broken"


def test_the_most_expensive_formula_that_is_tried_ends_in_bearable_time() -> None:
    worst = max((d for d in range(2, 30) if is_quick("x^{" * d + "y" + "}" * d)), default=0)
    began = time.thread_time()
    set_formula(FormulaKey("x^{" * worst + "y" + "}" * worst, False, 14, "#000000"), 1.0)
    assert time.thread_time() - began < 10


def test_all_four_marks_show_pictures_and_prices_do_not(view: ProseView, qtbot: QtBot) -> None:
    view.close_open("$a_1$ and $$b_2$$ and \\(c_3\\) and \\[d_4\\], for $5 or $10")
    view.close_open("\\[\ne_5\n\\]")
    view.close_open("$$\nf_6\n$$")
    expected = ["$a_1$", "$$b_2$$", "\\(c_3\\)", "\\[d_4\\]", "\\[e_5\\]", "$$f_6$$"]
    qtbot.waitUntil(lambda: pictures(view.document()) == expected, timeout=WAIT_MS)
    assert view.document().firstBlock().text().endswith("for $5 or $10")
    assert plain_text_of(view).startswith("$a_1$ and $$b_2$$")


def plain_text_of(view: ProseView) -> str:
    view.selectAll()
    return plain_text(view.textCursor())


def test_adjacent_formulas_do_not_eat_each_other(view: ProseView, qtbot: QtBot) -> None:
    view.close_open("\\(g\\)\\(h\\)\\(g\\)")
    qtbot.waitUntil(lambda: pictures(view.document()) == ["\\(g\\)", "\\(h\\)", "\\(g\\)"], timeout=WAIT_MS)


def test_a_formula_that_is_set_before_the_view_listens_shows_too(
    view: ProseView, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = Formulas.get

    def get_late(self: Formulas, key: FormulaKey) -> object:
        outcome = get(self, key)
        if self._thread is not None:
            self._thread.join()
        return outcome

    monkeypatch.setattr(Formulas, "get", get_late)
    view.close_open("\\(p_q\\)")
    qtbot.waitUntil(lambda: pictures(view.document()) == ["\\(p_q\\)"], timeout=WAIT_MS)


def test_an_open_formula_shows_its_source_until_it_is_closed(view: ProseView, qtbot: QtBot) -> None:
    view.show_open("See $i + j")
    assert view.document().toPlainText() == "See $i + j"
    view.show_open("See $i + j$")
    qtbot.waitUntil(lambda: pictures(view.document()) == ["$i + j$"], timeout=WAIT_MS)
    view.show_open("See $i + j$ at once again")
    assert pictures(view.document()) == ["$i + j$"]


def test_a_broken_formula_stays_as_it_was_written(view: ProseView, qtbot: QtBot) -> None:
    view.close_open("Broken $\\frac{k$ but $l$")
    qtbot.waitUntil(lambda: pictures(view.document()) == ["$l$"], timeout=WAIT_MS)
    assert view.document().toPlainText().startswith("Broken $\\frac{k$ but")


def test_copies_hold_the_source(view: ProseView, qtbot: QtBot) -> None:
    view.close_open("Euler: $e^{i\\pi} = -1$.")
    qtbot.waitUntil(lambda: pictures(view.document()) == ["$e^{i\\pi} = -1$"], timeout=WAIT_MS)
    assert plain_text_of(view) == "Euler: $e^{i\\pi} = -1$."
    assert markdown(view.textCursor()) == "Euler: $e^{i\\pi} = -1$."


def test_a_new_theme_draws_formulas_in_its_colour(view: ProseView, theme: Theme, qtbot: QtBot) -> None:
    view.close_open("$m$ and $n$")
    theme.set_scheme("light")  # while they are being set
    qtbot.waitUntil(lambda: pictures(view.document()) == ["$m$", "$n$"], timeout=WAIT_MS)
    name = names(view.document())[0]
    image = view.document().resource(QTextDocument.ResourceType.ImageResource.value, QUrl(name))
    inks = {image.pixelColor(x, y).lightness() for x in range(image.width()) for y in range(image.height())}
    assert min(inks) < 60


def names(document: QTextDocument) -> list[str]:
    iterator, found = document.begin().begin(), []
    while not iterator.atEnd():
        form = iterator.fragment().charFormat()
        if form.isImageFormat():
            name = form.toImageFormat().name()
            assert not document.resource(QTextDocument.ResourceType.ImageResource.value, QUrl(name)).isNull()
            found.append(name)
        iterator += 1
    return found
