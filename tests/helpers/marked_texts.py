"""A pytest plugin: all texts of the window come in brackets, as if there were a catalog for the user's language."""

from __future__ import annotations

import gettext

import app.language


class Marked(gettext.NullTranslations):
    """Puts each text into brackets."""

    def gettext(self, message: str) -> str:
        """`[text]`."""
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """As `gettext`, with English plurals."""
        return self.gettext(msgid1 if n == 1 else msgid2)


app.language._catalog = Marked()  # before any other module of the window looks a text up
