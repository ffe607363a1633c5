"""Who follows a call to the disk and back reads few files, and never climbs."""

from pathlib import Path

import pytest
from files_entered import ROOT, hold

from benchmarks import ways


def test_each_call_enters_the_files_that_it_may_and_none_climbs():
    hold("history.append", "search, hybrid", "kv.put", "erase of one id")


@pytest.mark.parametrize("layer", ways._LAYERS)
def test_a_layer_that_climbs_are_counted_from_is_a_folder(layer):
    assert Path(ROOT, "lance_context_core", layer).is_dir()
