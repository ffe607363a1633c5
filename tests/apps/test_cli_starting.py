"""`lance-ctx` starts without what no command has a use for."""

import subprocess
import sys

import pytest
from lance_context_cli.lean import without


def modules_after(*arguments, whole_names=False):
    """The packages, or the modules, that a program has imported after this command."""
    program = (
        "import sys\n"
        "from lance_context_cli import main\n"
        "assert main._ended() == 0\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    names = ended.stdout.splitlines()[-1].split()
    return {one if whole_names else one.partition(".")[0] for one in names}


def test_help_needs_no_store(place):
    assert not {"lancedb", "pyarrow", "lance_context_core", "rich"} & modules_after("status", "-h")


def test_a_status_needs_no_pandas(place):
    loaded = modules_after("-C", str(place), "status")
    assert "lancedb" in loaded
    assert "pandas" not in loaded


def test_a_status_needs_no_classes_of_servers_and_no_stemmers(place):
    loaded = modules_after("-C", str(place), "status", whole_names=True)
    assert "snowballstemmer" not in loaded
    of_servers = {one for one in loaded if one.startswith("lance_namespace_urllib3_client.")}
    assert "lance_namespace_urllib3_client.models.list_tables_response" in of_servers
    assert len(of_servers) < 20


LEAN = """
import gc, sys
from lance_context_cli.lean import importing
with importing():
    import lance_context_core
    is_collecting = gc.isenabled()
assert not is_collecting and gc.isenabled()
"""


def told_by(program):
    """What a program prints that imported the store as the command line does."""
    command = [sys.executable, "-c", LEAN + program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_what_stands_in_for_the_engines_classes_is_as_they_are():
    assert told_by("""
import lance_namespace
from lance_namespace import ListTablesResponse as StandIn
class Longer(StandIn):
    more: int = 1
made = StandIn(tables=["a"])
import lance_namespace_urllib3_client as client
real = client.models.ListTablesResponse
print(type(made) is real, isinstance(made, StandIn), isinstance(1, StandIn))
print(issubclass(Longer, StandIn), issubclass(real, StandIn), issubclass(int, StandIn))
print(Longer(tables=[]).more, StandIn.from_dict({"tables": ["b"]}).tables[0])
print(client.ApiClient.__name__, client.models.JsonArrowField.__name__)
taken = [getattr(lance_namespace, name) for name in lance_namespace.__all__]
print({type(one.model_fields) for one in taken if hasattr(one, "model_fields")} == {dict})
""") == ["True", "True", "False", "True", "True", "False", "1", "b", "ApiClient", "JsonArrowField",
         "True"]  # fmt: skip


def test_a_table_of_a_query_still_becomes_one_of_pandas(place):
    assert told_by(f"""
from lance_context_core import ContextStore
import pyarrow as pa
with ContextStore.open({str(place)!r}) as store:
    frame = store.sql("SELECT id FROM messages ORDER BY id").to_pandas()
    print(*frame["id"], *pa.table(frame)["id"].to_pylist())
""") == 2 * ["lunch", "nuts", "yes"]


def test_what_is_hidden_in_a_block_is_there_after_it():
    sys.modules.pop("colorsys", None)
    with without("colorsys"):
        with pytest.raises(ModuleNotFoundError, match="colorsys"):
            import colorsys
        import json  # noqa: F401 - of others nothing is hidden
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
