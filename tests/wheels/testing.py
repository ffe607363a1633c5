"""What the contracts does where nothing is installed but its wheel."""

import re
import sys
from importlib.metadata import requires, version
from pathlib import Path

import lance_context_testing
import pytest

from lance_context_core import testing

NAME = "lance-context-testing"

package = Path(lance_context_testing.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert lance_context_testing.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "pytest"}, named

TESTS = """
import pytest
from lance_context_core import ContextStore
from lance_context_testing import KeyValueStoreTests


class TestItems(KeyValueStoreTests):
    embeds_texts = False

    @pytest.fixture
    def kv(self, runner):
        store = ContextStore.open("memory://").aio
        yield store.kv("mine")
        runner.run(store.close())
"""

Path("test_items.py").write_text(TESTS, encoding="utf-8")
assert pytest.main(["-q", "test_items.py"]) == 0
assert testing.KeyValueStoreTests is lance_context_testing.KeyValueStoreTests
