"""The licences of this program, and of what runs with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import assets
from app.language import tr

_PROGRAM = "mirror-sd"
_NAME = re.compile(r"[A-Za-z0-9._-]+")

QT = tr("""Qt and PySide6 come under the GNU Lesser General Public License, version 3.

They are installed beside Mirror SD as separate Python packages (PySide6_Essentials, shiboken6) and are not changed by \
it: you may replace them by other versions that are compatible. Their source: https://code.qt.io. The licence: \
https://www.gnu.org/licenses/lgpl-3.0.html.""")


@cache
def licence_texts() -> dict[str, str]:
    """By title: what a user of the program is to be shown. Read once: it takes some tenths of a second."""
    return {
        "Mirror SD": _own("LICENSE"),
        tr("Notices"): _own("NOTICE"),
        "Qt": QT,
        tr("Python packages"): "\n".join(packages()),
        "Apache License 2.0": assets.path("licences/Apache-2.0.txt").read_text(encoding="utf-8"),
    }


def packages() -> list[str]:
    """Every installed package that the program needs, with version and licence, by name."""
    return sorted({_line(found) for found in _needed(_PROGRAM, set())}, key=str.lower)


def _own(name: str) -> str:
    """A file of the program, as installed or as it lies in a checkout."""
    try:
        text = distribution(_PROGRAM).read_text(f"licenses/{name}")
    except PackageNotFoundError:
        text = None
    checkout = Path(assets.__file__).parents[1] / name
    return text or (
        checkout.read_text(encoding="utf-8") if checkout.is_file() else tr("{name} is missing.").format(name=name)
    )


def _needed(name: str, seen: set[str]) -> Iterator[Distribution]:
    """What is installed of the packages that `name` requires, and of those that they require."""
    try:
        requirements = distribution(name).requires or []
    except PackageNotFoundError:
        return  # for another system
    for requirement in requirements:
        match = _NAME.match(requirement)
        required = match.group().lower().replace("_", "-") if match else ""
        if not required or required in seen or "extra ==" in requirement:
            continue
        seen.add(required)
        try:
            yield distribution(required)
        except PackageNotFoundError:
            continue
        yield from _needed(required, seen)


def _line(found: Distribution) -> str:
    about = found.metadata
    expression = about["License-Expression"] or ""
    classified = [value.split("::")[-1].strip() for value in about.get_all("Classifier") or [] if "License ::" in value]
    first_line = (about["License"] or "").strip().partition("\n")[0][:60]
    licence = expression or ", ".join(classified) or first_line or tr("see the package")
    return f"{about['Name']} {found.version}: {licence}"
