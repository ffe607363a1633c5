"""Plain scripts end in silence and lose nothing, however they end."""

import sys

import pytest
from efforts import in_proofs
from endings import ENDINGS, lost, problems


@pytest.mark.slow
@pytest.mark.parametrize("name", [*[*ENDINGS][::2], *in_proofs(*[*ENDINGS][1::2])])
def test_a_script_ends_in_silence_and_what_was_acknowledged_is_there(name, tmp_path):
    assert problems(sys.executable, name, tmp_path) == []
    assert lost(tmp_path) == []
