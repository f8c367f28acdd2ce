"""The settings of one window: kept at once, told once, and never written over what another window changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.settings.model import SettingsModel
from core.errors import Problem
from core.settings import Settings

Stored = Callable[[], dict[str, object]]


@pytest.fixture
def model(qtbot: QtBot, file: Path) -> SettingsModel:  # noqa: ARG001
    return SettingsModel()


def told(model: SettingsModel) -> tuple[list[str], list[Problem]]:
    names: list[str] = []
    problems: list[Problem] = []
    model.changed.connect(names.append)
    model.problem_met.connect(problems.append)
    model.refused.connect(lambda _name, problem: problems.append(problem))
    return names, problems


def test_a_change_is_kept_at_once_and_told(model: SettingsModel, stored: Stored) -> None:
    names, problems = told(model)
    model.set("temperature", 0.5)
    assert (names, problems, stored()) == (["temperature"], [], {"temperature": 0.5})
    assert model.values == Settings(temperature=0.5)
    assert not model.is_default("temperature")


def test_the_same_value_again_is_no_change(model: SettingsModel) -> None:
    names, _ = told(model)
    model.set("theme", "system")
    assert names == []


def test_reset_goes_back_to_the_default(model: SettingsModel) -> None:
    model.set("max_tokens", 7)
    model.reset("max_tokens")
    assert model.values == Settings()
    assert model.is_default("max_tokens")


def test_a_bad_value_is_refused_and_nothing_changes(model: SettingsModel, stored: Stored) -> None:
    names, problems = told(model)
    model.set("hub_endpoint", "huggingface.co")
    assert names == []
    assert "http://" in problems[0].sentence
    assert stored() == {}
    assert model.values == Settings()


def test_a_file_that_cannot_be_written_is_told(model: SettingsModel, file: Path) -> None:
    _, problems = told(model)
    file.parent.chmod(0o500)
    try:
        if not _refuses(file.parent):
            pytest.skip("this user may write everywhere")
        model.set("theme", "dark")
    finally:
        file.parent.chmod(0o700)
    assert problems[0].kind == "SettingsNotSaved"
    assert model.values.theme == "system"


def _refuses(folder: Path) -> bool:
    try:
        (folder / "probe").touch()
    except OSError:
        return True
    (folder / "probe").unlink()
    return False


def test_two_windows_keep_each_other_s_changes(model: SettingsModel, stored: Stored) -> None:
    other = SettingsModel()
    other.set("text_px", 20)
    names, _ = told(model)
    model.set("theme", "light")
    assert stored() == {"text_px": 20, "theme": "light"}
    assert sorted(names) == ["text_px", "theme"]
    model.set("code_px", 18)
    other_names, _ = told(other)
    other.look_again()
    assert sorted(other_names) == ["code_px", "theme"]


def test_a_damaged_file_is_told_once_kept_aside_and_the_defaults_stand(model: SettingsModel, file: Path) -> None:
    file.write_text("{")
    _, problems = told(model)
    model.look_again()
    model.look_again()
    assert [problem.kind for problem in problems] == ["CorruptSettings"]
    assert [path.read_text() for path in file.parent.glob("*damaged*")] == ["{"]


def test_a_bad_value_in_the_file_is_told_once_and_stays_in_it(model: SettingsModel, file: Path) -> None:
    file.write_text(json.dumps({"text_px": 4000, "theme": "dark", "from_the_future": 1}))
    names, problems = told(model)
    model.look_again()
    model.look_again()
    assert names == ["theme"]
    assert [problem.kind for problem in problems] == ["BadSetting"]
    model.set("code_px", 12)
    assert json.loads(file.read_text()) == {"text_px": 4000, "theme": "dark", "from_the_future": 1, "code_px": 12}


def test_a_file_that_cannot_be_read_any_more_changes_nothing(model: SettingsModel, file: Path) -> None:
    model.set("theme", "dark")
    file.unlink()
    file.mkdir()
    names, problems = told(model)
    model.look_again()
    assert names == []
    assert problems[0].kind == "UnreadableSettings"
    assert model.values.theme == "dark"
