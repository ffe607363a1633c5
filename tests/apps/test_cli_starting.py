"""`lance-ctx` starts without what its commands do not need."""

import subprocess
import sys


def modules_after(*arguments):
    """The modules that a program has imported after this command, and whether it collects garbage."""
    program = (
        "import gc, sys\n"
        "from lance_context_cli import main\n"
        "assert main._ended() == 0\n"
        "assert gc.isenabled()\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(ended.stdout.splitlines()[-1].split())


def test_help_needs_no_store(place):
    packages = {one.partition(".")[0] for one in modules_after("status", "-h")}
    assert not {"lancedb", "pyarrow", "lance_context_core", "rich"} & packages


def test_a_status_compiles_no_rules_and_reads_no_stemmers(place):
    loaded = modules_after("-C", str(place), "status")
    assert "lancedb" in loaded
    assert not {"snowballstemmer", "lance_context_core.knowledge.rule_patterns"} & loaded
