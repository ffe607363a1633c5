"""Cypher is asked where its engine is: see `tests/environments.py`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("lance_graph") else ["test_*.py"]
