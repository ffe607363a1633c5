"""The contracts fail where they should, skip what is declared, and say what they lack."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import lance_context_testing as testing
import pytest
from lance_context_testing import HistoryProviderTests, SessionStoreTests
from packages.testing import broken, broken_collections, broken_engines, broken_stores

from lance_context_core import InvalidRequestError

ROOT = Path(__file__).parents[3]
FILES = (broken, broken_collections, broken_engines, broken_stores)
BROKEN = [one for file in FILES for one in vars(file).values() if hasattr(one, "caught_by")]


@pytest.fixture(scope="session")
def printed(tmp_path_factory):
    """What pytest prints of the broken stores and of the page's example, in a process of its own."""
    page = (ROOT / "docs" / "adapting.md").read_text(encoding="utf-8")
    example = tmp_path_factory.mktemp("page") / "test_items.py"
    example.write_text(
        re.search(
            r"^```python\n(.*?)^```",
            page.split("\n## Conformance tests\n")[1],
            re.MULTILINE | re.DOTALL,
        )[1],
        encoding="utf-8",
    )
    options = ("-c", "pyproject.toml", "-p", "no:cacheprovider", "--tb=short", "-rfs", "-v")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(one.__file__ for one in FILES), str(example)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture(scope="session")
def failed(printed):
    """The tests that failed, by the class."""
    found = {}
    for name, test in re.findall(r"^FAILED \S+?::(\w+)::(\w+)", printed, re.MULTILINE):
        found.setdefault(name, set()).add(test)
    return found


@pytest.mark.parametrize("store", BROKEN, ids=lambda one: one.__name__)
def test_a_store_that_is_broken_fails_where_it_is_broken(failed, store):
    assert store.caught_by in failed[store.__name__]


def test_each_contract_is_tried_with_four_breaks_at_least():
    contracts = [name for name in testing.__all__ if name.endswith("Tests")]
    assert len(contracts) == 8
    for name in contracts:
        contract = getattr(testing, name)
        breaks = [one for one in BROKEN if issubclass(one, contract)]
        assert len(breaks) >= 4, name


def test_a_failure_shows_what_was_found(printed):
    assert "AssertionError: assert ['b', 'a', 'c'] == ['c', 'a', 'b']" in printed


def test_what_is_declared_to_be_missing_is_skipped_by_its_name(printed, failed):
    for name in ("embeds_texts", "supports_search", "supports_filters"):
        assert f"TestModest declares {name} = False" in printed
    assert "TestModest" not in failed


def test_the_example_of_the_page_passes(printed, failed):
    assert "TestItems" not in failed
    assert "TestItems::test_any_json_object_and_any_bytes_come_back_equal PASSED" in printed


def test_a_missing_fixture_is_one_error_that_names_it():
    with pytest.raises(
        InvalidRequestError, match=r"TestMine lacks the fixture 'history' \(an empty"
    ):
        type("TestMine", (HistoryProviderTests,), {})
    with pytest.raises(InvalidRequestError, match=r"'sessions'.*'history'"):
        type("TestMine", (SessionStoreTests,), {})
    # A class between the contract and those that are run may leave it open.
    assert issubclass(type("Mine", (HistoryProviderTests,), {}), HistoryProviderTests)


def test_a_test_of_the_contract_is_neither_overridden_nor_dropped_without_a_reason():
    check = "test_no_test_of_the_contract_is_overridden_or_dropped"
    dropped = "test_a_retry_changes_nothing"
    for changed in (None, lambda self: None):
        mine = type("Mine", (HistoryProviderTests,), {dropped: changed})
        with pytest.raises(AssertionError, match=dropped):
            getattr(mine(), check)()

    @pytest.mark.xfail(reason="it counts retries", strict=True)
    def expected(self):
        pass

    getattr(type("Mine", (HistoryProviderTests,), {dropped: expected})(), check)()


def test_every_test_of_a_contract_is_run_by_pytest_alone():
    for name in testing.__all__:
        for test, function in inspect.getmembers(getattr(testing, name), inspect.isfunction):
            assert not (test.startswith("test") and inspect.iscoroutinefunction(function))
