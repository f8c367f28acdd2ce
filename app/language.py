"""Translation: texts are written in English and looked up in the user's language as they are shown.

Catalogs are gettext's: `assets/locale/LANGUAGE/LC_MESSAGES/mirror-sd.mo`. None ships yet, so everything is English.
"""

from __future__ import annotations

import gettext
from pathlib import Path

import assets

DOMAIN = "mirror-sd"


def catalog(folder: Path) -> gettext.NullTranslations:
    """The catalog for the languages that LANGUAGE, LC_ALL, LC_MESSAGES and LANG name; English where there is none."""
    return gettext.translation(DOMAIN, folder, fallback=True)


_catalog = catalog(assets.path("locale"))


def tr(text: str) -> str:
    """`text` in the user's language. Figures and names are filled in afterwards: `tr("{count} files").format(...)`."""
    return _catalog.gettext(text) if text else ""  # the empty text stands for a catalog's header


def trn(one: str, many: str, count: int) -> str:
    """As `tr`, for `count` things, by the plural rules of the user's language: `trn("{n} file", "{n} files", n)`."""
    return _catalog.ngettext(one, many, count)
