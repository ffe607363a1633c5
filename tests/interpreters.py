"""Runs the scripts of tests/endings.py on each Python that is allowed and found on this machine.

Of each minor version the newest patch, but for this Python's own, with which the other tests are run;
with `--all`, as `make proofs` does it, every patch: `python tests/interpreters.py [--all] [INTERPRETER …]`.
Environments are made under `.venvs`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = range(11, 15)
_TOGETHER = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:3])), sys.version_info[3])"


def main(arguments: list[str]) -> None:
    """Says which it ran, and ends with an exit code other than 0 if anything fails."""
    given = [one for one in arguments if one != "--all"]
    found = interpreters(given)
    absent = [f"3.{minor}" for minor in MINORS if not any(_minor(one) == minor for one in found)]
    run = list(found) if given or "--all" in arguments else _needed(found)
    left_out = [version for version in found if version not in run]
    told = {"run": run, "left to `make proofs`": left_out, "not on this machine": absent}
    for what, versions in told.items():
        print(f"Pythons {what}: {', '.join(versions) or 'none'}", flush=True)  # noqa: T201 - a program
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = pool.map(_passes, run, [found[version] for version in run])
        failed = [version for version, is_good in zip(run, passed, strict=True) if not is_good]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def interpreters(given: list[str] | None = None) -> dict[str, str]:
    """Those that are allowed, by their version: of the given ones, or of all that are found."""
    return {version: python for python in given or _candidates() if (version := _version(python))}


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


def _needed(found: Iterable[str]) -> list[str]:
    """The newest patch of each minor version, but for that of this Python."""
    newest = newest_of_each_minor(found)
    return [one for minor, one in newest.items() if minor != sys.version_info.minor]


def newest_of_each_minor(found: Iterable[str]) -> dict[int, str]:
    """The newest version of each minor one, by its number."""
    return {_minor(one): one for one in sorted(found, key=_numbers)}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _minor(version: str) -> int:
    return _numbers(version)[1]


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
    said, is_good = "", True
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, check=False, text=True, **_TOGETHER)
        said += done.stdout
        if done.returncode:
            is_good = False
            break
    print(f"== Python {version}\n{said}", flush=True)  # noqa: T201 - as above
    return is_good


if __name__ == "__main__":
    main(sys.argv[1:])
