"""A store in a directory, and the services over it; the tests of the line that is installed."""

import asyncio
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from lance_context_core import AsyncContextStore


def _line():
    """The first number of agentscope-runtime's version; None without it."""
    try:
        return version("agentscope-runtime").partition(".")[0]
    except PackageNotFoundError:
        return None


LINE = _line()
ONLY = {
    "0": ("test_context_manager.py", "test_runner.py", "test_rag.py"),
    "1": ("test_state.py", "test_backends.py", "test_agentscope_memory.py"),
}
"""The tests of what one line alone has."""

collect_ignore = [name for line, names in ONLY.items() if line != LINE for name in names]
collect_ignore_glob = ["test_*.py"] if LINE is None else []

# AgentScope's own retrieval service stands on the adapter of LangChain.
sys.path.append(str(Path(__file__).parents[3] / "adapters" / "langchain"))

if LINE is not None:
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

    def in_store(self, use):
        """What `use` returns of the store, which is opened for it."""

        async def main():
            async with await AsyncContextStore.open(self.where) as store:
                return await use(store)

        return asyncio.run(main())


@pytest.fixture
def restarts(tmp_path):
    return Restarts(tmp_path / "store")
