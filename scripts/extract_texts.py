"""Writes what there is to translate, as a template of gettext: `extract_texts.py FILE.pot`.

A language then begins with `pybabel init -i FILE.pot -d assets/locale -D mirror-sd -l LANGUAGE`; what the window reads
is made of it by `pybabel compile -d assets/locale -D mirror-sd`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

from core.settings import DECLARATIONS, Group

ROOT = Path(__file__).resolve().parent.parent
_LOOK_UPS = {"tr": None, "trn": (1, 2)}
_SETTINGS = "core/settings.py"


def template() -> Catalog:
    """All texts that the window looks up, with the places where they stand."""
    catalog = Catalog(project="Mirror SD", fuzzy=False)
    for file, line, message, _, _ in extract_from_dir(ROOT / "app", keywords=_LOOK_UPS):
        catalog.add(message, locations=[(f"app/{file}", line)])
    for text in _declared():
        catalog.add(text, locations=[(_SETTINGS, 1)])
    return catalog


def _declared() -> set[str]:
    """Of the settings page."""
    texts = set(get_args(Group))
    for each in DECLARATIONS:
        texts.update((each.label, each.hint, each.unit, *(text for _, text in each.choices)))
    return texts - {""}


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    with file.open("wb") as output:
        write_po(output, template(), width=120)


if __name__ == "__main__":
    main()
