"""Frames are tested where pandas and Polars are: in an environment of its own, see tests/environments.py.

Without them, as most users have it, each process of the other tests starts in two thirds of the time:
Arrow imports pandas wherever it is installed.
"""

from importlib.util import find_spec

collect_ignore = [] if all(map(find_spec, ("pandas", "polars"))) else ["test_frames.py"]
