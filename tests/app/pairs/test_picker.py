"""The picker as the user sees it, with a real hub client against a hub of the test's own."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QLineEdit, QProgressBar, QWidget
from pytestqt.qtbot import QtBot

from app.pairs.pair_card import PairCard
from app.pairs.picker import PairPicker
from app.pairs.picker_model import PickerModel
from app.pairs.sources import PairSources
from app.theme import DARK, LIGHT, Theme
from helpers.fake_hub import FakeHub, Fault, Repo, status
from helpers.tiny_pairs import DRAFT, TARGET, draft_files, target_files, write_model
from helpers.window import WAIT_MS

FIRST = "tiny-4bit"
KINDS = QAbstractButton | QLineEdit | QProgressBar


@pytest.fixture
def picker(model: PickerModel, qtbot: QtBot, theme: Theme) -> PairPicker:  # noqa: ARG001
    picker = PairPicker(model)
    qtbot.addWidget(picker)
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        picker.open_now()
    return picker


def card(picker: PairPicker, pair: str = FIRST) -> PairCard:
    return picker._cards[pair]


def press(qtbot: QtBot, button: QAbstractButton) -> None:
    qtbot.waitUntil(button.isVisible, timeout=WAIT_MS)
    qtbot.waitUntil(button.isEnabled, timeout=WAIT_MS)
    button.click()


def download(picker: PairPicker, qtbot: QtBot, pair: str = FIRST) -> None:
    press(qtbot, card(picker, pair).get)
    press(qtbot, card(picker, pair).agree)


def visible_cards(picker: PairPicker) -> list[str]:
    return [pair for pair, widget in picker._cards.items() if widget.isVisible()]


def test_a_card_says_what_the_pair_is_and_costs(picker: PairPicker) -> None:
    first = card(picker)
    assert (first.name.text(), first.precision.text(), first.good_at.text()) == ("Tiny", "4-bit", "Short words.")
    assert first.recommended.isVisible()
    assert "200.0 kB on disk" in first.facts.text()
    assert "Needs" in first.facts.text()
    assert "time not known yet" in first.facts.text()
    assert first.get.text() == "Download 200.0 kB …"
    assert not first.use.isVisible()
    assert not first.delete.isVisible()


def test_a_pair_that_cannot_run_is_grey_and_says_why_in_words(picker: PairPicker) -> None:
    wrong = card(picker, "wrong-4bit")
    assert wrong.property("greyed") is True
    assert wrong.reasons.isVisible()
    assert "301" in wrong.reasons.text()
    assert wrong.badge.text() == "cannot be run"
    assert not wrong.get.isVisible()
    assert not wrong.use.isVisible()


def test_short_memory_is_told_with_the_sum(picker: PairPicker) -> None:
    huge = card(picker, "huge-8bit")
    assert "Memory is short" in huge.notes.text()
    assert "too little" in huge.notes.text()
    assert not huge.details.isVisible()
    huge.more.click()
    assert huge.details.isVisible()
    assert "target weights" in huge.details.text()
    assert "Free for it" in huge.details.text()


def test_a_pair_for_which_memory_is_short_can_be_loaded_anyway(
    picker: PairPicker, model: PickerModel, sources: PairSources, qtbot: QtBot
) -> None:
    assert sources.home is not None
    models = sources.home / ".lmstudio" / "models" / "acme"
    write_model(models / "tiny-4bit", target_files())
    write_model(models / "tiny-draft", draft_files())
    model.held_bytes = -(10**15)
    model.reload()
    qtbot.waitUntil(card(picker).use.isVisible, timeout=WAIT_MS)
    assert card(picker).use.text() == "Load anyway"
    assert not card(picker).delete.isVisible()  # another program's
    card(picker).use.click()
    assert "too little" not in card(picker).problem.text()
    assert "It can be loaded anyway" in card(picker).question.text()
    with qtbot.waitSignal(model.pair_chosen):
        card(picker).load.click()


def test_consent_comes_with_files_bytes_space_memory_and_preparation(picker: PairPicker, qtbot: QtBot) -> None:
    press(qtbot, card(picker).get)
    qtbot.waitUntil(card(picker).agree.isVisible, timeout=WAIT_MS)
    text = card(picker).question.text()
    for words in (f"{TARGET}: 2 files", f"{DRAFT}: 2 files", "stay free on the disk", "Memory: Needs", "are prepared"):
        assert words in text
    assert card(picker).agree.text().startswith("Download ")
    card(picker).dismiss.click()
    assert not card(picker).question.isVisible()
    assert card(picker).get.isVisible()


def test_download_pause_resume_and_use(picker: PairPicker, model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    hub.repos[TARGET] = Repo(target_files(3_000_000))
    hub.bytes_per_s = 400_000
    download(picker, qtbot)
    row = card(picker).download
    qtbot.waitUntil(lambda: "/s" in row.status.text() and "left" in row.status.text(), timeout=WAIT_MS)
    assert 0 < row.bar.value() < 1000
    row.pause.click()
    qtbot.waitUntil(lambda: "paused" in row.status.text(), timeout=WAIT_MS)
    assert "/s" not in row.status.text()
    assert not row.pause.isVisible()
    row.show_files.click()
    assert "✓ tiny-4bit/config.json" in row.files.text()
    assert "– tiny-4bit/model.safetensors" in row.files.text()
    assert row.show_files.text() == "Files: 1 of 4 verified"
    hub.bytes_per_s = 0
    row.resume.click()
    press(qtbot, card(picker).use)
    with qtbot.waitSignal(model.pair_chosen):
        press(qtbot, card(picker).load)
    assert card(picker).badge.text() == "ready"
    assert model.under_way() == ()


@pytest.mark.parametrize("keep", [True, False])
def test_cancel_asks_what_to_do_with_what_arrived(picker: PairPicker, hub: FakeHub, qtbot: QtBot, keep: bool) -> None:
    hub.repos[TARGET] = Repo(target_files(3_000_000))
    hub.bytes_per_s = 400_000
    download(picker, qtbot)
    row = card(picker).download
    qtbot.waitUntil(lambda: hub.sent["model.safetensors"] > 400_000, timeout=WAIT_MS)
    press(qtbot, row.cancel)
    assert not row.cancel.isVisible()
    row.go_on.click()
    assert row.cancel.isVisible()
    row.cancel.click()
    press(qtbot, row.keep if keep else row.delete)
    press(qtbot, card(picker).get)
    qtbot.waitUntil(card(picker).agree.isVisible, timeout=WAIT_MS)
    assert ("are here already" in card(picker).question.text()) is keep


def test_a_stall_and_a_failure_are_told_and_tried_again(picker: PairPicker, hub: FakeHub, qtbot: QtBot) -> None:
    hub.on_content["model.safetensors"].extend([status(503, Retry_After="1")] * 2)
    hub.on_content["model.safetensors"].append(Fault(wrong_byte=900))
    download(picker, qtbot)
    row = card(picker).download
    qtbot.waitUntil(lambda: "stalled, retrying 2/4" in row.status.text(), timeout=WAIT_MS)
    assert row.problem.isVisible()
    qtbot.waitUntil(row.retry.isVisible, timeout=WAIT_MS)
    assert "checksum" in row.problem.text()
    row.retry.click()
    qtbot.waitUntil(card(picker).use.isVisible, timeout=WAIT_MS)


def test_an_unknown_model_is_a_problem_on_its_card(picker: PairPicker, hub: FakeHub, qtbot: QtBot) -> None:
    del hub.repos[TARGET]
    press(qtbot, card(picker).get)
    qtbot.waitUntil(card(picker).problem.isVisible, timeout=WAIT_MS)
    assert TARGET in card(picker).problem.text()
    card(picker).dismiss.click()
    assert not card(picker).problem.isVisible()


def test_deleting_asks_with_the_bytes_and_frees_them(picker: PairPicker, qtbot: QtBot) -> None:
    download(picker, qtbot)
    press(qtbot, card(picker).delete)
    qtbot.waitUntil(card(picker).remove.isVisible, timeout=WAIT_MS)
    assert card(picker).remove.text().startswith("Delete and free ")
    assert "become free" in card(picker).question.text()
    card(picker).remove.click()
    qtbot.waitUntil(card(picker).get.isVisible, timeout=WAIT_MS)


def test_filters_search_and_empty_states(picker: PairPicker, qtbot: QtBot) -> None:
    assert len(visible_cards(picker)) == 4
    picker.fitting.click()
    assert visible_cards(picker) == [FIRST, "tiny-bf16"]
    qtbot.keyClicks(picker.search, "bf16")
    assert visible_cards(picker) == ["tiny-bf16"]
    picker.search.setText("zzz")
    assert "The catalog and this disk have nothing for “zzz”" in picker.empty.text()
    picker.search.clear()
    picker.downloaded.click()
    assert "No pair is on this disk yet" in picker.empty.text()
    assert picker.empty.isVisible()


def test_a_custom_pair_shows_verdicts_and_joins_the_list(picker: PairPicker, hub: FakeHub, qtbot: QtBot) -> None:
    config = target_files()["config.json"].replace(b'"hidden_size": 64', b'"hidden_size": 32')
    hub.repos["bob/narrow"] = Repo({**target_files(), "config.json": config})
    picker.own.click()
    qtbot.keyClicks(picker.custom.target, "bob/narrow")
    qtbot.keyClicks(picker.custom.draft, DRAFT)
    qtbot.keyClick(picker.custom.draft, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: picker.custom.headline.text() == "This pair cannot be run.", timeout=WAIT_MS)
    assert "✗" in picker.custom.verdicts.text()
    assert not picker.custom.add.isVisible()
    picker.custom.target.setText(TARGET)
    picker.custom.check.click()
    press(qtbot, picker.custom.add)
    assert not picker.custom.isVisible()
    assert card(picker, f"{TARGET} + {DRAFT}").isVisible()
    picker.custom.target.setText("/nowhere")
    picker.own.click()
    picker.custom.check.click()
    qtbot.waitUntil(lambda: "/nowhere" in picker.custom.headline.text(), timeout=WAIT_MS)


def test_a_model_of_another_program_can_be_named_as_target(
    picker: PairPicker, model: PickerModel, sources: PairSources, qtbot: QtBot
) -> None:
    assert sources.home is not None
    folder = write_model(sources.home / ".lmstudio" / "models" / "other" / "mine", target_files())
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        model.reload()
    picker._others[0].findChild(QAbstractButton).click()
    assert picker.custom.isVisible()
    assert picker.custom.target.text() == str(folder)


def test_the_focus_goes_where_the_question_stands(picker: PairPicker, qtbot: QtBot) -> None:
    picker.activateWindow()
    qtbot.waitUntil(picker.isActiveWindow)
    card(picker).get.setFocus()
    qtbot.keyClick(card(picker).get, Qt.Key.Key_Space)
    qtbot.waitUntil(card(picker).agree.hasFocus, timeout=WAIT_MS)
    qtbot.keyClick(card(picker).agree, Qt.Key.Key_Space)
    qtbot.waitUntil(card(picker).use.hasFocus, timeout=WAIT_MS)
    card(picker).delete.setFocus()
    qtbot.keyClick(card(picker).delete, Qt.Key.Key_Space)
    qtbot.waitUntil(card(picker).remove.isVisible, timeout=WAIT_MS)
    assert card(picker).dismiss.hasFocus()
    qtbot.keyClick(picker, Qt.Key.Key_Escape)
    assert not picker.isVisible()


def test_every_control_has_a_name_and_is_reached_by_tab(picker: PairPicker, qtbot: QtBot) -> None:
    picker.own.click()
    download(picker, qtbot)
    controls = [widget for widget in picker.findChildren(QWidget) if isinstance(widget, KINDS) and widget.isVisible()]
    assert len(controls) > 15
    for widget in controls:
        interface = QAccessible.queryAccessibleInterface(widget)
        assert interface.text(QAccessible.Text.Name), widget
    buttons = {widget for widget in controls if isinstance(widget, QAbstractButton) and widget.isEnabled()}
    reached, at = set(), picker.search.nextInFocusChain()
    while at is not picker.search:
        if at.isVisible() and at.focusPolicy() & Qt.FocusPolicy.TabFocus:
            reached.add(at)
        at = at.nextInFocusChain()
    named = {button for button in buttons if button.focusPolicy() & Qt.FocusPolicy.TabFocus}
    assert named <= reached


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("larger", [False, True])
def test_nothing_is_cut_off(picker: PairPicker, theme: Theme, qtbot: QtBot, scheme: str, larger: bool) -> None:
    theme.set_scheme(scheme)  # type: ignore[arg-type]
    if larger:
        picker.setStyleSheet("* { font-size: 20px; }")
    picker.resize(900, 600)
    download(picker, qtbot)
    qtbot.waitUntil(card(picker).use.isVisible, timeout=WAIT_MS)
    card(picker).more.click()
    QApplication.processEvents()
    body = picker.area.widget()
    assert body is not None
    assert body.width() <= picker.area.viewport().width()
    for widget in body.findChildren(QWidget):
        if isinstance(widget, QLabel | QAbstractButton) and widget.isVisible():
            box = QRect(widget.mapTo(body, QPoint(0, 0)), widget.size())
            assert body.rect().contains(box), widget
            if isinstance(widget, QLabel):
                needed = widget.heightForWidth(widget.width()) if widget.wordWrap() else widget.sizeHint().height()
                assert widget.height() >= needed, widget.text()
            else:
                assert widget.width() >= widget.minimumSizeHint().width(), widget.text()
    colors = {"dark": DARK, "light": LIGHT}[scheme]
    assert picker.grab().toImage().pixelColor(5, 300).name() == colors.window
