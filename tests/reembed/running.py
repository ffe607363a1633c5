"""An example on Ray, run as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 240


def started(example, *arguments):
    """The example of that name as a process of its own, with a Ray of its own, which dies with it."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as there, it listens on the loopback alone
    }
    return subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / example), *map(str, arguments)],
        env={**os.environ, **quiet, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
