"""Texts are looked up in the user's language."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from app.language import catalog, tr


def write_catalog(path: Path, texts: dict[str, str]) -> None:
    """A compiled catalog as gettext's manual lays it out: tables of lengths and offsets, then the texts."""
    entries = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **texts}.items())
    at = 28 + 16 * len(entries)
    tables, blob = [b"", b""], b""
    for table, column in enumerate(zip(*entries, strict=True)):
        for text in column:
            data = text.encode()
            tables[table] += struct.pack("<II", len(data), at + len(blob))
            blob += data + b"\0"
    path.parent.mkdir(parents=True)
    header = struct.pack("<IIIIIII", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    path.write_bytes(header + tables[0] + tables[1] + blob)


def test_a_catalog_of_the_user_s_language_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_catalog(tmp_path / "de" / "LC_MESSAGES" / "mirror-sd.mo", {"Settings": "Einstellungen"})
    monkeypatch.setenv("LANGUAGE", "de")
    assert catalog(tmp_path).gettext("Settings") == "Einstellungen"
    assert catalog(tmp_path).gettext("Log") == "Log"
    monkeypatch.setenv("LANGUAGE", "fr")
    assert catalog(tmp_path).gettext("Settings") == "Settings"


def test_what_ships_is_english() -> None:
    assert tr("Settings") == "Settings"
    assert tr("") == ""


def test_in_another_language_no_text_of_the_window_is_english() -> None:
    """Texts are looked up as the modules are loaded, so this takes a process whose catalog is there before them."""
    tests = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "helpers.marked_texts", str(tests / "app" / "translated")]
    environment = {**os.environ, "PYTHONPATH": str(tests), "PYTEST_ADDOPTS": ""}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=tests.parent, check=False, timeout=300
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
