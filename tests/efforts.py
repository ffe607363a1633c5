"""Which cases of a test are for which occasion."""

import pytest


def in_proofs(*values):
    """Values of `parametrize` that `make proofs` tries in addition, as each takes its time."""
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*one, marks=pytest.mark.long) for one in several]
