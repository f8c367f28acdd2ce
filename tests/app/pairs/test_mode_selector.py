"""The choice of mode."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItemModel
from pytestqt.qtbot import QtBot

from app.pairs.mode_selector import Devices, ModeSelector
from app.theme import Theme
from core.modes import MODES, MissingMode, Mode
from core.protocol import Loaded
from helpers.window import PAIR

REASON = "The draft's programs compute something else than the draft in MLX: layer 2 differs by 0.31, 0.02 is allowed."


def loaded(*modes: Mode, missing: tuple[MissingMode, ...] = (), block_size: int = 16) -> Loaded:
    return Loaded(PAIR, modes, missing, block_size, 2048, 1.5, 20.0)


@pytest.fixture
def selector(qtbot: QtBot, theme: Theme) -> ModeSelector:  # noqa: ARG001
    selector = ModeSelector()
    qtbot.addWidget(selector)
    return selector


def texts(selector: ModeSelector) -> list[str]:
    return [selector.itemText(index) for index in range(selector.count())]


def can_be_chosen(selector: ModeSelector) -> list[Mode]:
    model = selector.model()
    assert isinstance(model, QStandardItemModel)
    return [mode for index, mode in enumerate(selector._modes) if model.item(index).isEnabled()]


def test_modes_are_named_after_what_they_run_on(selector: ModeSelector) -> None:
    names = {"Auto", "Plain decoding", "GPU draft", "Compiled draft", "Mirror"}
    assert names <= set(texts(selector))
    selector.set_devices(Devices(on_gpu=False))
    assert "CPU draft" in texts(selector)
    selector.set_devices(Devices(programs_on="Neural Engine"))
    assert {"GPU draft", "Neural Engine draft"} <= set(texts(selector))


def test_every_mode_can_be_chosen_before_a_pair_is_known(selector: ModeSelector) -> None:
    assert can_be_chosen(selector) == list(MODES)


def test_the_choice_is_told_and_kept(selector: ModeSelector, qtbot: QtBot) -> None:
    assert selector.mode == "auto"
    with qtbot.waitSignal(selector.mode_chosen) as chosen:
        selector.choose("plain")
    assert chosen.args == ["plain"]
    selector.set_devices(Devices(on_gpu=False))
    assert selector.mode == "plain"


def test_modes_that_cannot_run_are_greyed_with_the_reason(selector: ModeSelector) -> None:
    missing = (MissingMode("ane", REASON), MissingMode("mirror", "The programs could not be written."))
    selector.set_loaded(loaded("plain", "gpu", "auto", missing=missing))
    assert not {"ane", "mirror"} & set(can_be_chosen(selector))
    index = selector._modes.index("mirror")
    assert selector.itemText(index) == "Mirror: The programs could not be written."
    assert selector.itemText(selector._modes.index("ane")).endswith("…")
    assert selector.itemData(selector._modes.index("ane"), Qt.ItemDataRole.ToolTipRole) == REASON
    assert selector.itemData(index, Qt.ItemDataRole.AccessibleDescriptionRole) == missing[1].reason
    assert REASON in selector.toolTip()
    assert REASON in selector.accessibleDescription()


def test_reasons_do_not_widen_the_closed_selector(selector: ModeSelector) -> None:
    before = selector.sizeHint()
    selector.set_loaded(loaded("plain", "gpu", "auto", missing=(MissingMode("mirror", REASON),)))
    assert selector.sizeHint().width() == pytest.approx(before.width(), abs=4)
    assert selector.minimumSizeHint() == selector.sizeHint()


def test_keys_pass_over_modes_that_cannot_run(selector: ModeSelector, qtbot: QtBot) -> None:
    selector.set_loaded(loaded("plain", "auto", "mirror"))
    selector.choose("plain")
    qtbot.keyClick(selector, Qt.Key.Key_Down)
    assert selector.mode == "mirror"


def test_a_choice_that_this_pair_does_not_have_comes_back_with_another(selector: ModeSelector) -> None:
    selector.choose("gpu")
    selector.set_loaded(loaded("plain", block_size=0))
    assert can_be_chosen(selector) == ["plain"]
    assert selector.mode == "plain"
    assert "GPU draft: This pair has no draft." in texts(selector)
    selector.set_loaded(loaded("plain", "gpu", "auto"))
    assert selector.mode == "gpu"


def test_the_simple_view_offers_speculation_and_plain_decoding(selector: ModeSelector, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(selector.mode_chosen):
        selector.set_simple(True)
    assert texts(selector) == ["Auto", "Plain decoding"]
    selector.choose("plain")
    assert selector.mode == "plain"
    selector.set_simple(False)
    assert len(texts(selector)) == 6


def test_the_simple_view_loses_no_choice_made_before(selector: ModeSelector, qtbot: QtBot) -> None:
    selector.choose("mirror")
    with qtbot.assertNotEmitted(selector.mode_chosen):
        selector.set_simple(True)
    assert texts(selector) == ["Auto", "Plain decoding", "Mirror"]
    assert selector.mode == "mirror"
    selector.choose("auto")
    assert texts(selector) == ["Auto", "Plain decoding"]
    selector.show_mode("mirror")  # another chat
    assert selector.mode == "mirror"
