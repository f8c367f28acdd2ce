"""The settings on disk: damaged files, bad values, newer versions, other programs, disks that say no."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import BadRequest, SettingsNotSaved
from core.lock import held_alone
from core.pairs import Pair
from core.settings import DECLARATIONS, Settings
from core.settings_file import SettingsFile, read_settings

ROOT = Path(__file__).resolve().parents[2]
CHANGE = """
import sys
from pathlib import Path
from msgspec.structs import replace
from core.settings_file import SettingsFile
name, file = sys.argv[1], SettingsFile(Path(sys.argv[2]))
file.load()
print("ready", flush=True)
sys.stdin.readline()
for turn in range(120):
    value = 10 + turn % 30
    file.save(replace(file.settings, **{name: value}))
    file.load()
    assert getattr(file.settings, name) == value, "the other program undid a change"
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.json"


def loaded(path):
    file = SettingsFile(path)
    return file, file.load()


def damaged(path):
    return list(path.parent.glob("*damaged*"))


def test_without_a_file_the_defaults_stand_and_none_is_made(path):
    file, problems = loaded(path)
    assert (file.settings, problems) == (Settings(), ())
    assert not path.exists()


def test_a_pair_is_saved_and_there_again(path):
    pair = Pair("Mine", "/a/target", None)
    file, _ = loaded(path)
    assert file.save(replace(file.settings, pair=pair)).pair == pair
    assert loaded(path)[0].settings == Settings(pair=pair)
    assert read_settings(path).pair == pair


def test_what_is_saved_is_there_again_and_nothing_else(path):
    file, _ = loaded(path)
    file.save(replace(file.settings, theme="dark", temperature=0.5))
    again, problems = loaded(path)
    assert (again.settings, problems) == (Settings(theme="dark", temperature=0.5), ())
    assert json.loads(path.read_text()) == {"theme": "dark", "temperature": 0.5}


def test_the_folder_is_made(tmp_path):
    file = SettingsFile(tmp_path / "new" / "folder" / "settings.json")
    file.load()
    file.save(Settings(simple=True))
    assert (tmp_path / "new" / "folder" / "settings.json").exists()


def test_a_setting_can_return_to_its_default(path):
    file, _ = loaded(path)
    file.save(replace(file.settings, text_px=20))
    assert file.save(Settings()).text_px == 14
    assert loaded(path)[0].settings == Settings()


def test_a_bad_value_falls_back_to_its_default_and_is_told_of(path):
    path.write_text('{"text_px": "huge", "theme": "dark", "mode": "warp", "simple": 1}')
    file, problems = loaded(path)
    assert file.settings == Settings(theme="dark")
    assert [problem.sentence for problem in problems] == [
        "The setting “Size of text” is 'huge', which is not a whole number from 9 to 40: its default (14) is used.",
        "The setting “Simple window” is '1', which is not true or false: its default (False) is used.",
        "The setting “Decoding mode of new chats” is 'warp', which is not one of auto, plain, lookup, gpu, ane, "
        "mirror: its default ('auto') is used.",
    ]


def test_what_a_newer_version_wrote_survives_a_save(path):
    path.write_text('{"theme": "sepia", "future": {"deep": [1, null]}, "text_px": 20}')
    file, _ = loaded(path)
    file.save(replace(file.settings, code_px=20))
    assert json.loads(path.read_text()) == {
        "theme": "sepia",
        "future": {"deep": [1, None]},
        "text_px": 20,
        "code_px": 20,
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b"\xff\xfe\0", b'{"a": "\\ud800"}', b"[" * 100_000, b'{"a":' * 100_000, b"\0" * 50],
    ids=["empty", "cut off", "list", "null", "binary", "half character", "deep list", "deep object", "zeros"],
)
def test_a_damaged_file_is_set_aside_whole_and_told_of(path, content):
    path.write_bytes(content)
    file, problems = loaded(path)
    assert file.settings == Settings()
    (kept,) = damaged(path)
    assert kept.read_bytes() == content
    assert [kept.name in problem.sentence for problem in problems] == [True]
    assert loaded(path)[1] == ()


def test_a_file_that_is_damaged_while_the_program_runs_is_set_aside_by_a_save(path):
    file, _ = loaded(path)
    path.write_bytes(b"{")
    file.save(replace(file.settings, simple=True))
    assert [kept.read_bytes() for kept in damaged(path)] == [b"{"]
    assert loaded(path)[0].settings == Settings(simple=True)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(text_px=1000),
        Settings(theme="sepia"),
        Settings(temperature=float("nan")),
        Settings(hub_endpoint="hub"),
        Settings(models_folder="/\udcff"),
    ],
)
def test_a_bad_value_is_not_saved(path, settings):
    file, _ = loaded(path)
    file.save(replace(file.settings, code_px=20))
    content = path.read_bytes()
    with pytest.raises(BadRequest, match="cannot be"):
        file.save(settings)
    assert path.read_bytes() == content
    assert file.settings == Settings(code_px=20)


def test_a_disk_that_says_no_is_told_of_and_the_file_stays(path, monkeypatch):
    file, _ = loaded(path)
    file.save(replace(file.settings, code_px=20))
    content = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SettingsNotSaved, match="could not be saved"):
        file.save(replace(file.settings, code_px=30))
    assert (path.read_bytes(), file.settings) == (content, Settings(code_px=20))


def test_a_file_that_cannot_be_read_is_told_of_and_stays(path):
    path.mkdir()
    file, problems = loaded(path)
    assert [problem.kind for problem in problems] == ["UnreadableSettings"]
    with pytest.raises(SettingsNotSaved):
        file.save(Settings(simple=True))
    assert path.is_dir()


def test_a_program_that_holds_the_file_too_long_is_told_of(path, monkeypatch):
    monkeypatch.setattr("core.settings_file._LOCK_TIMEOUT_S", 0.05)
    file, _ = loaded(path)
    with held_alone(path.with_name("settings.json.lock"), 1), pytest.raises(SettingsNotSaved):
        file.save(Settings(simple=True))


def test_two_programs_change_different_settings_and_neither_loses_one(path):
    command = [sys.executable, "-c", CHANGE]
    children = [
        subprocess.Popen(
            [*command, name, str(path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("text_px", "code_px")
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    while any(child.poll() is None for child in children):
        assert loaded(path)[1] == ()  # whole at every moment
    assert [child.wait() for child in children] == [0, 0]
    for child in children:
        child.communicate()
    assert loaded(path)[0].settings == Settings(text_px=39, code_px=39)
    assert damaged(path) == []


def test_a_change_in_another_window_is_seen_with_the_next_save(path):
    mine, _ = loaded(path)
    other, _ = loaded(path)
    other.save(replace(other.settings, theme="dark"))
    assert mine.save(replace(mine.settings, simple=True)) == Settings(theme="dark", simple=True)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from([declaration.name for declaration in DECLARATIONS])


@given(stored=st.dictionaries(NAMES | st.text(), VALUES, max_size=6))
def test_no_values_do_harm_and_none_is_lost(stored, tmp_path_factory):
    path = tmp_path_factory.mktemp("settings") / "settings.json"
    path.write_text(json.dumps(stored))
    file, problems = loaded(path)
    bad = {problem.detail for problem in problems}
    for name in Settings.__struct_fields__:
        expected = stored[name] if name in stored and name not in bad else getattr(Settings(), name)
        assert getattr(file.settings, name) == expected
    file.save(replace(file.settings, simple=not file.settings.simple))
    assert json.loads(path.read_text()) == {**stored, "simple": file.settings.simple}
