"""What makes the tests cheaper and is no part of what they are about; `make proofs` does without it."""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - of Linux; elsewhere the disk is used
MIN_BYTES = 2**31
"""What has to be free there: a container may have been given next to nothing."""
PLACE = "TMPDIR"


def keep_temporary_files_in_memory() -> None:
    """Have this process and those that it starts make temporary files there, unless told where.

    A disk is asked to sync each commit, and a test would wait for it half of its time. The matrix, the
    soak, the endings and the wheels use the disk.
    """
    if PLACE in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= MIN_BYTES:
        os.environ[PLACE] = str(MEMORY)
        # Whoever has asked before, as what captures output does, would be told the same again.
        tempfile.tempdir = None
