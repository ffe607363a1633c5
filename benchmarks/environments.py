"""The peers' environments: made once under `benchmarks/.envs`, with pinned versions."""

import shutil
import subprocess
import sys
from pathlib import Path

PINS = {
    "lancedb": ("lancedb==0.40.0",),
    "lance-context": ("lance-context==0.6.7",),
}
"""What each peer's environment is made of."""

_HOME = Path(__file__).parent / ".envs"


def python_of(peer: str) -> Path:
    """The interpreter of `peer`'s environment, which is made if it is missing or pinned otherwise.

    Raises CalledProcessError if the installation fails.
    """
    home = _HOME / peer
    python = home / "bin" / "python"
    stamp = home / "pins.txt"
    wanted = "\n".join((sys.version, *PINS[peer]))
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    for command in _commands(home, python, PINS[peer]):
        subprocess.run(command, check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _commands(home: Path, python: Path, pins: tuple[str, ...]) -> list[list[str]]:
    if uv := shutil.which("uv"):
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
            [uv, "pip", "install", "--quiet", "--python", str(python), *pins],
        ]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [[sys.executable, "-m", "venv", str(home)], [*pip, *pins]]
