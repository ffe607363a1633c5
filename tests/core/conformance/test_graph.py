"""The store's graph keeps the contract of `GraphStore`."""

import pytest
from lance_context_testing import GraphStoreTests

pytestmark = (
    pytest.mark.anywhere
)  # with a journal on a directory, and in memory, where there is none


class TestGraph(GraphStoreTests):
    """The graph of the store itself."""

    @pytest.fixture
    def graph(self, graph):
        return graph
