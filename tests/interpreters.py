"""Runs the scripts of tests/endings.py on each Python that is allowed and found on this machine.

Each patch is one: `python tests/interpreters.py [INTERPRETER …]`. Environments are made under `.venvs`.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = range(11, 15)
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:3])), sys.version_info[3])"


def main(given: list[str]) -> None:
    """Says which it ran, and ends with an exit code other than 0 if anything fails."""
    found = {version: python for python in given or _candidates() if (version := _version(python))}
    absent = [f"3.{minor}" for minor in MINORS if not any(_minor(one) == minor for one in found)]
    print(f"Pythons: {', '.join(found)}; not on this machine: {', '.join(absent) or 'none'}")  # noqa: T201 - a program
    failed = [version for version, python in found.items() if not _passes(version, python)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _candidates() -> list[str]:
    """Interpreters by name, and those that pyenv and uv keep."""
    named = [shutil.which(f"python3.{minor}") for minor in MINORS]
    homes = [
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python")),
    ]
    kept = [str(one) for home in homes for one in sorted(home.glob("*/bin/python3"))]
    # Also one that another of the same name hides on the path.
    system = [f"/usr/bin/python3.{minor}" for minor in MINORS]
    return [sys.executable, *(one for one in named if one), *kept, *system]


def _version(python: str) -> str | None:
    """The version of an interpreter, if it is one that is allowed, and released."""
    try:
        done = subprocess.run([python, "-c", _VERSION], capture_output=True, text=True, check=False)
    except OSError:
        return None
    told = re.fullmatch(r"(3\.\d+\.\d+) final\n", done.stdout)
    return told[1] if told and _minor(told[1]) in MINORS else None


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _passes(version: str, python: str) -> bool:
    home = ROOT / ".venvs" / f"python-{version}"
    own = home / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    here = ["--quiet", "--python", str(own), "-c", "constraints.txt", "-e", "."]
    steps = [
        [*uv, "venv", "--quiet", "--allow-existing", "--python", python, str(home)],
        [*uv, "pip", "install", *here],
        [str(own), "tests/endings.py"],
    ]
    print(f"== Python {version}", flush=True)  # noqa: T201 - as above
    return all(not subprocess.run(step, cwd=ROOT, check=False).returncode for step in steps)


if __name__ == "__main__":
    main(sys.argv[1:])
