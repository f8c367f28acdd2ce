"""Takes pictures of choosing a pair, on a hub of the tests' own: `screenshots_pairs.py OUT_DIR`.

Writes first-run, picker, reasons, search, consent, download, load and preparation in the light and the dark scheme.
The engine is the tests' stand-in. On a machine without a display, set QT_QPA_PLATFORM=offscreen; QT_SCALE_FACTOR=2
gives pictures of twice the size.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import qasync
from PySide6.QtWidgets import QApplication, QWidget

ROOT = Path(__file__).resolve().parent.parent
STAND_IN = ROOT / "tests" / "app" / "standin_worker.py"
sys.path.insert(0, str(ROOT / "tests"))

from app.engine import Engine, PairState  # noqa: E402
from app.main_window import MainWindow  # noqa: E402
from app.pairs.cards import Filter  # noqa: E402
from app.pairs.picker import PairPicker  # noqa: E402
from app.pairs.sources import PairSources  # noqa: E402
from app.theme import Scheme, Theme  # noqa: E402
from core.errors import DemoTargetMissing  # noqa: E402
from core.hub.settings import HubSettings  # noqa: E402
from core.pairs import Pair  # noqa: E402
from helpers.fake_hub import FakeHub, Repo  # noqa: E402
from helpers.tiny_pairs import DRAFT, TARGET, draft_files, repos, target_files, write_catalog, write_model  # noqa: E402

SIZE = (860, 680)
FIRST, WRONG = "tiny-4bit", "wrong-4bit"
_MANY_CARDS = 15
_TIMEOUT_S = 30.0
_LOOK_S = 0.05
_SETTLE_S = 0.3
_PREPARE_S = "12"


async def _until(reached: Callable[[], bool]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(_TIMEOUT_S):
        while not reached():
            await asyncio.sleep(_LOOK_S)


class Tour:
    """One walk through the picker in one scheme."""

    def __init__(self, folder: Path, scheme: Scheme, theme: Theme) -> None:
        self._folder, self._scheme = folder, scheme
        theme.set_scheme(scheme)

    async def _save(self, widget: QWidget, name: str) -> None:
        await asyncio.sleep(_SETTLE_S)  # what has just been shown or hidden finds its place
        path = self._folder / f"{name}-{self._scheme}.png"
        if not widget.grab().save(str(path)):
            raise OSError(f"could not write {path}")
        print(path)

    async def first_run(self, home: Path) -> None:
        """Nothing is on the disk: the window leads to the picker."""
        sources = PairSources(HubSettings(cache=str(home / "cache")), home)
        window = _window(sources, _no_pair)
        window.generation.load()
        await _until(lambda: window.picker is not None)
        picker = _sized(window)
        await _until(lambda: len(picker._cards) > _MANY_CARDS)
        await self._save(picker, "first-run")
        await self._save(window, "first-run-window")
        bar = picker.area.verticalScrollBar()
        bar.setValue(bar.maximum() // 3)
        await self._save(picker, "picker")
        await _close(window)

    async def download(self, hub: FakeHub, sources: PairSources) -> None:
        """Search at the hub, consent, a download under way."""
        window = _window(sources, _no_pair)
        window.open_picker()
        picker = _sized(window)
        await _until(lambda: FIRST in picker._cards and WRONG in picker._cards)
        picker.area.ensureWidgetVisible(picker._cards[WRONG].reasons)
        await self._save(picker, "reasons")
        picker.search.setText("tiny")
        await _until(lambda: picker._model.hub_search.results.state == "found")
        await asyncio.sleep(_SETTLE_S)
        bar = picker.area.verticalScrollBar()
        bar.setValue(bar.maximum())
        await self._save(picker, "search")
        picker.search.setText("")
        picker._model.set_filter(Filter())
        card = picker._cards[FIRST]
        card.get.click()
        await _until(card.agree.isVisible)
        await self._save(picker, "consent")
        hub.bytes_per_s = 3_000_000
        card.agree.click()
        await _until(lambda: "left" in card.download.status.text())
        card.download.show_files.setChecked(True)
        await self._save(picker, "download")
        hub.bytes_per_s = 0
        await _until(card.use.isVisible)
        await _close(window)

    async def prepare(self, sources: PairSources) -> None:
        """What is asked before a pair is prepared, and how that goes on."""
        window = _window(sources, lambda: Pair("Tiny 4-bit", "/nowhere", None), "--load-s", _PREPARE_S)
        window.open_picker()
        picker = _sized(window)
        await _until(lambda: FIRST in picker._cards and picker._cards[FIRST].use.isVisible())
        card = picker._cards[FIRST]
        card.use.click()
        await self._save(picker, "load")
        card.check.setChecked(True)
        card.load.click()
        panel = picker.preparation
        panel.show_details.setChecked(True)
        await _until(lambda: "layer0" in panel.details.text())
        await self._save(picker, "preparation")
        await self._save(window, "preparation-window")
        panel.stop.click()
        await _until(lambda: not panel.is_busy)
        await _close(window)


def _window(sources: PairSources, choose: Callable[[], Pair], *options: str) -> MainWindow:
    window = MainWindow(Engine([sys.executable, str(STAND_IN), *options]), choose, lambda: sources)
    window.resize(1280, 800)
    window.show()
    return window


def _sized(window: MainWindow) -> PairPicker:
    assert window.picker is not None
    window.picker.resize(*SIZE)
    return window.picker


def _no_pair() -> Pair:
    raise DemoTargetMissing("The demo model is not on this machine.", "Choose a pair.")


async def _close(window: MainWindow) -> None:
    await window.end()
    assert window._engine.status.state is not PairState.LOADING
    window.close_now()


async def _take(folder: Path, theme: Theme) -> None:
    schemes: tuple[Scheme, ...] = ("dark", "light")
    for scheme in schemes:
        tour = Tour(folder, scheme, theme)
        with tempfile.TemporaryDirectory() as scratch, FakeHub(repos()) as hub:
            home = Path(scratch)
            os.environ["MIRROR_SD_HOME"] = str(home / "mirror-sd")
            await tour.first_run(home / "empty")
            hub.repos[TARGET] = Repo(target_files(20_000_000))
            hub.repos["bob/tiny-other-8bit"] = Repo(target_files(4))
            hub.repos["bob/tiny-GGUF"] = Repo({"tiny.gguf": b"GGUF"})
            hub.repos["bob/tiny-own-draft"] = Repo(draft_files(), gated=True)
            catalog = write_catalog(home / "catalog")
            left = home / "cache" / "models--acme--old" / "blobs" / f"{'a' * 64}.incomplete"
            left.parent.mkdir(parents=True)
            left.write_bytes(bytes(3_000_000))
            settings = HubSettings(endpoint=hub.url, cache=str(home / "cache"))
            await tour.download(hub, PairSources(settings, home / "empty", catalog))
            models = home / "user" / ".lmstudio" / "models"
            write_model(models / TARGET, target_files())
            write_model(models / DRAFT, draft_files())
            settings = HubSettings(endpoint=hub.url, cache=str(home / "other cache"))
            await tour.prepare(PairSources(settings, home / "user", catalog))


def main() -> int:
    """Take the pictures; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="OUT_DIR")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    app = QApplication(sys.argv[:1])
    app.setQuitOnLastWindowClosed(False)
    theme = Theme(app)
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(app)) as runner:
        runner.run(_take(arguments.folder, theme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
