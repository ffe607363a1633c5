"""The sides of each comparison, each a process of its own that answers in JSON."""
