"""The browser that tests look at pages with: found, or brought by the system's packages."""

import os
import shutil
import subprocess

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium-headless-shell", "fonts-noto-core", "fonts-noto-mono")
MISSING = (
    "no browser is here to test the pages with: apt-get install chromium, or name one's program in "
    "CHROMIUM"
)


def chromium() -> str:
    """The program, which root has brought where it is missing. Raises RuntimeError if there is none."""
    if (found := _found()) is not None:
        return found
    if shutil.which("apt-get") and getattr(os, "geteuid", lambda: 1)() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
            command = ["apt-get", "--quiet", *arguments]
            subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
    if (found := _found()) is None:
        raise RuntimeError(MISSING)
    return found


def _found() -> str | None:
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)
