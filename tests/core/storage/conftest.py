"""What tests of the engine share."""

import pytest

from lance_context_core._loop import store_loop


@pytest.fixture
def hops(monkeypatch):
    """How often the store's loop was asked."""
    seen = []
    run = store_loop.run

    def counted(work):
        seen.append(work)
        return run(work)

    monkeypatch.setattr(store_loop, "run", counted)
    return seen
