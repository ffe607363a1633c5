"""One script per peer, each a process of its own that answers in JSON."""
