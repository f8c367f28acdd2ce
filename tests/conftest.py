"""No test touches the user's files: everything Mirror SD keeps goes below one temporary folder."""

import atexit
import os
import shutil
import tempfile

# Set when pytest starts, before anything imports `core.engine`, which keeps the verdict on the BLAS.
_home = tempfile.mkdtemp(prefix="mirror-sd-tests-")
os.environ["MIRROR_SD_HOME"] = _home
atexit.register(shutil.rmtree, _home, ignore_errors=True)
