"""Makes a release ready to be published: `python tests/release.py`, which is `make release`.

It checks that the version, the changelog and the tree fit together, builds the source and the wheel of each
distribution, checks what the index will show of them, installs them with the lowest and the newest
dependencies on each Python of this machine, and writes which packages they bring, with their licences.
Everything is in `dist/` then. `--rehearse` does so at any commit, of a version that is not dated yet.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import install_wheel
from interpreters import interpreters, newest_of_each_minor

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ROOT / ".venvs" / "release"
UV = [sys.executable, "-m", "uv"]
CORE = "lance-context-core"
ALONE = (CORE, "lance-context-cli", "lance-context-inspector", "lance-context-mcp")
"""Are installed together, with the lowest versions that they allow and with the newest."""
RESOLUTIONS = ("lowest-direct", "highest")


def main(arguments: list[str]) -> None:
    """Says what it does, and ends with an exit code other than 0 at the first thing that is wrong."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    wrong = problems(version, (ROOT / "docs" / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not is_committed():
        wrong.append("the tree has changes that are not committed: commit or stash them")
    if wrong and "--rehearse" not in arguments:
        sys.exit("\n".join(wrong))
    say(f"release {version}", *(f"(rehearsed, though {one})" for one in wrong))
    build()
    run(TOOLS / "bin" / "twine", "--no-color", "check", "--strict", *sorted(DIST.glob("*-*")))
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        found = interpreters()
        for name in newest_of_each_minor(found).values():
            for resolution in RESOLUTIONS:
                install(found[name], resolution, Path(scratch, f"{name}-{resolution}"))
                say(f"Python {name}, {resolution}: installs, checks and works")
        write_what_it_brings(Path(scratch, f"{name}-highest"))
    say(f"{DIST} is ready: `twine upload dist/*.whl dist/*.tar.gz`, and tag the commit v{version}")


def problems(version: str, changelog: str) -> list[str]:
    """What the changelog lacks of a release of this version."""
    found = re.search(r"^## (.+)$", changelog, re.MULTILINE)
    heading = found[1] if found else ""
    if re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        return []
    return [
        f"the newest heading of docs/CHANGELOG.md is {heading!r}: make it '{version} (YYYY-MM-DD)'"
    ]


def is_committed() -> bool:
    """Whether git has all that there is."""
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return not status.stdout


def build() -> None:
    """The source of each distribution, and the wheel that is made of that source."""
    shutil.rmtree(DIST, ignore_errors=True)
    for source in install_wheel.SOURCES:
        run(*UV, "build", "--quiet", "--out-dir", DIST, ROOT / source)
    n_built = len([*DIST.glob("*.whl")]), len([*DIST.glob("*.tar.gz")])
    if n_built != (len(install_wheel.SOURCES),) * 2:
        sys.exit(f"{n_built} wheels and sources were built of {len(install_wheel.SOURCES)}")


def install(python: str, resolution: str, home: Path) -> None:
    """Install the wheels with those dependencies, and use the core."""
    run(*UV, "venv", "--quiet", "--python", python, home)
    own = home / "bin" / "python"
    here = ("--quiet", "--python", own)
    # The core is tried alone: what the others bring is not what it depends on.
    for names in ((CORE,), ALONE):
        wheels = [f"{one} @ {wheel_of(one).as_uri()}" for one in names]
        run(*UV, "pip", "install", *here, "--resolution", resolution, *wheels)
        run(*UV, "pip", "check", *here)
        if names == (CORE,):
            run(own, "-I", ROOT / "tests" / "wheels" / "core.py", folder=home)


def wheel_of(name: str) -> Path:
    """The one that was built."""
    (wheel,) = DIST.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel


def write_what_it_brings(home: Path) -> None:
    """A CycloneDX list of the packages in that environment, and a table of their licences."""
    own = home / "bin" / "python"
    bom = DIST / "sbom.cdx.json"
    run(TOOLS / "bin" / "cyclonedx-py", "environment", "--output-reproducible", "-o", bom, own)
    licences = DIST / "licences.md"
    run(
        TOOLS / "bin" / "pip-licenses",
        *("--python", own, "--format", "markdown", "--from", "mixed"),
        *("--output-file", licences),
    )
    n_packages = len(json.loads(bom.read_text(encoding="utf-8"))["components"])
    say(f"{n_packages} packages are listed in {bom.name} and {licences.name}")


def say(*words: str) -> None:
    """Print it: this is a program, and its output is what the maintainer reads."""
    print(*words, flush=True)  # noqa: T201


def run(*command: object, folder: Path = ROOT) -> None:
    """Run it there, and end with it if it fails."""
    done = subprocess.run([str(one) for one in command], cwd=folder, check=False)
    if done.returncode:
        sys.exit(f"exit code {done.returncode} from: {' '.join(map(str, command))}")


if __name__ == "__main__":
    main(sys.argv[1:])
