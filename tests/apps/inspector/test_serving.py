"""The server of the page, before it answers."""

import socket

from lance_context_inspector.serving import LOOPBACK, listening


def test_who_opens_the_link_before_the_server_runs_is_not_turned_away():
    with listening(0) as server:
        port = server.getsockname()[1]
        with socket.create_connection((LOOPBACK, port), timeout=60) as asked:
            assert asked.getpeername() == (LOOPBACK, port)


def test_a_port_that_is_taken_gives_way_to_the_next():
    with listening(0) as first, listening(first.getsockname()[1]) as second:
        assert second.getsockname()[1] > first.getsockname()[1]
