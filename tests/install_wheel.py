"""Builds the wheels and uses each alone, in an empty environment: `python tests/install_wheel.py`."""

import os
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
USES = ROOT / "tests" / "wheels"
LLAMA_INDEX_NAMES = tuple(
    f"llama-index-{one}-lance-context"
    for one in (
        *("graph-stores", "memory", "retrievers", "storage-chat-store", "storage-docstore"),
        *("storage-index-store", "storage-kvstore", "vector-stores"),
    )
)
"""Names of the adapter for LlamaIndex, one for each place where its users look."""
SOURCES = (
    ".",
    "adapters/agent_framework",
    "adapters/agentscope",
    "adapters/google_adk",
    "adapters/crewai",
    "adapters/langchain",
    "adapters/llama_index",
    "adapters/openai_agents",
    "adapters/pydantic_ai",
    "apps/cli",
    "apps/inspector",
    "apps/mcp",
    "packages/lance-context-anthropic",
    "packages/lance-context-opentelemetry",
    "packages/lance-context-testing",
    *(f"packages/{one}" for one in LLAMA_INDEX_NAMES),
)
"""What wheels are built of."""
UV = (sys.executable, "-m", "uv")
"""Installs in a tenth of the time that pip takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is installed into an empty environment, step by step, and used after each step."""

    constraints: str
    steps: tuple[tuple[tuple[str, ...], str], ...]
    """What of ours is required, and the program under `tests/wheels` that uses it."""


ENVIRONMENTS = (
    Environment(constraints="constraints.txt", steps=((("lance-context-core",), "core.py"),)),
    Environment(
        constraints="constraints.txt",
        steps=((("lance-context-core", "lance-context-cli"), "cli.py"),),
    ),
    Environment(
        constraints="constraints.txt",
        steps=((("lance-context-core", "lance-context-inspector"), "inspector.py"),),
    ),
    Environment(
        constraints="constraints.txt",
        steps=((("lance-context-core", "lance-context-mcp"), "mcp.py"),),
    ),
    Environment(
        constraints="constraints.txt",
        steps=((("lance-context-core", "lance-context-anthropic"), "anthropic.py"),),
    ),
    Environment(
        constraints="constraints.txt",
        steps=((("lance-context-core", "lance-context-opentelemetry"), "opentelemetry.py"),),
    ),
    Environment(
        constraints="constraints.txt",
        steps=((("lance-context-core", "lance-context-testing"), "testing.py"),),
    ),
    Environment(
        constraints="tests/pins/langchain-newest.txt",
        steps=(
            (("lance-context-core", "langchain-lance-context"), "langchain.py"),
            (("lance-context-core", "langchain-lance-context[langgraph]"), "langgraph.py"),
        ),
    ),
    Environment(
        constraints="tests/pins/llama-index-newest.txt",
        steps=(
            (("lance-context-core", "llama-index-lance-context"), "llama_index.py"),
            (
                ("lance-context-core", "llama-index-lance-context", *LLAMA_INDEX_NAMES),
                "llama_index_names.py",
            ),
        ),
    ),
    Environment(
        constraints="tests/pins/openai-agents.txt",
        steps=((("lance-context-core", "openai-agents-lance-context"), "openai_agents.py"),),
    ),
    Environment(
        constraints="tests/pins/google-adk.txt",
        steps=((("lance-context-core", "google-adk-lance-context"), "google_adk.py"),),
    ),
    Environment(
        constraints="tests/pins/crewai.txt",
        steps=((("lance-context-core", "crewai-lance-context"), "crewai.py"),),
    ),
    Environment(
        constraints="tests/pins/pydantic-ai-newest.txt",
        steps=((("lance-context-core", "pydantic-ai-lance-context"), "pydantic_ai.py"),),
    ),
    Environment(
        constraints="tests/pins/agent-framework.txt",
        steps=((("lance-context-core", "agent-framework-lance-context"), "agent_framework.py"),),
    ),
    Environment(
        constraints="tests/pins/agentscope-context.txt",
        steps=(
            (("lance-context-core", "agentscope-lance-context"), "agentscope.py"),
            (("lance-context-core", "agentscope-lance-context[context]"), "agentscope_runtime.py"),
        ),
    ),
)


def main() -> None:
    """Says at which step, and ends with an exit code other than 0, if a wheel is of no use."""
    with tempfile.TemporaryDirectory(prefix="wheels-") as scratch:
        directory = Path(scratch)
        wheels = directory / "dist"
        sources = [str(ROOT / one) for one in SOURCES]
        homes = [directory / str(number) for number in range(len(ENVIRONMENTS))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            build = (*UV, "build", "--quiet", "--wheel", "--out-dir", str(wheels))
            list(pool.map(lambda source: run(directory, *build, source), sources))
            for wheel in wheels.glob("*.whl"):
                _require_license(wheel)
            list(pool.map(_use, ENVIRONMENTS, homes, [wheels] * len(homes)))


def _use(environment: Environment, directory: Path, wheels: Path) -> None:
    python = empty(directory)
    pip = (*UV, "pip")
    here = ("--quiet", "--python", python)
    pins = ("-c", str(ROOT / environment.constraints))
    for requirements, program in environment.steps:
        needed = (built(one, wheels) for one in requirements)
        run(directory, *pip, "install", *here, *pins, *needed)
        run(directory, *pip, "check", *here)
        # Isolated, so that neither this process's packages nor the sources here are found.
        run(directory, python, "-I", str(USES / program))
        print(f"{requirements[-1]} works alone")  # noqa: T201 - a program, not a test


def _require_license(wheel: Path) -> None:
    with ZipFile(wheel) as content:
        held = [name for name in content.namelist() if name.endswith("/licenses/LICENSE")]
        if [content.read(name) for name in held] != [(ROOT / "LICENSE").read_bytes()]:
            sys.exit(f"{wheel.name} does not hold the license: {held}")


def empty(directory: Path) -> str:
    """The interpreter of a new environment, which holds nothing at all."""
    venv.create(directory / "venv", with_pip=False, symlinks=os.name != "nt")
    binaries = directory / "venv" / ("Scripts" if os.name == "nt" else "bin")
    return str(binaries / "python")


def built(requirement: str, wheels: Path) -> str:
    """The requirement of the wheel that was built here, wherever else there is one of its name."""
    name = requirement.partition("[")[0].replace("-", "_")
    (wheel,) = wheels.glob(f"{name}-*.whl")
    return f"{requirement} @ {wheel.as_uri()}"


def run(directory: Path, *command: str) -> None:
    """Run a command there; ends this process if it fails."""
    done = subprocess.run(command, cwd=directory, check=False)
    if done.returncode:
        sys.exit(f"exit code {done.returncode} from: {' '.join(command)}")


if __name__ == "__main__":
    main()
