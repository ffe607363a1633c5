"""Which cases of a test are for which occasion."""

import pytest


def in_proofs(*values):
    """Values of `parametrize` that `make proofs` tries in addition, as each takes its time."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]
