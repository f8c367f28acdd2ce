"""Code blocks: colours line by line, copy, a header that stays in sight."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication, QTextDocument
from PySide6.QtWidgets import QPlainTextDocumentLayout, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.code import CodeView
from app.chat.highlight import CodeHighlighter, lex_line, lexer_for
from app.theme import DARK, LIGHT, Theme

PYTHON = 'def f(x):\n    """A text\n    over lines."""\n    return 1  # why\n'


def colours(document: QTextDocument, line: int) -> dict[str, str]:
    """The coloured pieces of a line."""
    block = document.findBlockByNumber(line)
    units = block.text().encode("utf-16-le")
    result = {}
    for span in block.layout().formats():
        text = units[2 * span.start : 2 * (span.start + span.length)].decode("utf-16-le")
        result[text] = span.format.foreground().color().name()
    return result


def highlighted(text: str, language: str) -> QTextDocument:
    document = QTextDocument()
    document.setDocumentLayout(QPlainTextDocumentLayout(document))
    document.setPlainText(text)
    lexer = lexer_for(language)
    assert lexer is not None
    document.highlighter = CodeHighlighter(document, lexer, DARK)  # type: ignore[attr-defined]
    document.highlighter.begin_slice()  # type: ignore[attr-defined]
    document.highlighter.rehighlight()  # type: ignore[attr-defined]
    return document


def test_a_string_over_lines_keeps_its_colour(qtbot: QtBot) -> None:  # noqa: ARG001
    document = highlighted(PYTHON, "python")
    assert colours(document, 0) == {"def": DARK.keyword, "f": DARK.name}
    assert colours(document, 2) == {'    over lines."""': DARK.string}
    assert colours(document, 3) == {"return": DARK.keyword, "1": DARK.number, "# why": DARK.comment}


def test_letters_beyond_the_first_plane_do_not_shift_the_colours(qtbot: QtBot) -> None:  # noqa: ARG001
    assert colours(highlighted("x = '😀😀' + 12", "python"), 0)["12"] == DARK.number


@pytest.mark.parametrize(
    "language", ["python", "js", "c", "html", "json", "yaml", "bash", "ruby", "php", "rust", "diff"]
)
def test_every_lexer_takes_lines_and_carries_its_state(language: str) -> None:
    lexer = lexer_for(language)
    assert lexer is not None
    stack: tuple[str, ...] = ("root",)
    for line in (PYTHON + "/* c\n c */ <b>'x'</b>\n").splitlines(keepends=True):
        tokens, stack = lex_line(lexer, line, stack)
        assert "".join(text for _, _, text in tokens) == line


def test_an_unknown_language_is_shown_plain(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    assert lexer_for("no-such-language") is None
    view = CodeView("no-such-language")
    qtbot.addWidget(view)
    view.append("x = 1")
    assert view.text == "x = 1"


def test_copy_gives_the_code_as_it_is(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    view = CodeView("python")
    qtbot.addWidget(view)
    for piece in ("def f():\n", "\treturn  'a  b'", "\n"):
        view.append(piece)
    button = view.findChild(QPushButton)
    assert button is not None
    button.click()
    assert QGuiApplication.clipboard().text() == "def f():\n\treturn  'a  b'\n"
    assert button.text() == "Copied"
    qtbot.waitUntil(lambda: button.text() == "Copy", timeout=3000)


def test_the_view_is_as_tall_as_its_lines(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    view = CodeView("python")
    qtbot.addWidget(view)
    view.resize(400, 10)
    view.show()
    view.append("x\n" * 9)
    view.append("x")
    ten = view._text.height()
    view.append("\nx" * 10)
    assert view._text.height() == pytest.approx(2 * ten, abs=8)
    view.append("\n" + "long " * 100)
    qtbot.waitUntil(lambda: view._text.horizontalScrollBar().maximum() > 0)
    last = view._text.blockBoundingGeometry(view._text.document().lastBlock())
    assert last.bottom() <= view._text.viewport().height()


def test_the_header_stays_in_sight_as_far_as_the_block_reaches(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    view = CodeView("python")
    qtbot.addWidget(view)
    view.resize(400, 800)
    for top, expected in ((-50, 0), (0, 0), (300, 300), (10_000, 800 - view._header.height())):
        view.stick(top)
        assert view._header.y() == expected


def test_a_new_theme_recolours_the_code(qtbot: QtBot, theme: Theme) -> None:
    view = CodeView("python")
    qtbot.addWidget(view)
    view.append("return 1")
    assert colours(view._text.document(), 0)["return"] == DARK.keyword
    theme.set_scheme("light")
    assert colours(view._text.document(), 0)["return"] == LIGHT.keyword
