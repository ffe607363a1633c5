"""By which tests promises are held: their names, as they stand in the files."""

import re
from pathlib import Path

CORE = Path(__file__).parent
CONTRACTS = CORE.parents[1] / "packages" / "lance-context-testing"


def names_of_tests(*folders):
    """The names of all tests in these folders, without `test_`."""
    texts = [path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py")]
    return {
        name
        for text in texts
        for name in re.findall(r"^ *(?:async )?def test_(\w+)", text, re.MULTILINE)
    }
