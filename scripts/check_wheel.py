"""Checks that a built wheel holds the packages, their data and the licences, byte by byte, and nothing else."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "core", "ane", "assets")
NOT_SHIPPED = (".rs", ".so", ".dylib", ".pyc", "Cargo.toml", "Cargo.lock")
LICENCES = ("LICENSE", "NOTICE")


def shipped_files() -> dict[str, bytes]:
    """The content of every file of the source tree that belongs into the wheel, by its path there."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes() for path in files if not path.name.endswith(NOT_SHIPPED)
    }


def complaints(wheel: Path) -> list[str]:
    """What is wrong with the wheel, a line each; empty when it is right."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    info = next(name.partition("/")[0] for name in held if ".dist-info/" in name)

    wanted = shipped_files() | {f"{info}/licenses/{name}": (ROOT / name).read_bytes() for name in LICENCES}
    found += [f"missing: {name}" for name in sorted(wanted.keys() - held.keys())]
    found += [
        f"differs from the source tree: {name}"
        for name in sorted(wanted)
        if held.get(name, wanted[name]) != wanted[name]
    ]

    extra = [name for name in sorted(held.keys() - wanted.keys()) if not name.startswith(f"{info}/")]
    if extra != ["ane/_native.abi3.so"]:
        found.append(f"beside the source tree's files it should hold ane/_native.abi3.so alone, not {extra}")
    entry_points = held.get(f"{info}/entry_points.txt", b"").decode()
    if "mirror-sd=app.__main__:main" not in entry_points.replace(" ", ""):
        found.append(f"no command mirror-sd: {entry_points!r}")
    return found


def main(arguments: list[str]) -> int:
    """Check the one wheel that is named; returns the exit status."""
    if len(arguments) != 1:
        print("usage: check_wheel.py WHEEL", file=sys.stderr)
        return 2
    found = complaints(Path(arguments[0]))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
