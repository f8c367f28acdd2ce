"""The page of settings: a row for each, changed at once, found by a search, within small windows and large text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.settings.fields import Switch
from app.settings.page import SettingsPage
from app.surroundings import Surroundings
from app.theme import Theme
from core.client import worker_command
from core.settings import DECLARATIONS, Settings
from helpers.window import WAIT_MS

OpenAround = Callable[..., Surroundings]
Stored = Callable[[], dict[str, object]]
EXPERT = [declaration.name for declaration in DECLARATIONS if declaration.expert]


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches the user's token and models."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "hub" / "token"))
    return tmp_path / "hub"


@pytest.fixture
def open_page(open_around: OpenAround, qtbot: QtBot, tmp_path: Path) -> Callable[..., SettingsPage]:
    def open_(values: dict[str, object] | None = None) -> SettingsPage:
        around = open_around({"models_folder": str(tmp_path / "models"), **(values or {})})
        around.open_settings()
        assert around.page is not None
        qtbot.waitUntil(around.page.isActiveWindow)
        return around.page

    return open_


def test_every_setting_has_a_row_that_shows_its_value_and_can_change_it(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, stored: Stored
) -> None:
    page = open_page()
    assert list(page.rows) == list(Settings.__struct_fields__)
    theme = page.rows["theme"].field
    assert isinstance(theme, QComboBox)
    qtbot.keyClick(theme, Qt.Key.Key_Down)
    page.rows["simple"].field.click()  # type: ignore[union-attr]
    page.rows["max_tokens"].field.setValue(77)  # type: ignore[union-attr]
    page.rows["temperature"].field.setValue(0.7)  # type: ignore[union-attr]
    kept = stored()
    assert {name: kept[name] for name in ("theme", "simple", "max_tokens", "temperature")} == {
        "theme": "light",
        "simple": True,
        "max_tokens": 77,
        "temperature": 0.7,
    }


def test_texts_are_kept_when_their_field_is_left_or_the_page_is_closed(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, stored: Stored
) -> None:
    page = open_page()
    proxy, prompt = page.rows["proxy"].field, page.rows["system_prompt"].field
    proxy.setFocus()
    qtbot.keyClicks(proxy, "socks5://localhost:1080")
    assert "proxy" not in stored()
    qtbot.keyClick(proxy, Qt.Key.Key_Return)
    assert stored()["proxy"] == "socks5://localhost:1080"
    prompt.setFocus()
    qtbot.keyClicks(prompt, "Be brief.")
    assert "system_prompt" not in stored()
    page.close()
    assert stored()["system_prompt"] == "Be brief."


def test_a_bad_text_says_why_and_stays_to_be_corrected(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, stored: Stored
) -> None:
    page = open_page()
    row = page.rows["hub_endpoint"]
    row.field.setFocus()
    qtbot.keyClicks(row.field, "huggingface.co")
    qtbot.keyClick(row.field, Qt.Key.Key_Return)
    assert "begins with http://" in row.problem.text()
    assert row.problem.isVisible()
    assert row.field.text() == "huggingface.co"  # type: ignore[union-attr]
    assert "hub_endpoint" not in stored()
    row.field.setText("https://huggingface.co")  # type: ignore[union-attr]
    qtbot.keyClick(row.field, Qt.Key.Key_Return)
    assert not row.problem.isVisible()
    assert stored()["hub_endpoint"] == "https://huggingface.co"


def test_a_folder_can_be_chosen_among_folders(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, stored: Stored, tmp_path: Path
) -> None:
    row = open_page().rows["kernels_folder"]
    next(button for button in row.findChildren(QAbstractButton) if "Choose" in button.text()).click()
    dialog = row.findChild(QFileDialog)
    assert dialog.fileMode() is QFileDialog.FileMode.Directory
    dialog.fileSelected.emit(str(tmp_path))
    dialog.close()
    qtbot.waitUntil(lambda: row.findChild(QFileDialog) is None)
    assert stored()["kernels_folder"] == str(tmp_path)
    assert row.field.text() == str(tmp_path)  # type: ignore[union-attr]


def test_reset_shows_where_there_is_something_to_reset(open_page: Callable[..., SettingsPage], stored: Stored) -> None:
    page = open_page({"max_tokens": 5})
    row = page.rows["max_tokens"]
    assert row.reset.isVisible()
    assert not page.rows["temperature"].reset.isVisible()
    row.reset.click()
    assert not row.reset.isVisible()
    assert row.field.value() == Settings().max_tokens == stored()["max_tokens"]  # type: ignore[union-attr]


def test_a_bad_text_can_be_reset(open_page: Callable[..., SettingsPage], qtbot: QtBot) -> None:
    row = open_page().rows["proxy"]
    qtbot.keyClicks(row.field, "nonsense")
    qtbot.keyClick(row.field, Qt.Key.Key_Return)
    row.reset.click()
    assert row.field.text() == ""  # type: ignore[union-attr]
    assert not row.problem.isVisible()


def test_what_another_window_changes_shows_once_this_one_is_used_again(
    open_around: OpenAround, qtbot: QtBot, file: Path
) -> None:
    around = open_around({})
    around.open_settings()
    page = around.page
    assert page is not None
    qtbot.waitUntil(page.isActiveWindow)
    file.write_text(json.dumps({"text_px": 20}))
    page.close()
    around._window.activateWindow()
    qtbot.waitUntil(lambda: around.settings.values.text_px == 20)
    assert page.rows["text_px"].field.value() == 20  # type: ignore[union-attr]


def test_the_simple_window_hides_what_only_experts_need_but_not_from_a_search(
    open_page: Callable[..., SettingsPage],
) -> None:
    page = open_page({"simple": True})
    assert [name for name, row in page.rows.items() if not row.isVisibleTo(page)] == EXPERT
    assert str(len(EXPERT)) in page.note.text()
    page.search.setText("thread")
    assert [name for name, row in page.rows.items() if row.isVisibleTo(page)] == ["target_threads", "draft_threads"]
    page.search.clear()
    page.rows["simple"].field.click()  # type: ignore[union-attr]
    assert all(row.isVisibleTo(page) for row in page.rows.values())


def test_a_search_that_finds_nothing_says_so(open_page: Callable[..., SettingsPage]) -> None:
    page = open_page()
    page.search.setText("zebra")
    assert not any(row.isVisibleTo(page) for row in page.rows.values())
    assert page.note.text() == "No setting is named so."


def test_the_loaded_pair_can_be_chosen_for_every_start(open_around: OpenAround, qtbot: QtBot, stored: Stored) -> None:
    around = open_around({})
    qtbot.waitUntil(lambda: around._window.pair_button.state_text == "ready", timeout=WAIT_MS)
    around.open_settings()
    assert around.page is not None
    field = around.page.rows["pair"].field
    assert isinstance(field, QComboBox)
    assert [field.itemText(index) for index in range(field.count())] == ["The one used last", "Test pair"]
    qtbot.keyClick(field, Qt.Key.Key_Down)
    assert stored()["pair"] == {"name": "Test pair", "target": "/nowhere/target.gguf", "draft": "/nowhere/draft"}
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert stored()["pair"] is None


def test_a_token_is_kept_for_the_user_alone_and_never_shown(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, hub: Path, caplog: pytest.LogCaptureFixture
) -> None:
    section = open_page().storage
    qtbot.waitUntil(lambda: section.token_state.text().startswith("Not set"), timeout=WAIT_MS)
    section.token.setText("hf_secret")
    assert section.token.displayText() != "hf_secret"
    section.save_token.click()
    assert section.token.text() == ""
    qtbot.waitUntil(lambda: section.token_state.text().startswith("Set, in the hub's own file"), timeout=WAIT_MS)
    assert (hub / "token").read_text() == "hf_secret"
    assert (hub / "token").stat().st_mode & 0o777 == 0o600
    section.forget_token.click()
    assert (hub / "token").exists()
    assert section.forget_token.text() == "Really remove?"
    section.forget_token.click()
    qtbot.waitUntil(lambda: section.token_state.text().startswith("Not set"), timeout=WAIT_MS)
    assert not (hub / "token").exists()
    assert "hf_secret" not in caplog.text


def test_what_cannot_be_a_token_is_refused(open_page: Callable[..., SettingsPage], qtbot: QtBot, hub: Path) -> None:
    section = open_page().storage
    section.token.setText("two words")
    section.save_token.click()
    qtbot.waitUntil(section.problem.isVisible, timeout=WAIT_MS)
    assert "no token" in section.problem.text()
    assert "two words" not in section.problem.text()
    assert not hub.exists()


def test_beginnings_of_downloads_are_measured_and_removed_after_a_second_click(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, tmp_path: Path
) -> None:
    blobs = tmp_path / "models" / "models--acme--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "whole").write_bytes(b"w" * 3000)
    (blobs / "begun.0123abcd.incomplete").write_bytes(b"b" * 2000)
    section = open_page().storage
    qtbot.waitUntil(lambda: section.leftovers.text().startswith("2.0 kB in 1 file"), timeout=WAIT_MS)
    assert section.models.text().startswith("3.0 kB")
    section.clean_leftovers.click()
    section.clean_leftovers.click()
    qtbot.waitUntil(lambda: section.leftovers.text() == "None.", timeout=WAIT_MS)
    assert [path.name for path in blobs.iterdir()] == ["whole"]


def test_prepared_kernels_are_measured_and_removed_by_the_real_engine(
    open_around: OpenAround, qtbot: QtBot, tmp_path: Path
) -> None:
    kernels = tmp_path / "kernels" / "0123456789abcdef"
    kernels.mkdir(parents=True)
    (kernels / "manifest.json").write_text("{")
    values = {"models_folder": str(tmp_path / "models"), "kernels_folder": str(kernels.parent)}
    around = open_around(values, command=worker_command("window"))
    around.open_settings()
    assert around.page is not None
    section = around.page.storage
    qtbot.waitUntil(lambda: section.kernels.text().startswith("1 B; 1 B of it"), timeout=WAIT_MS)
    around.settings.set("kernels_folder", str(tmp_path / "others"))
    qtbot.waitUntil(lambda: section.kernels.text() == "None.", timeout=WAIT_MS)
    around.settings.set("kernels_folder", str(kernels.parent))
    qtbot.waitUntil(lambda: section.kernels.text().startswith("1 B"), timeout=WAIT_MS)
    section.clean_kernels.click()
    qtbot.waitUntil(lambda: section.kernels.text() == "None.", timeout=WAIT_MS)
    assert section.problem.text() == ""
    assert not kernels.exists()
    assert not section.clean_kernels.isEnabled()


@pytest.mark.parametrize("text_px", [9, 14, 24, 40])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_nothing_on_the_page_is_cut_off(
    open_page: Callable[..., SettingsPage], qtbot: QtBot, theme: Theme, text_px: int, scheme: str
) -> None:
    page = open_page({"text_px": text_px, "theme": scheme})
    theme.set_scheme(scheme)  # type: ignore[arg-type]
    assert page.width() <= 900
    assert page.height() <= 600
    body = page.area.widget()
    qtbot.waitUntil(lambda: body.width() == page.area.viewport().width())
    kinds = (QAbstractButton, QComboBox, QLineEdit, QAbstractSpinBox, QPlainTextEdit)
    for widget in body.findChildren(QWidget):
        if isinstance(widget, kinds) and widget.isVisible() and not isinstance(widget.parent(), QAbstractSpinBox):
            box = widget.rect().translated(widget.mapTo(body, widget.rect().topLeft()))
            assert body.rect().contains(box), (widget, box, body.rect())
            if not isinstance(widget, Switch):  # it has no text
                assert widget.height() >= widget.fontMetrics().height(), widget


def test_every_control_has_a_name_for_screen_readers_and_is_reached_by_tab(
    open_page: Callable[..., SettingsPage],
) -> None:
    page = open_page()
    kinds = (QAbstractButton, QComboBox, QLineEdit, QAbstractSpinBox, QPlainTextEdit)
    controls = [
        widget
        for widget in page.findChildren(QWidget)
        if isinstance(widget, kinds)
        and widget.isVisible()
        and widget.isEnabled()
        and widget.focusPolicy() is not Qt.FocusPolicy.NoFocus
        and not isinstance(widget.parent(), QAbstractSpinBox)
    ]
    assert len(controls) > len(DECLARATIONS)
    for widget in controls:
        assert QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name), widget
    reached, at = set(), page.search
    while at not in reached:
        reached.add(at)
        at = at.nextInFocusChain()  # type: ignore[assignment]
    assert set(controls) <= reached
