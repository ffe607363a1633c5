"""The peers' environments: made once under `benchmarks/.envs`, with pinned versions."""

import shutil
import subprocess
import sys
from pathlib import Path

PINS = {
    "lancedb": ("lancedb==0.40.0",),
    "lance-context": ("lance-context==0.6.7",),
    "chromadb": ("chromadb==1.5.9", "pyarrow==26.0.1"),
    "langchain-lancedb": (
        *("langchain-lancedb==0.1.0", "langchain-core==1.7.2", "lancedb==0.40.0"),
        "pyarrow==26.0.1",
    ),
    "langchain-lance-context": (
        *("langchain-core==1.7.2", "langgraph-checkpoint==4.3.2", "lancedb==0.40.0"),
        *("pyarrow==26.0.1", "numpy==2.4.6"),
    ),
    "InMemoryVectorStore": ("langchain-core==1.7.2", "numpy==2.4.6", "pyarrow==26.0.1"),
    "langchain-community, LanceDB": (
        *("langchain-community==0.4.2", "langchain-core==1.7.2", "lancedb==0.40.0"),
        *("pandas==3.1.1", "pyarrow==26.0.1"),
    ),
    "langchain-community, SQL": (
        *("langchain-community==0.4.2", "langchain-core==1.7.2", "sqlalchemy==2.1.9"),
        *("greenlet==3.5.6", "pyarrow==26.0.1"),
    ),
    "langchain-chroma": (
        *("langchain-chroma==1.1.0", "chromadb==1.5.9", "langchain-core==1.7.2"),
        "pyarrow==26.0.1",
    ),
    "langgraph": (
        *("langchain==1.4.7", "langchain-core==1.7.2", "langgraph==1.2.22"),
        *("langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2"),
        *("aiosqlite==0.22.1", "lancedb==0.40.0", "pyarrow==26.0.1", "numpy==2.4.6"),
    ),
    "langgraph-checkpoint-sqlite": (
        *("langgraph-checkpoint-sqlite==3.1.2", "langgraph==1.2.22", "langchain-core==1.7.2"),
        *("pysqlite3-binary==0.5.4.post2; sys_platform == 'linux'", "pyarrow==26.0.1"),
    ),
    "llama-index-lance-context": (
        *("llama-index-core==0.14.25", "lancedb==0.40.0", "pyarrow==26.0.1", "numpy==2.4.6"),
    ),
    "SimpleVectorStore": ("llama-index-core==0.14.25", "numpy==2.4.6", "pyarrow==26.0.1"),
    "llama-index, LanceDB": (
        *("llama-index-vector-stores-lancedb==0.6.0", "llama-index-core==0.14.25"),
        *("lancedb==0.40.0", "pandas==3.1.1", "pyarrow==26.0.1", "pylance==14.0.2"),
    ),
    "llama-index, Chroma": (
        *("llama-index-vector-stores-chroma==0.6.0", "chromadb==1.5.9"),
        *("llama-index-core==0.14.25", "pyarrow==26.0.1"),
    ),
    "langchain": ("langchain==1.4.7", "langchain-core==1.7.2", "langgraph==1.2.22"),
    "agent-framework": ("agent-framework-core==1.23.0",),
    "agentscope": (
        *("agentscope-runtime==0.2.0", "a2a-sdk==0.3.26", "psutil==7.2.2", "redis==8.1.0"),
        *("lancedb==0.40.0", "pyarrow==26.0.1", "numpy==2.4.6"),
    ),
}
"""What each side's environment is made of."""
SOURCES = {
    "langchain-lance-context": (".", "adapters/langchain"),
    "langgraph": (".", "adapters/langchain"),
    "llama-index-lance-context": (".", "adapters/llama_index"),
    "agentscope": (".", "adapters/agentscope"),
}
"""What of this repository stands in it besides."""

_ROOT = Path(__file__).parents[1]
_HOME = Path(__file__).parent / ".envs"


def python_of(peer: str) -> Path:
    """The interpreter of `peer`'s environment, which is made if it is missing or pinned otherwise.

    Raises CalledProcessError if the installation fails.
    """
    home = _HOME / peer.replace(", ", "-")
    python = home / "bin" / "python"
    stamp = home / "pins.txt"
    sources = [_ROOT / one for one in SOURCES.get(peer, ())]
    projects = [(one / "pyproject.toml").read_text(encoding="utf-8") for one in sources]
    wanted = "\n".join((sys.version, *PINS[peer], *projects))
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"environment of {peer}", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    editable = [word for one in sources for word in ("-e", str(one))]
    for command in _commands(home, python, (*PINS[peer], *editable)):
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
