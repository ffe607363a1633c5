"""Programs of Node.js that tests run: installed by npm below `.venvs` when they are first needed."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


class MissingError(Exception):
    """A program is not installed and cannot be; the message says why."""


def installed(pins: Path, name: str) -> Path:
    """The folder with the packages of a `package.json`, as `.venvs/NAME/node_modules`.

    They are installed if they are missing or of another version. Raises MissingError if that fails.
    """
    home = ROOT / ".venvs" / name
    stamp = home / "made-of.json"
    if not stamp.is_file() or stamp.read_bytes() != pins.read_bytes():
        if not (shutil.which("node") and shutil.which("npm")):
            raise MissingError(f"{name} runs on Node.js: install node and npm")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shutil.copy(pins, home)
        npm = ("npm", "install", "--prefix", str(home), "--no-audit", "--no-fund")
        done = subprocess.run(npm, check=False, capture_output=True, text=True)
        if done.returncode:
            raise MissingError(f"npm cannot install {name}:\n{done.stderr}")
        shutil.copy(pins, stamp)
    return home / "node_modules"
