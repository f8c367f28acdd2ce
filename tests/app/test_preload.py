"""What dialogs need is loaded beside the event loop, before they are opened."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import sys
from app.preload import preload
assert "app.pairs.picker_model" not in sys.modules
from app.help.licences import licence_texts
preload().join()
assert licence_texts.cache_info().currsize == 1
assert "app.pairs.picker_model" in sys.modules and "app.pairs.picker" in sys.modules
"""


def test_picker_and_licences_are_loaded_before_they_are_opened() -> None:
    result = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
