"""The example runs where Ray is: see `tests/environments.py`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("lance_ray") else ["test_*.py"]
