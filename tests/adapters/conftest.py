"""The adapters' tests run where their frameworks are: see `tests/environments.py`."""

from importlib.util import find_spec

FRAMEWORKS = {
    "agentscope": "agentscope_runtime",
    "langchain": "langchain_core",
    "llama_index": "llama_index_instrumentation",
}
"""What the tests in each directory import."""

collect_ignore = [name for name, module in FRAMEWORKS.items() if find_spec(module) is None]
