"""Downloads from a hub of the test's own, and what they leave in the cache."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from core.hub.download import Download
from core.hub.plan import DownloadRequest
from core.hub.retry import Patience, RetryPolicy
from core.hub.settings import HubSettings

REPO = "acme/tiny"
WEIGHTS = "model.safetensors"
MIB = 1 << 20
HASTY = Patience(
    stall_s=10.0,  # a busy machine is no stall
    retry=RetryPolicy(attempts=4, first_pause_s=0.01),
    questions=RetryPolicy(attempts=2, first_pause_s=0.01),
    space_poll_s=0.05,
)
"""Nothing that a test waits for takes long."""
STALL_S = 1.0
"""For the tests of stalls."""


def new_download(settings: HubSettings, *, stall_s: float = HASTY.stall_s, **request: object) -> Download:
    return Download(settings, DownloadRequest(REPO, **request), replace(HASTY, stall_s=stall_s))


def snapshot(folder: Path) -> dict[str, bytes]:
    """The files of a model as other programs see them."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def published(settings: HubSettings) -> list[Path]:
    """Every file that other programs take for a model's."""
    return [path for path in settings.cache_dir.glob("models--*/snapshots/**/*") if path.is_file()]


def parts(settings: HubSettings) -> dict[str, int]:
    """Beginnings in the cache by the content's name, with their bytes."""
    found = settings.cache_dir.glob("models--*/blobs/*.mirror-sd-part")
    return {path.name.partition(".")[0]: path.stat().st_size for path in found}
