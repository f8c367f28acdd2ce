"""The versions: one for the product, exact ones for what it stands on, and the lists of those equal."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ane
import core
from scripts.constraints import CONSTRAINTS, PYPROJECT, constraints, constraints_txt, with_constraints

ROOT = PYPROJECT.parent
TEXT = PYPROJECT.read_text()
PROJECT: dict[str, Any] = tomllib.loads(TEXT)


def pins() -> list[Requirement]:
    """The constraints that hold for this Python and platform."""
    held = [Requirement(line) for line in constraints(TEXT)]
    return [pin for pin in held if pin.marker is None or pin.marker.evaluate()]


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def test_the_crate_and_the_distribution_have_one_version() -> None:
    stated = PROJECT["project"]["version"]
    crate = tomllib.loads((ROOT / "ane/Cargo.toml").read_text())["package"]
    locked = tomllib.loads((ROOT / "ane/Cargo.lock").read_text())["package"]
    assert crate["version"] == stated
    assert [package["version"] for package in locked if package["name"] == "ane"] == [stated]
    assert ane.version() == stated
    assert core.__version__ == stated


def test_constraints_txt_is_the_list_in_pyproject() -> None:
    assert CONSTRAINTS.read_text() == constraints_txt(TEXT)


def test_new_constraints_reach_both_lists_of_pyproject_and_nothing_else() -> None:
    changed = with_constraints(TEXT, ["maturin==1.9.4", "numpy==2.0.0; python_full_version < '3.12'"])
    uv = tomllib.loads(changed)["tool"]["uv"]
    assert uv["constraint-dependencies"] == ["maturin==1.9.4", "numpy==2.0.0; python_full_version < '3.12'"]
    assert uv["build-constraint-dependencies"] == ["maturin==1.9.4"]
    assert with_constraints(changed, constraints(TEXT)) == TEXT


def test_every_constraint_is_one_exact_version() -> None:
    assert [str(pin) for pin in pins() if not re.fullmatch(r"==[^,*]+", str(pin.specifier)) or pin.extras] == []
    names = [canonicalize_name(pin.name) for pin in pins()]
    assert len(names) == len(set(names))


def test_every_direct_dependency_is_pinned_within_its_bounds() -> None:
    exact = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins()}
    direct = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    direct += [line for group in PROJECT["dependency-groups"].values() for line in group]
    for requirement in map(Requirement, direct):
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.specifier.contains(exact[canonicalize_name(requirement.name)]), requirement


def test_what_is_installed_is_what_is_pinned() -> None:
    other = {
        pin.name: installed(pin.name) for pin in pins() if installed(pin.name) not in {None, str(pin.specifier)[2:]}
    }
    assert other == {}


@pytest.mark.parametrize("package", ["app", "core", "ane", "assets", "scripts"])
def test_every_module_says_in_its_first_line_what_it_owns(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    silent = [path for path in files if not _first_line(path)]
    assert silent == []


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text()), clean=False) or ""
    return docstring.partition("\n")[0].strip()
