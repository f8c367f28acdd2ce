"""Token colours come from the engine's verdicts, and the card says what the draft had proposed."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextCharFormat
from pytestqt.qtbot import QtBot

from app.chat.answer import AnswerView
from app.chat.token_words import origins
from app.chat.tokens import TokenView
from app.chat.transcript import Transcript
from app.generation import State
from app.theme import DARK, LIGHT, Theme
from core.protocol import Step, StepToken
from helpers.window import WAIT_MS, OpenWindow

LINES = {
    "draft": QTextCharFormat.UnderlineStyle.SingleUnderline,
    "correction": QTextCharFormat.UnderlineStyle.WaveUnderline,
    "bonus": QTextCharFormat.UnderlineStyle.DashUnderline,
    "plain": QTextCharFormat.UnderlineStyle.NoUnderline,
}


def step(*tokens: StepToken, proposed: int = 0, rejected: tuple[str, ...] = ()) -> Step:
    return Step(
        text="".join(token.text for token in tokens), thinking="", tokens=tokens, mode="gpu", width=proposed + 1,
        proposed=proposed, accepted=0, draft_ms=0, verify_ms=0, rollback_ms=0, host_ms=0, target_busy=(), draft_busy=(),
        branch=None, branches=0, tokens_so_far=0, elapsed_s=0, context_used=0, rejected=rejected,
    )  # fmt: skip


STEPS = [
    step(StepToken(1, "The", "plain")),
    step(
        StepToken(2, " cat", "draft", 1), StepToken(3, " <b>sat", "correction", 2, " ran"),
        proposed=3, rejected=(" ran", " off"),
    ),
    step(StepToken(4, " on", "draft", 1), StepToken(5, " it\n", "draft", 2), StepToken(6, "😀.", "bonus"), proposed=2),
]  # fmt: skip
TEXT = "The cat <b>sat on it\n😀."


@pytest.fixture
def view(qtbot: QtBot, theme: Theme) -> TokenView:  # noqa: ARG001
    view = TokenView()
    qtbot.addWidget(view)
    view.resize(600, 200)
    for each in STEPS:
        view.add(each)
    view.set_shown(True)
    qtbot.waitUntil(lambda: view.text.toPlainText() == TEXT)
    return view


def runs(view: TokenView) -> list[tuple[str, QTextCharFormat]]:
    found = []
    block = view.text.document().begin()
    while block.isValid():
        iterator = block.begin()
        while not iterator.atEnd():
            found.append((iterator.fragment().text(), iterator.fragment().charFormat()))
            iterator += 1
        block = block.next()
    return found


def test_each_token_looks_like_its_origin_and_not_by_colour_alone(view: TokenView) -> None:
    looks = [(text, form.underlineStyle(), form.background().color().name()) for text, form in runs(view)]
    tints = {"draft": DARK.good, "correction": DARK.warn, "bonus": DARK.accent}
    assert looks == [
        ("The", LINES["plain"], "#000000"),
        (" cat", LINES["draft"], tints["draft"]),
        (" <b>sat", LINES["correction"], tints["correction"]),
        (" on it", LINES["draft"], tints["draft"]),
        ("😀.", LINES["bonus"], tints["bonus"]),
    ]


def test_the_card_says_what_the_draft_had_proposed(view: TokenView) -> None:
    def card(part: str) -> list[str]:
        before = TEXT[: TEXT.index(part)]
        token = view.text.token_at(len(before.encode("utf-16-le")) // 2 + 1)
        assert token is not None
        return token.card()

    assert card("The") == ["“The”: without a proposal"]
    assert card(" cat") == ["“ cat”: accepted from the draft", "Position 1 of the 3 proposed"]
    assert card(" <b>sat") == [
        "“ <b>sat”: corrected by the target",
        "The draft had said “ ran”, position 2 of 3",
        "Thrown away after it: “ off”",
    ]
    assert card(" it") == ["“ it⏎”: accepted from the draft", "Position 2 of the 2 proposed"]
    assert card("😀") == ["“😀.”: bonus of the target", "All 2 proposals before it were right"]


def test_a_new_theme_colours_them_anew(view: TokenView, theme: Theme, qtbot: QtBot) -> None:
    theme.set_scheme("light")
    qtbot.waitUntil(lambda: view.text.toPlainText() == TEXT)
    assert runs(view)[1][1].background().color().name() == LIGHT.good


def test_they_take_the_place_of_the_formatted_text_where_origins_are_known(qtbot: QtBot, theme: Theme) -> None:  # noqa: ARG001
    transcript = Transcript()
    qtbot.addWidget(transcript)
    transcript.resize(600, 400)
    transcript.show()
    answer = transcript.begin_answer()
    for each in STEPS:
        answer.add_step(each)
        answer.append(each.text)
    answer.show_frame()
    assert answer.tokens is not None
    assert answer.tokens.isHidden()
    transcript.toggle_token_colors()
    assert answer.tokens.isVisible()
    assert not answer.views[0].isVisible()
    more = step(StepToken(7, " More", "plain"))
    answer.add_step(more)
    answer.append(more.text)
    qtbot.waitUntil(lambda: answer.tokens.text.toPlainText() == TEXT + " More")
    answer.finish("")
    transcript.toggle_token_colors()
    assert answer.tokens.isHidden()
    assert answer.views[0].isVisible()


def test_in_the_window_they_are_the_verdicts_of_the_worker(open_window: OpenWindow, qtbot: QtBot) -> None:
    window = open_window("--answer", "Some words that are judged one by one, to be seen in colours. " * 4)
    qtbot.waitUntil(lambda: window.generation.state is State.IDLE, timeout=WAIT_MS)
    steps: list[Step] = []
    window.generation.stepped.connect(steps.append)
    command = next(action for action in window.actions() if action.text() == "Colour tokens")
    assert command.isCheckable()
    command.trigger()
    window.chats.send("Hi")
    qtbot.waitUntil(lambda: bool(steps) and window.generation.state is State.IDLE, timeout=WAIT_MS)
    answer = window.transcript.answer
    assert isinstance(answer, AnswerView)
    assert answer.tokens is not None
    judged = [token for each in steps for token in origins(each)]
    assert answer.tokens.origins == judged
    assert {"plain", "draft", "correction"} <= {token.origin for token in judged}
    qtbot.waitUntil(lambda: answer.tokens.text.toPlainText() == answer.source, timeout=WAIT_MS)
    for token, start in zip(judged, answer.tokens.text._starts, strict=True):
        cursor = answer.tokens.text.textCursor()
        cursor.setPosition(start + 1)
        assert cursor.charFormat().underlineStyle() == LINES[token.origin]
