"""What the picker needs is loaded beside the event loop, before it is opened."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import sys
from app.pairs.preload import preload
assert "app.pairs.picker_model" not in sys.modules
preload().join()
assert "app.pairs.picker_model" in sys.modules and "app.pairs.picker" in sys.modules
"""


def test_the_picker_is_loaded_before_it_is_opened() -> None:
    result = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
