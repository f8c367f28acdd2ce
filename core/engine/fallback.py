"""What happens when a draft's programs fail in the middle of an answer: another source takes over, and says why."""

from __future__ import annotations

from collections.abc import Callable

import ane
from core.engine.sources import Proposals, Source
from core.errors import DraftStopped
from core.protocol import Mode


class FallbackSource(Source):
    """Supplies what `first` supplies; once that fails, what another does, to the end of the answer."""

    def __init__(self, first: Source, instead: Callable[[], Source], failed: Callable[[Mode, str], None]) -> None:
        """`failed` is told the new mode and the reason."""
        self.block_size = first.block_size
        self._now = first
        self._instead = instead
        self._failed = failed
        self._has_failed = False

    @property
    def mode(self) -> Mode:  # type: ignore[override]
        """Of the source at work."""
        return self._now.mode

    def start(self, anchor: int, rows: int) -> None:
        """See `Source`."""
        try:
            self._now.start(anchor, rows)
        except (ane.AneError, DraftStopped) as error:
            self._give_up(error)
            self._now.start(anchor, rows)

    def collect(self) -> Proposals | None:
        """See `Source`."""
        return self._now.collect()

    def verifying(self) -> None:
        """See `Source`."""
        self._now.verifying()

    def close(self) -> None:
        """See `Source`."""
        try:
            self._now.close()
        except (ane.AneError, DraftStopped) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._has_failed:
            raise error
        self._has_failed = True
        self._now = self._instead()
        self._failed(self._now.mode, f"The draft's programs failed: {error}")
