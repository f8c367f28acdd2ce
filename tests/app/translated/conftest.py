"""Tests of this folder need a catalog that marks every text, before the window's modules are loaded.

`test_language.py` beside this folder runs them in a process of their own, with the plugin `helpers.marked_texts`.
"""

import sys

if "helpers.marked_texts" not in sys.modules:
    collect_ignore_glob = ["test_*.py"]
