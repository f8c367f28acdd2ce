"""The search reaches the hub: debounced, for the newest text alone, with reasons, offline, and into a pair."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.pairs.cards import Filter
from app.pairs.picker import PairPicker
from app.pairs.picker_model import PickerModel
from app.pairs.sources import PairSources
from app.theme import Theme
from helpers.fake_hub import FakeHub, Repo, status
from helpers.tiny_pairs import DRAFT, draft_files, target_files
from helpers.window import WAIT_MS


@pytest.fixture(autouse=True)
def models(hub: FakeHub) -> None:
    hub.repos["bob/tiny-other"] = Repo(target_files(4))
    hub.repos["bob/tiny-gguf"] = Repo({"tiny.gguf": b"GGUF"})
    hub.repos["bob/tiny-mine"] = Repo(draft_files(), gated=True)


@pytest.fixture
def picker(model: PickerModel, qtbot: QtBot, theme: Theme) -> PairPicker:  # noqa: ARG001
    picker = PairPicker(model)
    qtbot.addWidget(picker)
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        picker.open_now()
    return picker


def searches(hub: FakeHub) -> list[str]:
    return [request.path for request in hub.requests if request.path.startswith("/api/models?")]


def until(model: PickerModel, qtbot: QtBot, state: str) -> None:
    qtbot.waitUntil(lambda: model.hub_search.results.state == state, timeout=WAIT_MS)


def texts(picker: PairPicker) -> str:
    rows = picker.hub_results.rows
    return "\n".join(child.text() for row in rows for child in row.children() if hasattr(child, "text"))


def buttons(picker: PairPicker) -> dict[str, QPushButton]:
    found = [button for row in picker.hub_results.rows for button in row.findChildren(QPushButton)]
    return {button.accessibleName(): button for button in found}


def test_many_keys_make_one_request(model: PickerModel, hub: FakeHub, qtbot: QtBot) -> None:
    for length in range(1, 5):
        model.set_filter(Filter("tiny"[:length]))
    until(model, qtbot, "found")
    assert len(searches(hub)) == 1
    assert "search=tiny&" in searches(hub)[0]
    model.set_filter(Filter("tiny", fitting=True))
    assert model.hub_search.results.state == "found", "the same text is not searched for again"
    model.set_filter(Filter("ti"))
    assert model.hub_search.results.state == ""


def test_results_say_what_they_could_be_or_why_nothing(picker: PairPicker, model: PickerModel, qtbot: QtBot) -> None:
    picker.search.setText("tiny")
    assert picker.hub_results.state.text() == "Searching …"
    until(model, qtbot, "found")
    repos = [each.repo for each in model.hub_search.results.candidates]
    assert DRAFT in repos, "the hub has it, and a card stands for it"
    assert set(buttons(picker)) == {"bob/tiny-other: as target", "bob/tiny-mine: as draft"}
    assert len(picker.hub_results.rows) == 3
    picker.downloaded.setChecked(True)
    assert not picker.hub_results.isVisible()


def test_a_result_becomes_a_pair_that_is_checked_without_a_download(
    picker: PairPicker, model: PickerModel, sources: PairSources, qtbot: QtBot
) -> None:
    picker.search.setText("tiny-other")
    until(model, qtbot, "found")
    buttons(picker)["bob/tiny-other: as target"].click()
    assert picker.custom.target.text() == "bob/tiny-other"
    qtbot.waitUntil(lambda: "These known drafts" in picker.custom.headline.text(), timeout=WAIT_MS)
    fitting = [picker.custom.fitting.itemAt(index).widget() for index in range(picker.custom.fitting.count())]
    (button,) = [each for each in fitting if isinstance(each, QPushButton)]
    assert button.text() == f"{DRAFT} (made for another target)"
    button.click()
    qtbot.waitUntil(lambda: picker.custom.headline.text() == "This pair can be run.", timeout=WAIT_MS)
    assert not sources.hub.cache_dir.exists()


def test_nothing_found_is_said(picker: PairPicker, model: PickerModel, qtbot: QtBot) -> None:
    picker.search.setText("zebra")
    until(model, qtbot, "found")
    assert picker.hub_results.state.text() == "The hub has no further model for “zebra”."


def test_a_hub_that_fails_is_said_and_the_rest_stays(
    picker: PairPicker, model: PickerModel, hub: FakeHub, qtbot: QtBot
) -> None:
    hub.on_search.append(status(500))
    picker.search.setText("tiny")
    until(model, qtbot, "failed")
    assert "The hub was not searched: " in picker.hub_results.state.text()
    assert "Tiny" in texts(picker) + picker._cards["tiny-4bit"].name.text()
    assert not picker.notice.isVisible()


def test_changed_settings_hold_from_the_next_reading_on(
    hub: FakeHub, sources: PairSources, qtbot: QtBot, loop: object
) -> None:
    now = [sources]
    model = PickerModel(lambda: now[0])
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        model.reload()
    model.set_filter(Filter("tiny"))
    until(model, qtbot, "found")
    now[0] = replace(sources, hub=msgspec.structs.replace(sources.hub, offline=True))
    with qtbot.waitSignal(model.listed, timeout=WAIT_MS):
        model.reload()
    model.set_filter(Filter("tiny"))
    until(model, qtbot, "failed")
    problem = model.hub_search.results.problem
    assert problem is not None
    assert problem.kind == "HubOffline"
    assert len(searches(hub)) == 1
    model.plan("tiny-4bit")
    qtbot.waitUntil(lambda: model.card("tiny-4bit").problem is not None, timeout=WAIT_MS)
    task = loop.create_task(model.close())  # type: ignore[attr-defined]
    qtbot.waitUntil(task.done, timeout=WAIT_MS)
