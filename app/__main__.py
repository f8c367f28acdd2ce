"""The entry point: the window without arguments, the terminal's commands with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.theme import Scheme

_SCHEMES: dict[str, Scheme] = {"system": "system", "light": "light", "dark": "dark"}


def main(argv: Sequence[str] | None = None) -> int:
    """Open the window (no arguments, or `--theme NAME`) or run a terminal command. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Each side imports only what it needs: no Qt for the terminal.
    if not arguments:
        return _window(None)
    if arguments[0] != "--theme":
        from core.cli import main as terminal

        return terminal(arguments)
    if len(arguments) != 2 or arguments[1] not in _SCHEMES:
        print(f"mirror-sd: --theme takes one of: {', '.join(_SCHEMES)}.", file=sys.stderr)
        return 2
    return _window(_SCHEMES[arguments[1]])


def _window(scheme: Scheme | None) -> int:
    from app.application import run

    return run(scheme)


if __name__ == "__main__":
    sys.exit(main())
