"""Builds the wheel and uses it alone, in an empty environment: `python tests/install_wheel.py`."""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

USE = """
import re
import sys
from importlib.metadata import requires, version
from importlib.util import find_spec
from pathlib import Path

import lance_context_core
from lance_context_core import ContextStore, Message, MissingExtraError

package = Path(lance_context_core.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_core.__version__ == version("lance-context-core")

hard = [one for one in requires("lance-context-core") if "extra ==" not in one]
assert {re.match(r"[\\w-]+", one)[0] for one in hard} == {"lancedb", "pyarrow"}, hard
for module in ("PIL", "hypothesis", "moto", "pytest", "rich", "wordllama"):
    assert find_spec(module) is None, f"{module} is here, so its absence is not tried"

with ContextStore.open("memory") as store:
    store.history.append("tutor", Message.user("Ada is allergic to nuts."), session_id="monday")
    store.history.append("tutor", Message.user("The bus was late."), session_id="monday")
with ContextStore.open("memory") as store:
    first, second = store.history.get_messages("tutor", session_id="monday")
    assert (first.text, second.text) == ("Ada is allergic to nuts.", "The bus was late.")
    (hit,) = store.search("which nuts?")
    assert (hit.record.id, hit.matched_channels) == (first.id, ("text",))

try:
    with ContextStore.open("other", embedder="local") as store:
        store.memory.add(["Prefers trains"], user_id="ada")
except MissingExtraError as error:
    assert "lance-context-core[local]" in str(error), error
else:
    raise AssertionError("the local embedder works without its extra")
"""


def main() -> None:
    """Says at which step, and ends with an exit code other than 0, if the wheel is of no use."""
    with tempfile.TemporaryDirectory(prefix="wheel-") as scratch:
        directory = Path(scratch)
        venv.create(directory / "venv", with_pip=True, symlinks=os.name != "nt")
        binaries = directory / "venv" / ("Scripts" if os.name == "nt" else "bin")
        # Isolated, so that neither this process's packages nor the sources here are found.
        python = (str(binaries / "python"), "-I")
        pip = (*python, "-m", "pip", "-qq", "--disable-pip-version-check")
        _run(directory, *pip, "wheel", "--no-deps", "--wheel-dir", "dist", str(ROOT))
        (wheel,) = (directory / "dist").glob("*.whl")
        _run(directory, *pip, "install", "-c", str(ROOT / "constraints.txt"), str(wheel))
        _run(directory, *pip, "check")
        _run(directory, *python, "-c", USE)
    print(f"{wheel.name} works alone")  # noqa: T201 - a program, not a test


def _run(directory: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=directory, check=False)
    if done.returncode:
        shown = " ".join("<script>" if part == USE else part for part in command)
        sys.exit(f"exit code {done.returncode} from: {shown}")


if __name__ == "__main__":
    main()
