"""A package that is run when it is asked for, and no sooner."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_context_core._util.extras import run_later


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that notes when it is run, with a module of its own."""
    folder = tmp_path / "noted_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("from noted_package.part import VALUE\nTWICE = 2 * VALUE\n")
    (folder / "part.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "noted_package"
    for name in [one for one in sys.modules if one.partition(".")[0] == "noted_package"]:
        del sys.modules[name]


def test_its_modules_are_imported_without_it_and_who_asks_for_more_has_it(package):
    run_later(package)
    from noted_package.part import VALUE

    assert VALUE == 7
    assert "TWICE" not in vars(sys.modules[package])
    from noted_package import TWICE

    assert TWICE == 14
    with pytest.raises(ImportError, match="nothing"):
        from noted_package import nothing  # noqa: F401


def test_threads_that_ask_at_once_all_have_the_whole_of_it(package, tmp_path):
    file = tmp_path / "noted_package" / "__init__.py"
    file.write_text("import time\ntime.sleep(0.1)\nTWICE = 14\n")
    run_later(package)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(lambda: sys.modules[package].TWICE) for _ in range(4)]
    assert [one.result() for one in found] == [14] * 4


def test_one_that_cannot_be_run_is_tried_again_by_who_asks_next(package, tmp_path):
    file = tmp_path / "noted_package" / "__init__.py"
    file.write_text("import no_such_package_anywhere")
    run_later(package)
    with pytest.raises(ImportError, match="no_such_package_anywhere"):
        sys.modules[package].TWICE  # noqa: B018 - it is the look that runs it
    file.write_text("TWICE = 14  # now it can be run\n")
    assert sys.modules[package].TWICE == 14


def test_a_package_that_is_there_already_and_one_that_is_not_stay_as_they_are(package):
    import noted_package

    run_later(package)
    assert sys.modules[package] is noted_package
    run_later("no_such_package_anywhere")
    assert "no_such_package_anywhere" not in sys.modules


def test_the_client_of_a_server_is_whole_for_who_asks_for_it():
    program = (
        "import sys, lance_context_core, lancedb; name = 'lance_namespace_urllib3_client';"
        "before = name + '.api.table_api' in sys.modules;"
        "from lance_namespace_urllib3_client import TableApi, ApiClient;"
        "print(before, TableApi.__name__, ApiClient.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "TableApi", "ApiClient"]
