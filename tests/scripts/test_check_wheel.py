"""The check of a built wheel: it passes a right one and names what is wrong with others."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from scripts.check_wheel import LICENCES, ROOT, complaints, shipped_files

INFO = "mirror_sd-0.1.0.dist-info"
DRAFT = "assets/demo-draft/model.safetensors"
NATIVE = "ane/_native.abi3.so"


@pytest.fixture
def content() -> dict[str, bytes]:
    """What a right wheel holds."""
    licences = {f"{INFO}/licenses/{name}": (ROOT / name).read_bytes() for name in LICENCES}
    entry_points = {f"{INFO}/entry_points.txt": b"[console_scripts]\nmirror-sd=app.__main__:main\n"}
    return shipped_files() | licences | entry_points | {NATIVE: b"ELF"}


def check(content: dict[str, bytes], folder: Path) -> list[str]:
    wheel = folder / "mirror_sd-0.1.0-cp311-abi3-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return complaints(wheel)


def test_a_right_wheel_passes(content: dict[str, bytes], tmp_path: Path) -> None:
    assert check(content, tmp_path) == []


@pytest.mark.parametrize(
    "name", [DRAFT, "assets/licences/Apache-2.0.txt", "ane/py.typed", "core/client.py", f"{INFO}/licenses/NOTICE"]
)
def test_a_missing_file_is_named(name: str, content: dict[str, bytes], tmp_path: Path) -> None:
    del content[name]
    assert check(content, tmp_path) == [f"missing: {name}"]


def test_a_changed_draft_is_named(content: dict[str, bytes], tmp_path: Path) -> None:
    content[DRAFT] = content[DRAFT][:-1]
    assert check(content, tmp_path) == [f"differs from the source tree: {DRAFT}"]


@pytest.mark.parametrize("name", ["ane/src/lib.rs", "ane/Cargo.toml", "tests/test_layers.py"])
def test_a_file_that_does_not_belong_there_is_named(name: str, content: dict[str, bytes], tmp_path: Path) -> None:
    content[name] = b""
    (complaint,) = check(content, tmp_path)
    assert name in complaint


def test_a_wheel_without_the_native_module_or_the_command_is_refused(content: dict[str, bytes], tmp_path: Path) -> None:
    del content[NATIVE], content[f"{INFO}/entry_points.txt"]
    native, command = check(content, tmp_path)
    assert NATIVE in native
    assert "mirror-sd" in command
