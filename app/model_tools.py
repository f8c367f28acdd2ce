"""What can be done with the loaded pair beside chatting: the race and the check, each in a window of its own."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.check.check_dialog import CheckDialog
from app.check.check_model import CheckModel
from app.engine import Engine
from app.pairs.mode_selector import Devices
from app.race.race_model import RaceModel
from app.race.race_window import RaceWindow


class ModelTools(QObject):
    """Opens the windows and knows how to end what they do."""

    def __init__(self, engine: Engine, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._devices = Devices()
        self._race_model = RaceModel(engine, self)
        self._check_model = CheckModel(engine, self)
        self.race: RaceWindow | None = None
        self.check: CheckDialog | None = None

    def set_devices(self, devices: Devices) -> None:
        """What the modes run on."""
        self._devices = devices
        for each in (self.race, self.check):
            if each is not None:
                each.set_devices(devices)

    def open_race(self) -> None:
        """Show the race's window."""
        if self.race is None:
            self.race = RaceWindow(self._race_model, self._window)
            self.race.set_devices(self._devices)
        self.race.refresh()
        self.race.show()
        self.race.activateWindow()

    def open_check(self) -> None:
        """Show the dialog that checks the pair."""
        if self.check is None:
            self.check = CheckDialog(self._check_model, self._window)
            self.check.set_devices(self._devices)
        self.check.show()
        self.check.activateWindow()

    def hide(self) -> None:
        """Close the windows."""
        for each in (self.race, self.check):
            if each is not None:
                each.close()

    async def close(self) -> None:
        """Stop following what is under way; the engine's end ends it."""
        self.hide()
        await self._race_model.close()
        await self._check_model.close()
