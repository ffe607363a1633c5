"""The example runs where all frameworks are: see `tests/environments.py`."""

from importlib.util import find_spec

FRAMEWORKS = ("langchain", "llama_index_instrumentation", "agentscope_runtime")

collect_ignore_glob = [] if all(map(find_spec, FRAMEWORKS)) else ["test_*.py"]
