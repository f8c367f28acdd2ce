"""Texts are looked up in the user's language."""

from __future__ import annotations

from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from app.language import catalog, tr, trn
from helpers.child_tests import assert_they_pass

FILES: dict[str | tuple[str, str], str | tuple[str, str]] = {("{n} file", "{n} files"): ("{n} Datei", "{n} Dateien")}


def write_catalog(path: Path, texts: dict[str | tuple[str, str], str | tuple[str, str]]) -> None:
    """A compiled catalog."""
    translated = Catalog(locale="de")
    for text, translation in texts.items():
        translated.add(text, translation)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        write_mo(file, translated)


def test_a_catalog_of_the_user_s_language_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_catalog(tmp_path / "de" / "LC_MESSAGES" / "mirror-sd.mo", {"Settings": "Einstellungen", **FILES})
    monkeypatch.setenv("LANGUAGE", "de")
    assert catalog(tmp_path).gettext("Settings") == "Einstellungen"
    assert catalog(tmp_path).gettext("Log") == "Log"
    assert catalog(tmp_path).ngettext("{n} file", "{n} files", 1) == "{n} Datei"
    assert catalog(tmp_path).ngettext("{n} file", "{n} files", 0) == "{n} Dateien"
    monkeypatch.setenv("LANGUAGE", "fr")
    assert catalog(tmp_path).gettext("Settings") == "Settings"


def test_what_ships_is_english() -> None:
    assert tr("Settings") == "Settings"
    assert tr("") == ""
    assert (trn("one", "more", 1), trn("one", "more", 2)) == ("one", "more")


@pytest.mark.timeout(300)
def test_in_another_language_no_text_of_the_window_is_english() -> None:
    """Texts are looked up as the modules are loaded, so this takes a process whose catalog is there before them."""
    tests = Path(__file__).resolve().parents[1]
    translated = tests / "app" / "translated"
    assert_they_pass([translated], "-p", "helpers.marked_texts", PYTHONPATH=str(tests), PYTEST_ADDOPTS="")
