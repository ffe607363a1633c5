"""`lance-ctx` starts without what no command has a use for."""

import subprocess
import sys

import pytest
from lance_context_cli.lean import without


def modules_after(*arguments):
    """The packages that a program has imported after this command."""
    program = (
        "import sys\n"
        "from lance_context_cli import main\n"
        "assert main._ended() == 0\n"
        "print(*{one.partition('.')[0] for one in sys.modules})\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return {*ended.stdout.splitlines()[-1].split()}


def test_help_needs_no_store(place):
    assert not {"lancedb", "pyarrow", "lance_context_core", "rich"} & modules_after("status", "-h")


def test_a_status_needs_no_pandas(place):
    loaded = modules_after("-C", str(place), "status")
    assert "lancedb" in loaded
    assert "pandas" not in loaded


def test_what_is_hidden_in_a_block_is_there_after_it():
    sys.modules.pop("colorsys", None)
    with without("colorsys"):
        with pytest.raises(ModuleNotFoundError, match="colorsys"):
            import colorsys
        import json  # noqa: F401 - of others nothing is hidden
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
