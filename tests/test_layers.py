"""The borders between the packages: who may import what (no Qt in core, no MLX in the window)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "core", "ane", "assets")
QT = {"PySide6", "shiboken6", "qasync", "PyQt5", "PyQt6"}
MLX = {"mlx", "mlx_lm"}
OUTSIDE = {"tests", "helpers", "scripts", "pytest"}


def imports(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """The full names of all modules that a module's source imports, anywhere in it and in any form.

    `from a import b` yields both `a` and `a.b`, since b may be a module.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parents = module.split(".")
                parents = parents[: len(parents) - node.level + is_package]
                origin = ".".join([*parents, *([origin] if origin else [])])
            found.add(origin)
            found.update(f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in {"import_module", "__import__"}:
            found.update(a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))
    return found


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def refused(module: str, name: str) -> bool:
    """Whether `module` must not import `name`."""
    package, top = module.partition(".")[0], name.partition(".")[0]
    if top in OUTSIDE:
        return True
    if package == "app":
        return top in MLX | {"ane"} or _within(name, "core.engine") or _within(name, "core.training")
    if package == "core":
        has_mlx = _within(module, "core.engine") or _within(module, "core.training")
        return top in QT | {"app"} or (top in MLX | {"ane"} and not has_mlx)
    return top in QT | MLX | ({"app", "core"} | set(PACKAGES)) - {package}


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product by its full name."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_module_stays_within_its_layer() -> None:
    broken = [
        f"{module} imports {name}"
        for module, path in modules()
        for name in sorted(imports(path.read_text(), module, is_package=path.name == "__init__.py"))
        if refused(module, name)
    ]
    assert broken == []


def test_only_the_package_ane_touches_the_native_module() -> None:
    touching = [m for m, path in modules() if "ane._native" in imports(path.read_text(), m)]
    assert touching == ["ane"]


NETWORK = ("httpx", "httpx2", "requests", "aiohttp", "socket", "http", "urllib.request", "ftplib", "huggingface_hub")
QT_NETWORK = ("PySide6.QtNetwork", "PySide6.QtWebEngineCore", "PySide6.QtWebEngineWidgets", "PySide6.QtQuick")
READS_THE_CACHE = {"core.pairs.found", "core.bench.local_models"}
"""Use the hub's own library for what lies on the disk."""


def test_only_the_hub_client_reaches_the_network() -> None:
    """No download without a row in the window: nothing else could make one. None of it is Qt's, whose HTTP/2 aborts."""
    reaching = {
        module
        for module, path in modules()
        for name in imports(path.read_text(), module, is_package=path.name == "__init__.py")
        if any(_within(name, each) for each in (*NETWORK, *QT_NETWORK))
    }
    assert {m for m in reaching if not _within(m, "core.hub")} - READS_THE_CACHE == {"core.bench.hub"}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.pairs", "from PySide6.QtCore import QObject"),
        ("core.pairs", "def f():\n    import qasync"),
        ("core.client", "import mlx.core as mx"),
        ("core.client", "from mlx_lm import load"),
        ("core.client", "import ane"),
        ("core.engine.loader", "from app.theme import colours"),
        ("core.engine.loader", "from ...app import theme"),
        ("core.engine.loader", "from PySide6 import QtCore"),
        ("app.theme", "import importlib\nimportlib.import_module('mlx.core')"),
        ("app.theme", "if True:\n    from ane import tap_scale"),
        ("app.theme", "from core import engine"),
        ("app.theme", "import core.engine.decode"),
        ("app.theme", "import tests.helpers"),
        ("core.hub", "from scripts import constraints"),
        ("ane", "from core.errors import MirrorError"),
        ("assets", "import app"),
    ],
)
def test_a_forbidden_import_is_seen(module: str, source: str) -> None:
    assert any(refused(module, name) for name in imports(source, module))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("core.engine.loader", "import mlx.core as mx\nfrom ane import tap_scale\nfrom . import target"),
        ("core.worker", "from core.engine import session"),
        ("app.theme", "from PySide6.QtCore import QObject\nfrom core.client import EngineClient\nimport assets"),
    ],
)
def test_an_allowed_import_passes(module: str, source: str) -> None:
    assert not any(refused(module, name) for name in imports(source, module))


def test_the_window_process_loads_no_mlx_and_nothing_slow_even_indirectly() -> None:
    window = [module for module, _ in modules() if _within(module, "app")]
    unwanted = {"mlx", "mlx_lm", "ane", "transformers", "ziamath"}
    code = f"import sys, {', '.join(window)}\nprint(sorted({unwanted} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[]\n", "")
