"""Where the stores of tests are kept: in memory, where a machine has such a file system.

A disk is asked to keep each commit, and half of a test's time is spent waiting for that. `make proofs`,
the matrix, the soak and the wheels use the disk, and whoever names another place in `TMPDIR`.
"""

import os
import shutil
import tempfile
from pathlib import Path

PLACE = Path("/dev/shm")  # noqa: S108 - of Linux; elsewhere, the disk is used
MIN_BYTES = 2**31
"""What has to be free there: a container may have been given next to nothing."""
VARIABLE = "TMPDIR"


def keep_temporary_files() -> None:
    """Have this process and those that it starts make temporary files there."""
    if VARIABLE in os.environ or not os.access(PLACE, os.W_OK):
        return
    if shutil.disk_usage(PLACE).free >= MIN_BYTES:
        os.environ[VARIABLE] = str(PLACE)
        # Whoever has asked before, as what captures output does, would be told the same again.
        tempfile.tempdir = None
