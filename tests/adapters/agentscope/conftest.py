"""A store in a directory, and the services over it; the tests of the line that is installed."""

import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest

RUNTIME_0 = "agentscope-runtime 0"
RUNTIME_1 = "agentscope-runtime 1"
AGENTSCOPE_1 = "agentscope 1"
AGENTSCOPE_2 = "agentscope 2"


def _release(name):
    """The first three numbers of an installed version; None where it is not installed."""
    try:
        return tuple(int(number) for number in version(name).split(".")[:3])
    except PackageNotFoundError:
        return None


def _lines():
    """The lines that are installed; that of the runtime, which may bring the other, comes first."""
    runtime, library = _release("agentscope-runtime"), _release("agentscope")
    # From 1.1 on the runtime has no such services.
    of_runtime = {0: RUNTIME_0, 1: RUNTIME_1}[runtime[0]] if runtime and runtime < (1, 1) else None
    of_library = None
    if library and library >= (1, 0, 14):
        of_library = AGENTSCOPE_1 if library < (2,) else AGENTSCOPE_2
    return [line for line in (of_runtime, of_library) if line]


LINES = _lines()
LINE = LINES[0] if LINES else None
"""The line whose tests are run."""

HAS_APP = find_spec("apscheduler") is not None
"""Whether the app of agentscope 2 is installed, too."""

_RUNTIMES = (RUNTIME_0, RUNTIME_1)
ONLY = {
    "test_session_history.py": _RUNTIMES,
    "test_session_expiry.py": _RUNTIMES,
    "test_memory.py": _RUNTIMES,
    "test_knowledge.py": _RUNTIMES,
    "test_memory_like_agentscopes.py": _RUNTIMES,
    "test_messages.py": _RUNTIMES,
    "test_context_manager.py": (RUNTIME_0,),
    "test_runner.py": (RUNTIME_0,),
    "test_rag.py": (RUNTIME_0,),
    "test_example.py": (RUNTIME_0,),
    "test_state.py": (RUNTIME_1,),
    "test_backends.py": (RUNTIME_1,),
    "test_agentscope_memory.py": (RUNTIME_1,),
    "test_agentscope_agent.py": (RUNTIME_1,),
    "test_agentscope1_*.py": (AGENTSCOPE_1,),
    "test_agentscope2_*.py": (AGENTSCOPE_2,),
}
"""The tests of what not every line has."""

collect_ignore_glob = [pattern for pattern, lines in ONLY.items() if LINE not in lines]
if not HAS_APP:
    collect_ignore_glob.append("test_agentscope2_app_*.py")

# AgentScope's own retrieval services stand on the adapters of the other frameworks.
for _other in ("langchain", "llama_index"):
    sys.path.append(str(Path(__file__).parents[3] / "adapters" / _other))

if LINE in _RUNTIMES:
    with warnings.catch_warnings():
        # The last releases of the line say at import that it ends.
        warnings.simplefilter("ignore")
        from agentscope_lance_context import (
            LanceContextMemoryService,
            LanceContextSessionHistoryService,
        )


def pytest_configure(config):
    config.addinivalue_line(
        "filterwarnings", "ignore:Module `agentscope_runtime:DeprecationWarning"
    )


class Restarts:
    """A store in a directory, in which every service is made anew."""

    def __init__(self, where):
        self.where = where

    def history(self, **options):
        return LanceContextSessionHistoryService(self.where, **options)

    def memory(self, **options):
        return LanceContextMemoryService(self.where, **options)


@pytest.fixture
def restarts(tmp_path):
    return Restarts(tmp_path / "store")
