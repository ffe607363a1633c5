"""Milvus is tested where its client is: in an environment of its own, see tests/environments.py."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pymilvus") else ["test_engine.py"]
