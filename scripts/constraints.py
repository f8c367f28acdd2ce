"""Keeps the exact versions: `[tool.uv] constraint-dependencies` in pyproject.toml, and constraints.txt, a copy for pip.

uv.lock names the registry's host, so it is not kept in git; these lists name versions alone.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
_LIST = re.compile(r"^constraint-dependencies = \[.*?\]$", re.MULTILINE | re.DOTALL)
_BUILD_LIST = re.compile(r"^build-constraint-dependencies = \[.*?\]$", re.MULTILINE | re.DOTALL)


def constraints(pyproject: str) -> list[str]:
    """The constraints that the text of a pyproject.toml holds, in its order."""
    held: list[str] = tomllib.loads(pyproject)["tool"]["uv"]["constraint-dependencies"]
    return held


def constraints_txt(pyproject: str) -> str:
    """The text of constraints.txt that belongs to the text of a pyproject.toml."""
    head = "# Written by scripts/constraints.py from pyproject.toml: pip install -c constraints.txt .\n"
    return head + "".join(f"{line}\n" for line in constraints(pyproject))


def with_constraints(pyproject: str, lines: list[str]) -> str:
    """The text of pyproject.toml with its constraints replaced by `lines`; the build's follow them."""
    block = "".join(f'    "{line}",\n' for line in lines)
    build = [f'"{line}"' for line in lines if line.startswith("maturin==")]
    text = _LIST.sub(f"constraint-dependencies = [\n{block}]", pyproject)
    return _BUILD_LIST.sub(f"build-constraint-dependencies = [{', '.join(build)}]", text)


def resolve(pyproject: str) -> list[str]:
    """What uv resolves for the text of a pyproject.toml, for all its platforms, Pythons and groups, as constraints.

    Raises `subprocess.CalledProcessError` when uv finds no solution.
    """
    uv = os.environ.get("UV", "uv")  # set by `uv run`
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(pyproject)
        export = [
            "export",
            "--quiet",
            "--all-groups",
            "--no-emit-project",
            "--no-hashes",
            "--no-annotate",
            "--no-header",
        ]
        run = subprocess.run([uv, *export], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    pins = [line.partition(" ; ") for line in run.stdout.splitlines()]
    times = Counter(_name(pin) for pin, _, _ in pins)
    # A version that is the only one of its package holds everywhere: no marker.
    return [f"{pin}; {_python_marker(marker)}" if times[_name(pin)] > 1 else pin for pin, _, marker in pins]


def _name(pin: str) -> str:
    return pin.partition("==")[0]


def _python_marker(marker: str) -> str:
    """What a marker says of Python's version: the rest of it repeats `[tool.uv] environments`."""
    return " and ".join(re.findall(r"python_full_version [<>=!]+ '[^']+'", marker))


def main(arguments: list[str] | None = None) -> int:
    """Write the lists, or check them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--check", action="store_true", help="fail unless pyproject.toml pins all that uv resolves")
    which.add_argument("--upgrade", action="store_true", help="resolve the newest versions into both files")
    chosen = parser.parse_args(arguments)

    text = PYPROJECT.read_text()
    if chosen.check:
        differing = sorted(set(resolve(text)) ^ set(constraints(text)))
        if differing:
            print(f"Unpinned or no longer needed: {', '.join(differing)}. Run scripts/constraints.py.", file=sys.stderr)
        return 1 if differing else 0
    # Without --upgrade the pins stand, and only what is new or no longer needed changes.
    lines = resolve(with_constraints(text, []) if chosen.upgrade else text)
    text = with_constraints(text, lines)
    PYPROJECT.write_text(text)
    CONSTRAINTS.write_text(constraints_txt(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
